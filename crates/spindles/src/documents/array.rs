//! The JSON of arrays, their members and their devices.

use super::null_or;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spindles_admin::assemble::{ArrayReport, JournalReport, MemberReport, SpareReport};
use spindles_admin::survey::Health;
use spindles_array::{ArraySnapshot, DeviceSnapshot, Incident as DeviceIncident};
use spindles_block::{MemberIndex, MemberSet};
use spindles_device::DeviceCounters;
use spindles_engine::{Member as MemberState, RegionsStatus, StageState, StageStatus, Status};
use spindles_format::ErrorCounts;
use std::fmt;

/// An array, with the arrays inside it.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Array {
    pub name: String,
    pub uuid: String,
    pub level: String,
    /// Empty if the level has only one.
    pub layout: String,
    /// The consistency policy.
    pub consistency: String,
    /// The checksum of every block: `crc32c` or `none`.
    pub checksum: String,
    pub write_back: WriteBack,
    pub chunk_bytes: u64,
    pub block_bytes: u32,
    pub bytes: u64,
    /// The size by `grow --size max`. Null if that is not larger, or not possible now.
    pub room_bytes: Option<u64>,
    pub generation: u64,
    /// Seconds since 1970; 0 if unknown.
    pub last_written_s: u64,
    /// Seconds since 1970; 0 for never.
    pub last_scrub_s: u64,
    /// Wrong, and not repaired by the last scrub.
    pub scrub_left_bytes: u64,
    /// Where the next scrub continues a stopped one, or 0.
    pub scrub_stopped_bytes: u64,
    /// Lost, and not written since.
    pub lost_bytes: u64,
    /// Closed in order after the last write.
    pub clean: bool,
    /// Absent members with possible later writes of their own.
    pub may_be_newer: Vec<u8>,
    /// Absent members that alone may hold the last writes before a crash.
    pub hold_last_writes: Vec<u8>,
    /// Commands write in spite of `may_be_newer`.
    pub degraded_writes: bool,
    /// Null unless it grows.
    pub growing: Option<Growing>,
    pub state: State,
    /// It does not write until the server restarts, though enough members are there. `state` is
    /// `failed`.
    pub stopped_writing: bool,
    /// Number of further members the array survives losing.
    pub survives_more: u8,
    /// By position.
    pub members: Vec<Member>,
    /// Why given devices take no part.
    pub refused: Vec<String>,
    pub journal: Journal,
    /// Those given.
    pub spares: Vec<Spare>,
    /// Null without bitmaps, and for an array that is not open.
    pub regions: Option<Regions>,
}

/// The stage of an array, from which it answers small writes before it places them.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct WriteBack {
    /// The small writes that it takes: `off`, `on` or `auto`.
    pub mode: String,
    /// The most bytes that it holds; 0 without one.
    pub size_bytes: u64,
    /// True if the stage may hold writes that are not placed.
    pub staged: bool,
    /// Null unless the array is open and uses its stage.
    pub in_use: Option<StageInUse>,
}

/// The stage of an open array. Sums count from the opening.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StageInUse {
    /// `off` while it is empty, `loading`, `on`, or `draining`.
    pub state: String,
    /// In records that are not released.
    pub staged_bytes: u64,
    /// Of its memory, or of the space on the members if that is fuller.
    pub fill_percent: u32,
    /// The age of the oldest record, or null.
    pub oldest_ns: Option<u64>,
    /// 0 if unknown.
    pub placing_bytes_per_s: u64,
    /// Answers wait, because it fills faster than it is placed.
    pub paced: bool,
    /// Some staged writes can't be placed.
    pub stuck: bool,
    /// Written again before they were placed.
    pub absorbed_bytes: u64,
    pub placed_bytes: u64,
    /// Rows placed as a whole, without the log.
    pub whole_rows: u64,
    /// How long answers waited.
    pub paced_ns: u64,
}

/// The state of an array, as `spindles status --help` explains.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Healthy,
    Unknown,
    Degraded,
    Failed,
}

/// The shape that an array grows from.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Growing {
    pub from_level: String,
    pub from_members: usize,
    pub from_chunk_bytes: u64,
    /// Already in the new shape.
    pub moved_bytes: u64,
}

