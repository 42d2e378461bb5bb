//! The scenarios to enumerate: every level with redundancy on its fewest members or on one more,
//! every policy, and a few overlapping requests.

use super::bounds::Bounds;
use spindles_block::{BlockSize, MemberIndex, MemberSet, Operation};
use spindles_engine::{POLICIES, Policy, WriteHole};
use spindles_format::{Area, AreaKind, DeviceRecord, areas_for};
use spindles_layout::{Geometry, LEVELS, Level, Redundancy, Spec};
use std::fmt;
use std::ops::Range;

/// The smallest possible device.
pub(super) const DEVICE_BYTES: u64 = 128 << 10;
/// The stage on each device: pages in front, and eight segments for two blocks and a header.
pub(super) const STAGE_BYTES: u32 = (4 + 8 * 3) << 12;
/// The memory for staged contents.
pub(super) const STAGED_BLOCKS: u32 = 16;
pub(super) const BLOCK_SIZE: BlockSize = BlockSize::B4096;
/// The unit in which a write tears: half a block, so that blocks tear too.
pub(super) const ATOM_BYTES: usize = 2048;
pub(super) const ATOMS_PER_BLOCK: u64 = 2;
pub(super) const CHUNK_BLOCKS: u32 = 2;
/// Data area of a member: two rows of chunks.
pub(super) const MEMBER_BLOCKS: u64 = 4;

/// An event in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request of a client.
    Ask {
        /// The operation.
        operation: Operation,
        /// The first block.
        block: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// The array is closed; the last of the events.
    Close,
    /// A member drops out.
    Drop(MemberIndex),
    /// The device with the journal drops out.
    DropJournal,
    /// A blank device takes the place of a missing member and is filled.
    Rebuild(MemberIndex),
}

/// Returns the number of atoms in this many blocks.
pub(super) fn atoms(blocks: u64) -> u16 {
    u16::try_from(blocks * ATOMS_PER_BLOCK).expect("small")
}

impl Event {
    /// Returns the operation and the blocks of a request; `None` for other events.
    pub(super) fn asks(&self) -> Option<(Operation, Range<u64>)> {
        match *self {
            Self::Ask {
                operation,
                block,
                blocks,
            } => Some((operation, block..block + u64::from(blocks))),
            _ => None,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let durably = |fua| if fua { " durably" } else { "" };
        match *self {
            Self::Ask {
                operation,
                block,
                blocks,
            } => match operation {
                Operation::Read => write!(f, "read {block}+{blocks}"),
                Operation::Write { fua } => write!(f, "write{} {block}+{blocks}", durably(fua)),
                Operation::Flush => f.write_str("flush"),
                Operation::Discard => write!(f, "discard {block}+{blocks}"),
                Operation::WriteZeroes { fua } => {
                    write!(f, "zero{} {block}+{blocks}", durably(fua))
                }
            },
            Self::Close => f.write_str("close"),
            Self::Drop(member) => write!(f, "member {member} drops out"),
            Self::DropJournal => f.write_str("the journal drops out"),
            Self::Rebuild(member) => write!(f, "member {member} is rebuilt"),
        }
    }
}

/// An array and the events on it.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of an array, each by itself"
)]
pub struct Scenario {
    pub(super) geometry: Geometry,
    pub(super) devices: Vec<DeviceRecord>,
    pub(super) policy: &'static Policy,
    /// Set if each row of chunks is a region with bits in the bitmaps.
    pub(super) regions: bool,
    /// Set if blocks have checksums.
    pub(super) checksums: bool,
    /// Set if the journal is on a device of its own.
    pub(super) journal_device: bool,
    /// Set if parts of rows are staged.
    pub(super) staged: bool,
    /// Set if nothing was written before: the members hold unknown contents, and zeroing moves
    /// bytes.
    pub(super) new: bool,
    /// Members that are missing from the start.
    pub(super) missing: MemberSet,
    /// The events, in this order, each at any time after the one before.
    pub(super) events: Vec<Event>,
}

impl Scenario {
    pub(super) fn members(&self) -> u8 {
        self.geometry.members()
    }

    pub(super) fn has_parity(&self) -> bool {
        self.geometry.parity_chunks() > 0
    }

