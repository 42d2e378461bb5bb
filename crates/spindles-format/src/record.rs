//! What all members of an array say alike.

use crate::{ChecksumKind, Entries, GrowthRecord, SharedAreas, Text};
use core::fmt;
use spindles_block::{BlockIndex, BlockSize, MEMBERS_MAX, MemberIndex, MemberSet};

/// An identity: random bytes, given by the caller.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// No identity; never valid on a member.
    pub const NIL: Self = Self([0; 16]);

    /// A version 4 identity of random bytes.
    #[must_use]
    pub const fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Features in use, one bit each, by what a reader must do that doesn't know a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Carry on; a writer that doesn't know the bit clears it.
    pub ignorable: u64,
    /// Read, never write.
    pub read_only: u64,
    /// Refuse the member.
    pub refuse: u64,
}

impl Features {
    /// `refuse`: the array has regions. What was never written is not what the members hold, and a
    /// writer that marks nothing makes the bitmaps lie.
    pub const REGIONS: u64 = 1 << 0;

    /// `refuse`: a member is being rebuilt: active for writes, and good for reads below its mark
    /// only.
    pub const REBUILDING: u64 = 1 << 1;

    /// `refuse`: blocks have checksums. A writer that keeps none makes them lie.
    pub const CHECKSUMS: u64 = 1 << 2;

    /// `refuse`: the array has a list of bad blocks. What is in it must not be read; and the journal
    /// speaks of writes without holding their data.
    pub const BAD_BLOCKS: u64 = 1 << 3;

    /// `refuse`: the array has a device of its own for its journal. What was in flight may be told
    /// there, and nowhere on the members.
    pub const JOURNAL_DEVICE: u64 = 1 << 4;

    /// `refuse`: the array grows, or has grown. Two maps hold, and regions have other bits than one
    /// would think.
    pub const GROWTH: u64 = 1 << 8;

    /// The features that this version knows.
    pub const KNOWN: Self = Self {
        ignorable: 0,
        read_only: 0,
        refuse: Self::REGIONS
            | Self::REBUILDING
            | Self::CHECKSUMS
            | Self::BAD_BLOCKS
            | Self::JOURNAL_DEVICE
            | Self::GROWTH,
    };

    /// Whether a feature is in use that this version must not write beside.
    #[must_use]
    pub const fn must_read_only(self) -> bool {
        self.read_only & !Self::KNOWN.read_only != 0
    }
}

/// The state of a member, as the array's record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Holds correct data for its position.
    Active,
    /// No usable device in this position.
    Missing {
        /// The first generation written without it.
        out_since: u64,
        /// An administrator put it out: it comes back when it is asked to, and not by itself.
        held_out: bool,
    },
    /// A device that is being filled: every write goes to it, and superblocks too.
    Rebuilding {
        /// Of the groups whose blocks lie below this block of the array it holds correct data,
        /// durably.
        mark: BlockIndex,
        /// The first generation that the device missed, if it is brought up to date by the regions
        /// that are marked dirty since then; 0 if all of it is filled.
        missed_since: u64,
    },
}

impl MemberState {
    /// Whether the device takes part: whatever is written goes to it as well.
    #[must_use]
    pub const fn takes_part(self) -> bool {
        match self {
            Self::Active | Self::Rebuilding { .. } => true,
            Self::Missing { .. } => false,
        }
    }
}

/// What the array's record says of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// The device in this position, or last in it. A device that joins anew gets a new identity.
    pub device_uuid: Uuid,
    /// The length of its data area, in blocks of the array.
    pub data_blocks: u64,
    /// Whether it is part of the array.
    pub state: MemberState,
}

impl MemberRecord {
    /// For positions that the array doesn't have.
    pub const NONE: Self = Self {
        device_uuid: Uuid::NIL,
        data_blocks: 0,
        state: MemberState::Active,
    };
}

/// Which part of the members' journals counts when an array is opened that was not closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalRecord {
    /// Batches with a lower sequence number are done with. 0: nothing is journaled, redundancy may
    /// disagree with data anywhere.
    pub tail: u64,
    /// The nonce of the batches that count.
    pub nonce: u64,
    /// The device of its own that the array was given for its journal; `Uuid::NIL` for none. Goes
    /// with `Features::JOURNAL_DEVICE`.
    pub device: Uuid,
    /// Whether the batches that count lie there, and not on the members.
    pub on_device: bool,
}

