//! Describes an array and its members for users.

use crate::write_back::WriteBack;
use spindles_array::positions::positions;
use spindles_array::snapshot::ArraySnapshot;
use spindles_array::spare_report::{SpareReport, Taken};
use spindles_array::{Incident, Lacks, LostBytes};
use spindles_block::{BlockSize, MemberIndex, MemberSet, SizeBytes};
use spindles_device::{device_of, is_address};
use spindles_engine::{
    ArrayState, JournalStatus, Member, MemberFaults, MemberStatus, Policy, Status, WriteHole,
};
use spindles_format::{ChecksumKind, DecodeError, ErrorCounts, Uuid};
use spindles_layout::{Geometry, Level, Redundancy};
use std::path::Path;

/// An array and its members, as found at assembly.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the array"
)]
pub struct ArrayReport {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uuid: Uuid,
    /// Its level.
    pub level: &'static Level,
    /// The layout's name; empty if the level has only one.
    pub layout: String,
    /// The consistency policy's name.
    pub consistency: &'static str,
    /// The checksum of every block.
    pub checksum: &'static str,
    /// Which small writes its stage takes.
    pub write_back: WriteBack,
    /// The most bytes that its stage holds; 0 without one.
    pub stage_bytes: u64,
    /// True if its stage may hold writes that are not placed.
    pub staged: bool,
    /// The chunk size.
    pub chunk_bytes: u64,
    /// The block size.
    pub block_bytes: u32,
    /// The capacity.
    pub bytes: u64,
    /// The capacity that the members have room for. `None` if that is not more than `bytes`.
    pub room_bytes: Option<u64>,
    /// The generation of its superblocks.
    pub generation: u64,
    /// When its superblocks were last written, in seconds since 1970; 0 if unknown.
    pub last_written_s: u64,
    /// When the last scrub finished, in seconds since 1970; 0 for never.
    pub last_scrub_s: u64,
    /// Bytes that the last scrub found wrong and could not repair. A lower bound if that scrub was
    /// stopped.
    pub scrub_left_bytes: u64,
    /// Bytes lost and not written since. Counted only by a survey and a scrub.
    pub lost_bytes: u64,
    /// True if it was closed in order.
    pub clean: bool,
    /// Where a stopped scrub resumes; 0 if none was stopped.
    pub scrub_stopped_bytes: u64,
    /// True if more members are missing than the level survives, so the array can't be opened.
    pub failed: bool,
    /// True if an open array stopped writing although it has enough members: data that must be
    /// durable first could not be made durable.
    pub stopped_writing: bool,
    /// True if missing devices may be present but unreadable. A failure is then uncertain.
    pub hides_devices: bool,
    /// True if a server that does not answer may have its members.
    pub is_elsewhere: bool,
    /// The number of further members that may be lost, in any combination. Missing and unfilled
    /// members are already subtracted.
    pub survives_more: u8,
    /// True if a feature in use allows only reading.
    pub read_only: bool,
    /// True if it is open for writing.
    pub for_writing: bool,
    /// True if another process has it open and continues its pending work.
    pub is_open: bool,
    /// Missing members that it counted on at the last write.
    pub away: MemberSet,
    /// What a write without the missing members discards.
    pub given_up: GivenUp,
    /// True if writes may discard that without `--degraded`.
    pub degraded_writes: bool,
    /// `Some` while it grows: its earlier shape.
    pub growing: Option<Growing>,
    /// The placement of the journal.
    pub journal: JournalReport,
    /// `Some` while an outer array rebuilds this one: bytes of the outer array done so far.
    pub filled_bytes: Option<u64>,
    /// The errors that an outer array counts at this member of it.
    pub errors: ErrorCounts,
    /// The member at every position.
    pub members: Vec<MemberReport>,
    /// Devices and arrays that can't take part, each with the reason.
    pub refused: Vec<String>,
    /// Entries of `refused` for members whose position another device took.
    pub replaced: Vec<String>,
    /// Devices with one damaged superblock of two, and the damage.
    pub damaged: Vec<(String, DecodeError)>,
    /// Refused members that catch up as soon as the array is open for writing, with their devices.
    pub returning: Vec<(MemberIndex, String)>,
    /// Refused members that a command took out, with their devices. They catch up when they are
    /// added.
    pub held_out: Vec<(MemberIndex, String)>,
    /// Refused devices with an older state of a member, such as an old copy.
    pub stale: Vec<(MemberIndex, String)>,
    /// Refused devices of members that came back after the array forgot what they missed.
    pub outrun: Vec<(MemberIndex, String)>,
    /// Refused devices that are shorter than when they became members, with their length then.
    pub truncated: Vec<(MemberIndex, String, SizeBytes)>,
    /// Spares available to it and to the arrays inside it.
    pub spares: Vec<SpareReport>,
    /// Spares that took a place since it was opened.
    pub taken: Vec<Taken>,
    /// Errors of its devices, and of the devices of arrays inside it, while it was open.
    pub incidents: Vec<Incident>,
}

