//! Reports repetitions far from the others of their cell.

use super::{Kind, Rank, by_workload, signed};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "outliers",
    rank: Rank::Note,
    title: "Outliers",
    remedy: "These repetitions lie far from their fellows (median ± 3.5 scaled median deviations); \
             given is the distance from the median. \
             They are kept in every figure.",
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