/// Openings that a record remembers beside its own.
pub const PAST_SESSIONS_MAX: usize = 7;

/// An opening of the array that wrote superblocks, and the last generation of it that others went on
/// from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PastSession {
    /// What the opening drew; 0 for the creation of the array.
    pub nonce: u64,
    /// The last of its generations that counted; 0 where there is no such opening.
    pub generation: u64,
}

/// What all members of an array say alike. Its clone allocates nothing.
#[derive(Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the superblock by itself"
)]
pub struct ArrayRecord {
    /// The array's identity.
    pub uuid: Uuid,
    /// The array that this one is a member of; `Uuid::NIL` for one that stands for itself.
    pub parent: Uuid,
    /// The array's name, for people.
    pub name: Text<64>,
    /// When it was created, in seconds since 1970; for people.
    pub created_s: u64,
    /// When superblocks were last written, in seconds since 1970; 0 where nobody knew the time. For people.
    pub last_written_s: u64,
    /// When a scrub last came to its end, in seconds since 1970; 0 for never. For people.
    pub last_scrub_s: u64,
    /// Blocks of members, and rows of blocks that disagree, that the last scrub found wrong and could not
    /// repair; of one that was interrupted at least those before it.
    pub scrub_left_blocks: u64,
    /// Grows with each superblock write; at least 1.
    pub generation: u64,
    /// Drawn by the opening that wrote this; 0 for the creation. With the generation it tells this
    /// record from every other.
    pub session: u64,
    /// The openings before that one, the last first, as far as there is room.
    pub past: [PastSession; PAST_SESSIONS_MAX],
    /// The array's block.
    pub block_size: BlockSize,
    /// The level's name.
    pub level: Text<16>,
    /// The layout's name; empty where the level has only one.
    pub layout: Text<32>,
    /// The chunk size.
    pub chunk_blocks: u32,
    /// Redundancy groups in a region, a power of two; 0 for an array without bitmaps. Goes with
    /// `Features::REGIONS`.
    pub region_groups: u32,
    /// How many members the array has, missing ones included.
    pub members: u8,
    /// Whether data and redundancy are known to agree: closed in order, or never written since.
    pub clean: bool,
    /// Whether it may be written without being asked twice while members are away that could have gone
    /// on alone.
    pub degraded_writes: bool,
    /// The consistency policy's name.
    pub consistency: Text<16>,
    /// Which part of the journals counts.
    pub journal: JournalRecord,
    /// Where a scrub goes on that was interrupted, as a block of the array; 0 for none.
    pub scrub_mark: BlockIndex,
    /// How far it has grown, and where its regions are. Goes with `Features::GROWTH`.
    pub growth: GrowthRecord,
    /// How blocks are summed up. Goes with `Features::CHECKSUMS`.
    pub checksum: ChecksumKind,
    /// Whether the sums of rows are kept beside the checksums of parity. Goes with checksums.
    pub row_sums: bool,
    /// Whether the list of bad blocks may have entries: a part of it that nobody has any more is lost only
    /// then. Goes with `Features::BAD_BLOCKS`.
    pub bad_blocks_listed: bool,
    /// How much of the areas is used that all members use alike.
    pub shared: SharedAreas,
    /// Features in use.
    pub features: Features,
    /// The first `members` of these count; the others are `MemberRecord::NONE`.
    pub member: [MemberRecord; MEMBERS_MAX as usize],
}

impl fmt::Debug for ArrayRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayRecord")
            .field("uuid", &self.uuid)
            .field("name", &self.name)
            .field("generation", &self.generation)
            .field("session", &self.session)
            .field("level", &self.level)
            .field("clean", &self.clean)
            .field("features", &self.features)
            .field("members", &self.members())
            .finish_non_exhaustive()
    }
}

impl ArrayRecord {
    /// The members there are.
    #[must_use]
    pub fn members(&self) -> &[MemberRecord] {
        &self.member[..usize::from(self.members)]
    }

