//! The write-back setting: whether the stage of an array answers small writes before they are
//! placed.
//!
//! The stage is a ring on each member, behind the log in its journal area. Memory as long as the
//! ring of one member holds the contents too.

use spindles_block::SizeBytes;
use spindles_engine::{Policy, WriteBack as EngineWriteBack, WriteBackMode, WriteHole};
use spindles_format::{AreaKind, ArrayRecord, DeviceRecord, SharedAreas, StageLayout};
use spindles_layout::{Level, Redundancy};
use thiserror::Error;

/// The memory of a stage, unless the members have less room or a size is given.
const MEMORY_BYTES: u64 = 64 << 20;
/// The least memory.
pub const MEMORY_BYTES_MIN: u64 = 2 << 20;
/// The most memory: a journal area has 256 MiB at most, and the log needs a part of it.
pub const MEMORY_BYTES_MAX: u64 = 192 << 20;
/// The unit of the lengths of areas.
const UNIT_BYTES: u32 = 4096;
/// The journal area of a member is this part of the device.
const JOURNAL_PART: u64 = 64;

/// Which small writes the stage of an array takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteBack {
    /// None: the array has no stage.
    #[default]
    Off,
    /// The stage takes all parts of rows.
    On,
    /// The parts of rows that gain from it: under a steady load the rest is placed at once.
    Auto,
}

impl WriteBack {
    /// All settings.
    pub const ALL: [Self; 3] = [Self::Off, Self::On, Self::Auto];

    /// The word for it in commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Auto => "auto",
        }
    }

    /// Returns the setting of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Returns the setting of an array.
    pub(crate) const fn of(array: &ArrayRecord) -> Self {
        if !array.has_stage() {
            Self::Off
        } else if array.write_back_auto {
            Self::Auto
        } else {
            Self::On
        }
    }
}

/// A wanted stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The writes that it takes.
    pub mode: WriteBack,
    /// Its memory in bytes; `None` for the size that it has, or else the default.
    pub memory_bytes: Option<u64>,
}

/// Why an array can't have a stage, or not this one.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CantStage {
    /// Writes need no parity.
    #[error(
        "--write-back is for levels with parity, where a small write has to read before it is \
         answered: leave it out for {level}"
    )]
    NoParity {
        /// The level.
        level: &'static str,
    },
    /// A crash may leave parity wrong.
    #[error("--write-back needs --consistency journal, and the policy is {policy}")]
    WriteHole {
        /// The policy.
        policy: &'static str,
    },
    /// Members are arrays, or the array is a member of another.
    #[error("--write-back is for arrays of devices alone: leave it out where arrays nest")]
    Nested,
    /// The array has two maps.
    #[error("--write-back can't change while the array grows: let that come to its end first")]
    Growing,
    /// No stage has the wanted size.
    #[error(
        "--write-back-size {bytes}: give from {} to {}",
        SizeBytes(MEMORY_BYTES_MIN),
        SizeBytes(MEMORY_BYTES_MAX)
    )]
    Size {
        /// The size.
        bytes: SizeBytes,
    },
    /// The journal areas of members are too short.
    #[error(
        "the smallest member has room for a stage of {room}, and {needed} are needed: {}create the \
         array with --write-back on members of at least {device}",
        if room.0 < MEMORY_BYTES_MIN { "" } else { "give a smaller --write-back-size, or " }
    )]
    NoRoom {
        /// The most memory that the ring has room for.
        room: SizeBytes,
        /// The memory that is needed.
        needed: SizeBytes,
        /// The size of a device with enough room.
        device: SizeBytes,
    },
}

/// Checks that an array of this shape can have a stage.
pub(crate) fn check(level: &Level, policy: &Policy, is_nested: bool) -> Result<(), CantStage> {
    let Redundancy::Parity(_) = level.redundancy else {
        return Err(CantStage::NoParity { level: level.name });
    };
    if policy.write_hole != WriteHole::Closed {
        return Err(CantStage::WriteHole {
            policy: policy.name,
        });
    }
    if is_nested {
        return Err(CantStage::Nested);
    }
    Ok(())
}

