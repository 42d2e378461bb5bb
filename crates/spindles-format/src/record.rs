//! The part of a superblock that is the same on all members of an array.

use crate::{ChecksumKind, Entries, GrowthRecord, SharedAreas, Text, Uuid};
use core::fmt;
use spindles_block::{BlockIndex, BlockSize, MEMBERS_MAX, MemberIndex, MemberSet};

/// Features in use, one bit each, grouped by how a reader that doesn't know a bit must act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Carry on. A writer that doesn't know the bit clears it.
    pub ignorable: u64,
    /// Read, never write.
    pub read_only: u64,
    /// Refuse the member.
    pub refuse: u64,
}

impl Features {
    /// `refuse`: the array has regions. Unwritten regions read as zeros, whatever the members hold,
    /// and a writer that marks nothing makes the bitmaps wrong.
    pub const REGIONS: u64 = 1 << 0;

    /// `refuse`: a member is being rebuilt. It takes every write, but is good for reads only below
    /// its mark.
    pub const REBUILDING: u64 = 1 << 1;

    /// `refuse`: blocks have checksums. A writer that keeps none makes them wrong.
    pub const CHECKSUMS: u64 = 1 << 2;

    /// `refuse`: the array has a list of bad blocks. Blocks listed there must not be read, and the
    /// journal may list writes without their data.
    pub const BAD_BLOCKS: u64 = 1 << 3;

    /// `refuse`: the array has a journal device. In-flight writes may be recorded there only, not
    /// on the members.
    pub const JOURNAL_DEVICE: u64 = 1 << 4;

    /// `refuse`: the array is growing or has grown. Two maps are in use, and regions have other
    /// bits than their number suggests.
    pub const GROWTH: u64 = 1 << 8;

    /// `refuse`: the array has a stage. Newer contents of blocks may lie there only.
    pub const STAGE: u64 = 1 << 5;

    /// The features that this version knows.
    pub const KNOWN: Self = Self {
        ignorable: 0,
        read_only: 0,
        refuse: Self::REGIONS
            | Self::REBUILDING
            | Self::CHECKSUMS
            | Self::BAD_BLOCKS
            | Self::JOURNAL_DEVICE
            | Self::STAGE
            | Self::GROWTH,
    };

    /// Returns true if an unknown feature in use forbids this version to write.
    #[must_use]
    pub const fn must_read_only(self) -> bool {
        self.read_only & !Self::KNOWN.read_only != 0
    }
}

/// The state of a member in the array's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Holds correct data for its position.
    Active,
    /// No usable device in this position.
    Missing {
        /// The first generation written without it.
        out_since: u64,
        /// True if an administrator put it out. It then comes back only on request.
        held_out: bool,
    },
    /// A device during a rebuild. The device takes every write, superblocks included.
    Rebuilding {
        /// It durably holds correct data of the groups whose blocks lie below this block of the
        /// array.
        mark: BlockIndex,
        /// The first generation that the device missed, if only the regions dirty since then are
        /// resynced; 0 if all of it is filled.
        missed_since: u64,
    },
}

impl MemberState {
    /// Returns true if the device takes part: every write goes to it too.
    #[must_use]
    pub const fn takes_part(self) -> bool {
        match self {
            Self::Active | Self::Rebuilding { .. } => true,
            Self::Missing { .. } => false,
        }
    }
}

/// The array's record of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// The device in this position, or the last one in it. A device that joins again gets a new
    /// identity.
    pub device_uuid: Uuid,
    /// The length of its data area, in blocks of the array.
    pub data_blocks: u64,
    /// Its state.
    pub state: MemberState,
}

impl MemberRecord {
    /// The record of positions that the array doesn't have.
    pub const NONE: Self = Self {
        device_uuid: Uuid::NIL,
        data_blocks: 0,
        state: MemberState::Active,
    };
}

/// The part of the members' journals that counts when an array that was not closed is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalRecord {
    /// Batches with a lower sequence number are done. 0: nothing is journaled, and redundancy may
    /// disagree with data anywhere.
    pub tail: u64,
    /// The nonce of the batches that count.
    pub nonce: u64,
    /// The array's journal device; `Uuid::NIL` for none. Goes with `Features::JOURNAL_DEVICE`.
    pub device: Uuid,
    /// True if the batches that count lie on that device and not on the members.
    pub on_device: bool,
}

/// The number of openings that a record remembers besides its own.
pub const PAST_SESSIONS_MAX: usize = 7;

/// An opening of the array that wrote superblocks, and its last generation that others went on
/// from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PastSession {
    /// The number drawn by the opening; 0 for the creation of the array.
    pub nonce: u64,
    /// The last generation of the opening that counted; 0 if there is no such opening.
    pub generation: u64,
}

