//! The tests of this crate, in one executable: a build of each would cost more than its run.

mod devices;
mod experiments;
mod files;
#[path = "../../spindles-io/tests/common/loop_devices.rs"]
mod loop_devices;
mod runner;
mod sick_members;