/// Missing members, by the data that a write without them discards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Missing members that hold all data of the array by themselves, and may have been written
    /// since.
    pub newer: MemberSet,
    /// Members that were present before an unclean end. They alone may hold blocks of the last
    /// writes.
    pub last_writes: MemberSet,
}

impl GivenUp {
    /// Returns true if no data is discarded.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self.newer.union(self.last_writes).is_empty()
    }
}

/// Returns the report of a clean array without superblocks and without its members.
pub(crate) fn bare_report(
    name: &str,
    geometry: &Geometry,
    block_size: BlockSize,
    missing: MemberSet,
) -> ArrayReport {
    let block_bytes = u64::from(block_size.bytes());
    ArrayReport {
        name: name.to_owned(),
        uuid: Uuid::NIL,
        level: geometry.level(),
        layout: geometry.layout_name(),
        consistency: "none",
        checksum: ChecksumKind::None.name(),
        write_back: WriteBack::Off,
        stage_bytes: 0,
        staged: false,
        chunk_bytes: u64::from(geometry.chunk_blocks()) * block_bytes,
        block_bytes: block_size.bytes(),
        bytes: geometry.blocks() * block_bytes,
        room_bytes: None,
        generation: 0,
        last_written_s: 0,
        last_scrub_s: 0,
        scrub_left_bytes: 0,
        scrub_stopped_bytes: 0,
        lost_bytes: 0,
        is_open: false,
        clean: true,
        failed: !geometry.survives(missing),
        stopped_writing: false,
        hides_devices: false,
        is_elsewhere: false,
        survives_more: geometry.survives_more(missing).unwrap_or(0),
        read_only: false,
        for_writing: false,
        away: MemberSet::EMPTY,
        given_up: GivenUp::default(),
        degraded_writes: false,
        growing: None,
        journal: JournalReport::Members,
        filled_bytes: None,
        errors: ErrorCounts::NONE,
        members: Vec::new(),
        refused: Vec::new(),
        replaced: Vec::new(),
        damaged: Vec::new(),
        returning: Vec::new(),
        held_out: Vec::new(),
        stale: Vec::new(),
        outrun: Vec::new(),
        truncated: Vec::new(),
        spares: Vec::new(),
        taken: Vec::new(),
        incidents: Vec::new(),
    }
}

impl ArrayReport {
    /// Returns the missing members.
    #[must_use]
    pub fn missing(&self) -> MemberSet {
        self.selected(MemberReport::is_missing)
    }

    /// Describes the missing members that this array and the arrays inside it still count on.
    /// Members taken out are not counted on. `None` if none is missing.
    #[must_use]
    pub fn awaited(&self) -> Option<String> {
        self.lacks(MemberReport::is_awaited)
    }

    /// Describes the members, of this array and of the arrays inside it, that `predicate` selects.
    fn lacks(&self, predicate: impl Fn(&MemberReport) -> bool) -> Option<String> {
        let of_array = |array: &Self| {
            let (lacking, name) = (array.selected(&predicate), &array.name);
            (!lacking.is_empty()).then(|| format!("array '{name}' lacks {}", positions(lacking)))
        };
        let lacking: Vec<String> = self.arrays().into_iter().filter_map(of_array).collect();
        (!lacking.is_empty()).then(|| lacking.join(", "))
    }

