//! Arrays as block devices for other programs.
//!
//! ```text
//!  clients ──▶ front: listens, shakes hands ──▶ server: requests ⇄ export ──▶ the array
//! ```
//!
//! The *front* has threads of its own, so that a client that is slow, or hostile, keeps nobody waiting before it
//! has chosen an export. The *server* is one thread for each array, which waits for its clients and for its members
//! in one place, and is the only one that touches the array.

mod server;
mod transports;
mod wake;

pub use server::{Served, Server, ServerError, ServerLimits, Stopper};
pub use transports::nbd::{
    Address, AddressError, Certificates, CertificatesError, Clients, Front, FrontError, Offer,
};
