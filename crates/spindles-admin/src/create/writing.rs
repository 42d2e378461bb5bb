//! Writes the members of a new array. All writes are planned before the first one, then carried out
//! from the innermost arrays to the outermost.

use super::plan::{Member, Plan};
use crate::assemble;
use crate::errors::CreateError;
use spindles_array::{NodeId, Stack, await_resync};
use spindles_block::{BlockIndex, MemberSet};
use spindles_device::at_rest::Access;
use spindles_device::{backends, random};
use spindles_engine::Config;
use spindles_format::{
    AreaKind, BITMAPS, ChecksumKind, SLOT_BYTES, SUPERBLOCK_BYTES, Uuid, blank_bad_blocks,
    blank_bitmap,
};
use spindles_layout::Group;
use std::rc::Rc;

/// Most bytes zeroed by one request to an inner array.
const ZEROS_BYTES: u32 = 16 << 20;

/// The writes to the members of one array, and the configuration to open it with.
pub(super) struct Writing {
    name: String,
    members: Vec<MemberWriting>,
    /// `Some` if the array must be resynced, or is the member of another array.
    config: Option<Config>,
}

struct MemberWriting {
    /// Its name in messages; for a device, its path.
    name: String,
    inner: Option<Box<Writing>>,
    /// A range to zero: its start and its length, in bytes.
    zeros: Option<(u64, u64)>,
    /// Pages written before the superblock, each with its offset in bytes.
    pages: Vec<(u64, Rc<[u8]>)>,
    superblock: (BlockIndex, Vec<u8>),
}

impl Writing {
    /// Plans the writes of an array and those inside it. `agrees` says whether data and redundancy
    /// already agree.
    pub(super) fn plan(plan: &Plan, agrees: bool, requests_max: u32) -> Result<Self, CreateError> {
        let mut array = plan.record.clone();
        array.clean = agrees || plan.geometry.redundancy() == 0 || array.region_groups > 0;
        let shared = shared_pages(plan);
        let mut members = Vec::new();
        let each = plan.members.iter().zip(&plan.records).zip(&plan.names);
        for ((member, record), name) in each {
            let inner = match member {
                Member::Device => None,
                Member::Array(inner) => Some(Box::new(Self::plan(inner, agrees, requests_max)?)),
            };
            let of = |kind| record.area(kind).expect("a new member has all areas");
            let slots: Rc<[u8]> = vec![0; SUPERBLOCK_BYTES].into();
            // The slots of an inner array may hold data of an earlier array.
            let slots = SLOT_BYTES.map(|at| (at, Rc::clone(&slots)));
            let slots = slots.into_iter().filter(|_| inner.is_some());
            let pages = shared.iter().map(|(kind, bytes)| {
                assert!(
                    u64::try_from(bytes.len()).is_ok_and(|bytes| bytes <= of(*kind).length_bytes),
                    "what an array uses of an area fits every member"
                );
                (of(*kind).offset_bytes, Rc::clone(bytes))
            });
            let checksums = of(AreaKind::CHECKSUMS);
            let mut superblock = vec![0; SUPERBLOCK_BYTES];
            spindles_format::encode(&array, record, &mut superblock);
            members.push(MemberWriting {
                name: name.clone(),
                pages: slots.chain(pages).collect(),
                zeros: (array.checksum != ChecksumKind::None)
                    .then_some((checksums.offset_bytes, checksums.length_bytes)),
                superblock: (record.slot_block(array.generation), superblock),
                inner,
            });
        }
        let is_ready = array.parent == Uuid::NIL && array.clean;
        let config = if is_ready {
            None
        } else {
            // An unclean array is resynced now, also with a policy that never resyncs.
            let mut policies = spindles_engine::POLICIES.iter();
            let resyncs = policies.find(|policy| policy.resync_after_crash);
            let policy = if array.clean {
                plan.policy
            } else {
                resyncs.expect("one of the policies does")
            };
            let records = plan.records.iter().copied().map(Some).collect();
            let geometry = plan.geometry.clone();
            let nonce = random::nonce()?;
            let config = assemble::config(&array, records, geometry, policy, nonce, requests_max);
            debug_assert_eq!(config.missing, MemberSet::EMPTY);
            Some(config)
        };
        let mut writing = Self {
            name: array.name.to_string(),
            members,
            config,
        };
        if array.parent != Uuid::NIL {
            // Data of an earlier array must not be read as contents of the new array.
            for slot in SLOT_BYTES {
                writing.blank(plan, slot, u64::try_from(SUPERBLOCK_BYTES).expect("4096"));
            }
        }
        Ok(writing)
    }

