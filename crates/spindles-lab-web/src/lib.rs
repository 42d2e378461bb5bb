//! Shows stored runs of the lab in the browser, live while a run is going. The server reads a
//! folder of results and draws the same report as `spindles lab report`, from the records alone.
//!
//! It writes nothing, and no text of a request becomes a path: runs are found by their names in the
//! listing.

#![forbid(unsafe_code)]
#![allow(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "a page is put together from small pieces, once"
)]

mod cache;
mod connection;
mod library;
mod listing;
mod pages;
mod request;
mod response;
mod routes;
mod server;

pub use routes::ReportCommand;
pub use server::{Limits, ServeError, Server};

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_lab_web;
#[cfg(test)]
#[path = "../tests/web/main.rs"]
mod public;
