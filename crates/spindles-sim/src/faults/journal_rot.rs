//! Blocks of a member's journal hold wrong bytes, or can't be read, when a crash is recovered from.

use super::Fault;
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "journal_rot",
    about: "blocks of a member's journal rot, or can't be read (only if asked for)",
    percent: 0, // Where asked for only: what comes of it is not promised yet (docs/consistency.md).
    own_stream: true,
    strike: World::doom_journal,
};