/// Returns the length of the ring on each of these members, behind the log.
pub(crate) fn ring_bytes(
    shared: &SharedAreas,
    devices: &[DeviceRecord],
    memory_bytes: Option<u64>,
) -> Result<u32, CantStage> {
    ring_with(shared, devices, memory_bytes, |_| {
        shared.journal_bytes.into()
    })
}

/// Like `ring_bytes`. `log_bytes` returns the length of the log in front of a ring.
fn ring_with(
    shared: &SharedAreas,
    devices: &[DeviceRecord],
    memory_bytes: Option<u64>,
    log_bytes: impl Fn(u64) -> u64,
) -> Result<u32, CantStage> {
    let is_possible = |bytes: &u64| (MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(bytes);
    if let Some(bytes) = memory_bytes.filter(|bytes| !is_possible(bytes)) {
        return Err(CantStage::Size {
            bytes: SizeBytes(bytes),
        });
    }
    let room = StageLayout::room_bytes(devices, shared);
    let needed = memory_bytes.unwrap_or(MEMORY_BYTES_MIN);
    if u64::from(room) < needed {
        let area = needed + log_bytes(needed);
        return Err(CantStage::NoRoom {
            room: SizeBytes(room.into()),
            needed: SizeBytes(needed),
            device: SizeBytes((area * JOURNAL_PART).next_multiple_of(1 << 20)),
        });
    }
    let ring = memory_bytes.unwrap_or(MEMORY_BYTES.min(room.into()));
    let ring = u32::try_from(ring).expect("less than the room");
    Ok(ring.next_multiple_of(UNIT_BYTES).min(room))
}

/// Gives a new array its stage. Where members are small, the log and the stage share the area.
pub(crate) fn give(
    record: &mut ArrayRecord,
    devices: &[DeviceRecord],
    wanted: &Wanted,
) -> Result<(), CantStage> {
    let areas = devices.iter().map(|device| {
        let area = device.area(AreaKind::JOURNAL);
        area.map_or(0, |area| area.length_bytes)
    });
    let area = areas.min().unwrap_or(0).min(u64::from(u32::MAX));
    let area = u32::try_from(area).expect("it was limited") / UNIT_BYTES * UNIT_BYTES;
    let log = record.shared.journal_bytes;
    let mut shared = record.shared;
    shared.journal_bytes = log.min((area / 2).next_multiple_of(UNIT_BYTES));
    let log_bytes = |ring: u64| ring.min(SharedAreas::JOURNAL_BYTES_MAX.into());
    let ring = ring_with(&shared, devices, wanted.memory_bytes, log_bytes)?;
    record.shared.journal_bytes = log.min(area - ring);
    record.set_stage(ring);
    record.write_back_auto = wanted.mode == WriteBack::Auto;
    Ok(())
}

/// Returns the memory of an array's stage, in bytes; 0 without one.
#[must_use]
pub fn memory_bytes(array: &ArrayRecord) -> u64 {
    u64::from(array.shared.stage_bytes)
}

/// Returns the engine's use of the stage of an array. A stage that drains takes nothing, and places
/// all staged blocks.
pub(crate) fn of_engine(array: &ArrayRecord, drains: bool) -> EngineWriteBack {
    if !array.has_stage() {
        return EngineWriteBack::OFF;
    }
    let blocks = memory_bytes(array) / u64::from(array.block_size.bytes());
    let mode = match WriteBack::of(array) {
        _ if drains => WriteBackMode::Off,
        WriteBack::Off => WriteBackMode::Off,
        WriteBack::On => WriteBackMode::On,
        WriteBack::Auto => WriteBackMode::Auto,
    };
    EngineWriteBack {
        mode,
        memory_blocks: u32::try_from(blocks).expect("a ring is shorter than 256 MiB"),
    }
}