/// The part of a superblock that is the same on all members of an array. Cloning allocates nothing.
#[derive(Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the superblock by itself"
)]
pub struct ArrayRecord {
    /// The array's identity.
    pub uuid: Uuid,
    /// The array that this one is a member of; `Uuid::NIL` for a top-level array.
    pub parent: Uuid,
    /// The array's name, for people.
    pub name: Text<64>,
    /// When it was created, in seconds since 1970; for people.
    pub created_s: u64,
    /// When superblocks were last written, in seconds since 1970; 0 if the time was not known. For
    /// people.
    pub last_written_s: u64,
    /// When a scrub last finished, in seconds since 1970; 0 for never. For people.
    pub last_scrub_s: u64,
    /// Blocks of members, and rows of blocks that disagree, that the last scrub found wrong and
    /// could not repair. If it was interrupted, at least those before the interruption.
    pub scrub_left_blocks: u64,
    /// Grows with each superblock write; at least 1.
    pub generation: u64,
    /// Drawn by the opening that wrote this; 0 for the creation. Together with the generation it
    /// distinguishes this record from every other.
    pub session: u64,
    /// The openings before that one, the latest first, as far as there is room.
    pub past: [PastSession; PAST_SESSIONS_MAX],
    /// The array's block size.
    pub block_size: BlockSize,
    /// The level's name.
    pub level: Text<16>,
    /// The layout's name; empty if the level has only one.
    pub layout: Text<32>,
    /// The chunk size.
    pub chunk_blocks: u32,
    /// Redundancy groups in a region, a power of two; 0 for an array without bitmaps. Goes with
    /// `Features::REGIONS`.
    pub region_groups: u32,
    /// The number of members, missing ones included.
    pub members: u8,
    /// True if data and redundancy are known to agree: the array was closed in order, or not
    /// written since.
    pub clean: bool,
    /// True if the array may be written without confirmation while absent members could have gone
    /// on alone.
    pub degraded_writes: bool,
    /// The consistency policy's name.
    pub consistency: Text<16>,
    /// The part of the journals that counts.
    pub journal: JournalRecord,
    /// The block of the array at which an interrupted scrub resumes; 0 for none.
    pub scrub_mark: BlockIndex,
    /// The progress of growth and the places of regions. Goes with `Features::GROWTH`.
    pub growth: GrowthRecord,
    /// The checksum of blocks. Goes with `Features::CHECKSUMS`.
    pub checksum: ChecksumKind,
    /// True if row sums are kept next to the checksums of parity. Goes with checksums.
    pub row_sums: bool,
    /// True if the list of bad blocks may have entries. Only then are entries lost if no member
    /// holds a part of the list. Goes with `Features::BAD_BLOCKS`.
    pub bad_blocks_listed: bool,
    /// True if the stage may hold records. Goes with `Features::STAGE`.
    pub staged: bool,
    /// True if the stage takes only writes that gain from it, instead of all parts of rows. Goes
    /// with `Features::STAGE`.
    pub write_back_auto: bool,
    /// The used sizes of the areas that all members use alike.
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
    /// The array's members.
    #[must_use]
    pub fn members(&self) -> &[MemberRecord] {
        &self.member[..usize::from(self.members)]
    }

    /// Returns true if the array keeps a list of bad blocks.
    #[must_use]
    pub const fn has_bad_blocks(&self) -> bool {
        self.features.refuse & Features::BAD_BLOCKS != 0
    }

    /// The contents of the checksum areas for each block, if blocks have checksums.
    #[must_use]
    pub const fn entries(&self) -> Entries {
        if self.row_sums {
            Entries::WithRowSums
        } else {
            Entries::Checksums
        }
    }

    /// The number of pages of the list of bad blocks; 0 if the array has none.
    #[must_use]
    pub fn bad_blocks_pages(&self) -> u32 {
        if self.has_bad_blocks() {
            self.shared.bad_blocks_pages()
        } else {
            0
        }
    }

    /// Returns true if the device in this position is being filled from scratch: it held nothing of
    /// the array before.
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

    /// The members that the record calls missing.
    #[must_use]
    pub fn missing(&self) -> MemberSet {
        (0..self.members)
            .map(MemberIndex)
            .filter(|member| !self.member[usize::from(member.0)].state.takes_part())
            .collect()
    }

    /// The members that the record calls rebuilding.
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

    /// Starts an opening that drew `nonce`, before its first record: the current opening becomes a
    /// past one.
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

    /// Returns true for an inner array that was being created and was never opened: its data area
    /// has no valid contents.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.parent != Uuid::NIL && self.generation == 1
    }

    /// Yields the last generations of the openings that led to this record, its own first.
    fn sessions(&self) -> impl Iterator<Item = PastSession> + '_ {
        let own = PastSession {
            nonce: self.session,
            generation: self.generation,
        };
        let past = self.past.iter().filter(|past| past.generation > 0);
        core::iter::once(own).chain(past.copied())
    }

    /// Returns true if this record is `other` or follows it. `false` too if `other` lies further
    /// back than the record remembers.
    #[must_use]
    pub fn follows(&self, other: &Self) -> bool {
        self.sessions()
            .any(|past| past.nonce == other.session && past.generation >= other.generation)
    }

    /// The last generation that both records follow; `None` if it lies further back than they
    /// remember.
    #[must_use]
    pub fn common_generation(&self, other: &Self) -> Option<u64> {
        let common = |past: PastSession| {
            let same = other.sessions().find(|theirs| theirs.nonce == past.nonce)?;
            Some(same.generation.min(past.generation))
        };
        self.sessions().filter_map(common).max()
    }

    /// Returns true if the record says that the array grows, but no superblock does yet.
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

    /// Sets or clears the feature that goes with a journal device.
    pub fn note_journal_device(&mut self) {
        self.features.refuse &= !Features::JOURNAL_DEVICE;
        if self.journal.device != Uuid::NIL {
            self.features.refuse |= Features::JOURNAL_DEVICE;
        }
    }

    /// Returns true if the array has a stage.
    #[must_use]
    pub const fn has_stage(&self) -> bool {
        self.features.refuse & Features::STAGE != 0
    }

    /// Gives the array a stage of this length on each member, or takes it away. The old stage is
    /// empty.
    pub fn set_stage(&mut self, bytes: u32) {
        assert!(!self.staged, "what is staged is placed first");
        self.shared.stage_bytes = bytes;
        self.features.refuse &= !Features::STAGE;
        if bytes > 0 {
            self.features.refuse |= Features::STAGE;
        } else {
            self.write_back_auto = false;
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
