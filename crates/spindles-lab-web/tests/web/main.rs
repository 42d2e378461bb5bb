//! The server over real HTTP and in a real browser.

mod browser;
mod folder;
mod http;
mod live;
mod requests;
mod runs;
