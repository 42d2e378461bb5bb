//! Reports repetitions far from the others of their cell.

use super::{Kind, Rank, by_workload, signed};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "outliers",
    rank: Rank::Note,
    title: "Outliers",
    remedy: "These repetitions lie more than 3.5 scaled median deviations from the median; the \
             percentage is their distance from it. They count in every figure.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            (!analysis.rate_was_set(cell)).then_some(())?;
            let far: Vec<String> = cell
                .repetitions
                .iter()
                .filter(|repetition| repetition.outlier)
                .map(|repetition| {
                    let percent = (repetition.per_second / cell.median - 1.0) * 100.0;
                    format!("{} %", signed(percent))
                })
                .collect();
            (!far.is_empty()).then(|| far.join(", "))
        })
    },
};
