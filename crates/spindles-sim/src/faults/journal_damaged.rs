//! During crash recovery, the disk that an array has for its journal is an old copy, corrupt or
//! unreadable.

use super::Fault;
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "journal_damaged",
    about: "the disk that an array has for its journal is an old copy, rots or can't be read when \
        a crash is recovered from",
    percent: 40,
    own_stream: true,
    strike: World::doom_journal_device,
};
