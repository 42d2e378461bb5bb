//! What a server did, as it tells its administrators.

use crate::client::Moved;
use spindles_io::export::ExportLatencies;
use std::fmt;

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

/// A client that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientNumbers {
    /// Where it comes from.
    pub origin: Origin,
    /// When it came, in seconds since 1970.
    pub since_s: u64,
    /// Its requests.
    pub requests: u64,
    /// What was read for it, in bytes.
    pub read_bytes: u64,
    /// What it sent to be written, in bytes.
    pub written_bytes: u64,
}

/// Where a client comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The transport by which it comes.
    pub transport: &'static str,
    /// Its address or process; `None` for the kernel of this machine.
    pub peer: Option<String>,
    /// The subject of the certificate that it showed.
    pub subject: Option<String>,
}

impl Origin {
    /// The kernel of this machine.
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

/// The pace of a job of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPace {
    /// The name of the array.
    pub array: String,
    /// The name of the job.
    pub job: &'static str,
    /// Bytes of the array that it goes through in a second.
    pub bytes_per_s: u64,
}

/// A server's numbers until now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNumbers {
    /// Clients that are there.
    pub clients: Vec<ClientNumbers>,
    /// The jobs whose pace is known.
    pub paces: Vec<JobPace>,
    /// Of those, so many whose requests come over `io_uring`.
    pub over_ring: u64,
    /// When it began, in seconds since 1970.
    pub since_s: u64,
    /// What it did, for those that are gone too.
    pub served: Served,
    /// How long requests took, in parts as they go to the array.
    pub latencies: ExportLatencies,
}
