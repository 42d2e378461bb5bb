//! The reasons for which a sector may be something else than expected.

/// A rule of `docs/design/consistency.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// More is lost than the array survives.
    BeyondBudget,
    /// A disk has no space for unwritten blocks.
    NoSpace,
    /// An array below lost checksums, and the members that could prove their blocks are missing.
    NoProof,
    /// A crash destroyed blocks of an array below.
    LostBelow,
    /// A full-row write was not logged, and a member that holds a part of it is missing.
    UnloggedRow,
    /// The journal is lost together with a crash.
    WithoutLog,
    /// A damaged journal does not tell which rows a crash tore, and a member is missing.
    Unlisted,
    /// Corruption that may be mistaken for a part of an unlogged full-row write.
    GapUnloggedRow,
    /// Corruption in a row whose log is lost.
    GapWithoutLog,
    /// Corruption in a region in doubt, and no redundancy is left to find it.
    GapNoRedundancy,
    /// Corruption of a copy with unflushed writes.
    GapUnflushedCopy,
}

impl Rule {
    /// Returns the name under which reports count it.
    pub fn name(self) -> &'static str {
        match self {
            Self::BeyondBudget => "beyond the budget",
            Self::NoSpace => "no space",
            Self::NoProof => "no proof",
            Self::LostBelow => "lost in an array below",
            Self::UnloggedRow => "lost of an unlogged row",
            Self::WithoutLog => "lost without its log",
            Self::Unlisted => "torn and not listed",
            Self::GapUnloggedRow => "gap: unlogged row",
            Self::GapWithoutLog => "gap: row without its log",
            Self::GapNoRedundancy => "gap: no redundancy",
            Self::GapUnflushedCopy => "gap: unflushed copy",
        }
    }

    /// Returns the words of `docs/design/consistency.md` that state the rule.
    #[cfg(test)]
    pub fn stated(self) -> &'static str {
        match self {
            Self::BeyondBudget => "**Beyond what the level survives** there are errors",
            Self::NoSpace => "A member without space stays if the data needs it",
            Self::NoProof => "proves every reconstructed block; else it is an error",
            Self::LostBelow => "The rows are then in doubt, as after a crash.",
            Self::UnloggedRow => "*Unflushed writes of whole stripes* are not logged",
            Self::WithoutLog => "Then checksums alone settle regions in doubt",
            Self::Unlisted => "### Incomplete records",
            Self::GapUnloggedRow => {
                "**A block of a row with parity that was being written as a whole**"
            }
            Self::GapWithoutLog => "any block of a row that was written in part",
            Self::GapNoRedundancy => "**No redundancy is left**",
            Self::GapUnflushedCopy => "**A copy of a block with unflushed writes.**",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_stated_in_the_document() {
        let document = include_str!("../../../../docs/design/consistency.md");
        let document = document.split_whitespace().collect::<Vec<_>>().join(" ");
        let rules = [
            Rule::BeyondBudget,
            Rule::NoSpace,
            Rule::NoProof,
            Rule::LostBelow,
            Rule::UnloggedRow,
            Rule::WithoutLog,
            Rule::Unlisted,
            Rule::GapUnloggedRow,
            Rule::GapWithoutLog,
            Rule::GapNoRedundancy,
            Rule::GapUnflushedCopy,
        ];
        for rule in rules {
            assert!(document.contains(rule.stated()), "{rule:?}");
        }
    }
}