    /// Describes the missing members of this array and of the arrays inside it.
    pub(crate) fn lacks_any(&self) -> String {
        self.lacks(MemberReport::is_missing)
            .unwrap_or_else(|| format!("array '{}' is not whole", self.name))
    }

    /// Names a member by its device, or by its number if no device is in its position.
    #[must_use]
    pub fn name_of(&self, member: MemberIndex) -> String {
        match self.members.get(usize::from(member.0)) {
            Some(MemberReport::Device { name, .. }) => name.clone(),
            Some(MemberReport::Array(_) | MemberReport::Missing { .. }) | None => {
                format!("member {member}")
            }
        }
    }

    /// Returns the members that are missing or not filled yet.
    #[must_use]
    pub fn lacking(&self) -> MemberSet {
        self.selected(|member| match member {
            MemberReport::Missing { .. } => true,
            MemberReport::Device { filled_bytes, .. } => filled_bytes.is_some(),
            MemberReport::Array(_) => false,
        })
    }

    /// Returns true if this array or one inside it lacks members.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        let lacks = |array: &Self| array.lacking_facts().members;
        self.arrays().into_iter().any(lacks)
    }

    /// Returns the facts that decide whether this array is degraded, apart from those inside it.
    fn lacking_facts(&self) -> Lacks {
        let stopped = self.inner().any(|inner| inner.stopped_writing);
        let lacks = |member: &MemberReport| member.is_missing() || member.is_filling();
        Lacks {
            members: stopped || self.members.iter().any(lacks),
            journal: self.journal == JournalReport::DeviceMissing,
            left: self.scrub_left_bytes,
            lost: self.lost_bytes,
            is_redundant: self.level.redundancy != Redundancy::None,
        }
    }

    /// Returns the health in one word.
    #[must_use]
    pub fn health(&self) -> Health {
        let lacks = !self.which(false, Lacks::is_degraded).is_empty();
        match (self.failed || self.stopped_writing, self.is_degraded()) {
            (true, _) if self.hides_devices && !self.stopped_writing => Health::Unknown,
            (true, _) => Health::Failed,
            (false, true) if self.is_elsewhere => Health::Unknown,
            (false, true) => Health::Degraded,
            (false, false) if lacks => Health::Degraded,
            (false, false) => Health::Healthy,
        }
    }

    /// Notes that missing members may be present but unseen, in a server that does not answer.
    pub fn note_members_elsewhere(&mut self) {
        self.note_hidden_devices();
        self.is_elsewhere = true;
    }

    /// Notes that devices missing from it, or from an array inside it, may be present.
    pub fn note_hidden_devices(&mut self) {
        self.note_in_all(&mut |array| array.hides_devices = true);
    }

    /// Calls `note` for this array and those inside it.
    pub(crate) fn note_in_all(&mut self, note: &mut dyn FnMut(&mut Self)) {
        note(self);
        for member in &mut self.members {
            if let MemberReport::Array(inner) = member {
                inner.note_in_all(note);
            }
        }
    }

    /// Returns true if a member of this array, or of one inside it, is about to catch up.
    pub(crate) fn has_returning(&self) -> bool {
        let mut arrays = self.arrays().into_iter();
        arrays.any(|array| !array.returning.is_empty())
    }

    /// Returns this array and those inside it.
    #[must_use]
    pub fn arrays(&self) -> Vec<&Self> {
        let inside = self.inner().flat_map(Self::arrays);
        [self].into_iter().chain(inside).collect()
    }

    /// Yields its direct inner arrays.
    fn inner(&self) -> impl Iterator<Item = &Self> {
        self.members.iter().filter_map(|member| match member {
            MemberReport::Array(inner) => Some(&**inner),
            MemberReport::Device { .. } | MemberReport::Missing { .. } => None,
        })
    }

    /// Returns the identities of this array and of those inside it.
    pub(crate) fn uuids(&self) -> Vec<Uuid> {
        self.arrays().iter().map(|array| array.uuid).collect()
    }

    /// Returns member devices whose path is gone. Only a server that has such a device open still
    /// reaches it.
    #[must_use]
    pub fn moved_devices(&self) -> Vec<&str> {
        let mut devices = self.devices();
        devices.retain(|device| was_moved(device));
        devices
    }

    /// Returns the member devices of this array and of those inside it.
    #[must_use]
    pub fn devices(&self) -> Vec<&str> {
        let members = self.members.iter().flat_map(|member| match member {
            MemberReport::Device { name, .. } => vec![name.as_str()],
            MemberReport::Array(inner) => inner.devices(),
            MemberReport::Missing { .. } => Vec::new(),
        });
        members.collect()
    }

    /// Returns true if a write discards data and `degraded_writes` does not allow it.
    #[must_use]
    pub fn must_ask_to_write(&self) -> bool {
        !self.given_up.is_nothing() && !self.degraded_writes
    }

    /// Adds the incidents since `earlier` of the device that another one replaced at `member`.
    pub(crate) fn note_replaced(
        &mut self,
        array: &str,
        member: MemberIndex,
        faults: MemberFaults,
        status: &Status,
        earlier: &[Incident],
    ) {
        let of = self.find(array).unwrap_or(self);
        // This is the name of the device until it was replaced.
        let (device, block_bytes) = (of.name_of(member), of.block_bytes);
        let mut members = status.members.iter();
        let Some(now) = members.find(|status| status.member == member) else {
            return;
        };
        let until_then = MemberStatus {
            faults,
            slow: false,
            hedged_reads: 0,
            ..*now
        };
        let incident = Incident::of_member(array, Some(device), until_then, block_bytes);
        let incident = incident.and_then(|incident| incident.since(earlier));
        self.incidents.extend(incident);
    }

    /// Finds an array by name, among this array and all arrays inside it.
    pub(crate) fn find(&self, name: &str) -> Option<&Self> {
        self.arrays().into_iter().find(|array| array.name == name)
    }

    /// Copies from an earlier report the inner arrays that the server has open and whose devices
    /// have lost their names. Superblocks of these devices can't be read by name.
    pub fn keep_open(&mut self, before: &Self, open: &[ArraySnapshot]) {
        let Some(now) = open.iter().find(|array| array.uuid == self.uuid) else {
            return;
        };
        let members = now.status.members.iter().zip(&mut self.members);
        for ((status, found), before) in members.zip(&before.members) {
            let MemberReport::Array(before) = before else {
                continue;
            };
            match (found, status.state) {
                (_, Member::Missing { .. }) => {}
                (MemberReport::Array(inner), _) => inner.keep_open(before, open),
                (found, _) if !before.moved_devices().is_empty() => {
                    let left_out = format!("array '{}' ", before.name);
                    self.refused
                        .retain(|refused| !refused.starts_with(&left_out));
                    let kept = MemberSet::EMPTY.with(status.member);
                    self.away = self.away.difference(kept);
                    self.given_up.newer = self.given_up.newer.difference(kept);
                    self.given_up.last_writes = self.given_up.last_writes.difference(kept);
                    *found = MemberReport::Array(before.clone());
                }
                // Its devices now hold other data. The server drops the array once it reads that.
                _ => {}
            }
        }
    }

    /// Updates the report from the process that has the array open, which knows more than the
    /// superblocks. A failed array no longer writes superblocks, superblocks lag behind when a
    /// device has just come or gone, and devices may have lost their names.
    ///
    /// The open array knows the device at each position: take both its name and its state from
    /// there.
    pub(crate) fn note_members(&mut self, open: &[ArraySnapshot]) {
        self.note_in_all(&mut |array| note_members_of(array, open));
    }

    /// Returns true if it and all arrays inside it were closed in order.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.arrays().into_iter().all(|array| array.clean)
    }

    /// Returns true if this array, or one inside it, may return wrong bytes near the last writes
    /// before a crash. Opening it takes `--force`.
    #[must_use]
    pub fn may_be_wrong(&self) -> bool {
        self.arrays().into_iter().any(Self::hides_the_write_hole)
    }

    /// Returns true if that holds for this array alone.
    #[must_use]
    pub fn hides_the_write_hole(&self) -> bool {
        let logs = self.logs() && self.journal != JournalReport::DeviceMissing;
        !self.clean && !self.failed && !self.missing().is_empty() && self.has_parity() && !logs
    }

    /// Returns true if its level has parity.
    pub(crate) fn has_parity(&self) -> bool {
        matches!(self.level.redundancy, Redundancy::Parity(_))
    }

    /// Returns true if its policy closes the write hole.
    pub(crate) fn logs(&self) -> bool {
        let policy = Policy::by_name(self.consistency);
        policy.is_some_and(|policy| policy.write_hole == WriteHole::Closed)
    }

    /// Returns the members that `predicate` selects.
    pub fn selected(&self, predicate: impl Fn(&MemberReport) -> bool) -> MemberSet {
        let members = (0_u8..).zip(&self.members);
        let selected = members.filter(|(_, member)| predicate(member));
        selected.map(|(index, _)| MemberIndex(index)).collect()
    }
}

