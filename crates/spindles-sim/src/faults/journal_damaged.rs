//! During crash recovery, the disk that an array has for its journal is an old copy, corrupt or
//! unreadable.

use super::Fault;
use crate::devices::journal::JournalDisk;

pub(super) static FAULT: Fault = Fault {
    name: "journal_damaged",
    about: "the disk that an array has for its journal is an old copy, rots or can't be read when \
        a crash is recovered from",
    percent: 40,
    own_stream: true,
    strike: |world| {
        let journal = world.devices.journal.as_mut();
        journal.is_some_and(JournalDisk::doom)
    },
};
