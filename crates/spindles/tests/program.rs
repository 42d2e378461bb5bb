//! Tests of the program: they run the binary as users do.

#[path = "../../spindles-measure/tests/checker.rs"]
mod checker;
mod cli;
mod control;
mod copy;
mod first_minutes;
mod format_v1;
mod fuse;
mod grow;
#[path = "../../spindles-admin/tests/common/loop_devices.rs"]
mod loop_devices;
mod nested;
mod ops;
mod peers;
mod serve;
mod torture;
mod world;

use std::path::Path;
use std::process::Command;

/// The program, run in a folder. It finds arrays by name only there: other tests have arrays of the
/// same names on block devices.
fn program_in(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindles"));
    command.current_dir(folder).env("SPINDLES_SCAN", ".");
    command
}
