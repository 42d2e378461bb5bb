//! Text for people, made from the values that the libraries return. Commands of the program are
//! named here, and in no library.

pub(crate) mod alarms;
pub(crate) mod control;
pub(crate) mod errors;
pub(crate) mod lab;
pub(crate) mod plain;
pub(crate) mod report;
pub(crate) mod scan;
pub(crate) mod traces;
pub(crate) mod wipe;

#[cfg(test)]
mod tests;
