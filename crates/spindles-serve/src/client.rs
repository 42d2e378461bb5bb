//! What the server knows of a client, whatever it speaks.

use crate::numbers::Origin;
use spindles_block::RequestError;
use spindles_io::Busy;
use spindles_io::export::{Access, Answer, Export, SlotId};
use std::fmt::Debug;
use std::os::fd::RawFd;

/// What was moved for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Payload that was received, in bytes.
    pub(crate) payload_bytes: u64,
    /// Of that, what was received elsewhere and copied to its place.
    pub(crate) copied_bytes: u64,
    /// What was read for it, in bytes.
    pub(crate) read_bytes: u64,
    /// Requests.
    pub(crate) requests: u64,
    /// What was sent, in bytes.
    pub(crate) sent_bytes: u64,
}

/// How far a turn came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing more is there to be received now, or taken.
    Drained,
    /// More is there.
    More,
    /// The export has no room for the next request.
    Full,
}

/// The export, as one client sees it.
pub(crate) struct Desk<'a> {
    pub(crate) export: &'a mut Export,
    /// Who gets the answers to what is taken here.
    pub(crate) user: usize,
}

impl Desk<'_> {
    /// A slot of the export, whose answer comes to this client.
    pub(crate) fn take(&mut self, access: Access) -> Result<SlotId, Busy> {
        self.export.take_for(self.user, access)
    }
}

/// What a client may take that needs room in the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayTake {
    /// Nothing: others come first.
    Nothing,
    /// Short requests, of at most `SHORT_SLOTS`: clients hold room and move nothing, for which long ones wait.
    Short,
    /// Whatever there is room for.
    All,
}

/// The slots of a short request.
pub(crate) const SHORT_SLOTS: u64 = 4;
/// So many of the slots of an export, one in so many, are for short requests alone, so that a few long ones that are
/// not moved on don't take all.
const SHORT_PART: u64 = 8;

impl MayTake {
    /// Whether a request that needs so many slots may be taken.
    pub(crate) fn fits(self, slots: u64, export: &Export) -> bool {
        let count = |slots: usize| u64::try_from(slots).expect("64 bits");
        let free = count(export.free_slots());
        let is_short = slots <= SHORT_SLOTS;
        match self {
            _ if slots == 0 => true,
            Self::Nothing => false,
            Self::Short => is_short && slots <= free,
            Self::All if is_short => slots <= free,
            Self::All => {
                // The longest fits into what is left, whatever there is.
                let all = u64::from(export.limits().slots);
                slots + (all / SHORT_PART).min(all.saturating_sub(slots)) <= free
            }
        }
    }
}

/// A client: a descriptor that requests come from and replies go to. It takes a request when the export has
/// room for all of it, and holds slots of the export until the reply is sent.
pub(crate) trait Client: Debug + Send {
    /// What is looked out for.
    fn descriptor(&self) -> RawFd;

    /// Takes what has come, as far as it goes; what needs room in the export only where it may.
    fn receive(&mut self, may_take: MayTake, desk: &mut Desk<'_>) -> Turn;

    /// An access that was taken is answered.
    fn answered(&mut self, answer: Answer, desk: &mut Desk<'_>);

    /// Whether replies wait to be sent.
    fn has_replies(&self) -> bool;

    /// Sends replies, as many as it takes. Whether it took all; otherwise it is looked out for room.
    fn send(&mut self, desk: &mut Desk<'_>) -> bool;

    /// What was taken is answered, and no more is taken.
    fn take_no_more(&mut self);

    /// The client is gone: what it has of the export is given back as it is answered.
    fn end(&mut self, desk: &mut Desk<'_>);

    /// Whether nothing is received or sent any more.
    fn is_gone(&self) -> bool;

    /// Whether no more is taken, and all that was taken is over.
    fn is_over(&self) -> bool;

    /// Whatever looks out for the descriptor finds it ready from now on.
    fn shut_down(&mut self);

    /// Whether it holds room in the export, waits for the client, and nothing was moved since it was asked last.
    fn is_stuck(&mut self) -> bool;

    /// What was moved until now.
    fn moved(&self) -> Moved;

    /// Where it comes from.
    fn origin(&self) -> Origin;

    /// Whether requests and replies go over an `io_uring` that the client shares.
    fn is_over_ring(&self) -> bool {
        false
    }
}

/// For people: what failed.
pub(crate) fn why(error: RequestError) -> &'static str {
    match error {
        RequestError::OutOfRange => "it ends behind the export",
        RequestError::ReadOnly => "the export is read only",
        RequestError::BeyondTolerance => "more of the array is lost than its level survives",
        RequestError::Corrupt => "the blocks are corrupt, and could not be repaired",
        RequestError::InDoubt => {
            "a crash left the blocks in doubt, and the array is open read only"
        }
        RequestError::NoSpace => "no space is left where the members lie",
    }
}
