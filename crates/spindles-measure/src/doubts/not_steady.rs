//! Reports cells that fail the steady state test, over the last five repetitions or within a timed
//! run.

use super::{Kind, Rank, by_workload, percent};
use crate::statistics::{Steady, steady_over};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "not-steady",
    rank: Rank::Partial,
    title: "Not steady",
    remedy: "Over the last five repetitions, or within a run after its warm-up, these figures \
        range over more than 20 % or trend by more than 10 % of their mean. Their intervals show \
        how much this matters. On a flash device, run longer or precondition it.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            (!analysis.rate_was_set(cell)).then_some(())?;
            let fails = |steady: Option<Steady>| steady.filter(|steady| !steady.holds());
            let between = fails(cell.steady).map(|fails| format!("range {}", percent(fails.range)));
            let runs = analysis.runs_of(cell);
            let within: Vec<Steady> = runs
                .filter(|run| run.workload.duration_ns > 0)
                .filter_map(|run| {
                    let series = run.series.as_ref()?;
                    fails(steady_over(&series.after_warm_up(run.workload.rate)))
                })
                .collect();
            let worst = within
                .iter()
                .map(|unsteady| unsteady.range)
                .fold(0.0, f64::max);
            let within = (!within.is_empty()).then(|| {
                format!(
                    "{} of {} runs, range up to {}",
                    within.len(),
                    cell.repetitions.len(),
                    percent(worst)
                )
            });
            let said: Vec<String> = between.into_iter().chain(within).collect();
            (!said.is_empty()).then(|| said.join("; "))
        })
    },
};
