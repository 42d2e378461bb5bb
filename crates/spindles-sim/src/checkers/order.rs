//! The order of writes to members, in arrays that log writes to rows with parity.
//!
//! A row that was written without the log is only valid as a whole. This requires an order:
//!
//! - Unlogged writes are durable before any member records the failure of another member.
//! - No write is unlogged before every member durably records that no member is missing.
//! - The members missing at an opening are durably recorded before any write to its place.
//!
//! This checker observes the writes to members and the members' contents. A write counts as logged
//! if the header of a record with its checksum was sent before it.

use super::{Check, Checker, Scene, Seen};
use crate::disk::View;
use crate::stack::superblocks::newest_superblock;
use crate::stack::{Below, Place, Spot, group_of};
use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_format::{
    ArrayRecord, JOURNAL_HEADER_BYTES, JournalHeader, JournalKind, block_checksum, stored_checksum,
};
use spindles_layout::GroupIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub(super) static CHECKER: Checker = Checker {
    name: "order",
    about: "unlogged writes are durable before a superblock records a missing member, and begin \
        when none is missing; members missing at opening are recorded before a replay",
    start: || Box::new(Order::default()),
};

/// The state of one array since it was assembled.
#[derive(Debug, Default)]
struct Watched {
    /// Members missing at assembly, until all others are known to have recorded that.
    unrecorded: MemberSet,
    /// Members that are out, according to the last superblock written.
    out: MemberSet,
    /// Members that are not active, according to the last superblock written.
    not_active: MemberSet,
    /// Set if any member was inactive at any time.
    was_degraded: bool,
    /// Set if the superblocks rely on the log.
    counts_on_log: bool,
    /// Groups in doubt after a crash: their rows are resynced without the log.
    in_doubt: BTreeSet<u64>,
    /// Unlogged writes to blocks in the data areas of disks, with their bytes.
    unlogged: BTreeMap<(usize, u64), Vec<u8>>,
}

/// The group, the row and the member of a block.
type Cell = (u64, u32, MemberIndex);

/// The logged checksums of each block of each array; `None` stands for zeros.
type Logged = BTreeMap<(usize, Cell), BTreeSet<Option<u32>>>;

#[derive(Debug, Default)]
struct Order {
    arrays: BTreeMap<usize, Watched>,
    logged: Logged,
}

impl Check for Order {
    fn see(&mut self, scene: &mut Scene<'_>, seen: &Seen<'_>) -> Result<(), String> {
        match *seen {
            Seen::Assembled {
                array,
                clean,
                missing,
                ..
            } => self.assembled(scene, array, clean, missing),
            Seen::DiskAsked {
                disk,
                sector,
                bytes,
            } => return self.asked(scene, disk, sector, bytes),
            _ => {}
        }
        Ok(())
    }
}

/// Returns true if the rules apply to this array.
fn is_ruled(scene: &Scene<'_>, array: usize) -> bool {
    let this = &scene.stack.arrays[array];
    let plain =
        this.regions.is_some() && this.checksums.is_some() && this.geometry.older().is_none();
    plain && this.logs && this.geometry.parity_chunks() > 0
}

impl Order {
    fn assembled(&mut self, scene: &Scene<'_>, array: usize, clean: bool, missing: MemberSet) {
        self.arrays.remove(&array);
        if !is_ruled(scene, array) {
            return;
        }
        if clean {
            self.logged.retain(|(of, _), _| *of != array);
        }
        let groups = 0..scene.stack.arrays[array].geometry.groups();
        let is_dirty = |&group: &u64| {
            let group = GroupIndex(group);
            scene.stack.is_dirty(array, group, View::Current)
        };
        let in_doubt = groups.filter(|group| !clean && is_dirty(group));
        let watched = Watched {
            unrecorded: missing,
            out: missing,
            not_active: missing,
            was_degraded: !missing.is_empty(),
            in_doubt: in_doubt.collect(),
            ..Watched::default()
        };
        self.arrays.insert(array, watched);
    }

    fn asked(
        &mut self,
        scene: &Scene<'_>,
        disk: usize,
        sector: u64,
        bytes: &[u8],
    ) -> Result<(), String> {
        let place = scene.stack.place_of(disk, sector);
        // Of nested arrays only the inner ones, which are on disks, are watched.
        let is_on_disk = |place: &Place| place.array == scene.stack.position(disk).0;
        let Some(place) = place.filter(is_on_disk) else {
            self.note_header(scene, bytes);
            if disk < scene.stack.disks.len() && scene.stack.is_superblock(disk, sector) {
                let (array, _) = scene.stack.position(disk);
                let decoded = spindles_format::decode(bytes).ok();
                return decoded.map_or(Ok(()), |(record, _)| {
                    self.check_superblock(scene, array, &record)
                });
            }
            return Ok(());
        };
        self.placed(scene, place, disk, sector, bytes)
    }

