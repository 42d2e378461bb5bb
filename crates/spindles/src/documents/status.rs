//! The JSON of `spindles status`.

use super::array::{Array, DeviceErrors, State};
use super::null_or;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spindles_admin::settings::ClearedErrors;
use spindles_serve::{ClientNumbers, ServerNumbers};

/// One array. If the outer array can't be known, `arrays` has the inner ones.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Status<A> {
    #[serde(flatten)]
    pub array: A,
    pub warnings: Vec<String>,
    /// Null unless this process has the array open.
    pub bad_blocks: Option<BadBlocks>,
    /// Devices that this user may not read, if members are missing.
    pub unreadable: Vec<String>,
    /// Null unless it is served.
    pub served: Option<Server>,
    pub users: Vec<User>,
    /// Jobs in the server.
    pub jobs: Vec<Job>,
}

/// The arrays of a status.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Arrays {
    Outer(Box<Array>),
    Inner(InnerArrays),
}

/// The inner arrays of an unknown one.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct InnerArrays {
    pub arrays: Vec<Array>,
    /// Of all.
    pub state: State,
}

/// Counts of the list of bad blocks.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct BadBlocks {
    /// Lost blocks of the array.
    pub lost: u64,
    /// Blocks that hold nothing, for each member.
    pub members: Vec<u64>,
}

/// The server of the array.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Server {
    pub addresses: Vec<String>,
    /// Since 1970.
    pub since_s: u64,
    /// Connected now.
    pub clients: usize,
    pub client_list: Vec<Client>,
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
    pub sandbox: Vec<String>,
}

/// A connected client.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Client {
    pub transport: String,
    /// Its address or process; null for this kernel.
    pub peer: Option<String>,
    /// The subject of its certificate, or null.
    pub subject: Option<String>,
    /// Since 1970.
    pub since_s: u64,
    pub requests: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// A process that has the array open.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct User {
    /// Null if this user may not know it.
    pub pid: Option<u32>,
    pub command: Option<String>,
    /// Null without known work. For a server, its first job.
    pub work: Option<Task>,
}

/// The work of a process.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(untagged)]
pub(crate) enum Task {
    Job(Job),
    Command(Work),
}

/// The work of a command.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Work {
    /// Such as `rebuild` or `scrub`.
    pub what: String,
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// Null until it is known.
    pub left_s: Option<u64>,
}

/// A job in the server.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Job {
    pub array: String,
    /// `resync`, `rebuild`, `replace`, `scrub` or `grow`.
    pub what: String,
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// Over the last 30 s; null until it is known.
    pub bytes_per_s: Option<u64>,
    /// Null until it is known.
    pub left_s: Option<u64>,
    /// The job that runs before it, or null.
    pub waits_for: Option<String>,
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
    /// Null if the devices make no array.
    pub state: Option<State>,
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
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ClearedAll {
    /// As in the list, of the given device, or only `array`.
    #[serde(flatten)]
    pub first: ClearedMember,
    pub members: Vec<ClearedMember>,
}

/// A member whose error counters were cleared.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ClearedMember {
    pub array: String,
    /// The position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<u8>,
    /// Null for a member that is an array.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "null_or"
    )]
    pub device: Option<Option<String>>,
    /// The counts until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleared: Option<DeviceErrors>,
}

impl From<&ClearedErrors> for ClearedMember {
    fn from(cleared: &ClearedErrors) -> Self {
        Self {
            array: cleared.array.clone(),
            member: Some(cleared.member.0),
            device: Some(cleared.device.clone()),
            cleared: Some(DeviceErrors::new(&cleared.errors, cleared.block_bytes)),
        }
    }
}

impl From<&ClientNumbers> for Client {
    fn from(client: &ClientNumbers) -> Self {
        Self {
            transport: client.origin.transport.to_owned(),
            peer: client.origin.peer.clone(),
            subject: client.origin.subject.clone(),
            since_s: client.since_s,
            requests: client.requests,
            read_bytes: client.read_bytes,
            written_bytes: client.written_bytes,
        }
    }
}

impl Server {
    /// Describes the server that has these addresses and this sandbox.
    pub(crate) fn new(numbers: &ServerNumbers, addresses: &[String], sandbox: &[&str]) -> Self {
        Self {
            addresses: addresses.to_owned(),
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
            sandbox: sandbox.iter().map(ToString::to_string).collect(),
        }
    }
}