    /// Returns the length of a member's device.
    pub(super) fn device_bytes(&self) -> u64 {
        DEVICE_BYTES + u64::from(if self.staged { STAGE_BYTES } else { 0 })
    }

    /// Returns the number of members, plus one for a journal device.
    pub(super) fn disks(&self) -> u8 {
        self.members() + u8::from(self.journal_device)
    }

    /// Returns true if the policy promises anything when members are missing after a crash.
    pub(super) fn is_ruled(&self) -> bool {
        self.policy.write_hole != WriteHole::Open
    }

    /// Returns the consistency policy.
    pub fn policy(&self) -> &'static Policy {
        self.policy
    }

    /// Estimates the writes to members that the events need, which determine the size of an
    /// enumeration. A dropout counts as more, because writes in flight may land or not. Logging and
    /// checksums double the writes, and a journal device doubles them again. With checksums each
    /// row of a discard is logged separately.
    pub fn member_writes(&self) -> u32 {
        let chunks = |blocks: &Range<u64>| {
            let chunk = u64::from(CHUNK_BLOCKS);
            u32::try_from(blocks.end.div_ceil(chunk) - blocks.start / chunk).expect("small")
        };
        let redundancy = u32::from(self.geometry.redundancy());
        let writes = self.events.iter().map(|event| match event.asks() {
            Some((operation, blocks)) if operation.is_write() => {
                let writes = if self.has_parity() {
                    chunks(&blocks) + redundancy
                } else {
                    chunks(&blocks) * (1 + redundancy)
                };
                writes << u32::from(operation == Operation::Discard && self.checksums)
            }
            _ => match event {
                Event::Drop(_) | Event::DropJournal => 3,
                // Superblocks and bits go to all other members as well.
                Event::Rebuild(_) => (u32::from(self.members()) - 1) << u32::from(self.regions),
                _ => 0,
            },
        });
        let twice = self.is_logged() || self.checksums;
        let twice = u32::from(twice) + u32::from(self.journal_device) + u32::from(self.staged);
        writes.sum::<u32>() << twice
    }

    /// Returns true if writes are logged.
    pub(super) fn is_logged(&self) -> bool {
        self.policy.write_hole == WriteHole::Closed && self.has_parity()
    }

    /// Returns every set of members that may be missing in addition to `lost`.
    pub(super) fn tolerated(&self, lost: MemberSet) -> Vec<MemberSet> {
        if !self.is_ruled() {
            return vec![MemberSet::EMPTY];
        }
        let sets = (0..1_u64 << self.members()).map(MemberSet::from_bits);
        sets.filter(|missing| self.geometry.survives(missing.union(lost)))
            .collect()
    }

    /// Returns the largest sets that may be missing and include `lost`, except `lost` itself.
    pub(super) fn largest_tolerated(&self, lost: MemberSet) -> Vec<MemberSet> {
        let with: Vec<_> = self
            .tolerated(lost)
            .into_iter()
            .filter(|set| lost.difference(*set).is_empty() && *set != lost)
            .collect();
        let is_largest = |set: &&MemberSet| {
            !with
                .iter()
                .any(|other| other != *set && set.difference(*other).is_empty())
        };
        with.iter().filter(is_largest).copied().collect()
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.geometry.level())?;
        let layout = self.geometry.layout_name();
        if !layout.is_empty() {
            write!(f, ":{layout}")?;
        }
        write!(f, "({}) {}", self.members(), self.policy.name)?;
        if self.regions {
            f.write_str(" regions")?;
        }
        if self.checksums {
            f.write_str(" checksums")?;
        }
        if self.journal_device {
            f.write_str(" device")?;
        }
        if self.staged {
            f.write_str(" staged")?;
        }
        if self.new {
            f.write_str(" new")?;
        }
        if !self.missing.is_empty() {
            write!(f, " without {:?}", self.missing)?;
        }
        for (index, event) in self.events.iter().enumerate() {
            let comma = if index == 0 { ": " } else { ", " };
            write!(f, "{comma}{event}")?;
        }
        Ok(())
    }
}

/// The kinds of arrays.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a feature of an array"
)]
struct Kind {
    regions: bool,
    checksums: bool,
    journal_device: bool,
    staged: bool,
    /// Never written.
    new: bool,
}

