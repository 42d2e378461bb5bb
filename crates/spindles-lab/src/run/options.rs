//! The settings of a run, and its interruption.

use spindles_device::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Settings beyond the experiment.
#[derive(Debug)]
pub struct Options<'a> {
    /// Allow the contents of named devices to be lost.
    pub force: bool,
    /// Write to degraded arrays even if that discards newer data on absent members.
    pub degraded: bool,
    /// Options for opening devices.
    pub open: OpenOptions,
    /// Path of this program, to start servers that export arrays as block devices.
    pub program: PathBuf,
    /// The command that starts an agent on a node, if the experiment names none.
    pub agent: &'a str,
    /// Calibrate the parts before the first run.
    pub calibrate: bool,
    /// Set to interrupt: the current run is dropped, records stay.
    pub interrupt: &'a AtomicBool,
}

/// Fails with `Interrupted` if the user interrupted the run.
pub(super) fn go_on(interrupt: &AtomicBool) -> io::Result<()> {
    if interrupt.load(Ordering::Relaxed) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    Ok(())
}
