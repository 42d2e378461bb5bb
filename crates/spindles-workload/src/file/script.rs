//! Independent actors: each goes through its own list of parts. A part is a number of rounds of the
//! same steps.

use super::action::{Answer, FileId, FileIssue, FileNext, FileWorkload};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// A step of a round: returns the operation for the number of the round.
type Step = Box<dyn FnMut(u64) -> FileIssue + Send>;

/// Returns the name of a file.
pub(crate) type Naming = Box<dyn Fn(FileId) -> String + Send>;

struct Rounds {
    rounds: u64,
    steps: Vec<Step>,
}

/// The operations of an actor, in order.
pub(crate) struct Script {
    parts: Vec<Rounds>,
    part: usize,
    round: u64,
    step: usize,
}

impl Script {
    pub(crate) const fn new() -> Self {
        Self {
            parts: Vec::new(),
            part: 0,
            round: 0,
            step: 0,
        }
    }

    /// Adds one operation.
    pub(crate) fn then(self, issue: FileIssue) -> Self {
        self.repeat(1, [Box::new(move |_| issue) as Step])
    }

    /// Adds rounds of these steps. A step gets the number of the round.
    pub(crate) fn repeat(mut self, rounds: u64, steps: impl IntoIterator<Item = Step>) -> Self {
        let steps: Vec<Step> = steps.into_iter().collect();
        assert!(!steps.is_empty());
        if rounds > 0 {
            self.parts.push(Rounds { rounds, steps });
        }
        self
    }

    fn next(&mut self) -> Option<FileIssue> {
        let part = self.parts.get_mut(self.part)?;
        let issue = part.steps[self.step](self.round);
        self.step += 1;
        if self.step == part.steps.len() {
            self.step = 0;
            self.round += 1;
        }
        if self.round == part.rounds {
            self.round = 0;
            self.part += 1;
        }
        Some(issue)
    }
}

/// Creates a step of a script.
pub(crate) fn step(step: impl FnMut(u64) -> FileIssue + Send + 'static) -> Step {
    Box::new(step)
}

/// A workload of scripts, one for each actor.
pub(crate) struct Scripts {
    scripts: Vec<Script>,
    naming: Naming,
}

impl Scripts {
    pub(crate) fn start(
        scripts: Vec<Script>,
        naming: impl Fn(FileId) -> String + Send + 'static,
    ) -> Box<dyn FileWorkload> {
        Box::new(Self {
            scripts,
            naming: Box::new(naming),
        })
    }
}

impl FileWorkload for Scripts {
    fn step(&mut self, actor: u32, _answer: Option<Answer>) -> FileNext {
        let script = &mut self.scripts[usize::try_from(actor).expect("an actor of ours")];
        script.next().map_or(FileNext::Done, FileNext::Do)
    }

    fn path(&self, file: FileId) -> String {
        (self.naming)(file)
    }
}
