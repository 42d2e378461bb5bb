//! Clients that speak NBD.
//!
//! The *front* listens and shakes hands. After that each client is a *connection*:
//!
//! ```text
//!  socket ──▶ connection: takes requests ──▶ export ──▶ answers ──▶ connection: sends replies ──▶ socket
//!                  ▲                                                      │
//!                  └──────────── slots of the export are free ◀───────────┘
//! ```
//!
//! A connection takes a request only when the export has room for all of it: until then it is not read from, and
//! the client waits. What is written is received into the memory that goes to the members; only what came together
//! with an earlier request is copied there, and counted.

mod address;
mod certificates;
mod connection;
mod front;
mod request;
mod socket;
mod tls;

pub use address::{Address, AddressError};
pub use certificates::{Certificates, CertificatesError, Clients};
pub(crate) use connection::{Connection, PAYLOAD_BYTES_MAX, Turn};
pub use front::{Front, FrontError, Offer};
pub(crate) use front::{Joining, joining};
pub(crate) use request::Requests;
