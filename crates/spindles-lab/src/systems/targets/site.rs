//! The members and settings from which the lab makes a system.

use spindles_admin::assemble::EngineOptions;
use spindles_admin::write_back::WriteBack;
use spindles_device::OpenOptions;
use spindles_engine::Policy;
use spindles_format::ChecksumKind;
use std::io;
use std::path::Path;

/// The members and settings from which a system is made.
#[expect(clippy::struct_excessive_bools, reason = "each is chosen by itself")]
pub(crate) struct Site<'a> {
    /// The experiment's members in the order in which this system uses them. The rest is free for
    /// its jobs.
    pub members: &'a [String],
    /// Bytes that the workloads need.
    pub size_bytes: u64,
    /// Chunk of an array; `None` for the level's default.
    pub chunk_bytes: Option<u64>,
    /// Consistency policy of an array; `None` for the level's default.
    pub consistency: Option<&'static Policy>,
    /// Checksum of an array's blocks; `None` for the default of `create`.
    pub checksum: Option<ChecksumKind>,
    /// Device of an array's journal; `None` for its members.
    pub journal: Option<&'a str>,
    /// The write-back setting of an array; `None` for the default of `create`.
    pub write_back: Option<WriteBack>,
    /// True if an array has no superblocks, and counts as written everywhere.
    pub is_plain: bool,
    /// True if a server exports a single device, as for arrays.
    pub is_served: bool,
    /// Options for opening devices.
    pub open: &'a OpenOptions,
    /// Options of the engines of arrays.
    pub engine: EngineOptions,
    /// Path of this program, to serve arrays.
    pub program: &'a Path,
    /// Write to a degraded array even if that discards newer data on absent members.
    pub degraded: bool,
    /// True if no workload writes.
    pub read_only: bool,
    /// Allow the contents of named devices to be lost.
    pub force: bool,
    /// Called regularly; its error ends the preparation.
    pub go_on: &'a dyn Fn() -> io::Result<()>,
}

impl Site<'_> {
    /// Returns how existing devices and arrays are opened.
    pub(super) fn open_as_is(&self) -> OpenOptions {
        OpenOptions {
            read_only: self.read_only,
            ..self.open.clone()
        }
    }
}