impl ArrayReport {
    /// Returns the arrays, of this one and those inside it, that `predicate` selects by two facts:
    /// what an array lacks, and whether an array around it is redundant. A redundant array repairs
    /// or counts what arrays without redundancy inside it left.
    fn which(&self, is_redundant_above: bool, predicate: fn(&Lacks, bool) -> bool) -> Vec<&Self> {
        let lacks = self.lacking_facts();
        let is_it = predicate(&lacks, is_redundant_above);
        let is_redundant = lacks.is_redundant || is_redundant_above;
        let inside = self
            .inner()
            .flat_map(|inner| inner.which(is_redundant, predicate));
        is_it.then_some(self).into_iter().chain(inside).collect()
    }

    /// Returns the arrays, of this one and those inside it, with bytes that the last scrub left
    /// unrepaired.
    #[must_use]
    pub fn left_by_scrub(&self) -> Vec<&Self> {
        self.which(false, Lacks::leaves)
    }

    /// Records the lost bytes of this array and of those inside it.
    pub(crate) fn note_lost(&mut self, lost: &[LostBytes]) {
        self.note_in_all(&mut |array| {
            let its = lost.iter().filter(|lost| lost.array == array.name);
            array.lost_bytes = its.map(LostBytes::count).sum();
        });
    }