/// Where an array logs.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Journal {
    /// Null if the members log.
    pub device: Option<String>,
    /// True if the array has a device for its journal that is not there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub missing: bool,
}

/// A spare.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Spare {
    pub device: String,
    pub bytes: u64,
    /// Free for any array given together with the spare.
    pub shared: bool,
}

/// The regions of an array that its bitmaps track.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Regions {
    pub total: u64,
    pub region_bytes: u64,
    /// Ever written; the others read as zeros.
    pub written: u64,
    pub dirty: u64,
    /// Not consistent yet after a crash.
    pub unsettled: u64,
}

/// A position of an array.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Member {
    pub state: FillState,
    /// Absent if missing, or if the member is an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The array that is the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<Box<Array>>,
    /// It missed the last superblock write. Of devices only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lagging: Option<bool>,
    /// Valid below this; null if it is valid everywhere. Absent if missing.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "null_or"
    )]
    pub filled_bytes: Option<Option<u64>>,
    /// Since it joined, or was cleared. Absent if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<DeviceErrors>,
    /// Missing since this generation; null if the array still counts on it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "null_or"
    )]
    pub out_since: Option<Option<u64>>,
    /// Taken out by a command. Of missing members only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<bool>,
    /// Regions to copy to it; null without bitmaps, or if the array is not open.
    pub lacks_regions: Option<u64>,
    /// Null unless this process has the device open.
    pub counters: Option<Counters>,
    /// Free bytes below it while writes find no space, or null.
    pub no_space_left_bytes: Option<u64>,
    /// The replacement onto which it is being copied, or null.
    pub copied_onto: Option<String>,
}

/// What a position holds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum FillState {
    Active,
    Rebuilding,
    #[default]
    Missing,
}

/// Errors of a device.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DeviceErrors {
    pub read_errors: u64,
    pub corrupt_bytes: u64,
    pub repaired_bytes: u64,
    pub slow_answers: u64,
}

/// Counts of a device since the array was opened.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Counters {
    pub reads: u64,
    pub read_bytes: u64,
    /// The latencies of all reads, added up.
    pub read_ns: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// The latencies of all writes, added up.
    pub write_ns: u64,
    /// At least one operation was in flight.
    pub busy_ns: u64,
}

/// Problems of a device while the command ran.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Incident {
    pub array: String,
    /// Null for a member that is an array.
    pub device: Option<String>,
    /// No longer a member.
    pub out: bool,
    /// Absent, as all that follows, for a journal device and for a member without space.
    #[serde(flatten)]
    pub member: Option<MemberIncident>,
}

/// Problems of a member.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct MemberIncident {
    /// The position.
    pub member: u8,
    pub failed_reads: u64,
    /// Corrupt bytes that reads found.
    pub rotten_bytes: u64,
    /// Repaired in place.
    pub rewritten_bytes: u64,
    /// Not filled, because other members can't be read there either.
    pub unfilled_bytes: u64,
    pub slow: bool,
    /// Repeated elsewhere because this member was late.
    pub hedged_reads: u64,
}

/// A spare that took the place of a member.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Taken {
    pub device: String,
    pub array: String,
    pub member: u8,
    /// Why it did not get the place, or null.
    pub error: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

impl From<Health> for State {
    fn from(health: Health) -> Self {
        match health {
            Health::Healthy => Self::Healthy,
            Health::Unknown => Self::Unknown,
            Health::Degraded => Self::Degraded,
            Health::Failed => Self::Failed,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Unknown => "unknown",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        })
    }
}

impl State {
    /// The exit status of `status` for an array. An unknown state is no fault of the array.
    pub(crate) const fn exit_status(self) -> u8 {
        match self {
            Self::Healthy | Self::Unknown => 0,
            Self::Degraded => 3,
            Self::Failed => 4,
        }
    }
}

