//! The tests of this crate, in one executable: a build of each would cost more than its run.

mod durability;
mod sandbox;
