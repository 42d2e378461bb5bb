//! Takes space for writes, if members are files with holes on nearly full file systems.
//!
//! A member without space for its part of a write misses that part, and goes out. Members on one
//! file system run out of space together, and no level survives that. So space is taken for all
//! parts before the first write. A write that gets too little is refused as a whole, and all
//! members stay.

use super::carry::{ArrayIndex, Carry, Node};
use super::tree;
use crate::device_io::DeviceIndex;
use crate::incidents::SpaceChange;
use spindles_block::{BlockIndex, MemberIndex, MemberSet, Operation, Request};
use spindles_device::holes::Holes;
use spindles_device::waiting::waits_for_space;
use spindles_engine::Member;
use spindles_layout::{Group, Role};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// A file system with less than this left is nearly full. The limit is more than all writes in
/// flight can take between two checks.
const SCARCE_BYTES: u64 = 256 << 20;
/// The space left is checked again after this many bytes of writes, or this long.
const LOOK_AFTER_BYTES: u64 = 8 << 20;
const LOOK_AFTER: Duration = Duration::from_millis(50);
/// How long the first writes of a shortage wait for space. Later writes are refused at once.
const SHORTAGE_WAIT: Duration = Duration::from_secs(5);
/// A shortage is over when this much more is left than when it began.
const RELIEF_BYTES: u64 = 1 << 20;

/// A write that waits for space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) node: Node,
    pub(super) request: Request,
    pub(super) exchangeable: bool,
}

/// A lack of space for writes.
#[derive(Debug)]
struct Shortage {
    since: Instant,
    left_bytes: u64,
    /// The devices without space.
    devices: Vec<DeviceIndex>,
}

impl Shortage {
    /// Returns true if there is space again, with this much left.
    fn is_over(&self, left_bytes: Option<u64>) -> bool {
        left_bytes.is_some_and(|left| left >= self.left_bytes.saturating_add(RELIEF_BYTES))
    }
}

/// State of the space that members take.
#[derive(Debug, Default)]
pub(super) struct Space {
    looked: Option<Instant>,
    written_bytes: u64,
    is_scarce: bool,
    /// Set if the logs, bitmaps and lists of all members have their space.
    has_metadata: bool,
    shortage: Option<Shortage>,
    waiting: VecDeque<Waiting>,
    next_try: Option<Instant>,
    news: Vec<SpaceChange>,
}

impl Space {
    /// Returns the changes since the last call.
    pub(super) fn news(&mut self) -> Vec<SpaceChange> {
        std::mem::take(&mut self.news)
    }

