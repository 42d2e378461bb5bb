//! During crash recovery, blocks of a member's journal are corrupt or unreadable.

use super::Fault;
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "journal_rot",
    about: "blocks of a member's journal rot, or can't be read when a crash is recovered from",
    percent: 40,
    own_stream: true,
    strike: World::doom_journal,
};
