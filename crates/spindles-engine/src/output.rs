//! What the engine asks of its driver and tells the world.

use crate::{
    faults::MemberFaults,
    inspection::MetadataFinding,
    jobs::scrub::{Finding, Scrub, ScrubStatus},
    role::Role,
};
use alloc::boxed::Box;
use core::fmt;
use spindles_block::{BlockIndex, MemberError, MemberIndex, MemberIo, MemberSet, Reply, StepId};
use spindles_format::{DeviceRecord, Uuid};

/// An effect, to be carried out by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// An operation on a member.
    Member(MemberIo),
    /// A computation: see `Engine::step`.
    Compute(StepId),
    /// The answer to a request.
    Reply(Reply),
    /// The device that is attached beside all positions (`Engine::replacement`) and that of this
    /// member change places. Nothing is under way on either.
    Swap(MemberIndex),
    /// Something worth telling.
    Event(Event),
}

/// Something worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A member is out of the array.
    MemberOut {
        /// Which.
        member: MemberIndex,
        /// Why.
        reason: OutReason,
    },
    /// A member could not do one operation and stays in the array.
    MemberFault {
        /// Which.
        member: MemberIndex,
        /// What it answered.
        error: MemberError,
    },
    /// A member is much slower than its peers, for a while, or no longer. Where redundancy allows,
    /// it is read around.
    MemberSlow {
        /// Which.
        member: MemberIndex,
        /// Whether it is, from now on.
        slow: bool,
    },
    /// A read waits at a member for much longer than its peers take, or none does any more. Meanwhile
    /// other reads go around it, and those that wait are hedged, where redundancy allows.
    MemberStalls {
        /// Which.
        member: MemberIndex,
        /// Whether it does, from now on.
        stalls: bool,
    },
    /// The device of its own that the array has for its journal failed: from now on writes are
    /// logged on the members.
    JournalDeviceOut {
        /// What it answered.
        error: MemberError,
    },
    /// More members are out than the level survives; nothing more is written.
    ArrayFailed {
        /// The members that are out.
        missing: MemberSet,
    },
    /// What must be durable before more is written can't be made so, though enough members are there:
    /// nothing more is written in this opening.
    WritingStopped,
    /// What the journals held after a crash is in its place.
    Replayed {
        /// Writes that were carried out again.
        writes: u64,
    },
    /// A crash took these blocks of the array: they were being written, and a member is missing that
    /// held them. They answer errors until they are written.
    Lost {
        /// The first.
        block: BlockIndex,
        /// How many.
        blocks: u32,
    },
    /// There is no room to note all blocks that a crash took: what was on missing members answers
    /// errors, and nothing more is written.
    TooMuchLost,
    /// A resync began.
    ResyncStarted,
    /// Redundancy agrees with data everywhere.
    ResyncDone {
        /// Stripe ranges in which it did not before.
        mismatches: u64,
    },
    /// A resync went through, and some places could not be settled: the array stays unclean.
    ResyncIncomplete {
        /// Stripe ranges that could not be settled.
        unsettled: u64,
    },
    /// A device is being filled, from the start or from where it had come to.
    RebuildStarted {
        /// Its position.
        member: MemberIndex,
    },
    /// So much of a device that is being filled can't be computed, since other members can't be read there either.
    /// These blocks are in the list of bad blocks.
    NotFilled {
        /// Its position.
        member: MemberIndex,
        /// The first block, counted from the start of its device.
        block: BlockIndex,
        /// How many.
        blocks: u32,
    },
    /// A device is filled, and it is durable on all members that it is active.
    RebuildDone {
        /// Its position.
        member: MemberIndex,
    },
    /// A rebuild went through, and more places could not be read than are put down as bad blocks: it goes on from
    /// the first of them at the next opening.
    RebuildIncomplete {
        /// Stripe ranges that could not be done.
        failed: u64,
    },
    /// A member that is alive is being copied onto a device that will take its place.
    ReplaceStarted {
        /// Its position.
        member: MemberIndex,
    },
    /// The new device has the position, and that is durable on all members. The device before it
    /// belongs to the array no more.
    ReplaceDone {
        /// The position.
        member: MemberIndex,
        /// What went wrong on the device before it.
        faults: MemberFaults,
    },
    /// A member is not replaced. Unless it is out itself, all is as it was.
    ReplaceEnded {
        /// Its position.
        member: MemberIndex,
        /// Why.
        why: ReplaceEnd,
    },
    /// The array has grown: all of it is of the new map, and it is larger where that has more room.
    Grown {
        /// How many blocks it has now.
        blocks: u64,
    },
    /// What begins here can't be moved: it can't be read, or too much is missing. Growing goes on at
    /// the next opening.
    GrowthStuck {
        /// The block of the array.
        block: BlockIndex,
    },
    /// A scrub began.
    ScrubStarted {
        /// At this block of the array; what lies before it was gone through earlier.
        from: BlockIndex,
    },
    /// A scrub went through everything.
    ScrubDone(ScrubStatus),
    /// A scrub was stopped.
    ScrubStopped(ScrubStatus),
    /// Something was wrong in a place of a member.
    Found(Finding),
    /// Something was wrong in a place of the metadata of a member.
    MetadataFound(MetadataFinding),
    /// Copies, or data and parity, do not agree, and nothing tells which of them is wrong.
    Disagreement {
        /// The place, as the first block of the array in its redundancy group's row of blocks.
        block: BlockIndex,
        /// How many rows of blocks.
        blocks: u32,
        /// How many blocks of the array each row has.
        chunks: u8,
        /// How many blocks of the array lie between one of a row and the next.
        chunk_blocks: u32,
        /// Whether they were made to agree with the data, right or wrong.
        made_to_agree: bool,
    },
    /// Everything is durable, the array is marked clean where it is, and nothing more will come.
    Closed {
        /// Whether it could be marked so.
        clean: bool,
    },
}

