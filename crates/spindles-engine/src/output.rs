//! What the engine asks of its driver and reports to the world.

use crate::{
    faults::MemberFaults,
    inspection::MetadataFinding,
    jobs::scrub::{Finding, Scrub, ScrubStatus},
    role::Role,
    system_io::Purpose,
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
    /// The device that is attached beyond all positions (`Engine::replacement`) and that of this
    /// member change places. Nothing is under way on either.
    Swap(MemberIndex),
    /// An event to report.
    Event(Event),
}

/// The purpose of a member I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoPurpose {
    /// Serves no request: metadata, batches of the journal, flushes that others build on.
    Own(Purpose),
    /// Reads or writes data, or copies of it, for a request.
    Data,
    /// Reads or writes parity for a request, or makes it durable before the answer.
    Parity,
    /// Carries out a client's flush.
    Flush,
    /// Makes a write durable before its answer.
    WriteFlush,
    /// Makes the rest of rows durable before the answer of a durable write that is in the log.
    RestFlush,
    /// Brings places that a crash left in doubt to agreement.
    Settle,
    /// Repairs a block, or looks for one to repair.
    Repair,
    /// Fills a device, or copies to it.
    Fill,
    /// Reads or writes a page of checksums.
    ChecksumPage,
}

/// An event to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A member is out of the array.
    MemberOut {
        /// The member.
        member: MemberIndex,
        /// The reason.
        reason: OutReason,
    },
    /// A member failed one operation and stays in the array.
    MemberFault {
        /// The member.
        member: MemberIndex,
        /// Its answer.
        error: MemberError,
    },
    /// A member became much slower than its peers, or is no longer. Reads go around it if
    /// redundancy allows.
    MemberSlow {
        /// The member.
        member: MemberIndex,
        /// True if it became slow.
        slow: bool,
    },
    /// A read waits at a member much longer than its peers take, or no read does any longer.
    /// Meanwhile other reads go around the member and waiting ones are hedged, if redundancy
    /// allows.
    MemberStalls {
        /// The member.
        member: MemberIndex,
        /// True if it began to stall.
        stalls: bool,
    },
    /// The journal's own device failed: from now on writes are logged on the members.
    JournalDeviceOut {
        /// Its answer.
        error: MemberError,
    },
    /// More members are out than the level survives; no more is written.
    ArrayFailed {
        /// The members that are out.
        missing: MemberSet,
    },
    /// Metadata that must be durable before further writes could not be written, though enough
    /// members are there: no more is written in this opening.
    WritingStopped,
    /// The writes that the journals held after a crash are in place.
    Replayed {
        /// Writes that were carried out again.
        writes: u64,
    },
    /// These blocks of the array are lost. Either a crash interrupted a write to them while a
    /// member that held them was missing, or more of their row is corrupt than redundancy can
    /// reconstruct. Requests for these blocks fail until the blocks are written.
    Lost {
        /// The first block.
        block: BlockIndex,
        /// The number of blocks.
        blocks: u32,
    },
    /// The list of bad blocks has no room for blocks that are lost. Requests for them fail.
    TooMuchLost,
    /// A resync began.
    ResyncStarted,
    /// Redundancy agrees with data everywhere.
    ResyncDone {
        /// Stripe ranges in which it did not before.
        mismatches: u64,
    },
    /// A resync went through, but some places could not be settled: the array stays unclean.
    ResyncIncomplete {
        /// Stripe ranges that could not be settled.
        unsettled: u64,
    },
    /// A device is being filled, from the start or from where an earlier rebuild had come to.
    RebuildStarted {
        /// Its position.
        member: MemberIndex,
    },
    /// These blocks of a device being filled can't be computed, because other members can't be read
    /// there either. They are in the list of bad blocks.
    NotFilled {
        /// Its position.
        member: MemberIndex,
        /// The first block, counted from the start of its device.
        block: BlockIndex,
        /// The number of blocks.
        blocks: u32,
    },
    /// A device is filled, and all superblocks say that it is active.
    RebuildDone {
        /// Its position.
        member: MemberIndex,
    },
    /// A rebuild went through, but more places were unreadable than may be listed as bad blocks.
    /// The next opening continues at the first of them.
    RebuildIncomplete {
        /// Stripe ranges that failed.
        failed: u64,
    },
    /// A member that is alive is being copied onto a device that will take its place.
    ReplaceStarted {
        /// Its position.
        member: MemberIndex,
    },
    /// The new device has the position, durably on all members. The old device no longer belongs to
    /// the array.
    ReplaceDone {
        /// The position.
        member: MemberIndex,
        /// Errors of the old device.
        faults: MemberFaults,
    },
    /// A replacement ended early. The member keeps its position, unless the member itself is out.
    ReplaceEnded {
        /// Its position.
        member: MemberIndex,
        /// The reason.
        why: ReplaceEnd,
    },
    /// The growth is complete: the new map is valid everywhere, and the array is larger if that has
    /// more room.
    Grown {
        /// Its new number of blocks.
        blocks: u64,
    },
    /// The window that begins here can't be moved: it is unreadable, or too much is missing. Growth
    /// continues at the next opening.
    GrowthStuck {
        /// The block of the array.
        block: BlockIndex,
    },
    /// A scrub began.
    ScrubStarted {
        /// The block of the array at which it began; an earlier scrub covered what lies before.
        from: BlockIndex,
    },
    /// A scrub went through everything.
    ScrubDone(ScrubStatus),
    /// A scrub was stopped.
    ScrubStopped(ScrubStatus),
    /// A place on a member has a flaw.
    Found(Finding),
    /// A place in the metadata of a member has a flaw.
    MetadataFound(MetadataFinding),
    /// Copies, or data and parity, disagree, and nothing shows which of them is wrong.
    Disagreement {
        /// The place, as the first block of the array in its redundancy group's row of blocks.
        block: BlockIndex,
        /// The number of rows of blocks.
        blocks: u32,
        /// Blocks of the array in each row.
        chunks: u8,
        /// Blocks of the array between one block of a row and the next.
        chunk_blocks: u32,
        /// True if they were made to agree with the data, right or wrong.
        made_to_agree: bool,
    },
    /// Everything is durable, the array is marked clean if it is, and no more outputs follow.
    Closed {
        /// True if the array could be marked clean.
        clean: bool,
    },
}