    /// Returns true if a position of this array, or of one inside it, is empty.
    #[must_use]
    pub fn lacks_members(&self) -> bool {
        let mut arrays = self.arrays().into_iter();
        arrays.any(|array| !array.missing().is_empty())
    }
}

fn note_members_of(array: &mut ArrayReport, open: &[ArraySnapshot]) {
    array
        .spares
        .retain(|spare| !open.iter().any(|open| open.uses(&spare.name)));
    let Some(now) = open.iter().find(|open| open.uuid == array.uuid) else {
        return;
    };
    array.failed = now.status.state == ArrayState::Failed;
    // An inner array that its devices no longer show is lost as soon as it is closed.
    let is_unseen = |(status, found): &(&MemberStatus, &MemberReport)| {
        let is_open = !matches!(status.state, Member::Missing { .. });
        is_open && now.device(status.member).is_none() && found.is_missing()
    };
    let members = now.status.members.iter().zip(&array.members);
    let unseen = u8::try_from(members.filter(is_unseen).count()).unwrap_or(u8::MAX);
    array.survives_more = now.status.survives_more.saturating_sub(unseen);
    array.stopped_writing = now.status.stopped_writing && !array.failed;
    match (now.status.journal, &now.journal) {
        (JournalStatus::DeviceOut, _) => array.journal = JournalReport::DeviceMissing,
        (JournalStatus::Device, Some(device)) => {
            array.journal = JournalReport::Device(device.name.clone());
        }
        _ => {}
    }
    let block_bytes = u64::from(array.block_bytes);
    array.scrub_left_bytes = now.status.left_blocks.saturating_mul(block_bytes);
    for (status, found) in now.status.members.iter().zip(&mut array.members) {
        let filled = match status.state {
            Member::Active => None,
            Member::Rebuilding { mark } => Some(mark.0 * block_bytes),
            Member::Missing { .. } => {
                if let MemberReport::Device { .. } = found {
                    *found = MemberReport::UNSEEN;
                }
                continue;
            }
        };
        match (&mut *found, now.device(status.member)) {
            (_, Some(device)) => {
                *found = MemberReport::Device {
                    name: device.name.clone(),
                    lagging: false,
                    filled_bytes: filled,
                    errors: status.errors,
                };
            }
            (MemberReport::Array(inner), None) => {
                (inner.filled_bytes, inner.errors) = (filled, status.errors);
            }
            (MemberReport::Device { .. } | MemberReport::Missing { .. }, None) => {}
        }
    }
}

