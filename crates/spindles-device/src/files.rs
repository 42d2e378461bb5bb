//! Opens files by name, in this process or through a helper that kept the rights this one gave up.

use crate::OpenError;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

/// The error of an [`Opener`] for a file that this process should not have. No system call used
/// here returns it.
pub const REFUSED: Errno = Errno::NOTBLK;

/// The error of an [`Opener`] that has ended or does not answer. No open of a file returns it.
pub const OPENER_GONE: Errno = Errno::PIPE;

/// A helper that opens files for this process.
pub trait Opener: Send + Sync {
    /// Opens the file with that name and these flags.
    ///
    /// # Errors
    ///
    /// A system call failed, or [`REFUSED`] or [`OPENER_GONE`].
    fn open(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno>;

    /// Returns true if it answers.
    fn answers(&self) -> bool;
}

static OPENER: OnceLock<Arc<dyn Opener>> = OnceLock::new();

/// Opens all devices through `opener` from now on, so that this process can give up the right to
/// open files. Later calls have no effect.
pub fn open_devices_by(opener: Arc<dyn Opener>) {
    OPENER.get_or_init(|| opener);
}

pub(crate) fn open(name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    match OPENER.get() {
        Some(opener) => opener.open(name, flags),
        None => rustix::fs::open(name, flags, Mode::empty()),
    }
}

/// Checks that the helper with which this process opens devices answers.
///
/// # Errors
///
/// `NoOpener` if it has ended or does not answer.
pub fn may_open_devices() -> Result<(), OpenError> {
    match OPENER.get() {
        Some(opener) if !opener.answers() => Err(OpenError::NoOpener),
        _ => Ok(()),
    }
}
