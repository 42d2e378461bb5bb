//! Reports bytes written by the workload that the members never saw, or members whose own counters
//! do not add up.

use super::{Kind, Rank, by_workload, percent};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "member-bytes-disagree",
    rank: Rank::Untrue,
    title: "Bytes at the members do not add up",
    remedy: "Fewer bytes reached the members than the workload wrote, or the members' counters \
             contradict their sum. This is a bug of the measurement or of the array: please report \
             it with the records.",
    find: |analysis| {
        // Data in the page cache may be overwritten or removed before it reaches a member.
        let on_files = |cell: &crate::Cell| {
            let mut runs = analysis.runs.iter();
            runs.any(|run| {
                run.io.backend == "files"
                    && run.system.name == cell.system
                    && run.workload.name == cell.workload
            })
        };
        let mut found = by_workload(analysis, |cell| {
            let share = cell.write_amplification().filter(|_| !on_files(cell))?;
            (share < 1.0).then(|| {
                format!(
                    "{} of the bytes written reached the members",
                    percent(share)
                )
            })
        });
        let contradictions = analysis
            .runs
            .iter()
            .filter(|run| !run.each_member.is_empty())
            .filter(|run| {
                let read = run
                    .each_member
                    .iter()
                    .map(|traffic| u128::from(traffic.read))
                    .sum::<u128>();
                let written = run
                    .each_member
                    .iter()
                    .map(|traffic| u128::from(traffic.written))
                    .sum::<u128>();
                (read, written)
                    != (
                        u128::from(run.members.read),
                        u128::from(run.members.written),
                    )
            })
            .count();
        if contradictions > 0 {
            found.push(format!(
                "the members' counters contradict their sum in {contradictions} runs"
            ));
        }
        found
    },
};
