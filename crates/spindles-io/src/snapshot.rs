//! The arrays of a target as they are now, for those who watch over them.

use crate::DeviceCounters;
use spindles_block::{MemberIndex, MemberSet};
use spindles_engine::{Member, MemberStatus, Status};
use spindles_format::Uuid;

/// An array as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySnapshot {
    /// Its name.
    pub name: String,
    /// Its identity; `Uuid::NIL` for one without superblocks.
    pub uuid: Uuid,
    /// Its size in bytes.
    pub bytes: u64,
    /// The length of its blocks in bytes.
    pub block_bytes: u32,
    /// When it was last scrubbed, in seconds since 1970; 0 where that is not known.
    pub last_scrub_s: u64,
    /// Its state.
    pub status: Status,
    /// The node in each position, in their order, and after them the device that a member is copied
    /// onto; nothing where a device was let go.
    pub members: Vec<Option<MemberSnapshot>>,
    /// The member that is being copied onto another device.
    pub replacing: Option<MemberIndex>,
    /// The device of its own that it has for its journal.
    pub journal: Option<DeviceSnapshot>,
}

/// What is in a position of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberSnapshot {
    /// A device, be it out.
    Device(Box<DeviceSnapshot>),
    /// Another array.
    Array,
}

/// A device as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSnapshot {
    /// As whoever gave it called it.
    pub name: String,
    /// What it was asked since it was opened.
    pub counters: DeviceCounters,
    /// Bytes that are left on its file system, if a write found no space there since it was opened.
    pub left_bytes: Option<u64>,
}

impl ArraySnapshot {
    /// The member that is being copied onto another device, and that device.
    #[must_use]
    pub fn replacement(&self) -> Option<(MemberIndex, &DeviceSnapshot)> {
        let beside = u8::try_from(self.status.members.len()).ok()?;
        self.replacing.zip(self.device(MemberIndex(beside)))
    }

    /// The device in a position, where it is one.
    #[must_use]
    pub fn device(&self, member: MemberIndex) -> Option<&DeviceSnapshot> {
        match self.members.get(usize::from(member.0))? {
            Some(MemberSnapshot::Device(device)) => Some(device),
            Some(MemberSnapshot::Array) | None => None,
        }
    }

    /// Whether a device has a position, and is not out.
    #[must_use]
    pub fn uses(&self, device: &str) -> bool {
        let is_in = |it: &&MemberStatus| !matches!(it.state, Member::Missing { .. });
        let mut members = self.status.members.iter().filter(is_in);
        members.any(|it| self.device(it.member).is_some_and(|own| own.name == device))
    }

    /// The positions that lack a device which counts, or have one that is not filled yet.
    #[must_use]
    pub fn lacking(&self) -> MemberSet {
        let lacking = (self.status.members.iter()).filter(|it| it.state != Member::Active);
        lacking.map(|it| it.member).collect()
    }

    /// The positions that lack a device which counts.
    #[must_use]
    pub fn missing(&self) -> MemberSet {
        let is_missing = |state| matches!(state, Member::Missing { .. });
        let missing = (self.status.members.iter()).filter(|it| is_missing(it.state));
        missing.map(|it| it.member).collect()
    }

    /// How much of it is lost, in bytes.
    #[must_use]
    pub fn lost_bytes(&self) -> u64 {
        self.status.lost_blocks * u64::from(self.block_bytes)
    }
}
