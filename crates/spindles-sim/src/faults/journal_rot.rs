//! During crash recovery, blocks of a member's journal are corrupt or unreadable.

use super::Fault;
use crate::world::{Moment, Strike, World};

pub(super) static FAULT: Fault = Fault {
    name: "journal_rot",
    about: "blocks of a member's journal rot, or can't be read when a crash is recovered from",
    percent: 40,
    own_stream: true,
    start: |_| Box::<JournalRot>::default(),
};

#[derive(Debug, Default)]
struct JournalRot {
    /// Set if the crash that ends the session damages a journal.
    is_planned: bool,
}

impl Strike for JournalRot {
    fn strike(&mut self, _: &mut World) -> bool {
        !std::mem::replace(&mut self.is_planned, true)
    }

    fn on_event(&mut self, world: &mut World, moment: &mut Moment<'_>) {
        let is_crash = matches!(moment, Moment::Ended { clean: false });
        if is_crash && std::mem::take(&mut self.is_planned) {
            world.damage_journal();
        }
    }
}