impl Array {
    /// Describes an array. `open` has the snapshots of all open arrays.
    pub(crate) fn new(report: &ArrayReport, open: &[ArraySnapshot]) -> Self {
        let numbers = |members: MemberSet| members.iter().map(|member| member.0).collect();
        let snapshot = snapshot_of(report, open);
        let regions = snapshot.and_then(|array| array.status.regions.as_ref());
        let stage = snapshot.and_then(|array| array.status.stage.as_ref());
        let members = (0..).zip(&report.members);
        let members = members.map(|(index, member)| {
            let shown = Member::new(member, report.block_bytes, open);
            shown.with_numbers(snapshot, MemberIndex(index))
        });
        Self {
            name: report.name.clone(),
            uuid: report.uuid.to_string(),
            level: report.level.name.to_owned(),
            layout: report.layout.clone(),
            consistency: report.consistency.to_owned(),
            checksum: report.checksum.to_owned(),
            write_back: WriteBack {
                mode: report.write_back.name().to_owned(),
                size_bytes: report.stage_bytes,
                staged: report.staged,
                in_use: stage.map(|stage| StageInUse::new(stage, report.block_bytes)),
            },
            chunk_bytes: report.chunk_bytes,
            block_bytes: report.block_bytes,
            bytes: report.bytes,
            room_bytes: report.room_bytes,
            generation: report.generation,
            last_written_s: report.last_written_s,
            last_scrub_s: report.last_scrub_s,
            scrub_left_bytes: report.scrub_left_bytes,
            scrub_stopped_bytes: report.scrub_stopped_bytes,
            lost_bytes: report.lost_bytes,
            clean: report.clean,
            may_be_newer: numbers(report.given_up.newer),
            hold_last_writes: numbers(report.given_up.last_writes),
            degraded_writes: report.degraded_writes,
            growing: report.growing.as_ref().map(|growing| Growing {
                from_level: growing.level.clone(),
                from_members: growing.members,
                from_chunk_bytes: growing.chunk_bytes,
                moved_bytes: growing.moved_bytes,
            }),
            state: State::from(report.health()),
            stopped_writing: report.stopped_writing,
            survives_more: report.survives_more,
            members: members.collect(),
            refused: report.refused.clone(),
            journal: Journal {
                device: match &report.journal {
                    JournalReport::Device(name) => Some(name.clone()),
                    JournalReport::Members | JournalReport::DeviceMissing => None,
                },
                missing: report.journal == JournalReport::DeviceMissing,
            },
            spares: report.spares.iter().map(Spare::from).collect(),
            regions: regions.map(Regions::from),
        }
    }
}

/// Returns the snapshot of an array, if it is open.
pub(crate) fn snapshot_of<'a>(
    report: &ArrayReport,
    open: &'a [ArraySnapshot],
) -> Option<&'a ArraySnapshot> {
    open.iter().find(|array| array.uuid == report.uuid)
}

/// Returns the device onto which a member is being copied.
pub(crate) fn replacement_of(
    array: &ArraySnapshot,
    member: MemberIndex,
) -> Option<&DeviceSnapshot> {
    let (of, device) = array.replacement()?;
    (of == member).then_some(device)
}

/// Returns the number of regions that a member lacks, if the array has bitmaps.
fn lacks_regions(status: &Status, member: MemberIndex) -> Option<u64> {
    // A failed array brings no member up to date.
    let member = status.members.get(usize::from(member.0));
    let (_, member) = status.regions.as_ref().zip(member)?;
    (!status.stopped_writing).then_some(member.lacks_regions)
}

impl Member {
    fn new(member: &MemberReport, block_bytes: u32, open: &[ArraySnapshot]) -> Self {
        let mut shown = Self::default();
        let (filled, errors) = match member {
            MemberReport::Device {
                name,
                lagging,
                filled_bytes,
                errors,
            } => {
                (shown.device, shown.lagging) = (Some(name.clone()), Some(*lagging));
                (*filled_bytes, errors)
            }
            MemberReport::Array(inner) => {
                shown.array = Some(Box::new(Array::new(inner, open)));
                (inner.filled_bytes, &inner.errors)
            }
            MemberReport::Missing {
                out_since,
                held_out,
            } => {
                (shown.out_since, shown.held_out) = (Some(*out_since), Some(*held_out));
                return shown;
            }
        };
        shown.state = filled.map_or(FillState::Active, |_| FillState::Rebuilding);
        shown.filled_bytes = Some(filled);
        shown.errors = Some(DeviceErrors::new(errors, block_bytes));
        shown
    }

