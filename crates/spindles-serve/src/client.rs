//! The server's interface to its clients, independent of their protocol.

use crate::numbers::Origin;
use spindles_array::Busy;
use spindles_array::export::{Access, Answer, Export, SlotId};
use spindles_block::RequestError;
use std::fmt::Debug;
use std::os::fd::RawFd;

/// Amount of data moved for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Received payload, in bytes.
    pub(crate) payload_bytes: u64,
    /// Part of the payload that was received into another buffer and copied, in bytes.
    pub(crate) copied_bytes: u64,
    /// Data read for the client, in bytes.
    pub(crate) read_bytes: u64,
    /// Number of requests.
    pub(crate) requests: u64,
    /// Bytes sent.
    pub(crate) sent_bytes: u64,
}

/// Result of receiving from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing more to receive or take for now.
    Drained,
    /// More to receive.
    More,
    /// The export lacks free slots for the next request.
    Full,
}

/// The export and its slot budget, as seen by one client.
pub(crate) struct Budget<'a> {
    pub(crate) export: &'a mut Export,
    /// The client that gets the answers to accesses taken here.
    pub(crate) user: usize,
}

impl Budget<'_> {
    /// Takes a slot of the export; its answer goes to this client.
    pub(crate) fn take(&mut self, access: Access) -> Result<SlotId, Busy> {
        self.export.take_for(self.user, access)
    }
}

/// The slots of the export that a client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayTake {
    /// None: other clients come first.
    Nothing,
    /// Short requests only, of at most `SHORT_SLOTS`: long requests wait for stuck clients that
    /// hold slots.
    Short,
    /// Any request that the slot budget allows.
    All,
}

/// Most slots of a short request.
pub(crate) const SHORT_SLOTS: u64 = 4;
/// One in this many slots of an export is reserved for short requests. Otherwise a few long
/// requests that make no progress could take all slots.
const SHORT_PART: u64 = 8;

impl MayTake {
    /// Returns true if a request that needs `slots` slots may be taken.
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
                // Limit the reserve: even the longest request must fit when all slots are free.
                let all = u64::from(export.limits().slots);
                slots + (all / SHORT_PART).min(all.saturating_sub(slots)) <= free
            }
        }
    }
}

/// A client: a descriptor that delivers requests and takes replies. The client takes a request once
/// the export has enough free slots for all of it, and holds the slots until the reply is sent.
pub(crate) trait Client: Debug + Send {
    /// Returns the descriptor to poll.
    fn descriptor(&self) -> RawFd;

    /// Receives as many requests as possible; takes slots only as `may_take` allows.
    fn receive(&mut self, may_take: MayTake, budget: &mut Budget<'_>) -> Turn;

    /// Completes an access taken earlier.
    fn answered(&mut self, answer: Answer, budget: &mut Budget<'_>);

    /// Returns true if replies are waiting to be sent.
    fn has_replies(&self) -> bool;

    /// Sends as many replies as the descriptor accepts. Returns true if all were sent; otherwise
    /// the server polls the descriptor for writing.
    fn send(&mut self, budget: &mut Budget<'_>) -> bool;

    /// Stops taking requests; those already taken are still answered.
    fn take_no_more(&mut self);

    /// Drops the client; its slots return to the export as their accesses complete.
    fn end(&mut self, budget: &mut Budget<'_>);

    /// Returns true if nothing is received or sent any longer.
    fn is_gone(&self) -> bool;

    /// Returns true if no more requests are taken and all taken ones have completed.
    fn is_over(&self) -> bool;

    /// Shuts the descriptor down, so that any poll reports it as ready.
    fn shut_down(&mut self);

    /// Returns true if the client holds slots, waits for its peer, and moved nothing since the
    /// previous call.
    fn is_stuck(&mut self) -> bool;

    /// Returns the amount of data moved so far.
    fn moved(&self) -> Moved;

    /// Returns where the client connects from.
    fn origin(&self) -> Origin;

    /// Returns true if requests and replies use an `io_uring` shared with the client.
    fn is_over_ring(&self) -> bool {
        false
    }
}

/// Describes a failed request in an error message.
pub(crate) fn why(error: RequestError) -> &'static str {
    match error {
        RequestError::OutOfRange => "it ends beyond the export",
        RequestError::ReadOnly => "the export is read-only",
        RequestError::BeyondTolerance => "more of the array is lost than its level survives",
        RequestError::Corrupt => "the blocks are corrupt, and could not be repaired",
        RequestError::InDoubt => {
            "a crash left the blocks in doubt, and the array is open read-only"
        }
        RequestError::NoSpace => "the file system of the members has no space",
    }
}
