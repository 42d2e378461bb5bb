//! The tests of this crate, in one executable: a build of each would cost more than its run.

mod allocations;
mod arrays;
mod backends;
mod changes_at_once;
mod common;
mod conformance;
mod copy;
mod degraded;
mod export;
mod failing_devices;
mod forbidden;
mod in_use;
mod modelled;
mod old_copies;
mod round_trip;
mod sizes;
mod spares;
mod superblocks;
mod taken_away;
mod thin;