    /// Zeroes a byte range of the array, in all rows of the groups that it touches. Its blocks then
    /// are zeros, whether read or computed.
    fn blank(&mut self, plan: &Plan, from: u64, bytes: u64) {
        let block_bytes = u64::from(plan.record.block_size.bytes());
        let (mut at, end) = (from / block_bytes, (from + bytes) / block_bytes);
        let mut group = Group::empty();
        while at < end.min(plan.geometry.blocks()) {
            let place = plan.geometry.locate(BlockIndex(at));
            let blocks = u64::from(place.blocks_left).min(end - at);
            plan.geometry.group_into(place.group, &mut group);
            for slot in group.slots() {
                let member = usize::from(slot.member.0);
                let start = plan.records[member].data_start().0;
                let from = (start + slot.offset.0 + u64::from(place.block_in_chunk)) * block_bytes;
                let bytes = blocks * block_bytes;
                let writing = &mut self.members[member];
                if let (Member::Array(plan), Some(inner)) =
                    (&plan.members[member], &mut writing.inner)
                {
                    inner.blank(plan, from, bytes);
                } else {
                    let zeros = vec![0; usize::try_from(bytes).expect("a page at most")];
                    writing.pages.push((from, zeros.into()));
                }
            }
            at += blocks;
        }
    }

    /// Makes the devices members of the array before any other write to them. Each device has a
    /// valid superblock at any moment, either the earlier or the new superblock.
    pub(super) fn label(
        &self,
        stack: &mut Stack,
        devices: &mut impl Iterator<Item = NodeId>,
    ) -> Result<(), CreateError> {
        for member in &self.members {
            if let Some(inner) = &member.inner {
                inner.label(stack, devices)?;
                continue;
            }
            let node = devices.next().expect("a device for every leaf");
            let (block, superblock) = &member.superblock;
            put(stack, node, *block, superblock, &member.name)?;
            let block_bytes = u64::from(stack.block_size().bytes());
            let slots = SLOT_BYTES.map(|slot| BlockIndex(slot / block_bytes));
            for other in slots.into_iter().filter(|slot| slot != block) {
                put(stack, node, other, &[0; SUPERBLOCK_BYTES], &member.name)?;
            }
        }
        Ok(())
    }

    /// Writes an array's superblocks, after those of its inner arrays. Returns the array opened
    /// last: this array if it had to be opened, otherwise an inner array.
    pub(super) fn write(
        self,
        stack: &mut Stack,
        devices: &mut impl Iterator<Item = NodeId>,
    ) -> Result<Option<NodeId>, CreateError> {
        let mut opened = None;
        let mut nodes = Vec::new();
        let mut superblocks = Vec::new();
        for member in self.members {
            let is_device = member.inner.is_none();
            let node = match member.inner {
                None => devices.next().expect("a device for every leaf"),
                Some(inner) => {
                    opened = inner.write(stack, devices)?;
                    opened.expect("what is a member of another is opened")
                }
            };
            match member.zeros {
                Some((from, bytes)) if is_device => blank_device(&member.name, from, bytes)?,
                Some((from, bytes)) => blank_array(stack, node, &member.name, from, bytes)?,
                None => {}
            }
            let block_bytes = u64::from(stack.block_size().bytes());
            for (at, bytes) in member.pages {
                put(
                    stack,
                    node,
                    BlockIndex(at / block_bytes),
                    &bytes,
                    &member.name,
                )?;
            }
            nodes.push(Some(node));
            superblocks.push((node, member.superblock, member.name));
        }
        for (node, (block, bytes), name) in superblocks {
            put(stack, node, block, &bytes, &name)?;
        }
        let Some(config) = self.config else {
            return Ok(opened);
        };
        let name = self.name;
        let node = stack.add_array(&name, config, &nodes);
        node.map(Some)
            .map_err(|source| CreateError::Engine { name, source })
    }
}

