//! An assembled array, or why it can't be assembled: every refusal names its device.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use spindles_block::{MemberIndex, MemberSet, SizeBytes};

use crate::{ArrayRecord, DecodeError, DeviceRecord, MemberState, PAST_SESSIONS_MAX, Uuid};

/// Why a device can't take part while the others can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Neither slot holds a good superblock.
    Corrupt(DecodeError),
    /// The device is shorter than when it became a member.
    Truncated {
        /// Its length now.
        bytes: u64,
        /// Its length then.
        expected_bytes: u64,
    },
    /// The array went on without it.
    Stale {
        /// The device's generation.
        generation: u64,
        /// The array's.
        newest: u64,
        /// The generation since which the array knows that it is missing. `None` if the array
        /// counted on it: the device went back in time, or the last write before a crash didn't
        /// reach it.
        out_since: Option<u64>,
    },
    /// The array went on without it and knows what it missed: resyncing the dirty regions brings it
    /// up to date.
    Returning {
        /// The first generation that it missed.
        since: u64,
        /// True if an administrator put it out. It then comes back only on request.
        held_out: bool,
    },
    /// The array has another device in its position.
    Replaced,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(error) => error.fmt(f),
            Self::Truncated {
                bytes,
                expected_bytes,
            } => write!(
                f,
                "truncated: it has {} and had {had} when it became a member; make it {had} again, \
                 or rebuild the array onto another device",
                SizeBytes(*bytes),
                had = SizeBytes(*expected_bytes)
            ),
            Self::Stale {
                generation,
                newest,
                out_since: Some(since),
            } => write!(
                f,
                "stale: the array goes on without it since generation {since} and is at {newest}, \
                 it has generation {generation}; a rebuild can fill it as a new device, with \
                 --onto and --force"
            ),
            Self::Stale {
                generation,
                newest,
                out_since: None,
            } => write!(
                f,
                "stale: it has generation {generation} and the others are at {newest}: an old \
                 copy, or a device that went back in time"
            ),
            Self::Returning {
                since,
                held_out: true,
            } => write!(
                f,
                "a command put it out, in generation {since}: it gets what it missed when it is \
                 added again"
            ),
            Self::Returning {
                since,
                held_out: false,
            } => write!(
                f,
                "stale: the array goes on without it since generation {since}, and knows what it \
                 missed: it gets that by a rebuild, or when the array is used"
            ),
            Self::Replaced => f.write_str(
                "replaced: the array has another device in its position, and what it holds is of \
                 no use to it; wipe it to make it a plain device",
            ),
        }
    }
}

/// A device that can't take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Index of the device among those given.
    pub found: usize,
    /// Its name.
    pub name: String,
    /// Its position in the array; `None` if its superblock could not be read.
    pub member: Option<MemberIndex>,
    /// The reason.
    pub reason: Reason,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reason)
    }
}

/// An assembled array. The level decides whether it survives the missing members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// The current record.
    pub array: ArrayRecord,
    /// By position: the index of its device among those given.
    pub devices: Vec<Option<usize>>,
    /// By position: that device's own record.
    pub records: Vec<Option<DeviceRecord>>,
    /// Positions without a device. These exceed the record's missing members if devices were not
    /// given or were refused.
    pub missing: MemberSet,
    /// Members that missed the last superblock write. Before anything else is written, `array` must
    /// be durable on them: a member may never fall two generations behind.
    pub lagging: MemberSet,
    /// Devices that can't take part, and why.
    pub refused: Vec<Refusal>,
    /// True if a feature in use forbids this version to write.
    pub read_only: bool,
}

impl Assembly {
    /// Members that the record calls active and that take no part. The array counted on them when
    /// it was last written.
    #[must_use]
    pub fn away(&self) -> MemberSet {
        let active = |member: &MemberIndex| {
            self.array.member[usize::from(member.0)].state == MemberState::Active
        };
        self.missing.iter().filter(active).collect()
    }

    /// Returns the members of `away` for which no device was given. Such a member may hold a
    /// history of its own. A device refused after its superblock was read has a known history.
    #[must_use]
    pub fn unheard_of(&self) -> MemberSet {
        let judged = self.refused.iter().filter_map(|refusal| refusal.member);
        self.away().difference(judged.collect())
    }

