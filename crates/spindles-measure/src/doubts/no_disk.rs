//! Reports members in memory, or null members.

use super::{Kind, Rank};
use crate::Run;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "no-disk",
    rank: Rank::Untrue,
    title: "No disk was involved",
    remedy: "Members in memory show the cost of the software, never the speed of storage. To \
             measure storage, use files or block devices.",
    find: |analysis| match analysis.runs.iter().filter(|run| without_disk(run)).count() {
        0 => Vec::new(),
        count if count == analysis.runs.len() => vec!["all members are in memory".to_owned()],
        count => vec![format!(
            "{count} of {} runs have members in memory",
            analysis.runs.len()
        )],
    },
};

/// Returns true if the members of a run are memory or null.
pub(super) fn without_disk(run: &Run) -> bool {
    matches!(run.io.backend.as_str(), "mem" | "null")
}
