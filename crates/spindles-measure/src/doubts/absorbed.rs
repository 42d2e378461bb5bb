//! Reports writes that an array's stage absorbed, and that were not placed in the measured time.

use super::{Kind, Rank, by_workload, percent};
use crate::histogram::to_f64;
use crate::{Cell, Run};

/// Share of the written bytes by which a stage may fill.
const GROWN_MAX: f64 = 0.01;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "absorbed",
    rank: Rank::Unlike,
    title: "A stage absorbed writes",
    remedy: "The array answered small writes from its stage, and had not placed all of them at the \
        end. Such a figure holds for a burst that fits into the stage. For the rate of a steady \
        load, write several times the size of the stage, and do not compare the two.",
    find: |analysis| {
        by_workload(analysis, |cell: &Cell| {
            let runs = analysis.runs_of(cell).filter_map(grown);
            let most = runs.max_by(|one, other| one.0.total_cmp(&other.0))?;
            (most.0 > GROWN_MAX).then(|| {
                let mib = to_f64(most.1) / 1_048_576.0;
                let share = percent(most.0);
                format!("the stage held {mib:.1} MiB more at the end, {share} of the bytes written")
            })
        })
    },
};

/// Returns the share of the written bytes by which the stage filled in a run, and these bytes.
fn grown(run: &Run) -> Option<(f64, u64)> {
    let bytes = run.staging.as_ref()?.grown_bytes();
    let written = run.application.written;
    (written > 0).then(|| (to_f64(bytes) / to_f64(written), bytes))
}
