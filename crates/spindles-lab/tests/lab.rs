//! The tests of this crate, in one executable: building one for each would cost more than running
//! it.

mod devices;
mod experiments;
mod files;
#[path = "../../spindles-admin/tests/common/loop_devices.rs"]
mod loop_devices;
mod runner;
mod sick_members;