    /// Returns true if writes wait.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the time until waiting writes are tried again; `None` if no write waits.
    pub(super) fn next_try(&self) -> Option<Duration> {
        let next = self.next_try.filter(|_| self.is_waited_for())?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Takes space for a write. Returns false if more members lack space than the array can lose.
    pub(super) fn take(&mut self, carry: &mut Carry, node: Node, request: &Request) -> bool {
        let takes = matches!(
            request.operation,
            Operation::Write { .. } | Operation::WriteZeroes { .. }
        );
        if !takes || !carry.members().has_holes() {
            return true;
        }
        let block_bytes = u64::from(carry.members().block_size().bytes());
        self.written_bytes += u64::from(request.blocks) * block_bytes;
        self.look(carry);
        if !self.is_scarce {
            return true;
        }
        let mut taking = Taking {
            carry,
            full: Vec::new(),
        };
        if !self.has_metadata {
            taking.take_metadata();
            self.has_metadata = taking.full.is_empty();
        }
        taking.take(node, request.block, u64::from(request.blocks));
        if !taking.lacks(node) {
            return true;
        }
        let lacking = taking.lacking();
        let news = &mut self.news;
        let shortage = self.shortage.get_or_insert_with(|| {
            let name = |device: &DeviceIndex| carry.members().facts(*device).name.clone();
            let names = lacking.iter().map(name).collect();
            news.push(SpaceChange::Lacking(names));
            Shortage {
                since: Instant::now(),
                left_bytes: left_bytes(carry).unwrap_or(0),
                devices: Vec::new(),
            }
        });
        for device in lacking {
            if !shortage.devices.contains(&device) {
                shortage.devices.push(device);
            }
            carry.members_mut().lacks_space(device);
        }
        false
    }

    /// Returns the devices that have no space for writes now.
    pub(super) fn lacking(&self, carry: &Carry) -> &[DeviceIndex] {
        let shortage = self.shortage.as_ref();
        shortage
            .filter(|shortage| !shortage.is_over(left_bytes(carry)))
            .map_or(&[], |shortage| &shortage.devices)
    }

    /// Keeps a write that lacks space until space is free. Returns the write if it waited long
    /// enough.
    pub(super) fn wait(&mut self, write: Waiting) -> Option<Waiting> {
        let since = self.shortage.as_ref().map(|shortage| shortage.since);
        let is_over = since.is_none_or(|since| since.elapsed() >= SHORTAGE_WAIT);
        if is_over || !waits_for_space() {
            return Some(write);
        }
        self.waiting.push_back(write);
        self.next_try
            .get_or_insert_with(|| Instant::now() + LOOK_AFTER);
        None
    }

    /// Keeps a write that already has space until the array has room for another request.
    pub(super) fn keep(&mut self, write: Waiting) {
        self.waiting.push_back(write);
        self.next_try = Some(Instant::now());
    }

    /// Returns the writes to try again now.
    pub(super) fn tried_again(&mut self) -> VecDeque<Waiting> {
        let is_time = self.next_try.is_some_and(|next| next <= Instant::now());
        if !is_time && waits_for_space() {
            return VecDeque::new();
        }
        self.next_try = None;
        std::mem::take(&mut self.waiting)
    }

    fn look(&mut self, carry: &mut Carry) {
        let is_late = self.looked.is_none_or(|last| last.elapsed() >= LOOK_AFTER);
        if !is_late && self.written_bytes < LOOK_AFTER_BYTES {
            return;
        }
        (self.looked, self.written_bytes) = (Some(Instant::now()), 0);
        let left = left_bytes(carry);
        // A quota may be used up before the file system is.
        self.is_scarce = left.is_some_and(|left| left < SCARCE_BYTES) || had_no_space(carry);
        carry.set_space_is_scarce(self.is_scarce);
        self.has_metadata &= self.is_scarce;
        let is_over = |shortage: &mut Shortage| shortage.is_over(left);
        if self.shortage.take_if(is_over).is_some() {
            self.news.push(SpaceChange::Back);
        }
    }
}

/// Returns the least space left on any file system with a member.
fn left_bytes(carry: &Carry) -> Option<u64> {
    let members = carry.members();
    let holes = members.devices().filter_map(|device| members.holes(device));
    holes.filter_map(Holes::left_bytes).min()
}

/// Returns true if a write to a current member failed for lack of space.
fn had_no_space(carry: &Carry) -> bool {
    let members = carry.members();
    // Finding the devices in use allocates memory, so do it only after a write has failed.
    members.devices().any(|device| members.had_no_space(device))
        && tree::devices_in_use(carry).any(|device| members.had_no_space(device))
}

/// Takes space on the devices below an array.
struct Taking<'a> {
    carry: &'a Carry,
    /// File systems with too little space.
    full: Vec<u64>,
}