    /// Whether the array keeps a list of bad blocks.
    #[must_use]
    pub const fn has_bad_blocks(&self) -> bool {
        self.features.refuse & Features::BAD_BLOCKS != 0
    }

    /// What the checksum areas have for each block, where blocks have checksums.
    #[must_use]
    pub const fn entries(&self) -> Entries {
        if self.row_sums {
            Entries::WithRowSums
        } else {
            Entries::Checksums
        }
    }

    /// How many pages the list of bad blocks has; 0 for an array without.
    #[must_use]
    pub fn bad_blocks_pages(&self) -> u32 {
        if self.has_bad_blocks() {
            self.shared.bad_blocks_pages()
        } else {
            0
        }
    }

    /// Whether a device that had not held anything of the array before is being filled there.
    #[must_use]
    pub fn was_never_full(&self, member: MemberIndex) -> bool {
        let state = self.member[usize::from(member.0)].state;
        matches!(
            state,
            MemberState::Rebuilding {
                missed_since: 0,
                ..
            }
        )
    }

    /// Which members the record says are missing.
    #[must_use]
    pub fn missing(&self) -> MemberSet {
        (0..self.members)
            .map(MemberIndex)
            .filter(|member| !self.member[usize::from(member.0)].state.takes_part())
            .collect()
    }

    /// Which members the record says are being rebuilt.
    #[must_use]
    pub fn rebuilding(&self) -> MemberSet {
        (0..self.members)
            .map(MemberIndex)
            .filter(|member| {
                let state = self.member[usize::from(member.0)].state;
                matches!(state, MemberState::Rebuilding { .. })
            })
            .collect()
    }

    /// An opening that drew `nonce` is about to write its first record: this one becomes the past.
    pub fn begin_session(&mut self, nonce: u64) {
        if self.session == nonce {
            return;
        }
        self.past.rotate_right(1);
        self.past[0] = PastSession {
            nonce: self.session,
            generation: self.generation,
        };
        self.session = nonce;
    }

    /// Whether this is the record of a member of another array that was being made and was never opened:
    /// what lies in it is not its contents.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.parent != Uuid::NIL && self.generation == 1
    }

    /// The last generations of the openings that led to this record, itself included.
    fn sessions(&self) -> impl Iterator<Item = PastSession> + '_ {
        let own = PastSession {
            nonce: self.session,
            generation: self.generation,
        };
        let past = self.past.iter().filter(|past| past.generation > 0);
        core::iter::once(own).chain(past.copied())
    }

    /// Whether this record is `other`, or follows it. `false` as well where that lies further back
    /// than the record remembers.
    #[must_use]
    pub fn follows(&self, other: &Self) -> bool {
        self.sessions()
            .any(|past| past.nonce == other.session && past.generation >= other.generation)
    }

    /// The last generation that both records follow; `None` where that lies further back than they
    /// remember.
    #[must_use]
    pub fn common_generation(&self, other: &Self) -> Option<u64> {
        let common = |past: PastSession| {
            let same = other.sessions().find(|theirs| theirs.nonce == past.nonce)?;
            Some(same.generation.min(past.generation))
        };
        self.sessions().filter_map(common).max()
    }

    /// Whether it says that the array grows, and no superblock does yet.
    #[must_use]
    pub const fn growth_is_planned(&self) -> bool {
        self.growth.older.is_some() && self.features.refuse & Features::GROWTH == 0
    }

    /// Sets or clears the feature that goes with growing.
    pub fn note_growth(&mut self) {
        self.features.refuse &= !Features::GROWTH;
        if self.growth.is_used() {
            self.features.refuse |= Features::GROWTH;
        }
    }

    /// Sets or clears the feature that goes with a device of its own for the journal.
    pub fn note_journal_device(&mut self) {
        self.features.refuse &= !Features::JOURNAL_DEVICE;
        if self.journal.device != Uuid::NIL {
            self.features.refuse |= Features::JOURNAL_DEVICE;
        }
    }

    /// Sets or clears the feature that goes with members that are being rebuilt.
    pub fn note_rebuilding(&mut self) {
        self.features.refuse &= !Features::REBUILDING;
        if !self.rebuilding().is_empty() {
            self.features.refuse |= Features::REBUILDING;
        }
    }
}
