//! Where the journals lie: each on its member, or all on a device of their own until that fails.

use crate::config::Persistence;
use alloc::vec::Vec;
use spindles_block::{BlockIndex, BlockSize, MEMBERS_MAX, MemberIndex};
use spindles_format::{AreaKind, DeviceRecord};

/// The index under which the driver attaches the journal's own device: beyond all positions.
pub const JOURNAL_DEVICE: MemberIndex = MemberIndex(MEMBERS_MAX + 1);

/// The maximum size of each journal on a device of its own. A replay reads the whole journal.
const DEVICE_RING_BYTES_MAX: u64 = 32 << 20;

/// The journal's own device, which holds the journals of all positions one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    first: BlockIndex,
    segment_blocks: u32,
    works: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Placement {
    /// The first block of the journal on each member; below, the length of a segment.
    starts: Vec<BlockIndex>,
    segment_blocks: u32,
    device: Option<Device>,
    /// True if the batches that count lie on the device.
    on_device: bool,
}

impl Placement {
    /// Finds the placement of the log that counts. Without persistence there is no room for one.
    pub(super) fn new(persistence: Option<&Persistence>, block_size: BlockSize) -> Self {
        let Some(persistence) = persistence else {
            return Self {
                starts: Vec::new(),
                segment_blocks: 0,
                device: None,
                on_device: false,
            };
        };
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

    /// Returns the placement of journals that begin at block 0 of their members. If `on_device`, a
    /// device of its own holds the log.
    #[cfg(test)]
    pub(super) fn of(members: u8, segment_blocks: u32, on_device: bool) -> Self {
        Self {
            starts: alloc::vec![BlockIndex(0); usize::from(members)],
            segment_blocks,
            device: on_device.then_some(Device {
                first: BlockIndex(128),
                segment_blocks,
                works: true,
            }),
            on_device,
        }
    }

    /// Blocks of one journal segment, at the current placement.
    pub(super) fn segment_blocks(&self) -> u32 {
        match self.device {
            Some(device) if self.on_device => device.segment_blocks,
            _ => self.segment_blocks,
        }
    }

    /// Blocks of one journal segment, at the placement with the smaller one.
    pub(super) fn segment_blocks_min(&self) -> u32 {
        let on_device = self.device.map(|device| device.segment_blocks);
        on_device.map_or(self.segment_blocks, |segment| {
            segment.min(self.segment_blocks)
        })
    }

    /// Returns the device that holds the journal of `member`, and the block at which it begins.
    pub(super) fn place(&self, member: MemberIndex) -> (MemberIndex, BlockIndex) {
        match self.device {
            Some(device) if self.on_device => {
                let before = u64::from(member.0) * 2 * u64::from(device.segment_blocks);
                (JOURNAL_DEVICE, device.first.plus(before))
            }
            _ => (member, self.starts[usize::from(member.0)]),
        }
    }

    /// Returns true if the batches that count lie on a device of their own.
    pub(super) fn is_device(&self) -> bool {
        self.on_device
    }

    /// Returns true if the batches that count lie on a device of their own that failed.
    pub(super) fn is_lost(&self) -> bool {
        self.on_device && !self.device_works()
    }

    /// Returns true if there is a device of its own, and it works.
    pub(super) fn device_works(&self) -> bool {
        self.device.is_some_and(|device| device.works)
    }

    /// Marks the device as failed. Returns true if it worked before.
    pub(super) fn device_fails(&mut self) -> bool {
        let worked = self.device_works();
        if let Some(device) = &mut self.device {
            device.works = false;
        }
        worked
    }

    /// Chooses the placement of a new log: the device if it works. Earlier batches no longer count.
    pub(super) fn choose(&mut self) {
        self.on_device = self.device_works();
    }

    /// Takes the journal's start from `device`, which takes the position `member`.
    pub(super) fn moves(
        &mut self,
        member: MemberIndex,
        device: &DeviceRecord,
        block_size: BlockSize,
    ) {
        self.starts[usize::from(member.0)] = start(device, block_size);
    }
}

/// Returns where the journal of a member begins.
fn start(device: &DeviceRecord, block_size: BlockSize) -> BlockIndex {
    let area = device.area(AreaKind::JOURNAL);
    BlockIndex(area.map_or(0, |area| area.offset_bytes / u64::from(block_size.bytes())))
}

fn device_segment_blocks(blocks: u64, block_size: BlockSize) -> u32 {
    let ring_blocks = blocks.min(DEVICE_RING_BYTES_MAX / u64::from(block_size.bytes()));
    u32::try_from(ring_blocks / 2).expect("at most 32 MiB")
}
