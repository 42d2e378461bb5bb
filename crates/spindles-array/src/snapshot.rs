//! The current state of a target's arrays, for monitoring.

use spindles_block::{MemberIndex, MemberSet};
use spindles_device::DeviceCounters;
use spindles_engine::{Member, MemberStatus, Status};
use spindles_format::Uuid;

/// The current state of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySnapshot {
    /// Its name.
    pub name: String,
    /// Its identity; `Uuid::NIL` for one without superblocks.
    pub uuid: Uuid,
    /// Its size in bytes.
    pub bytes: u64,
    /// The block size in bytes.
    pub block_bytes: u32,
    /// When it was last scrubbed, in seconds since 1970; 0 if unknown.
    pub last_scrub_s: u64,
    /// Its state.
    pub status: Status,
    /// The node in each position, in order, then the device that a member is being copied to, if
    /// any. `None` for a released device.
    pub members: Vec<Option<MemberSnapshot>>,
    /// The member being copied to another device.
    pub replacing: Option<MemberIndex>,
    /// The journal device.
    pub journal: Option<DeviceSnapshot>,
}

/// The node in a position of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberSnapshot {
    /// A device. The member may be out.
    Device(Box<DeviceSnapshot>),
    /// Another array.
    Array,
}

/// The current state of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSnapshot {
    /// The device name as given.
    pub name: String,
    /// Its I/O counters since it was opened.
    pub counters: DeviceCounters,
    /// Free bytes of its file system. `Some` only while writes find no space there.
    pub left_bytes: Option<u64>,
}

impl ArraySnapshot {
    /// Returns the member being copied, and the device that it is copied to.
    #[must_use]
    pub fn replacement(&self) -> Option<(MemberIndex, &DeviceSnapshot)> {
        let position = u8::try_from(self.status.members.len()).ok()?;
        self.replacing.zip(self.device(MemberIndex(position)))
    }

    /// Returns the device in a position; `None` for an array or an empty position.
    #[must_use]
    pub fn device(&self, member: MemberIndex) -> Option<&DeviceSnapshot> {
        match self.members.get(usize::from(member.0))? {
            Some(MemberSnapshot::Device(device)) => Some(device),
            Some(MemberSnapshot::Array) | None => None,
        }
    }

    /// Returns true if a device has a position and is not out.
    #[must_use]
    pub fn uses(&self, device: &str) -> bool {
        let is_in = |status: &&MemberStatus| !matches!(status.state, Member::Missing { .. });
        let mut members = self.status.members.iter().filter(is_in);
        members.any(|member| {
            self.device(member.member)
                .is_some_and(|own| own.name == device)
        })
    }

    /// Returns the positions without an active device, including unfilled ones.
    #[must_use]
    pub fn lacking(&self) -> MemberSet {
        let lacking = (self.status.members.iter()).filter(|member| member.state != Member::Active);
        lacking.map(|lacking| lacking.member).collect()
    }

    /// Returns the positions of missing members.
    #[must_use]
    pub fn missing(&self) -> MemberSet {
        let is_missing = |state| matches!(state, Member::Missing { .. });
        let missing = (self.status.members.iter()).filter(|member| is_missing(member.state));
        missing.map(|missing| missing.member).collect()
    }

    /// Returns the number of lost bytes.
    #[must_use]
    pub fn lost_bytes(&self) -> u64 {
        self.status.lost_blocks * u64::from(self.block_bytes)
    }
}