    /// Records the checksums of a batch, if the bytes begin with its header.
    fn note_header(&mut self, scene: &Scene<'_>, bytes: &[u8]) {
        let header = bytes.get(..JOURNAL_HEADER_BYTES).map(JournalHeader::decode);
        let Some(header) = header.flatten() else {
            return;
        };
        let mut arrays = scene.stack.arrays.iter();
        let is_it = |sums: &crate::stack::Checksums| sums.array == header.batch.array;
        let Some(array) = arrays.position(|array| array.checksums.as_ref().is_some_and(is_it))
        else {
            return;
        };
        for (entry, sums) in header.entries() {
            let mut sums = sums.checksums();
            for row in entry.low..entry.low + entry.blocks {
                let sum = match entry.kind {
                    JournalKind::Data => sums.next(),
                    JournalKind::Zeros => None,
                };
                let cell = (entry.group, row, header.batch.member);
                self.logged.entry((array, cell)).or_default().insert(sum);
            }
        }
    }

    /// Checks a superblock that is written to a member.
    fn check_superblock(
        &mut self,
        scene: &Scene<'_>,
        array: usize,
        record: &ArrayRecord,
    ) -> Result<(), String> {
        let stack = scene.stack;
        let Some(watched) = self.arrays.get_mut(&array) else {
            return Ok(());
        };
        let out = record.missing();
        let newly = out.difference(watched.out);
        watched.out = out;
        watched.not_active = out.union(record.rebuilding());
        watched.unrecorded = watched.unrecorded.intersection(watched.not_active);
        watched.was_degraded |= !watched.not_active.is_empty();
        watched.counts_on_log = record.journal.tail > 0;
        // Freed space holds nothing, and is not copied to a replacement device.
        watched.unlogged.retain(|&(disk, offset), _| {
            let (_, member) = stack.position(disk);
            let found = stack.arrays[array]
                .geometry
                .find(member, BlockIndex(offset));
            found.is_some_and(|(group, ..)| stack.is_written(array, group, View::Current))
        });
        if newly.is_empty() || !is_ruled(scene, array) || stack.is_given_up(array) {
            return Ok(());
        }
        let unlogged = std::mem::take(&mut watched.unlogged);
        if !watched.counts_on_log {
            return Ok(());
        }
        for ((disk, offset), bytes) in unlogged {
            let (_, member) = stack.position(disk);
            // Another device may be in this position now, with its data area elsewhere.
            let start = stack.arrays[array].data_start[usize::from(member.0)];
            let block = start.plus(offset).0;
            let gone = out.contains(member) || stack.arrays[array].lost.contains(member);
            let sector = stack.sectors(disk, BlockIndex(block)).start;
            let place = stack.place_of(disk, sector);
            let meets =
                place.is_some_and(|place| !members_of(scene, place).intersection(newly).is_empty());
            if meets && !gone && !stack.should_hold(disk, BlockIndex(block), &bytes) {
                return Err(format!(
                    "superblocks record {newly:?} as missing, while block {block} of disk {disk}, \
                     which was written unlogged, is not durable"
                ));
            }
        }
        Ok(())
    }

    /// Checks a write to the data area of a member.
    fn placed(
        &mut self,
        scene: &Scene<'_>,
        place: Place,
        disk: usize,
        sector: u64,
        bytes: &[u8],
    ) -> Result<(), String> {
        let stack = scene.stack;
        let Some(watched) = self.arrays.get_mut(&place.array) else {
            return Ok(());
        };
        if !is_ruled(scene, place.array) {
            watched.unlogged.clear();
            return Ok(());
        }
        let write = DataWrite::new(scene, place, disk, sector, bytes);
        watched
            .unlogged
            .retain(|(of, offset), _| *of != disk || !write.offsets.contains(offset));
        let skipped = stack.arrays[place.array].lost.contains(place.member)
            || stack.is_given_up(place.array)
            // Zeroed before its first write.
            || !stack.is_written(place.array, place.group, View::Durable);
        if skipped {
            return Ok(());
        }
        watched.check_recorded(scene, &write)?;
        let unlogged = unlogged_blocks(scene, &self.logged, &write);
        if unlogged.is_empty() {
            return Ok(());
        }
        let unlogged = unlogged.into_iter();
        watched
            .unlogged
            .extend(unlogged.map(|(offset, bytes)| ((disk, offset), bytes.to_vec())));
        watched.check_unlogged(scene, &write)
    }
}

/// A write to the data area of a member.
struct DataWrite<'bytes> {
    place: Place,
    disk: usize,
    /// The first block of the data area on the disk.
    start: u64,
    /// The written blocks, counted from the start of the data area.
    offsets: Range<u64>,
    bytes: &'bytes [u8],
}

