//! Exports of NBD servers, as their client sees them.

mod address;
mod connection;
mod link;
mod reconnection;
mod requests;
mod rest;
mod route;
mod socket;
mod stand_in;
mod traffic;

pub(crate) use address::Address;
pub use address::is_address;
pub(crate) use connection::Connection;
pub(crate) use link::{Link, connect};
pub(crate) use rest::Rest;
pub(crate) use route::Route;
pub(crate) use stand_in::StandIn;
