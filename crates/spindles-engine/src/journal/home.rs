//! Where the journals lie: each on its member, or all of them on a device of their own, until that
//! one fails.

use crate::config::Persistence;
use alloc::vec::Vec;
use spindles_block::{BlockIndex, BlockSize, MEMBERS_MAX, MemberIndex};
use spindles_format::{AreaKind, DeviceRecord};

/// Where the driver attaches the device that an array has for its journal: beyond all positions.
pub const JOURNAL_DEVICE: MemberIndex = MemberIndex(MEMBERS_MAX + 1);

/// More is not used of each journal: replay reads all of it.
const JOURNAL_BYTES_MAX: u64 = 32 << 20;

/// A device of its own: the journals of all positions lie there one after another.
#[derive(Clone, Copy, Debug)]
struct Device {
    first: BlockIndex,
    half_blocks: u32,
    works: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Home {
    /// Where the journal of each member begins on it, and how long half of it is.
    starts: Vec<BlockIndex>,
    half_blocks: u32,
    device: Option<Device>,
    /// Whether the batches that count lie on the device.
    on_device: bool,
}

impl Home {
    pub(super) fn new(persistence: &Persistence, block_size: BlockSize) -> Option<Self> {
        let devices = persistence.devices.iter();
        let blocks = devices.clone().flatten();
        let blocks = blocks.map(|device| area(device, block_size).1).min()?;
        let start = |device: &Option<DeviceRecord>| match device {
            Some(device) => area(device, block_size).0,
            None => BlockIndex(0),
        };
        let device = persistence.journal_device.as_ref();
        let device = device.map(|device| Device {
            first: device.first_block(block_size),
            half_blocks: half_blocks(device.ring_blocks(block_size), block_size),
            works: true,
        });
        Some(Self {
            starts: devices.map(start).collect(),
            half_blocks: half_blocks(blocks, block_size),
            on_device: device.is_some() && persistence.array.journal.on_device,
            device,
        })
    }

    /// Blocks of half a journal, where the batches that count lie.
    pub(super) fn half_blocks(&self) -> u32 {
        match self.device {
            Some(device) if self.on_device => device.half_blocks,
            _ => self.half_blocks,
        }
    }

    /// The same, wherever they may come to lie.
    pub(super) fn half_blocks_min(&self) -> u32 {
        let on_device = self.device.map(|device| device.half_blocks);
        on_device.map_or(self.half_blocks, |half| half.min(self.half_blocks))
    }

    /// On which device the journal of `member` lies, and where it begins.
    pub(super) fn place(&self, member: MemberIndex) -> (MemberIndex, BlockIndex) {
        match self.device {
            Some(device) if self.on_device => {
                let before = u64::from(member.0) * 2 * u64::from(device.half_blocks);
                (JOURNAL_DEVICE, device.first.plus(before))
            }
            _ => (member, self.starts[usize::from(member.0)]),
        }
    }

    /// Whether the batches that count lie on a device of their own.
    pub(super) fn is_device(&self) -> bool {
        self.on_device
    }

    /// Whether they do, and it failed.
    pub(super) fn is_lost(&self) -> bool {
        self.on_device && !self.device_works()
    }

    /// Whether there is a device of its own, and it works.
    pub(super) fn device_works(&self) -> bool {
        self.device.is_some_and(|device| device.works)
    }

    /// The device fails. Whether it worked before.
    pub(super) fn device_fails(&mut self) -> bool {
        let worked = self.device_works();
        if let Some(device) = &mut self.device {
            device.works = false;
        }
        worked
    }

    /// Nothing that is logged counts any more: what comes is logged on the device, if it works.
    pub(super) fn choose(&mut self) {
        self.on_device = self.device_works();
    }

    /// Another device is the member.
    pub(super) fn moves(
        &mut self,
        member: MemberIndex,
        device: &DeviceRecord,
        block_size: BlockSize,
    ) {
        self.starts[usize::from(member.0)] = area(device, block_size).0;
    }

    /// Whether the journal of another device is as long as those of the members need to be.
    pub(super) fn fits(&self, device: &DeviceRecord, block_size: BlockSize) -> bool {
        area(device, block_size).1 >= 2 * u64::from(self.half_blocks)
    }
}

/// Where the journal of a device begins, and how many blocks it has.
fn area(device: &DeviceRecord, block_size: BlockSize) -> (BlockIndex, u64) {
    let block_bytes = u64::from(block_size.bytes());
    let area = device.area(AreaKind::JOURNAL);
    area.map_or((BlockIndex(0), 0), |area| {
        let start = BlockIndex(area.offset_bytes / block_bytes);
        (start, area.length_bytes / block_bytes)
    })
}

fn half_blocks(blocks: u64, block_size: BlockSize) -> u32 {
    let ring_blocks = blocks.min(JOURNAL_BYTES_MAX / u64::from(block_size.bytes()));
    u32::try_from(ring_blocks / 2).expect("at most 32 MiB")
}
