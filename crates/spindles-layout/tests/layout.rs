//! The tests of this crate, in one executable: a build of each would cost more than its run.

mod docs;
mod extension;
mod growth;
mod maps;
mod survival;
mod tables;
