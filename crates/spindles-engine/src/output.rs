//! What the engine asks of its driver and tells the world.

use spindles_block::{MemberError, MemberIndex, MemberIo, MemberSet, Reply, StepId};

/// An effect, to be carried out by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// An operation on a member.
    Member(MemberIo),
    /// A computation: see `Engine::step`.
    Compute(StepId),
    /// The answer to a request.
    Reply(Reply),
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
    /// More members are out than the level survives; nothing more is written.
    ArrayFailed {
        /// The members that are out.
        missing: MemberSet,
    },
    /// A resync began.
    ResyncStarted,
    /// Redundancy agrees with data everywhere.
    ResyncDone {
        /// Columns in which it did not before.
        mismatches: u64,
    },
    /// A resync went through, and some places could not be settled: the array stays unclean.
    ResyncIncomplete {
        /// Columns that could not be settled.
        unsettled: u64,
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
}

/// Something asked of a running array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Take no more requests, finish those taken, flush, mark clean. `Event::Closed` answers.
    Close,
    /// Put a member out.
    Fail(MemberIndex),
    /// What jobs are guaranteed beside clients, in bytes of each member per second; 0 for nothing.
    JobRate(u64),
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
}

/// Nothing was taken: every pool is in use. Ask again after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;
