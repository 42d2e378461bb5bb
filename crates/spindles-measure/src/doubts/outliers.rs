//! Repetitions far from their fellows.

use super::{Kind, by_workload};

/// Its row of the table.
pub(super) static KIND: Kind = Kind {
    name: "outliers",
    title: "Outliers",
    remedy: "These repetitions lie far from their fellows (median ± 3.5 scaled median deviations). \
             They are kept in every figure; the median is the steadier one to read.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            let far: Vec<String> = cell
                .repetitions
                .iter()
                .filter(|repetition| repetition.outlier)
                .map(|repetition| {
                    let percent = (repetition.per_second / cell.median - 1.0) * 100.0;
                    format!("{percent:+.0} % of the median")
                })
                .collect();
            (!far.is_empty()).then(|| far.join(", "))
        })
    },
};
