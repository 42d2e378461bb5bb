//! Arrays that grow: blank disks are added, and the checkers' maps follow the array's own.

use crate::disk::Disk;
use crate::stack::Below;
use crate::stack::places::Places;
use crate::world::World;
use spindles_block::{BlockIndex, MemberIndex};
use spindles_engine::{
    Extent, GrowthTarget, Member, Policy, WriteHole, geometry_of, largest, plan_growth, plan_size,
};
use spindles_format::{ArrayRecord, Assembly, ChecksumKind, DeviceRecord, areas_to_hold};
use spindles_layout::{Geometry, LEVELS, Level};

impl World {
    /// Returns the record of an extended array, if it shall and can be extended.
    pub(crate) fn planned_size(
        &mut self,
        array: usize,
        assembly: &Assembly,
    ) -> Option<(ArrayRecord, Extent)> {
        if !self.wants_room || !assembly.array.clean || array != self.stack.top() {
            return None;
        }
        let devices: Option<Vec<DeviceRecord>> = assembly.records.iter().copied().collect();
        let devices = devices?;
        let blocks = self.stack.arrays[array].geometry.blocks();
        let wanted = blocks + self.sizing.between(1, blocks);
        let planned = largest(&assembly.array, &devices)
            .and_then(|most| plan_size(&assembly.array, &devices, Some(wanted.min(most))));
        match planned {
            Ok((record, extent)) => {
                self.wants_room = false;
                self.note(&format!(
                    "array {array} is to be larger than {blocks} blocks"
                ));
                Some((record, extent))
            }
            Err(error) => {
                self.note(&format!("it can't get larger: {error}"));
                None
            }
        }
    }

    /// Returns the record of a growing array, if it shall and can grow.
    pub(crate) fn planned_growth(
        &mut self,
        array: usize,
        assembly: &Assembly,
    ) -> Option<ArrayRecord> {
        if !std::mem::take(&mut self.wants_growth) || !assembly.array.clean {
            return None;
        }
        let devices: Option<Vec<DeviceRecord>> = assembly.records.iter().copied().collect();
        let devices = devices?;
        let there = devices.len();
        let bytes = (0..there).map(|position| self.stack.member_bytes(array, position));
        // If all space of every member is used, keep the array small.
        let bytes = if self.options.disks.is_empty() {
            bytes.max()?
        } else {
            self.options
                .disks
                .iter()
                .map(|disk| disk.created_bytes)
                .min()?
        };
        for _ in 0..6 {
            let count = usize::try_from(self.faults.below(3)).expect("small");
            let random = &mut self.faults;
            let level: Option<&'static Level> = random.percent(50).then(|| *random.choose(LEVELS));
            let chunk = random.percent(40).then(|| random.between_u32(1, 8));
            let added = (0..count).map(|_| (self.faults.uuid(), bytes));
            let target = GrowthTarget {
                level,
                layout: None,
                chunk_blocks: chunk,
                added: added.collect(),
            };
            match plan_growth(&assembly.array, &devices, &target) {
                Ok(record) => {
                    self.note(&format!(
                        "array {array} is to be {} on {} in chunks of {}",
                        record.level, record.members, record.chunk_blocks
                    ));
                    for position in there..there + count {
                        let blocks = record.member[position].data_blocks;
                        self.add_disk(array, position, bytes, &assembly.array, blocks);
                    }
                    return Some(record);
                }
                Err(error) => self.note(&format!("it can't grow: {error}")),
            }
        }
        None
    }

    /// Adds a blank disk for a new position, with room for `blocks` blocks of data.
    fn add_disk(
        &mut self,
        array: usize,
        position: usize,
        bytes: u64,
        record: &ArrayRecord,
        blocks: u64,
    ) {
        let member = MemberIndex(u8::try_from(position).expect("few"));
        let this = &mut self.stack.arrays[array];
        if position == this.members.len() {
            let sectors = bytes / u64::from(self.options.sector_bytes);
            let mut disk = Disk::new(self.options.model, self.options.sector_bytes, sectors);
            if self.options.may_run_out_of_space() {
                disk.make_sparse();
            }
            this.members.push(Below::Disk(self.stack.disks.len()));
            this.data_start.push(BlockIndex(0));
            self.stack.disks.push(disk);
            self.devices.add_member();
        }
        this.lost = this.lost.with(member);
        this.blank = this.blank.with(member);
        let areas = areas_to_hold(record, bytes, member, blocks).expect("it was planned with that");
        this.put_places(member, Places::of(&areas));
    }

