//! The JSON of commands that create and change arrays.

use super::Role;
use super::array::{Incident, Spare, Taken, incidents};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use spindles_admin::assemble::ArrayReport;

/// The created array.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Created<'a> {
    pub name: &'a str,
    pub uuid: String,
    pub level: &'static str,
    /// Empty if the level has only one.
    pub layout: &'a str,
    pub chunk_bytes: u64,
    pub block_bytes: u32,
    pub bytes: u64,
    /// Their number.
    pub members: u8,
    /// Of every block: `crc32c` or `none`.
    pub checksum: &'static str,
    pub devices: Vec<&'a str>,
    pub spares: &'a [String],
    /// Its device, or null.
    pub journal: Option<&'a str>,
    pub initial_sync: InitialSync,
    /// Spares too small for some members.
    pub warnings: Vec<String>,
    pub unused: Vec<Unused<'a>>,
    pub overwritten: Vec<Overwritten<'a>>,
}

/// How data and redundancy came to agree.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) enum InitialSync {
    #[serde(rename = "not needed")]
    NotNeeded,
    #[serde(rename = "known zero")]
    KnownZero,
    #[serde(rename = "done")]
    Done,
    #[serde(rename = "stopped")]
    Stopped,
}

/// A member with much unused room.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Unused<'a> {
    pub member: &'a str,
    pub bytes: u64,
}

/// What a device held before.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Overwritten<'a> {
    pub device: &'a str,
    pub what: &'a str,
}

/// With `--plan`: the arrays that the devices can become.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Plan<'a> {
    pub devices: Vec<PlanDevice<'a>>,
    pub rate_bytes_per_s: u64,
    pub choices: Vec<Choice>,
}

/// A device for a new array.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct PlanDevice<'a> {
    pub device: &'a str,
    pub bytes: u64,
}

/// An array that the devices can become.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Choice {
    pub expression: String,
    /// Creates it.
    pub command: String,
    pub bytes: u64,
    /// Number of devices the array survives losing.
    pub survives: u64,
    pub unused_bytes: u64,
    /// Of the worst device; null without redundancy.
    pub rebuild_s: Option<u64>,
}

/// The rebuilt members.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RebuildResult<'a> {
    #[serde(flatten)]
    pub of: Of<'a>,
    pub incidents: Vec<Incident<'a>>,
    /// The new inner array, or null.
    pub made: Option<Made<'a>>,
    pub rebuilt: Vec<Position<'a>>,
    /// The new device is filled.
    pub through: bool,
    /// Places that prevent completion.
    pub unreadable: u64,
    /// Other members can't be read there either.
    pub unfilled_bytes: u64,
}

/// An inner array that was created as the replacement.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Made<'a> {
    pub array: &'a str,
    pub level: &'static str,
    pub devices: &'a [String],
}

/// A position of an array.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Position<'a> {
    pub array: &'a str,
    pub member: u8,
}

/// An array by name.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Of<'a> {
    pub name: &'a str,
    pub uuid: String,
}

/// The replaced member.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Replaced<'a> {
    #[serde(flatten)]
    pub of: Of<'a>,
    pub incidents: Vec<Incident<'a>>,
    /// The array of the member.
    pub array: &'a str,
    pub member: u8,
    /// The device that was replaced.
    pub old: &'a str,
    pub new: &'a str,
    /// The old device failed meanwhile.
    pub rebuilt: bool,
    /// Why the old device keeps its superblock, or null.
    pub not_cleared: Option<&'a str>,
}

/// The added spares.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SparesAdded<'a> {
    /// Null for shared spares.
    pub name: Option<&'a str>,
    /// Null for shared spares.
    pub uuid: Option<String>,
    pub warnings: &'a [String],
    pub spares: Vec<Spare<'a>>,
    /// Spares that took a place at once.
    pub taken: Vec<Taken<'a>>,
}

/// The removed spares.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SparesRemoved<'a> {
    pub removed: &'a [String],
    /// Of other arrays.
    pub still_spares: Vec<&'a str>,
}

/// The new device of the journal.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct JournalAdded<'a> {
    #[serde(flatten)]
    pub of: Of<'a>,
    pub warnings: &'a [String],
    /// The device.
    pub journal: &'a str,
}

/// The array whose members log again.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct JournalRemoved<'a> {
    #[serde(flatten)]
    pub of: Of<'a>,
    pub warnings: &'a [String],
    /// The device; null if it is absent.
    pub removed: Option<&'a str>,
}

/// The growth.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Grown<'a> {
    #[serde(flatten)]
    pub of: Of<'a>,
    pub incidents: Vec<Incident<'a>>,
    pub bytes_before: u64,
    pub bytes: u64,
    /// The array already had the wanted shape.
    pub already: bool,
    /// It reached the end.
    pub through: bool,
    /// The block that can't be moved, or null.
    pub stuck_at_block: Option<u64>,
}

/// With `--abort`: the devices that are plain devices again.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct GrowthAborted<'a> {
    #[serde(flatten)]
    pub of: Of<'a>,
    pub removed: &'a [String],
}

/// The renamed array.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Renamed<'a> {
    #[serde(flatten)]
    pub of: Of<'a>,
    pub name_before: &'a str,
}

/// The devices, and whether their superblocks are removed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Wiped<'a> {
    pub devices: Vec<WipedDevice<'a>>,
    pub wiped: bool,
}

/// A device with superblocks.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct WipedDevice<'a> {
    pub device: &'a str,
    pub held: &'a str,
    /// The losses of each array.
    pub lacking: Vec<String>,
}

/// The consistent array.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Resynced<'a> {
    #[serde(flatten)]
    pub of: Of<'a>,
    pub incidents: Vec<Incident<'a>>,
    pub was_clean: bool,
    pub consistent: bool,
}

/// The settings.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Settings<'a> {
    #[serde(flatten)]
    pub of: Of<'a>,
    /// Commands write while absent members may be newer.
    pub degraded_writes: bool,
}

/// The member that is out.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Failed<'a> {
    pub array: &'a str,
    pub member: u8,
    pub device: &'a str,
    /// Its successor, or null.
    pub spare: Option<&'a str>,
}

/// The released device.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Released<'a> {
    pub device: &'a str,
    pub was: Role,
}

/// The added device.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Added<'a> {
    pub device: &'a str,
    /// Null for a spare of any array.
    pub array: Option<&'a str>,
    pub is: Role,
    /// A member is filled.
    pub through: bool,
}

impl<'a> From<&'a ArrayReport> for Of<'a> {
    fn from(report: &'a ArrayReport) -> Self {
        Self {
            name: &report.name,
            uuid: report.uuid.to_string(),
        }
    }
}

/// Describes an array, with the incidents of its devices.
pub(crate) fn with_incidents(report: &ArrayReport) -> (Of<'_>, Vec<Incident<'_>>) {
    (Of::from(report), incidents(&report.incidents))
}
