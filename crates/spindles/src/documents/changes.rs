//! The JSON of commands that create and change arrays.

use super::Role;
use super::array::{Incident, Spare, Taken, incidents};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RebuildResult {
    #[serde(flatten)]
    pub of: Of,
    pub incidents: Vec<Incident>,
    /// The new inner array, or null.
    pub made: Option<Made>,
    pub rebuilt: Vec<Position>,
    /// The new device is filled.
    pub through: bool,
    /// Places that prevent completion.
    pub unreadable: u64,
    /// Other members can't be read there either.
    pub unfilled_bytes: u64,
}

/// An inner array that was created as the replacement.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Made {
    pub array: String,
    pub level: String,
    pub devices: Vec<String>,
}

/// A position of an array.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Position {
    pub array: String,
    pub member: u8,
}

/// An array by name.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Of {
    pub name: String,
    pub uuid: String,
}

/// The replaced member.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Replaced {
    #[serde(flatten)]
    pub of: Of,
    pub incidents: Vec<Incident>,
    /// The array of the member.
    pub array: String,
    pub member: u8,
    /// The device that was replaced.
    pub old: String,
    pub new: String,
    /// The old device failed meanwhile.
    pub rebuilt: bool,
    /// Why the old device keeps its superblock, or null.
    pub not_cleared: Option<String>,
}

/// The added spares.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SparesAdded {
    /// Null for shared spares.
    pub name: Option<String>,
    /// Null for shared spares.
    pub uuid: Option<String>,
    pub warnings: Vec<String>,
    pub spares: Vec<Spare>,
    /// Spares that took a place at once.
    pub taken: Vec<Taken>,
}

/// The removed spares.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SparesRemoved {
    pub removed: Vec<String>,
    /// Of other arrays.
    pub still_spares: Vec<String>,
}

/// The new device of the journal.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct JournalAdded {
    #[serde(flatten)]
    pub of: Of,
    pub warnings: Vec<String>,
    /// The device.
    pub journal: String,
}

/// The array whose members log again.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct JournalRemoved {
    #[serde(flatten)]
    pub of: Of,
    pub warnings: Vec<String>,
    /// The device; null if it is absent.
    pub removed: Option<String>,
}

/// The growth.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Grown {
    #[serde(flatten)]
    pub of: Of,
    pub incidents: Vec<Incident>,
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
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct GrowthAborted {
    #[serde(flatten)]
    pub of: Of,
    pub removed: Vec<String>,
}

/// The renamed array.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Renamed {
    #[serde(flatten)]
    pub of: Of,
    pub name_before: String,
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
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Resynced {
    #[serde(flatten)]
    pub of: Of,
    pub incidents: Vec<Incident>,
    pub was_clean: bool,
    pub consistent: bool,
}

/// The settings.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Settings {
    #[serde(flatten)]
    pub of: Of,
    /// Commands write while absent members may be newer.
    pub degraded_writes: bool,
    /// The small writes that its stage takes: `off`, `on` or `auto`.
    pub write_back: String,
    /// The most bytes that its stage holds; 0 without one.
    pub write_back_size_bytes: u64,
}

/// The member that is out.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Failed {
    pub array: String,
    pub member: u8,
    pub device: String,
    /// Its successor, or null.
    pub spare: Option<String>,
}

/// The released device.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Released {
    pub device: String,
    pub was: Role,
}

/// The added device.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Added {
    pub device: String,
    /// Null for a spare of any array.
    pub array: Option<String>,
    pub is: Role,
    /// A member is filled.
    pub through: bool,
}

impl From<&ArrayReport> for Of {
    fn from(report: &ArrayReport) -> Self {
        Self {
            name: report.name.clone(),
            uuid: report.uuid.to_string(),
        }
    }
}

/// Describes an array, with the incidents of its devices.
pub(crate) fn with_incidents(report: &ArrayReport) -> (Of, Vec<Incident>) {
    (Of::from(report), incidents(&report.incidents))
}