impl Taking<'_> {
    /// Takes space for blocks of a node.
    fn take(&mut self, node: Node, first: BlockIndex, blocks: u64) {
        match node {
            Node::Device(device) => self.take_on_device(device, first, blocks),
            Node::Array(array) => self.take_in_array(array, first, blocks),
        }
    }

    fn take_on_device(&mut self, device: DeviceIndex, first: BlockIndex, blocks: u64) {
        let members = self.carry.members();
        let Some(holes) = members.holes(device).filter(|_| blocks > 0) else {
            return;
        };
        let block_bytes = u64::from(members.block_size().bytes());
        if !holes.fill(first.0 * block_bytes, blocks * block_bytes) {
            self.full.push(holes.file_system());
        }
    }

    fn take_in_array(&mut self, array: ArrayIndex, first: BlockIndex, blocks: u64) {
        let engine = self.carry.array(array).engine();
        let geometry = engine.geometry();
        let Range { start, end } = engine.space_of_write(first.0..first.0.saturating_add(blocks));
        let mut group = Group::empty();
        let mut at = start;
        while at < end {
            geometry.group_into(geometry.locate(BlockIndex(at)).group, &mut group);
            let begin = group.first_block.0;
            let chunk = u64::from(group.blocks);
            let part_end = end.min(begin + chunk * u64::from(group.data_chunks));
            let part = at - begin..part_end - begin;
            for slot in group.slots() {
                let rows = rows_of(slot.role, &part, chunk);
                let rows = slot.offset.0 + rows.start..slot.offset.0 + rows.end;
                self.take_rows(array, slot.member, rows);
            }
            at = part_end;
        }
    }

    fn take_rows(&mut self, array: ArrayIndex, member: MemberIndex, rows: Range<u64>) {
        if rows.is_empty() {
            return;
        }
        if let Some(node) = self.member(array, member) {
            let engine = self.carry.array(array).engine();
            for place in engine.places_of_rows(member, rows) {
                self.take(node, BlockIndex(place.start), place.end - place.start);
            }
        }
    }

    /// Takes space for everything in front of the members' data, except checksums, which are taken
    /// with the rows.
    fn take_metadata(&mut self) {
        for (index, array) in self.carry.arrays() {
            for member in (0..array.engine().geometry().members()).map(MemberIndex) {
                if let Some(node) = self.member(index, member) {
                    self.take(node, BlockIndex(0), array.engine().head_blocks(member));
                }
            }
        }
    }

    /// Returns the node in a place of an array, unless the member is out.
    fn member(&self, array: ArrayIndex, member: MemberIndex) -> Option<Node> {
        let array = self.carry.array(array);
        let node = *array.members().get(usize::from(member.0))?;
        node.filter(|_| !array.engine().is_out(member))
    }

    /// Returns true if a node can't do without what lies on full file systems.
    fn lacks(&self, node: Node) -> bool {
        if self.full.is_empty() {
            return false;
        }
        match node {
            Node::Device(device) => {
                let holes = self.carry.members().holes(device);
                holes.is_some_and(|holes| self.full.contains(&holes.file_system()))
            }
            Node::Array(array) => {
                let engine = self.carry.array(array).engine();
                let lost = engine.status().members.into_iter().filter(|status| {
                    status.state != Member::Active
                        || self
                            .member(array, status.member)
                            .is_some_and(|node| self.lacks(node))
                });
                let lost: MemberSet = lost.map(|status| status.member).collect();
                !engine.geometry().survives(lost)
            }
        }
    }

    /// Returns the devices on full file systems.
    fn lacking(&self) -> Vec<DeviceIndex> {
        let devices = self.carry.members().devices();
        devices
            .filter(|device| self.lacks(Node::Device(*device)))
            .collect()
    }
}

/// Returns the rows of a chunk that a write to part of its group changes: only its own for data,
/// all for redundancy.
fn rows_of(role: Role, part: &Range<u64>, chunk: u64) -> Range<u64> {
    match role {
        Role::Data(index) => {
            let begin = u64::from(index) * chunk;
            let within = |at: u64| at.clamp(begin, begin + chunk) - begin;
            within(part.start)..within(part.end)
        }
        Role::Copy(_) | Role::Parity(_) => {
            let (first, last) = (part.start / chunk, (part.end - 1) / chunk);
            if first == last {
                part.start % chunk..(part.end - 1) % chunk + 1
            } else {
                0..chunk
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_group_write_changes_only_its_rows_and_their_redundancy() {
        let rows = |role, part: Range<u64>| rows_of(role, &part, 16);
        assert_eq!(rows(Role::Data(0), 4..8), 4..8);
        assert_eq!(rows(Role::Data(1), 4..8), 0..0);
        assert_eq!(rows(Role::Parity(0), 20..24), 4..8);
        assert_eq!(rows(Role::Copy(1), 4..16), 4..16);
        assert_eq!(rows(Role::Data(0), 12..20), 12..16);
        assert_eq!(rows(Role::Data(1), 12..20), 0..4);
        assert_eq!(rows(Role::Parity(1), 12..20), 0..16);
    }
}