/// Returns true if a file or device is no longer at its path.
fn was_moved(device: &str) -> bool {
    let device = device_of(device);
    !is_address(&device) && !Path::new(&*device).exists()
}

/// A growing array: its earlier shape, and its progress.
#[derive(Clone, Debug)]
pub struct Growing {
    /// The earlier level.
    pub level: String,
    /// The earlier number of members.
    pub members: usize,
    /// The earlier chunk size.
    pub chunk_bytes: u64,
    /// Bytes of the array that are already at their final places.
    pub moved_bytes: u64,
}

/// The placement of an array's journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalReport {
    /// On its members.
    Members,
    /// On a separate device.
    Device(String),
    /// On its members, because its journal device is missing.
    DeviceMissing,
}

/// The member at a position.
#[derive(Clone, Debug)]
pub enum MemberReport {
    /// A device.
    Device {
        /// Its name.
        name: String,
        /// True if it missed the last superblock write before a crash; its data is complete.
        lagging: bool,
        /// `Some` while the device is being filled: it is valid below this byte of the array.
        filled_bytes: Option<u64>,
        /// Its errors since it became a member, or since they were cleared.
        errors: ErrorCounts,
    },
    /// An array.
    Array(Box<ArrayReport>),
    /// No device.
    Missing {
        /// The generation at which it went out, if the superblocks record one; `None` if the array
        /// still counts on it.
        out_since: Option<u64>,
        /// True if an administrator took the member out. Only `add` brings it back.
        held_out: bool,
    },
}

impl MemberReport {
    /// A missing member that the array still counts on.
    pub(crate) const UNSEEN: Self = Self::Missing {
        out_since: None,
        held_out: false,
    };

    /// Returns true if the member provides no data: it is missing, or a failed array.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Device { .. } => false,
            Self::Array(inner) => inner.failed,
            Self::Missing { .. } => true,
        }
    }

    /// Returns true if the position is empty.
    fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }

    /// Returns true if it is missing, and its array still counts on it.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self, Self::Missing { out_since, .. } if out_since.is_none())
    }

    /// Returns true if the member is not filled yet.
    #[must_use]
    pub fn is_filling(&self) -> bool {
        match self {
            Self::Device { filled_bytes, .. } => filled_bytes.is_some(),
            Self::Array(inner) => inner.filled_bytes.is_some(),
            Self::Missing { .. } => false,
        }
    }
}

/// The health of an array, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Full redundancy is present.
    Healthy,
    /// Too few devices could be read to decide.
    Unknown,
    /// Members are missing or not filled yet; all data can be read.
    Degraded,
    /// Too many members are missing.
    Failed,
}

#[cfg(test)]
mod tests {
    use crate::assemble::AssembleOptions;
    use crate::common::Devices;
    use crate::create::CreateOptions;

    /// The engine is newer than superblocks that were read before a spare took a place. Its answer
    /// wins, for a device's name and for its state.
    #[test]
    fn a_new_member_is_reported_under_its_own_name() {
        let names = ["old", "other", "spare"];
        let devices = Devices::new(&names, 8 << 20);
        let paths = names.map(|name| devices.path(name));
        let [old, other, spare] = paths.each_ref().map(String::as_str);
        let options = CreateOptions {
            spares: vec![spare.to_owned()],
            ..CreateOptions::new("pool")
        };
        devices.create("raid1(old,other)", &options);
        let assembled = devices.assemble(&names, &AssembleOptions::default());
        let assembled = assembled.expect("it is there");
        let (mut report, mut target) = (assembled.report, assembled.target);
        assert_eq!(
            (report.devices(), report.spares.len()),
            (vec![old, other], 1)
        );
        // As after a rename that the superblocks do not show yet.
        report.name = "lake".to_owned();
        target.fail(old).expect("it is a member");
        while target.work() {}
        report.note_members(&target.snapshot());
        assert_eq!(
            (report.devices(), report.spares.len()),
            (vec![spare, other], 0)
        );
        assert!(!report.is_degraded(), "{report:?}");
    }
}
