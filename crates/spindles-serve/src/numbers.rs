//! A server's counters, as reported to administrators.

use crate::client::Moved;
use spindles_array::export::ExportLatencies;
use std::fmt;

/// Totals of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Accepted connections.
    pub connections: u64,
    /// Requests.
    pub requests: u64,
    /// Write payload received, in bytes.
    pub payload_bytes: u64,
    /// Part of the payload that was copied instead of received into the memory that goes to the
    /// members, in bytes.
    pub copied_bytes: u64,
    /// Data read, in bytes.
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

/// Counters of a connected client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientNumbers {
    /// The origin of the connection.
    pub origin: Origin,
    /// The time of the connection, in seconds since 1970.
    pub since_s: u64,
    /// Number of requests.
    pub requests: u64,
    /// Data read, in bytes.
    pub read_bytes: u64,
    /// Write payload received, in bytes.
    pub written_bytes: u64,
}

/// Origin of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The transport.
    pub transport: &'static str,
    /// The client's address or process; `None` for the kernel of this machine.
    pub peer: Option<String>,
    /// The subject of the client's certificate; `None` if it has none.
    pub subject: Option<String>,
}

impl Origin {
    /// The origin of requests from the kernel of this machine.
    pub(crate) const fn kernel(transport: &'static str) -> Self {
        Self {
            transport,
            peer: None,
            subject: None,
        }
    }
}

/// `127.0.0.1:40312 (CN=host)`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.peer.as_deref().unwrap_or("the kernel"))?;
        match &self.subject {
            Some(subject) => write!(f, " ({subject})"),
            None => Ok(()),
        }
    }
}

/// The speed of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPace {
    /// The name of the array.
    pub array: String,
    /// The name of the job.
    pub job: &'static str,
    /// Progress through the array, in bytes per second.
    pub bytes_per_s: u64,
}

/// A server's counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNumbers {
    /// The connected clients.
    pub clients: Vec<ClientNumbers>,
    /// Jobs with a known speed.
    pub paces: Vec<JobPace>,
    /// Number of clients with requests over `io_uring`.
    pub over_ring: u64,
    /// When serving began, in seconds since 1970.
    pub since_s: u64,
    /// Totals, including disconnected clients.
    pub served: Served,
    /// Latencies of accesses, the parts of requests sent to the array.
    pub latencies: ExportLatencies,
}
