//! The tests of this crate, in one executable: building each separately would cost more than its
//! run.

mod canary;
mod enumerate;
mod hedges;
mod runs;
mod seeds;
mod staged;