    /// Attaches the next added disk that has no position yet, one after another.
    pub(crate) fn attach_added(&mut self, array: usize) {
        if !self.arrays.is_open(array) {
            return;
        }
        let engine = self.arrays.engine(array);
        let Some(old) = engine.geometry().older().map(Geometry::members) else {
            return;
        };
        for member in (old..engine.geometry().members()).map(MemberIndex) {
            let waits = matches!(
                self.state_of(array, member),
                Member::Missing { reason: None }
            );
            let Below::Disk(disk) = self.stack.arrays[array].members[usize::from(member.0)] else {
                continue;
            };
            if waits && let Some((array, command)) = self.put_blank_disk(disk) {
                return self
                    .arrays
                    .push(crate::arrays::Input::Command(array, command));
            }
        }
    }

    /// Counts an opening of a growing array, by how far its growth is.
    pub(crate) fn note_growth(&mut self, record: &ArrayRecord) {
        let Some(older) = &record.growth.older else {
            return;
        };
        if older.mark.0 > 0 {
            self.log.count("opened midway through a growth", 1);
        }
        if older.staged_blocks > 0 {
            self.log.count("opened with a window staged", 1);
        }
    }

    /// Returns true if parity may disagree with data after a crash: see `Options::doubts_parity`.
    pub(crate) fn doubts_parity(&self) -> bool {
        let log_is_gone = self.devices.journal_is_gone() || self.devices.journal_is_damaged();
        self.options.doubts_parity() || self.truth.has_unlogged_parity() || log_is_gone
    }

    /// Follows the policy of an opened array. An array that grew from copies to parity has no
    /// journal until it was closed.
    pub(crate) fn follow_policy(&mut self, array: usize, record: &ArrayRecord) {
        let policy = Policy::by_name(record.consistency.as_str());
        let logs = policy.is_some_and(|policy| policy.write_hole == WriteHole::Closed);
        let geometry = &self.stack.arrays[array].geometry;
        let parity = geometry.parity_chunks() > 0;
        let sums = record.checksum != ChecksumKind::None;
        let had = sums || geometry.older().is_none_or(|old| old.parity_chunks() > 0);
        if parity && !(logs && had) {
            self.truth
                .set_unlogged_parity(!self.options.tree.has_parity());
        } else if record.clean || !parity {
            self.truth.set_unlogged_parity(false);
        }
        if geometry.older().is_none() && array == self.stack.top() {
            // The growth ended before the crash: report the new size to the clients now.
            let blocks = geometry.blocks();
            self.client.extend(blocks);
        }
    }

    /// Updates the checkers' map of an array from its record.
    pub(crate) fn follow_record(&mut self, array: usize, record: &ArrayRecord) {
        let geometry = geometry_of(record).expect("it was written by this engine");
        let this = &mut self.stack.arrays[array];
        this.staged = match &record.growth.older {
            Some(older) if older.staged_blocks > 0 => {
                let end = geometry.live_groups()[0].end;
                older.mark.0 / geometry.stripe_blocks()..end
            }
            _ => 0..0,
        };
        if let Some(regions) = &mut this.regions {
            regions.follow(record, &geometry);
        }
        this.geometry = geometry;
    }

    /// Updates the checkers' map of an array from its engine.
    pub(crate) fn follow_engine(&mut self, array: usize) {
        if !self.arrays.is_open(array) {
            return;
        }
        let engine = self.arrays.engine(array);
        let this = &mut self.stack.arrays[array];
        this.staged = engine.staged_groups();
        let same = engine.geometry().mark() == this.geometry.mark();
        if same {
            return;
        }
        this.geometry = engine.geometry().clone();
        if let (Some(regions), Some(record)) = (&mut this.regions, engine.record()) {
            regions.follow(record, engine.geometry());
        }
    }

    /// Records that the array has grown.
    pub(crate) fn has_grown(&mut self, blocks: u64) {
        self.log.count("grown", 1);
        self.client.extend(blocks);
    }
}
