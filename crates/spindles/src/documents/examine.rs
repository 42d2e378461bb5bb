//! The JSON of `spindles examine`.

use super::array::{DeviceErrors, FillState};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The superblocks of devices.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Examined<'a> {
    pub devices: Vec<ExaminedDevice<'a>>,
    /// The lists of all devices, each place once.
    pub bad_blocks: Vec<BadPlace<'a>>,
    /// At members that are arrays; only those with errors.
    pub inner_errors: Vec<InnerErrors<'a>>,
    /// Between superblocks.
    pub disagreements: &'a [String],
}

/// The errors that an array counts at a member that is an array.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct InnerErrors<'a> {
    pub array: &'a str,
    pub member: u8,
    pub errors: DeviceErrors,
}

/// A device: a member, a spare, a journal device, or none of these.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(untagged)]
pub(crate) enum ExaminedDevice<'a> {
    Member(Box<ExaminedMember<'a>>),
    Spare(ExaminedSpare<'a>),
    Journal(ExaminedJournal<'a>),
    Other(OtherDevice<'a>),
}

/// A device without a valid superblock.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct OtherDevice<'a> {
    pub device: &'a str,
    pub error: String,
    #[serde(flatten)]
    pub contents: Option<Contents>,
}

/// A device of an array.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Labelled<'a> {
    pub device: &'a str,
    pub device_uuid: String,
    /// The size in the superblock.
    pub device_bytes: u64,
    #[serde(flatten)]
    pub contents: Contents,
}

/// The contents of a device that could be opened.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Contents {
    pub bytes: u64,
    /// File systems and other contents with a known signature.
    pub holds: Vec<&'static str>,
}

/// A member.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ExaminedMember<'a> {
    pub device: &'a str,
    /// The size in the superblock.
    pub device_bytes: u64,
    #[serde(flatten)]
    pub contents: Contents,
    /// The name.
    pub array: &'a str,
    pub array_uuid: String,
    /// The outer array, or null.
    pub parent_uuid: Option<String>,
    /// Since 1970.
    pub created_s: u64,
    /// Since 1970; 0 if unknown.
    pub last_written_s: u64,
    /// Since 1970; 0 for never.
    pub last_scrub_s: u64,
    /// Wrong, and not repaired by the last scrub.
    pub scrub_left_blocks: u64,
    pub errors: DeviceErrors,
    pub generation: u64,
    /// Closed in order after the last write.
    pub clean: bool,
    /// The consistency policy.
    pub consistency: &'a str,
    /// Of every block: `crc32c` or `none`.
    pub checksum: &'static str,
    /// It keeps a checksum of each row.
    pub row_sums: bool,
    /// The length of its stage; 0 without one.
    pub stage_bytes: u32,
    /// Its stage may hold writes that are not placed.
    pub staged: bool,
    pub level: &'a str,
    /// Empty if the level has only one.
    pub layout: &'a str,
    pub chunk_bytes: u64,
    pub block_bytes: u32,
    /// The position.
    pub member: u8,
    /// The damage of one of the two slots. Absent if both are good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    pub features: Features,
    pub members: Vec<RecordedPosition>,
    pub areas: Vec<Area>,
    pub bad_blocks: Vec<BadRun>,
}

/// Bits for features that a program may not know.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Features {
    /// It may use the array.
    pub ignorable: u64,
    /// It may read the array.
    pub read_only: u64,
    /// It must not open the array.
    pub refuse: u64,
}

/// A position in the superblock.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RecordedPosition {
    pub device_uuid: String,
    pub data_blocks: u64,
    pub state: FillState,
    /// The generation since which it is missing, or null.
    pub out_since: Option<u64>,
    /// The block of the array below which it is valid; null unless it is being rebuilt.
    pub mark: Option<u64>,
}

/// An area of a device.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Area {
    pub kind: &'static str,
    pub version: u16,
    pub offset_bytes: u64,
    pub length_bytes: u64,
}

/// Blocks in the list of bad blocks of a device.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct BadRun {
    pub kind: BadKind,
    /// The member that holds nothing there, or null.
    pub member: Option<u8>,
    /// The first block.
    pub start: u64,
    pub blocks: u32,
}

/// A place in the lists of all devices.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct BadPlace<'a> {
    pub array: &'a str,
    pub array_uuid: String,
    pub kind: BadKind,
    /// The member that holds nothing there, or null.
    pub member: Option<u8>,
    /// In the array if lost, else in the data of the member.
    pub offset_bytes: u64,
    pub bytes: u64,
}

/// Why blocks are bad.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum BadKind {
    /// The array lost them.
    Lost,
    /// A member holds nothing there.
    Unread,
}

/// A spare.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ExaminedSpare<'a> {
    #[serde(flatten)]
    pub label: Labelled<'a>,
    /// True.
    pub spare: bool,
    /// Free for any array given together with the spare.
    pub shared: bool,
    /// The UUIDs of its arrays.
    pub arrays: Vec<String>,
}

/// The journal device of an array.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ExaminedJournal<'a> {
    #[serde(flatten)]
    pub label: Labelled<'a>,
    /// True.
    pub journal: bool,
    /// The UUID.
    pub array: String,
}
