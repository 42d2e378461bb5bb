//! The decision at the commit point: how the blocks of a write get to their places.

use crate::{
    plan::{Shape, Step, Steps},
    slots::SlotSet,
};

/// How the blocks of a write get to their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WritePath {
    /// Directly.
    Places,
    /// Directly, once their checksums are known.
    Checksums,
    /// Once they are durable in the log, with their checksums.
    Log,
}

impl WritePath {
    /// Returns the path of a write that is not logged.
    #[inline]
    pub(crate) const fn unlogged(checksums: bool) -> Self {
        if checksums {
            Self::Checksums
        } else {
            Self::Places
        }
    }

    /// Returns the steps that the path adds to a plan.
    pub(crate) const fn steps(self) -> Steps {
        match self {
            Self::Places => Steps::NONE,
            Self::Checksums => Steps::NONE.with(Step::Checksum),
            Self::Log => Steps::NONE.with(Step::Checksum).with(Step::Log),
        }
    }
}

/// The rows of a client's write, as its path depends on them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    shape: Shape,
    /// The data slots that get new contents.
    touched: SlotSet,
    lost: SlotSet,
    live: bool,
    listed: bool,
    first: bool,
}

impl Rows {
    /// Returns these rows, without any reason to log a write of them as a whole.
    pub(crate) const fn of(shape: Shape, touched: SlotSet) -> Self {
        Self {
            shape,
            touched,
            lost: SlotSet::EMPTY,
            live: false,
            listed: false,
            first: false,
        }
    }

    /// Notes the slots of members that are out or being filled, or were until superblocks record
    /// otherwise.
    pub(crate) fn lack(&mut self, lost: SlotSet) {
        self.lost = lost;
    }

    /// Notes what whole rows held before the write. `live`: the log may hold blocks of them, which
    /// a replay would put over the new ones. `listed`: some block is in the list of bad blocks.
    /// `first`: the rows are blank.
    pub(crate) fn held(&mut self, live: bool, listed: bool, first: bool) {
        (self.live, self.listed, self.first) = (live, listed, first);
    }

    /// Returns true if the write replaces all data of its rows. Otherwise nothing else of the rows
    /// matters.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.touched == self.shape.all_data()
    }

    /// Returns the path of the write, while writes are logged. A write is logged if it replaces a
    /// part of its rows, or if a crash could leave whole rows in a state that the rows themselves
    /// do not show.
    pub(crate) fn path(&self, checksums: bool) -> WritePath {
        let whole = checksums && self.is_whole() && self.lost.is_empty();
        if whole && !self.live && !self.listed && !self.first {
            WritePath::unlogged(checksums)
        } else {
            WritePath::Log
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{format, string::String, vec::Vec};

    const SHAPE: Shape = Shape {
        data: 3,
        slots: 4,
        copies: false,
    };

    /// Prints the paths of a write to rows in this state: without and with checksums.
    fn paths(state: &str) -> String {
        let has = |word: &str| state.split(' ').any(|found| found == word);
        let part = SlotSet::one(1);
        let mut rows = Rows::of(SHAPE, if has("whole") { SHAPE.all_data() } else { part });
        if has("lost") {
            rows.lost = SlotSet::one(3);
        }
        (rows.live, rows.listed, rows.first) = (has("live"), has("listed"), has("first"));
        format!("{state:<13} {:?} {:?}", rows.path(false), rows.path(true))
    }

    #[test]
    fn a_write_is_logged_unless_its_rows_show_how_far_it_got() {
        let table = "\
part          Log Log
part lost     Log Log
part first    Log Log
whole         Log Checksums
whole lost    Log Log
whole live    Log Log
whole listed  Log Log
whole first   Log Log";
        let found: Vec<String> = table
            .lines()
            .map(|row| paths(row[..13].trim_end()))
            .collect();
        assert_eq!(found.join("\n"), table);
    }

    #[test]
    fn a_path_adds_its_steps() {
        let steps = |path: WritePath| path.steps().iter().collect::<Vec<Step>>();
        assert_eq!(steps(WritePath::unlogged(false)), []);
        assert_eq!(steps(WritePath::unlogged(true)), [Step::Checksum]);
        assert_eq!(steps(WritePath::Log), [Step::Checksum, Step::Log]);
    }
}