impl<'bytes> DataWrite<'bytes> {
    /// Locates a write within the data area.
    fn new(scene: &Scene<'_>, place: Place, disk: usize, sector: u64, bytes: &'bytes [u8]) -> Self {
        let stack = scene.stack;
        let first = sector / stack.sectors(disk, BlockIndex(0)).end;
        let blocks = bytes.len() / stack.block_bytes;
        let blocks = first..first + u64::try_from(blocks).expect("few");
        let start = stack.arrays[place.array].data_start[usize::from(place.member.0)].0;
        Self {
            place,
            disk,
            start,
            offsets: blocks.start - start..blocks.end - start,
            bytes,
        }
    }
}

impl Watched {
    /// Checks that every member durably records the members missing at assembly.
    fn check_recorded(&mut self, scene: &Scene<'_>, write: &DataWrite<'_>) -> Result<(), String> {
        if self.unrecorded.is_empty() {
            return Ok(());
        }
        let DataWrite { place, disk, .. } = *write;
        let all_know = (known_not_active(scene, place.array))
            .all(|known| self.unrecorded.difference(known).is_empty());
        if !all_know {
            return Err(format!(
                "disk {disk} is asked to write in group {} of array {}, before all members know \
                 durably that {:?} are missing",
                place.group.0, place.array, self.unrecorded
            ));
        }
        self.unrecorded = MemberSet::EMPTY;
        Ok(())
    }

    /// Checks that all members durably know that the group is whole, before an unlogged write.
    fn check_unlogged(&self, scene: &Scene<'_>, write: &DataWrite<'_>) -> Result<(), String> {
        let DataWrite { place, disk, .. } = *write;
        let settles = self.in_doubt.contains(&place.group.0);
        if settles || !self.was_degraded || !self.counts_on_log {
            return Ok(());
        }
        let uncertain = known_not_active(scene, place.array);
        let uncertain = uncertain.fold(self.not_active, MemberSet::union);
        let uncertain = uncertain.intersection(members_of(scene, place));
        if uncertain.is_empty() {
            return Ok(());
        }
        Err(format!(
            "disk {disk} is asked to write in group {} of array {} unlogged, before all members \
             know durably that {uncertain:?} are active",
            place.group.0, place.array
        ))
    }
}

/// Returns the blocks of a write that change valid data and were not logged with these bytes.
fn unlogged_blocks<'bytes>(
    scene: &Scene<'_>,
    logged: &Logged,
    write: &DataWrite<'bytes>,
) -> Vec<(u64, &'bytes [u8])> {
    let stack = scene.stack;
    let DataWrite { place, disk, .. } = *write;
    let geometry = &stack.arrays[place.array].geometry;
    let is_unlogged = |&(offset, bytes): &(u64, &[u8])| {
        let is_put_back = stack.should_hold(disk, BlockIndex(write.start + offset), bytes);
        let offset = BlockIndex(offset);
        let Place { array, member, .. } = place;
        if is_put_back
            || stack.is_unfilled(Spot {
                array,
                member,
                offset,
            })
        {
            return false; // No valid data changes: it was unreadable, corrupt or not filled.
        }
        let Some((group, _, row)) = geometry.find(member, offset) else {
            return false;
        };
        let sums = logged.get(&(place.array, (group.0, row, place.member)));
        let sum = stored_checksum(block_checksum(bytes));
        let is_zeros = || bytes.iter().all(|&byte| byte == 0);
        !sums.is_some_and(|sums| sums.contains(&Some(sum)) || sums.contains(&None) && is_zeros())
    };
    let blocks = write.bytes.chunks_exact(stack.block_bytes);
    let blocks = write.offsets.clone().zip(blocks);
    blocks.filter(is_unlogged).collect()
}

/// Returns the members of a place's group.
fn members_of(scene: &Scene<'_>, place: Place) -> MemberSet {
    let group = group_of(&scene.stack.arrays[place.array].geometry, place.group);
    group.slots().iter().map(|slot| slot.member).collect()
}

/// For each present member, returns the inactive members according to its durable superblock.
fn known_not_active(scene: &Scene<'_>, array: usize) -> impl Iterator<Item = MemberSet> {
    let this = &scene.stack.arrays[array];
    (0..).zip(&this.members).filter_map(|(at, below)| {
        let Below::Disk(disk) = *below else {
            return None;
        };
        let there = !this.lost.contains(MemberIndex(at));
        let disk = there.then(|| &scene.stack.disks[disk])?;
        let record = newest_superblock(disk, View::Durable)?;
        Some(record.missing().union(record.rebuilding()))
    })
}