    /// Adds the numbers of the open array.
    fn with_numbers(mut self, array: Option<&ArraySnapshot>, member: MemberIndex) -> Self {
        let Some(array) = array else {
            return self;
        };
        let device = array.device(member);
        self.lacks_regions = lacks_regions(&array.status, member);
        self.counters = device.map(|device| Counters::from(&device.counters));
        self.no_space_left_bytes = device.and_then(|device| device.left_bytes);
        self.copied_onto = replacement_of(array, member).map(|device| device.name.clone());
        self
    }
}

impl DeviceErrors {
    /// Converts the error counts of a device with blocks of this size.
    pub(crate) fn new(errors: &ErrorCounts, block_bytes: u32) -> Self {
        let bytes = |blocks: u64| blocks.saturating_mul(block_bytes.into());
        Self {
            read_errors: errors.read_errors,
            corrupt_bytes: bytes(errors.corrupt_blocks),
            repaired_bytes: bytes(errors.repaired_blocks),
            slow_answers: errors.slow_answers,
        }
    }
}

impl StageInUse {
    fn new(stage: &StageStatus, block_bytes: u32) -> Self {
        let bytes = |blocks: u64| blocks * u64::from(block_bytes);
        let life = match stage.state {
            StageState::Off => "off",
            StageState::Loading => "loading",
            StageState::On => "on",
            StageState::Draining => "draining",
        };
        Self {
            state: life.to_owned(),
            staged_bytes: bytes(stage.staged_blocks),
            fill_percent: stage.fill_256 * 100 / 256,
            oldest_ns: stage.oldest_ns,
            placing_bytes_per_s: bytes(stage.placing_blocks_per_s),
            paced: stage.is_paced,
            stuck: stage.is_stuck,
            absorbed_bytes: bytes(stage.absorbed_blocks),
            placed_bytes: bytes(stage.placed_blocks),
            whole_rows: stage.whole_rows,
            paced_ns: stage.paced_ns,
        }
    }
}

impl From<&SpareReport> for Spare {
    fn from(spare: &SpareReport) -> Self {
        Self {
            device: spare.name.clone(),
            bytes: spare.bytes,
            shared: spare.shared,
        }
    }
}

impl From<&RegionsStatus> for Regions {
    fn from(regions: &RegionsStatus) -> Self {
        Self {
            total: regions.total,
            region_bytes: regions.region_bytes,
            written: regions.written,
            dirty: regions.dirty,
            unsettled: regions.unsettled,
        }
    }
}

impl From<&DeviceCounters> for Counters {
    fn from(counters: &DeviceCounters) -> Self {
        Self {
            reads: counters.reads,
            read_bytes: counters.bytes_read,
            read_ns: counters.read_latencies.sum_ns,
            writes: counters.writes,
            written_bytes: counters.bytes_written,
            write_ns: counters.write_latencies.sum_ns,
            busy_ns: counters.busy_ns,
        }
    }
}

impl From<&spindles_admin::spare::Taken> for Taken {
    fn from(taken: &spindles_admin::spare::Taken) -> Self {
        Self {
            device: taken.device.clone(),
            array: taken.array.clone(),
            member: taken.member.0,
            error: taken.error.clone(),
        }
    }
}

/// Converts the incidents of a command.
pub(crate) fn incidents(incidents: &[DeviceIncident]) -> Vec<Incident> {
    incidents.iter().map(Incident::from).collect()
}

impl From<&DeviceIncident> for Incident {
    fn from(incident: &DeviceIncident) -> Self {
        let (array, device, out, member) = match incident {
            DeviceIncident::NoSpace { array, device, .. } => (array, Some(device), false, None),
            DeviceIncident::JournalDevice { array, device } => (array, Some(device), true, None),
            DeviceIncident::Member {
                array,
                device,
                status,
                block_bytes,
            } => {
                let bytes = |blocks: u64| blocks * u64::from(*block_bytes);
                let member = MemberIncident {
                    member: status.member.0,
                    failed_reads: status.faults.read_errors,
                    rotten_bytes: bytes(status.faults.rotten_blocks),
                    rewritten_bytes: bytes(status.faults.repaired_blocks),
                    unfilled_bytes: bytes(status.faults.unfilled_blocks),
                    slow: status.slow,
                    hedged_reads: status.hedged_reads,
                };
                let out = matches!(status.state, MemberState::Missing { .. });
                (array, device.as_ref(), out, Some(member))
            }
        };
        Self {
            array: array.clone(),
            device: device.cloned(),
            out,
            member,
        }
    }
}
