//! The NBD transport.
//!
//! The *front* listens and performs handshakes. After that each client is a *connection*:
//!
//! ```text
//!               connection                            connection
//!  socket ──▶ takes requests ──▶ export ──▶ answers ──▶ sends replies ──▶ socket
//!                  ▲                                         │
//!                  └────── slots of the export are free ◀────┘
//! ```
//!
//! A connection takes a request only when the export has enough free slots for all of it. Until
//! then the connection is not read, and the client waits. Write payload is received into the memory
//! that goes to the members. Only payload that arrived together with an earlier request is copied
//! there, and counted.

mod address;
mod connection;
mod front;
mod request;
mod socket;

use super::{Listener, ListenerError, ListenerOptions, Transport};
use address::Address;
use front::Front;

pub(super) static TRANSPORT: Transport = Transport {
    name: "nbd",
    value: "ADDR",
    help: "Listen for NBD clients on this address: unix:PATH, PORT, or HOST:PORT",
    is_shared: true,
    watched: None,
    bind,
};

fn bind(address: &str, options: &ListenerOptions) -> Result<Box<dyn Listener>, ListenerError> {
    let address: Address = address
        .parse()
        .map_err(|error: address::AddressError| ListenerError::Usage(error.to_string()))?;
    let is_safe = options.certificates.is_some() || options.allow_plaintext;
    if !address.is_local() && !is_safe {
        return Err(ListenerError::Usage(format!(
            "--nbd: {address}: other machines can reach it, and nothing is encrypted: give --tls \
             with certificates, --allow-plaintext if the network is safe, or an address that only \
             this machine reaches, such as 127.0.0.1 or unix:PATH"
        )));
    }
    let front = Front::bind(&address, options);
    let front = front.map_err(|error| ListenerError::Refused(Box::new(error)))?;
    Ok(Box::new(front))
}
