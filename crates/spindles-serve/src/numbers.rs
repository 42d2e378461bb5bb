//! What a server did, as it tells its administrators.

use crate::client::Moved;

/// What a server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Clients.
    pub connections: u64,
    /// Their requests.
    pub requests: u64,
    /// What they sent to be written, in bytes.
    pub payload_bytes: u64,
    /// Of that, what was not received into the memory that goes to the members, but copied there.
    pub copied_bytes: u64,
    /// What was read for them, in bytes.
    pub read_bytes: u64,
}

impl Served {
    pub(crate) fn add(&mut self, moved: Moved) {
        self.requests += moved.requests;
        self.payload_bytes += moved.payload_bytes;
        self.copied_bytes += moved.copied_bytes;
        self.read_bytes += moved.read_bytes;
    }
}

/// A server's numbers until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerNumbers {
    /// Clients that are there.
    pub clients: u64,
    /// Of those, so many whose requests come over `io_uring`.
    pub over_ring: u64,
    /// When it began, in seconds since 1970.
    pub since_s: u64,
    /// What it did, for those that are gone too.
    pub served: Served,
}