/// The reason why a member is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutReason {
    /// It answered an operation with this error.
    Error(MemberError),
    /// An administrator's command.
    Command,
    /// Too many reads failed in too short a time.
    TooManyErrors,
    /// Blocks refused the rewrite after a read error, and the list of bad blocks is full.
    TooManyBadBlocks,
}

/// The reason why a member was not replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceEnd {
    /// The new device answered an operation with this error.
    ReplacementLost(MemberError),
    /// The member went out. It is rebuilt onto the new device, if the level survives that.
    MemberLost,
    /// Some places could be read neither from the member nor from the others.
    Unreadable {
        /// Stripe ranges that could not be copied.
        failed: u64,
    },
    /// The array has failed.
    ArrayFailed,
    /// A command stopped it, or the array is being closed.
    Stopped,
}

/// A command to a running array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Take no more requests, finish those taken, flush, mark clean. `Event::Closed` answers.
    Close,
    /// Let a close place everything that is staged, however long that takes. Otherwise it places
    /// for 10 seconds at most, and the next opening loads the rest.
    PlaceStaged,
    /// Put a member out.
    Fail(MemberIndex),
    /// Fill a device that takes the place of a missing member. The driver has attached it there,
    /// with both superblock slots zeroed. `Event::RebuildStarted` follows when it has taken its
    /// place, `Event::RebuildDone` at the end.
    Rebuild {
        /// The position.
        member: MemberIndex,
        /// The areas of the device. Its data area must be as long as the array requires.
        device: Box<DeviceRecord>,
        /// The new identity of the device.
        uuid: Uuid,
    },
    /// Update a missing member with the regions that it missed. The device keeps its contents from
    /// when it went out: the assembly reported `Reason::Returning`. The driver has attached it.
    /// Events as for `Rebuild`.
    Return {
        /// The position.
        member: MemberIndex,
        /// The areas of the device.
        device: Box<DeviceRecord>,
    },
    /// Copy a live member onto a device that takes its place in the end. The driver has attached
    /// the device beyond all positions (`Engine::replacement`), with both superblock slots zeroed.
    /// `Event::ReplaceDone` or `Event::ReplaceEnded` answers.
    Replace {
        /// The position.
        member: MemberIndex,
        /// The areas of the device. Its data area must be as long as the array requires.
        device: Box<DeviceRecord>,
        /// The new identity of the device.
        uuid: Uuid,
    },
    /// Set the rate that jobs are guaranteed while clients are busy, in bytes of each member per
    /// second; 0 for none.
    JobRate(u64),
    /// Read everything and compare it.
    Scrub(Scrub),
    /// Stop the job of this name.
    StopJob(&'static str),
}

/// The reason why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The array has no member with that index.
    NoSuchMember,
    /// The member is out already.
    AlreadyOut,
    /// The level does not survive the change.
    BeyondTolerance,
    /// The array is open read-only.
    ReadOnly,
    /// The position has a device.
    NotMissing,
    /// The member is missing, or not filled yet.
    NotActive,
    /// The array has no superblocks, so it could not determine later which device is good.
    NoSuperblocks,
    /// The device's data area or block size does not suit the array, or its identity is known
    /// already.
    Unsuitable,
    /// Another device is about to take the position.
    Joining,
    /// The array is being closed.
    Closing,
    /// No more is written to the array in this opening.
    Stopped,
    /// The member is being copied onto a replacement device.
    Replacing(MemberIndex),
    /// The device already has this role.
    InUse(Role),
    /// The position is reserved for a device that the growth adds.
    GrowthPlace,
    /// The array is growing.
    Growing,
    /// A comparison is impossible: the level keeps no redundancy.
    NoRedundancy,
    /// The job is under way already, or the array is being closed.
    JobGoing,
    /// No job of that name is under way.
    NoSuchJob,
    /// The job can't be stopped: until it ends the array is not safe.
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
                    "member {member} is being copied onto another device: wait until that has \
                     ended, or stop that command with Ctrl-C"
                );
            }
            Self::InUse(role) => return write!(f, "the device is {role}"),
            Self::GrowthPlace => {
                "that position is for a device that the array grows by: give that to the growth, \
                 with --add"
            }
            Self::Growing => "it grows; let that come to its end first",
            Self::NoRedundancy => "it keeps no redundancy",
            Self::JobGoing => "that is under way already",
            Self::NoSuchJob => "nothing of that kind is under way",
            Self::MustGoOn => "it is not safe before that is through",
        })
    }
}

impl core::error::Error for CommandError {}

/// Nothing was taken: every pool is in use. Try again after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;
