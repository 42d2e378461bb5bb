//! The JSON of arrays, their members and their devices.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use spindles_admin::assemble::{ArrayReport, JournalReport, MemberReport, SpareReport};
use spindles_array::{ArraySnapshot, DeviceSnapshot, Incident as DeviceIncident};
use spindles_block::{MemberIndex, MemberSet};
use spindles_device::DeviceCounters;
use spindles_engine::{Member as MemberState, RegionsStatus, Status};
use spindles_format::ErrorCounts;

/// An array, with the arrays inside it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Array<'a> {
    pub name: &'a str,
    pub uuid: String,
    pub level: &'static str,
    /// Empty if the level has only one.
    pub layout: &'a str,
    /// The consistency policy.
    pub consistency: &'static str,
    /// The checksum of every block: `crc32c` or `none`.
    pub checksum: &'static str,
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
    pub growing: Option<Growing<'a>>,
    /// `healthy`, `degraded`, `failed` or `unknown`, as `spindles status --help` explains.
    pub state: &'static str,
    /// It does not write until the server restarts, though enough members are there. `state` is
    /// `failed`.
    pub stopped_writing: bool,
    /// Number of further members the array survives losing.
    pub survives_more: u8,
    /// By position.
    pub members: Vec<Member<'a>>,
    /// Why given devices take no part.
    pub refused: &'a [String],
    pub journal: Journal<'a>,
    /// Those given.
    pub spares: Vec<Spare<'a>>,
    /// Null without bitmaps, and for an array that is not open.
    pub regions: Option<Regions>,
}

/// The shape that an array grows from.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Growing<'a> {
    pub from_level: &'a str,
    pub from_members: usize,
    pub from_chunk_bytes: u64,
    /// Already in the new shape.
    pub moved_bytes: u64,
}

/// Where an array logs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Journal<'a> {
    /// Null if the members log.
    pub device: Option<&'a str>,
    /// True if the array has a device for its journal that is not there.
    #[serde(skip_serializing_if = "is_false")]
    pub missing: bool,
}

/// A spare.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Spare<'a> {
    pub device: &'a str,
    pub bytes: u64,
    /// Free for any array given together with the spare.
    pub shared: bool,
}

/// The regions of an array that its bitmaps track.
#[derive(Debug, Serialize)]
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
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Member<'a> {
    pub state: FillState,
    /// Absent if missing, or if the member is an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<&'a str>,
    /// The array that is the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<Box<Array<'a>>>,
    /// It missed the last superblock write. Of devices only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lagging: Option<bool>,
    /// Valid below this; null if it is valid everywhere. Absent if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filled_bytes: Option<Option<u64>>,
    /// Since it joined, or was cleared. Absent if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<DeviceErrors>,
    /// Missing since this generation; null if the array still counts on it.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    pub copied_onto: Option<&'a str>,
}

/// What a position holds.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum FillState {
    Active,
    Rebuilding,
    Missing,
}

/// Errors of a device.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DeviceErrors {
    pub read_errors: u64,
    pub corrupt_bytes: u64,
    pub repaired_bytes: u64,
    pub slow_answers: u64,
}

/// Counts of a device since the array was opened.
#[derive(Debug, Serialize)]
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
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Incident<'a> {
    pub array: &'a str,
    /// Null for a member that is an array.
    pub device: Option<&'a str>,
    /// No longer a member.
    pub out: bool,
    /// Absent, as all that follows, for a journal device and for a member without space.
    #[serde(flatten)]
    pub member: Option<MemberIncident>,
}

/// Problems of a member.
#[derive(Debug, Serialize)]
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
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Taken<'a> {
    pub device: &'a str,
    pub array: &'a str,
    pub member: u8,
    /// Why it did not get the place, or null.
    pub error: Option<&'a str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

impl<'a> Array<'a> {
    /// Describes an array. `open` has the snapshots of all open arrays.
    pub(crate) fn new(report: &'a ArrayReport, open: &'a [ArraySnapshot]) -> Self {
        let numbers = |members: MemberSet| members.iter().map(|member| member.0).collect();
        let snapshot = snapshot_of(report, open);
        let regions = snapshot.and_then(|array| array.status.regions.as_ref());
        let members = (0..).zip(&report.members);
        let members = members.map(|(index, member)| {
            let shown = Member::new(member, report.block_bytes, open);
            shown.with_numbers(snapshot, MemberIndex(index))
        });
        Self {
            name: &report.name,
            uuid: report.uuid.to_string(),
            level: report.level.name,
            layout: &report.layout,
            consistency: report.consistency,
            checksum: report.checksum,
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
                from_level: &growing.level,
                from_members: growing.members,
                from_chunk_bytes: growing.chunk_bytes,
                moved_bytes: growing.moved_bytes,
            }),
            state: crate::arrays::state(report),
            stopped_writing: report.stopped_writing,
            survives_more: report.survives_more,
            members: members.collect(),
            refused: &report.refused,
            journal: Journal {
                device: match &report.journal {
                    JournalReport::Device(name) => Some(name),
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

impl<'a> Member<'a> {
    fn new(member: &'a MemberReport, block_bytes: u32, open: &'a [ArraySnapshot]) -> Self {
        let mut shown = Self {
            state: FillState::Missing,
            device: None,
            array: None,
            lagging: None,
            filled_bytes: None,
            errors: None,
            out_since: None,
            held_out: None,
            lacks_regions: None,
            counters: None,
            no_space_left_bytes: None,
            copied_onto: None,
        };
        let (filled, errors) = match member {
            MemberReport::Device {
                name,
                lagging,
                filled_bytes,
                errors,
            } => {
                (shown.device, shown.lagging) = (Some(&**name), Some(*lagging));
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
    fn with_numbers(mut self, array: Option<&'a ArraySnapshot>, member: MemberIndex) -> Self {
        let Some(array) = array else {
            return self;
        };
        let device = array.device(member);
        self.lacks_regions = lacks_regions(&array.status, member);
        self.counters = device.map(|device| Counters::from(&device.counters));
        self.no_space_left_bytes = device.and_then(|device| device.left_bytes);
        self.copied_onto = replacement_of(array, member).map(|device| &*device.name);
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

impl<'a> From<&'a SpareReport> for Spare<'a> {
    fn from(spare: &'a SpareReport) -> Self {
        Self {
            device: &spare.name,
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

impl<'a> From<&'a spindles_admin::spare::Taken> for Taken<'a> {
    fn from(taken: &'a spindles_admin::spare::Taken) -> Self {
        Self {
            device: &taken.device,
            array: &taken.array,
            member: taken.member.0,
            error: taken.error.as_deref(),
        }
    }
}

/// Converts the incidents of a command.
pub(crate) fn incidents(incidents: &[DeviceIncident]) -> Vec<Incident<'_>> {
    incidents.iter().map(Incident::from).collect()
}

impl<'a> From<&'a DeviceIncident> for Incident<'a> {
    fn from(incident: &'a DeviceIncident) -> Self {
        let (array, device, out, member) = match incident {
            DeviceIncident::NoSpace { array, device } => {
                (array, Some(device.as_str()), false, None)
            }
            DeviceIncident::JournalDevice { array, device } => {
                (array, Some(device.as_str()), true, None)
            }
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
                (array, device.as_deref(), out, Some(member))
            }
        };
        Self {
            array,
            device,
            out,
            member,
        }
    }
}
