//! During crash recovery, the disk that an array has for its journal is an old copy, corrupt or
//! unreadable.

use super::Fault;
use crate::disk::Disk;
use crate::session::after_crash;
use crate::world::{Moment, Strike, World};

pub(super) static FAULT: Fault = Fault {
    name: "journal_damaged",
    about: "the dedicated journal disk is an old copy, corrupt or unreadable during recovery from \
        a crash",
    percent: 40,
    own_stream: true,
    start: |_| Box::<JournalDamage>::default(),
};

#[derive(Debug, Default)]
struct JournalDamage {
    /// Set if the next crash damages the disk.
    is_planned: bool,
    /// A copy of its contents from an earlier time between sessions.
    copy: Option<Disk>,
}

impl Strike for JournalDamage {
    fn strike(&mut self, world: &mut World) -> bool {
        world.devices.journal.is_some() && !std::mem::replace(&mut self.is_planned, true)
    }

    fn on_event(&mut self, world: &mut World, moment: &mut Moment<'_>) {
        let Moment::Begun { clean, whole } = *moment else {
            return;
        };
        let Some(journal) = &mut world.devices.journal else {
            return;
        };
        if self.is_planned && world.rotting.percent(50) {
            self.copy = Some(journal.disk.clone());
        }
        if clean || !whole || journal.gone || !std::mem::take(&mut self.is_planned) {
            return;
        }
        let block_size = world.options.block_size;
        let what = journal.damage(self.copy.take(), block_size, &mut world.rotting);
        world.note(&format!("the disk with the journal {what}"));
        after_crash(world);
        world.log.count("journal device damaged", 1);
    }
}