impl Kind {
    /// Yields every kind, named by letters of its features.
    fn all() -> impl Iterator<Item = Self> {
        let letters = ["", "r", "rc", "rd", "rcd", "rcn", "rcdn", "rcs"];
        letters.into_iter().map(|letters| Self {
            regions: letters.contains('r'),
            checksums: letters.contains('c'),
            journal_device: letters.contains('d'),
            staged: letters.contains('s'),
            new: letters.contains('n'),
        })
    }
}

/// Returns every scenario within the bounds, small ones first.
pub fn scenarios(bounds: &Bounds) -> Vec<Scenario> {
    let mut all = Vec::new();
    for level in LEVELS.iter().copied() {
        for (geometry, devices, first) in arrays(level, bounds.all_arrays) {
            for policy in POLICIES.iter().copied() {
                for kind in Kind::all() {
                    let Kind {
                        regions,
                        checksums,
                        journal_device,
                        staged,
                        new,
                    } = kind;
                    let device = |device: &DeviceRecord| {
                        if staged { with_stage(device) } else { *device }
                    };
                    let whole = Scenario {
                        geometry: geometry.clone(),
                        devices: devices.iter().map(device).collect(),
                        policy,
                        regions,
                        checksums,
                        journal_device,
                        staged,
                        new,
                        missing: MemberSet::EMPTY,
                        events: Vec::new(),
                    };
                    let logs = policy.write_hole == WriteHole::Closed;
                    let can_log = logs && whole.has_parity();
                    if (!regions || policy.has_regions())
                        && (!checksums || logs)
                        && (!(journal_device || staged) || can_log)
                        && (!new || can_log)
                    {
                        add(&mut all, &whole, bounds, first);
                    }
                }
            }
        }
    }
    all.retain(|scenario| scenario.member_writes() <= bounds.member_writes_max);
    all.sort_by_key(Scenario::member_writes);
    all
}

/// Returns the smallest arrays of a level, for each layout, and with one member more if `larger`.
/// The flag marks the first layout of its size.
fn arrays(level: &'static Level, larger: bool) -> Vec<(Geometry, Vec<DeviceRecord>, bool)> {
    let fewest = level.members_min;
    let members = match level.redundancy {
        Redundancy::None => return Vec::new(),
        Redundancy::CopyOnEveryMember => fewest..=fewest + 1,
        Redundancy::Copies => fewest + 1..=fewest + 1 + u8::from(larger),
        // At least two data chunks: with one, parity is a copy.
        Redundancy::Parity(chunks) => chunks + 2..=chunks + 2 + u8::from(larger),
    };
    let mut all: Vec<(Geometry, _, _)> = Vec::new();
    for members in members {
        for (index, row) in level.layouts.iter().enumerate() {
            let layout = level.layout(row.name).expect("it is one of the level's");
            let members = members.max(layout.copies());
            let is_known =
                |geometry: &Geometry| geometry.layout() == layout && geometry.members() == members;
            if all.iter().any(|(geometry, ..)| is_known(geometry)) {
                continue;
            }
            let devices: Vec<_> = (0..members).map(MemberIndex).map(device).collect();
            let spec = Spec {
                level,
                layout: Some(layout),
                chunk_blocks: CHUNK_BLOCKS,
                member_blocks: devices.iter().map(DeviceRecord::data_blocks).collect(),
            };
            let geometry = Geometry::new(&spec).expect("members are large enough");
            all.push((geometry, devices, index == 0));
        }
    }
    all
}

/// Returns the areas of the smallest device, with a data area of a few blocks.
fn device(member: MemberIndex) -> DeviceRecord {
    let whole = areas_for(DEVICE_BYTES, BLOCK_SIZE, member).expect("it is large enough");
    let areas: Vec<Area> = (whole.areas().iter())
        .map(|area| match area.kind {
            AreaKind::DATA => Area {
                length_bytes: MEMBER_BLOCKS * u64::from(BLOCK_SIZE.bytes()),
                ..*area
            },
            _ => *area,
        })
        .collect();
    DeviceRecord::new(member, BLOCK_SIZE, DEVICE_BYTES, &areas).expect("only shorter")
}

