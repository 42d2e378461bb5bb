//! The tests of this crate, in one executable: building one for each would cost more than running
//! it.

mod devices;
mod experiments;
mod files;
mod kernel;
#[path = "../../spindles-admin/tests/common/loop_devices.rs"]
mod loop_devices;
mod predicted;
mod runner;
mod sick_members;

use spindles_lab::{Observer, Options, RecordsError};
use spindles_measure::{Record, Run};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Keeps the events of a run.
#[derive(Default)]
struct Kept {
    runs: Vec<Run>,
    troubles: Vec<String>,
    progress: Vec<String>,
}

impl Observer for Kept {
    fn record(&mut self, record: &Record) -> Result<(), RecordsError> {
        self.runs.extend(record.run().cloned());
        Ok(())
    }

    fn progress(&mut self, _done: u64, _total: u64, what: &str) {
        self.progress.push(what.to_owned());
    }

    fn trouble(&mut self, _system: &str, what: &str) {
        self.troubles.push(what.to_owned());
    }
}

/// Returns the settings of a run that keeps what users' devices hold, and calibrates nothing.
fn options(interrupt: &AtomicBool) -> Options<'_> {
    Options {
        force: false,
        degraded: false,
        open: spindles_device::OpenOptions::default(),
        program: PathBuf::new(),
        agent: "agent",
        calibrate: false,
        interrupt,
    }
}
