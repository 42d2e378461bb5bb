//! Where the journals lie: each on its member, or all of them on a device of their own, until that
//! one fails.

use crate::config::Persistence;
use alloc::vec::Vec;
use spindles_block::{BlockIndex, BlockSize, MEMBERS_MAX, MemberIndex};
use spindles_format::{AreaKind, DeviceRecord};

/// Where the driver attaches the device that an array has for its journal: beyond all positions.
pub const JOURNAL_DEVICE: MemberIndex = MemberIndex(MEMBERS_MAX + 1);

/// More is not used of each journal on a device of its own: replay reads all of it.
const DEVICE_RING_BYTES_MAX: u64 = 32 << 20;

/// A device of its own: the journals of all positions lie there one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    first: BlockIndex,
    segment_blocks: u32,
    works: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Placement {
    /// Where the journal of each member begins on it, and how long segment of it is.
    starts: Vec<BlockIndex>,
    segment_blocks: u32,
    device: Option<Device>,
    /// Whether the batches that count lie on the device.
    on_device: bool,
}

impl Placement {
    pub(crate) fn new(persistence: &Persistence, block_size: BlockSize) -> Self {
        let ring_blocks = persistence.array.shared.journal_bytes / block_size.bytes();
        let start = |device: &Option<DeviceRecord>| match device {
            Some(device) => start(device, block_size),
            None => BlockIndex(0),
        };
        let device = persistence.journal_device.as_ref();
        let device = device.map(|device| Device {
            first: device.first_block(block_size),
            segment_blocks: device_segment_blocks(device.ring_blocks(block_size), block_size),
            works: true,
        });
        Self {
            starts: persistence.devices.iter().map(start).collect(),
            segment_blocks: ring_blocks / 2,
            on_device: device.is_some() && persistence.array.journal.on_device,
            device,
        }
    }

    /// Blocks of segment a journal, where the batches that count lie.
    pub(crate) fn segment_blocks(&self) -> u32 {
        match self.device {
            Some(device) if self.on_device => device.segment_blocks,
            _ => self.segment_blocks,
        }
    }

    /// The same, wherever they may come to lie.
    pub(crate) fn segment_blocks_min(&self) -> u32 {
        let on_device = self.device.map(|device| device.segment_blocks);
        on_device.map_or(self.segment_blocks, |segment| {
            segment.min(self.segment_blocks)
        })
    }

    /// On which device the journal of `member` lies, and where it begins.
    pub(crate) fn place(&self, member: MemberIndex) -> (MemberIndex, BlockIndex) {
        match self.device {
            Some(device) if self.on_device => {
                let before = u64::from(member.0) * 2 * u64::from(device.segment_blocks);
                (JOURNAL_DEVICE, device.first.plus(before))
            }
            _ => (member, self.starts[usize::from(member.0)]),
        }
    }

    /// Whether the batches that count lie on a device of their own.
    pub(crate) fn is_device(&self) -> bool {
        self.on_device
    }

    /// Whether they do, and it failed.
    pub(crate) fn is_lost(&self) -> bool {
        self.on_device && !self.device_works()
    }

    /// Whether there is a device of its own, and it works.
    pub(crate) fn device_works(&self) -> bool {
        self.device.is_some_and(|device| device.works)
    }

    /// The device fails. Whether it worked before.
    pub(crate) fn device_fails(&mut self) -> bool {
        let worked = self.device_works();
        if let Some(device) = &mut self.device {
            device.works = false;
        }
        worked
    }

    /// Nothing that is logged counts any more: what comes is logged on the device, if it works.
    pub(crate) fn choose(&mut self) {
        self.on_device = self.device_works();
    }

    /// Another device is the member.
    pub(crate) fn moves(
        &mut self,
        member: MemberIndex,
        device: &DeviceRecord,
        block_size: BlockSize,
    ) {
        self.starts[usize::from(member.0)] = start(device, block_size);
    }
}

/// Where the journal of a member begins.
fn start(device: &DeviceRecord, block_size: BlockSize) -> BlockIndex {
    let area = device.area(AreaKind::JOURNAL);
    BlockIndex(area.map_or(0, |area| area.offset_bytes / u64::from(block_size.bytes())))
}

fn device_segment_blocks(blocks: u64, block_size: BlockSize) -> u32 {
    let ring_blocks = blocks.min(DEVICE_RING_BYTES_MAX / u64::from(block_size.bytes()));
    u32::try_from(ring_blocks / 2).expect("at most 32 MiB")
}