/// Returns the pages that are the same on all members: blank bitmaps and a blank list of bad
/// blocks.
pub(super) fn shared_pages(plan: &Plan) -> Vec<(AreaKind, Rc<[u8]>)> {
    let mut pages: Vec<(AreaKind, Rc<[u8]>)> = Vec::new();
    let groups = u64::from(plan.record.region_groups);
    if groups > 0 {
        let regions = plan.geometry.groups().div_ceil(groups);
        pages.extend(BITMAPS.map(|kind| {
            let bytes = blank_bitmap(plan.record.uuid, kind, regions);
            (kind, bytes.into())
        }));
    }
    let bad_blocks = plan.record.bad_blocks_pages();
    if bad_blocks > 0 {
        let bytes = blank_bad_blocks(plan.record.uuid, bad_blocks);
        pages.push((AreaKind::BAD_BLOCKS, bytes.into()));
    }
    pages
}

/// Zeroes a part of a device, durably.
fn blank_device(device: &str, from: u64, bytes: u64) -> Result<(), CreateError> {
    let blank = backends::at_rest(device, Access::Write).and_then(|device| {
        device.make_zeros(from, bytes)?;
        device.sync()
    });
    blank.map_err(|source| CreateError::Io {
        device: device.to_owned(),
        action: "clear its checksums",
        source,
    })
}

/// Zeroes a part of an inner array.
pub(super) fn blank_array(
    stack: &mut Stack,
    node: NodeId,
    name: &str,
    from: u64,
    bytes: u64,
) -> Result<(), CreateError> {
    let block_bytes = u64::from(stack.block_size().bytes());
    let (mut at, end) = (from / block_bytes, (from + bytes) / block_bytes);
    while at < end {
        let most = ZEROS_BYTES / stack.block_size().bytes();
        let blocks = u32::try_from(end - at).map_or(most, |left| left.min(most));
        let zeroed = stack.write_zeroes(node, BlockIndex(at), blocks);
        zeroed.map_err(|source| CreateError::Superblock {
            device: name.to_owned(),
            source,
        })?;
        at += u64::from(blocks);
    }
    Ok(())
}

pub(super) fn put(
    stack: &mut Stack,
    node: NodeId,
    block: BlockIndex,
    bytes: &[u8],
    name: &str,
) -> Result<(), CreateError> {
    let written = stack.write(node, block, bytes);
    written.map_err(|source| CreateError::Superblock {
        device: name.to_owned(),
        source,
    })
}

/// How data and redundancy of a new array were made to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The array has no redundancy.
    NotNeeded,
    /// No region is written yet. All blocks read as zeros, and the first use of a region creates
    /// its redundancy.
    Unwritten,
    /// All devices are known to hold zeros, so they agree.
    KnownZero,
    /// The whole array was resynced.
    Done,
    /// The caller stopped it.
    Stopped,
}

/// Waits until all arrays are consistent and closes them.
pub(super) fn finish(
    stack: Stack,
    opened: Option<NodeId>,
    sync: Sync,
    name: &str,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Sync, CreateError> {
    let Some(root) = opened else {
        return Ok(sync); // No array was opened, so all data is durable.
    };
    let mut target = stack.into_target(root);
    if sync == Sync::Done && !await_resync(target.as_mut(), progress) {
        return Ok(Sync::Stopped);
    }
    target.close().map_err(|source| CreateError::Close {
        name: name.to_owned(),
        source,
    })?;
    Ok(sync)
}
