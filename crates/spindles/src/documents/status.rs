//! The JSON of `spindles status`.

use super::array::{Array, DeviceErrors};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use spindles_admin::settings::ClearedErrors;
use spindles_serve::{ClientNumbers, ServerNumbers};

/// One array. If the outer array can't be known, `arrays` has the inner ones.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Status<'a, A> {
    #[serde(flatten)]
    pub array: A,
    pub warnings: &'a [String],
    /// Null unless this process has the array open.
    pub bad_blocks: Option<BadBlocks>,
    /// Devices that this user may not read, if members are missing.
    pub unreadable: &'a [String],
    /// Null unless it is served.
    pub served: Option<Server<'a>>,
    pub users: Vec<User<'a>>,
    /// Jobs in the server.
    pub jobs: Vec<Job<'a>>,
}

impl<'a> Status<'a, ()> {
    /// Adds the array, or the arrays.
    pub(crate) fn of<A>(self, array: A) -> Status<'a, A> {
        Status {
            array,
            warnings: self.warnings,
            bad_blocks: self.bad_blocks,
            unreadable: self.unreadable,
            served: self.served,
            users: self.users,
            jobs: self.jobs,
        }
    }
}

/// The inner arrays of an unknown one.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct InnerArrays<'a> {
    pub arrays: Vec<Array<'a>>,
    /// `healthy`, `degraded`, `failed` or `unknown`, for all.
    pub state: &'static str,
}

/// Counts of the list of bad blocks.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct BadBlocks {
    /// Lost blocks of the array.
    pub lost: u64,
    /// Blocks that hold nothing, for each member.
    pub members: Vec<u64>,
}

/// The server of the array.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Server<'a> {
    pub addresses: &'a [String],
    /// Since 1970.
    pub since_s: u64,
    /// Connected now.
    pub clients: usize,
    pub client_list: Vec<Client<'a>>,
    /// Clients that use FUSE over `io_uring`.
    pub over_ring: u64,
    /// Since serving began.
    pub connections: u64,
    pub requests: u64,
    /// Received to be written.
    pub payload_bytes: u64,
    /// Of the payload, not received into the members' buffers.
    pub copied_bytes: u64,
    pub read_bytes: u64,
    /// Parts of reads, of at most 1 MiB.
    pub reads: u64,
    /// The latencies of these parts, added up.
    pub read_ns: u64,
    /// Parts of writes, of at most 1 MiB.
    pub writes: u64,
    /// The latencies of these parts, added up.
    pub write_ns: u64,
    /// Limits in force.
    pub sandbox: &'a [&'static str],
}

/// A connected client.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Client<'a> {
    pub transport: &'static str,
    /// Its address or process; null for this kernel.
    pub peer: Option<&'a str>,
    /// The subject of its certificate, or null.
    pub subject: Option<&'a str>,
    /// Since 1970.
    pub since_s: u64,
    pub requests: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// A process that has the array open.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct User<'a> {
    /// Null if this user may not know it.
    pub pid: Option<u32>,
    pub command: Option<&'a str>,
    /// Null without known work. For a server, its first job.
    pub work: Option<Task<'a>>,
}

/// The work of a process.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(untagged)]
pub(crate) enum Task<'a> {
    Command(Work<'a>),
    Job(Job<'a>),
}

/// The work of a command.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Work<'a> {
    /// Such as `rebuild` or `scrub`.
    pub what: &'a str,
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// Null until it is known.
    pub left_s: Option<u64>,
}

/// A job in the server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Job<'a> {
    pub array: &'a str,
    /// `resync`, `rebuild`, `replace`, `scrub` or `grow`.
    pub what: &'static str,
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// Over the last 30 s; null until it is known.
    pub bytes_per_s: Option<u64>,
    /// Null until it is known.
    pub left_s: Option<u64>,
    /// The job that runs before it, or null.
    pub waits_for: Option<&'static str>,
    /// Count of failed stretches.
    pub failed: u64,
}

/// Without a name: all arrays that are found or served.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Overview<'a> {
    pub arrays: Vec<Listed<'a>>,
}

/// An array in the list of all.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Listed<'a> {
    pub name: &'a str,
    pub uuid: &'a str,
    /// Those found; none if only the server is known.
    pub devices: &'a [String],
    /// Null if unknown; then `error` has the reason.
    pub level: Option<&'a str>,
    /// Null if unknown.
    pub bytes: Option<u64>,
    /// `healthy`, `degraded`, `failed` or `unknown`; null if the devices make no array.
    pub state: Option<&'a str>,
    /// Null unless it is served.
    pub served: Option<ServedBy<'a>>,
    /// Null if all is known.
    pub error: Option<&'a str>,
}

/// Who serves an array.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ServedBy<'a> {
    /// Null if the server does not tell this user.
    pub addresses: Option<&'a [String]>,
    /// The server's process, or null. Only without addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<Option<u32>>,
    /// Reason for the silence of a server; absent if the server answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<String>,
}

/// With `--clear-errors`: the cleared members. The first is the given device; arrays around it
/// follow.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ClearedAll<'a> {
    /// As in the list, of the given device, or only `array`.
    #[serde(flatten)]
    pub first: ClearedMember<'a>,
    pub members: Vec<ClearedMember<'a>>,
}

/// A member whose error counters were cleared.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ClearedMember<'a> {
    pub array: &'a str,
    /// The position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<u8>,
    /// Null for a member that is an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Option<&'a str>>,
    /// The counts until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleared: Option<DeviceErrors>,
}

impl<'a> From<&'a ClearedErrors> for ClearedMember<'a> {
    fn from(cleared: &'a ClearedErrors) -> Self {
        Self {
            array: &cleared.array,
            member: Some(cleared.member.0),
            device: Some(cleared.device.as_deref()),
            cleared: Some(DeviceErrors::new(&cleared.errors, cleared.block_bytes)),
        }
    }
}

impl<'a> From<&'a ClientNumbers> for Client<'a> {
    fn from(client: &'a ClientNumbers) -> Self {
        Self {
            transport: client.origin.transport,
            peer: client.origin.peer.as_deref(),
            subject: client.origin.subject.as_deref(),
            since_s: client.since_s,
            requests: client.requests,
            read_bytes: client.read_bytes,
            written_bytes: client.written_bytes,
        }
    }
}

impl<'a> Server<'a> {
    /// Describes the server that has these addresses and this sandbox.
    pub(crate) fn new(
        numbers: &'a ServerNumbers,
        addresses: &'a [String],
        sandbox: &'a [&'static str],
    ) -> Self {
        Self {
            addresses,
            since_s: numbers.since_s,
            clients: numbers.clients.len(),
            client_list: numbers.clients.iter().map(Client::from).collect(),
            over_ring: numbers.over_ring,
            connections: numbers.served.connections,
            requests: numbers.served.requests,
            payload_bytes: numbers.served.payload_bytes,
            copied_bytes: numbers.served.copied_bytes,
            read_bytes: numbers.served.read_bytes,
            reads: numbers.latencies.reads.count(),
            read_ns: numbers.latencies.reads.sum_ns,
            writes: numbers.latencies.writes.count(),
            write_ns: numbers.latencies.writes.sum_ns,
            sandbox,
        }
    }
}