    /// Returns the number that identifies an opening: `drawn`, mixed with the state found. Openings
    /// of different states differ even if all draw the same number.
    #[must_use]
    pub fn nonce(&self, drawn: u64) -> u64 {
        let found = [
            self.array.session,
            self.array.generation,
            self.missing.bits(),
            self.lagging.bits(),
        ];
        found.into_iter().fold(drawn, |nonce, what| {
            // Odd, so the multiplication loses no information: 2^64 divided by the golden ratio.
            (nonce ^ what)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        })
    }
}

/// Devices that share one history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Half {
    /// The devices.
    pub devices: Vec<String>,
    /// Their last superblock write, in seconds since 1970; 0 if the time was not known.
    pub last_written_s: u64,
}

/// Why no array can be put together of the devices given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssembleError {
    /// None were given.
    NoDevices,
    /// A device has no Spindles superblock.
    NotAMember {
        /// Its name.
        name: String,
    },
    /// A device's superblock is too new.
    Unsupported {
        /// Its name.
        name: String,
        /// The unsupported version or features.
        error: DecodeError,
    },
    /// A device belongs to another array.
    Foreign {
        /// Its name.
        name: String,
        /// The name of its array.
        array: String,
        /// The identity of its array.
        uuid: Uuid,
        /// The name of the array that most of the given devices belong to.
        expected: String,
        /// The identity of that array.
        expected_uuid: Uuid,
    },
    /// Two devices are the same member: the same device twice, or a copy.
    Duplicate {
        /// One device.
        first: String,
        /// The other device.
        second: String,
        /// The position of both.
        member: MemberIndex,
        /// The array's name.
        array: String,
    },
    /// Two halves went on without each other.
    SplitBrain {
        /// One half.
        one: Half,
        /// The other half.
        other: Half,
        /// The last common generation. `None` if they remember none: then one side may merely be
        /// old.
        parted: Option<u64>,
    },
    /// Every device was refused.
    NothingLeft {
        /// Each device with its reason.
        refused: Vec<Refusal>,
    },
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevices => f.write_str("no devices were given"),
            Self::NotAMember { name } => write!(
                f,
                "{name} has no Spindles superblock; leave it out, or check that it is the device \
                 you mean"
            ),
            Self::Unsupported { name, error } => {
                write!(f, "{name}: {error}; use a newer version of Spindles")
            }
            Self::Foreign {
                name,
                array,
                uuid,
                expected,
                expected_uuid,
            } => write!(
                f,
                "{name} belongs to another array, '{array}' ({uuid}); the others belong to \
                 '{expected}' ({expected_uuid}); give the devices of one array"
            ),
            Self::Duplicate {
                first,
                second,
                member,
                array,
            } => write!(
                f,
                "{first} and {second} are both member {member} of array '{array}': one is a copy \
                 of the other, or the same device under another name; leave one out: move \
                 a copy elsewhere, or give the devices in place of the name"
            ),
            Self::SplitBrain {
                one,
                other,
                parted: Some(_),
            } => write_split_brain(f, one, other),
            Self::SplitBrain {
                one,
                other,
                parted: None,
            } => write_unrelated_halves(f, one, other),
            Self::NothingLeft { refused } => {
                f.write_str("no device can be used")?;
                refused
                    .iter()
                    .try_for_each(|refusal| write!(f, "; {refusal}"))
            }
        }
    }
}

/// Writes that both halves went on without each other, and how to keep one.
fn write_split_brain(f: &mut fmt::Formatter<'_>, one: &Half, other: &Half) -> fmt::Result {
    let [one, other] = [one, other].map(|half| half.devices.join(", "));
    write!(
        f,
        "split brain: {one} went on without {other}, and the other way round; both hold writes \
         that the other doesn't have; decide which half to keep, and give only its devices"
    )
}

/// Writes that two halves have no common generation, and how to keep one.
fn write_unrelated_halves(f: &mut fmt::Formatter<'_>, one: &Half, other: &Half) -> fmt::Result {
    let [one, other] = [one, other].map(|half| half.devices.join(", "));
    write!(
        f,
        "{one} and {other} have no record of each other: they parted longer ago than the \
         {PAST_SESSIONS_MAX} openings before the last that each remembers, so either one side is \
         merely old, or each went on without the other; decide which side to keep, as a rule the \
         one written last, and give only its devices; when you are sure, wipe those of the other \
         side"
    )
}

impl core::error::Error for AssembleError {}