/// Returns the same areas with room for a stage in the journal area.
fn with_stage(device: &DeviceRecord) -> DeviceRecord {
    let stage = u64::from(STAGE_BYTES);
    let journal = device.area(AreaKind::JOURNAL).expect("it has all areas");
    let areas: Vec<Area> = (device.areas().iter())
        .map(|area| Area {
            offset_bytes: if area.offset_bytes > journal.offset_bytes {
                area.offset_bytes + stage
            } else {
                area.offset_bytes
            },
            length_bytes: match area.kind {
                AreaKind::JOURNAL => area.length_bytes + stage,
                _ => area.length_bytes,
            },
            ..*area
        })
        .collect();
    let bytes = DEVICE_BYTES + stage;
    DeviceRecord::new(device.member, BLOCK_SIZE, bytes, &areas).expect("only longer")
}

const fn ask(operation: Operation, block: u64, blocks: u32) -> Event {
    Event::Ask {
        operation,
        block,
        blocks,
    }
}

/// Returns the requests to combine, on an array with `stripe` blocks in a stripe.
fn requests(stripe: u32) -> Vec<Event> {
    let (volatile, durable) = (
        Operation::Write { fua: false },
        Operation::Write { fua: true },
    );
    vec![
        ask(volatile, 0, 1),
        ask(durable, 1, 2),
        ask(volatile, 0, stripe),
        ask(Operation::Discard, 0, 2),
        ask(Operation::WriteZeroes { fua: true }, 1, stripe - 1),
        ask(durable, 0, 1),
        ask(Operation::Flush, 0, 0),
    ]
}

fn add(all: &mut Vec<Scenario>, whole: &Scenario, bounds: &Bounds, first: bool) {
    let geometry = &whole.geometry;
    let stripe = CHUNK_BLOCKS * u32::from(geometry.data_chunks());
    let mut requests = requests(stripe.max(CHUNK_BLOCKS + 1));
    let whole_region = ask(Operation::Discard, 0, stripe);
    if whole.regions && !requests.contains(&whole_region) {
        requests.push(whole_region);
    }
    let mut push = |missing: MemberSet, events: Vec<Event>| {
        all.push(Scenario {
            missing,
            events,
            ..whole.clone()
        });
    };
    // Fewer requests for other layouts, which differ only in places. Also for copies under the
    // policy without a log: the policy with one treats them the same.
    let repeats = !whole.has_parity() && whole.policy.write_hole == WriteHole::Refused;
    let step = match (bounds.all_arrays, first) {
        (true, _) => 1,
        (false, false) => 9,
        (false, true) => 1 + usize::from(repeats),
    };
    let mut lists: Vec<Vec<Event>> = vec![Vec::new()];
    for _ in 0..bounds.requests {
        let longer = lists.iter().flat_map(|list| {
            let with = |request: &Event| [list.as_slice(), &[*request]].concat();
            requests.iter().map(with).collect::<Vec<_>>()
        });
        lists = longer.collect();
    }
    let flush_first = |list: &Vec<Event>| list[0] == ask(Operation::Flush, 0, 0);
    lists.retain(|list| !flush_first(list));
    for list in lists.iter().step_by(step) {
        push(MemberSet::EMPTY, list.clone());
    }
    let one = MemberSet::EMPTY.with(MemberIndex(0));
    let degraded = whole.is_ruled() && geometry.survives(one);
    for request in requests.iter().take(6).step_by(step) {
        push(MemberSet::EMPTY, vec![*request, Event::Close]);
        if whole.journal_device {
            push(MemberSet::EMPTY, vec![*request, Event::DropJournal]);
        }
        if degraded {
            push(one, vec![*request, requests[1]]);
            push(one, vec![Event::Rebuild(MemberIndex(0)), *request]);
            push(one, vec![*request, Event::Rebuild(MemberIndex(0))]);
            for member in (0..geometry.members()).map(MemberIndex).take(2) {
                push(MemberSet::EMPTY, vec![*request, Event::Drop(member)]);
                if bounds.requests > 2 {
                    push(
                        MemberSet::EMPTY,
                        vec![*request, Event::Drop(member), requests[5]],
                    );
                }
            }
        }
    }
}
