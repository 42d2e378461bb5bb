//! The server over real HTTP and in a real browser.

mod browser;
#[path = "../../../spindles-measure/tests/example.rs"]
mod example;
mod folder;
mod http;
mod live;
mod requests;
mod runs;