/// Why a member is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutReason {
    /// It answered an operation with this.
    Error(MemberError),
    /// The administrator said so.
    Command,
    /// It could not read too many places in too short a time.
    TooManyErrors,
    /// Too many places refused to be written anew after a read error.
    TooManyBadBlocks,
}

/// Why a member was not replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceEnd {
    /// The new device answered an operation with this.
    ReplacementLost(MemberError),
    /// The member went out: it is rebuilt onto the new device, where the level survives that.
    MemberLost,
    /// Places could be read neither from the member nor from the others.
    Unreadable {
        /// Stripe ranges that could not be copied.
        failed: u64,
    },
    /// The array has failed.
    ArrayFailed,
    /// On command, or because the array is closed.
    Stopped,
}

/// Something asked of a running array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Take no more requests, finish those taken, flush, mark clean. `Event::Closed` answers.
    Close,
    /// Put a member out.
    Fail(MemberIndex),
    /// Fill a device that takes the place of a missing member. The driver has attached it there,
    /// with both superblock slots zeros. `Event::RebuildStarted` comes when it has taken its place,
    /// `Event::RebuildDone` at the end.
    Rebuild {
        /// The position.
        member: MemberIndex,
        /// Where things lie on the device; its data area is as long as the array counts on.
        device: Box<DeviceRecord>,
        /// The new identity of the device.
        uuid: Uuid,
    },
    /// Bring a missing member up to date by the regions that it missed: it holds what it had when it
    /// went out, as `Reason::Returning` of its assembly says. The driver has attached it. Events as
    /// for `Rebuild`.
    Return {
        /// The position.
        member: MemberIndex,
        /// Where things lie on the device.
        device: Box<DeviceRecord>,
    },
    /// Copy a member that is alive onto a device that takes its place in the end. The driver has
    /// attached it beside all positions (`Engine::replacement`), with both superblock slots zeros.
    /// `Event::ReplaceDone` or `Event::ReplaceEnded` answers.
    Replace {
        /// The position.
        member: MemberIndex,
        /// Where things lie on the device; its data area is as long as the array counts on.
        device: Box<DeviceRecord>,
        /// The new identity of the device.
        uuid: Uuid,
    },
    /// What jobs are guaranteed beside clients, in bytes of each member per second; 0 for nothing.
    JobRate(u64),
    /// Read everything and compare it.
    Scrub(Scrub),
    /// End a job before its time.
    StopJob(&'static str),
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// There is no such member.
    NoSuchMember,
    /// It is out already.
    AlreadyOut,
    /// The level does not survive it.
    BeyondTolerance,
    /// The array is open read-only.
    ReadOnly,
    /// There is a device in that position.
    NotMissing,
    /// The member is missing, or not filled yet.
    NotActive,
    /// The array has no superblocks, so it could not tell afterwards which device is good.
    NoSuperblocks,
    /// The device's data area or block is not what the array counts on, or its identity is known
    /// already.
    Unsuitable,
    /// Another device is about to take its position.
    Joining,
    /// The array is being closed.
    Closing,
    /// Nothing more is written to it in this opening.
    Stopped,
    /// This member is being copied onto another device.
    Replacing(MemberIndex),
    /// The device is this already.
    InUse(Role),
    /// The position is one that the array grows by.
    GrowthPlace,
    /// The array grows.
    Growing,
    /// There is nothing to compare: the level keeps no redundancy.
    NoRedundancy,
    /// The job is under way already, or the array is being closed.
    JobGoing,
    /// No job of that name is under way.
    NoSuchJob,
    /// The array is not safe before this job is through.
    MustGoOn,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchMember => "there is no such member",
            Self::AlreadyOut => "the member is out already",
            Self::BeyondTolerance => "more members are missing than the level survives",
            Self::ReadOnly => "it is open for reading only",
            Self::NotMissing => "there is a device in that position",
            Self::NotActive => "that member is missing, or not filled yet",
            Self::NoSuperblocks => "without superblocks it could not tell later who is a member",
            Self::Unsuitable => "what is set aside on that device is not what the array needs",
            Self::Joining => "a device is about to take its position; try again after that",
            Self::Closing => "it is being closed",
            Self::Stopped => "nothing more is written to it until it is opened again",
            Self::Replacing(member) => {
                return write!(
                    f,
                    "member {member} is being copied onto another device: wait until that has ended, or stop that \
                     command with Ctrl-C"
                );
            }
            Self::InUse(role) => return write!(f, "the device is {role}"),
            Self::GrowthPlace => {
                "that position is for a device that the array grows by: give that with `spindles grow --add`"
            }
            Self::Growing => "it grows; let that come to its end first, with spindles grow",
            Self::NoRedundancy => "it keeps no redundancy",
            Self::JobGoing => "that is under way already",
            Self::NoSuchJob => "nothing of that kind is under way",
            Self::MustGoOn => "it is not safe before that is through",
        })
    }
}

impl core::error::Error for CommandError {}

/// Nothing was taken: every pool is in use. Ask again after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;
