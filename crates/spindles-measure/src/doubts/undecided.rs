//! Reports comparisons whose interval is too wide to be useful.

use super::{Kind, Rank, listed};
use crate::Verdict;
use crate::resolution::HALF_WIDTH_TARGET;

/// Above this many blocks, the number needed is not given.
const BLOCKS_MAX: u32 = 100;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "undecided",
    rank: Rank::Partial,
    title: "Too noisy to decide",
    remedy: "The repetitions scatter more than the systems differ, so no winner is named. In \
             parentheses: how many repetition blocks would narrow the interval to ± 5 %.",
    find: |analysis| {
        let unresolved = analysis.unresolved(HALF_WIDTH_TARGET);
        let wide = unresolved.iter().filter(|open| {
            let comparison = analysis.comparison(&open.system, &open.workload);
            comparison.is_some_and(|comparison| comparison.verdict == Verdict::NoDifferenceShown)
                && open.half_width.is_finite()
        });
        let wide: Vec<_> = wide.collect();
        let of = |workload: &crate::Workload| {
            let mine = wide.iter().filter(|open| open.workload == workload.name);
            let said: Vec<String> = mine
                .map(|mine| match mine.blocks_needed {
                    Some(needed) if needed <= BLOCKS_MAX => {
                        format!("{} (about {needed} blocks)", mine.system)
                    }
                    _ => format!("{} (over {BLOCKS_MAX} blocks)", mine.system),
                })
                .collect();
            (!said.is_empty()).then(|| format!("{}: {}", workload.name, listed(&said)))
        };
        analysis
            .experiment
            .workloads
            .iter()
            .filter_map(of)
            .collect()
    },
};
