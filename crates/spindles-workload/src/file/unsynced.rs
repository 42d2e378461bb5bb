//! The same workload without making anything durable: the result if flushes took no time.

use super::action::{Access, Action, Answer, FileId, FileNext, FileWorkload};
use alloc::boxed::Box;
use alloc::string::String;

/// A workload whose flushes do nothing, but are still counted.
pub(super) struct Unsynced(pub(super) Box<dyn FileWorkload>);

impl FileWorkload for Unsynced {
    fn step(&mut self, actor: u32, answer: Option<Answer>) -> FileNext {
        let mut next = self.0.step(actor, answer);
        if let FileNext::Do(issue) = &mut next {
            match &mut issue.action {
                action @ (Action::Fsync(_) | Action::SyncAll) => *action = Action::Nothing,
                Action::Create(_, _, access) | Action::Open(_, _, access)
                    if *access == Access::ReadWriteSync =>
                {
                    *access = Access::ReadWrite;
                }
                _ => {}
            }
        }
        next
    }

    fn woken(&mut self) -> Option<u32> {
        self.0.woken()
    }

    fn path(&self, file: FileId) -> String {
        self.0.path(file)
    }
}
