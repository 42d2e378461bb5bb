//! Results of trials, which test a verdict with pairs of runs: one unchanged and one with the
//! change, in random order.

use super::{Intervention, Tried};
use crate::Run;
use crate::statistics::mean_of_blocks;
use std::collections::BTreeMap;

/// Returns the trials of a system with a workload, one for each change. `trials` holds all trial
/// runs of the experiment.
pub(crate) fn tried(trials: &[Run], system: &str, workload: &str) -> Vec<Tried> {
    let mut changes: Vec<Intervention> = Vec::new();
    let mut pairs: Vec<BTreeMap<u32, [f64; 2]>> = Vec::new();
    let mine = |run: &&Run| run.system.name == system && run.workload_of_trial() == workload;
    for run in trials
        .iter()
        .filter(mine)
        .filter(|run| run.failed.is_none())
    {
        let Some(trial) = &run.trial else { continue };
        let at = changes.iter().position(|change| *change == trial.change);
        let at = at.unwrap_or_else(|| {
            changes.push(trial.change.clone());
            pairs.push(BTreeMap::new());
            changes.len() - 1
        });
        let rates = pairs[at].entry(trial.pair).or_default();
        rates[usize::from(trial.changed)] = run.per_second();
    }
    let each = changes.into_iter().zip(pairs);
    each.filter_map(|(change, pairs)| {
        let whole = pairs
            .values()
            .filter(|[before, after]| *before > 0.0 && *after > 0.0);
        let logs: Vec<f64> = whole.map(|[before, after]| (after / before).ln()).collect();
        if logs.is_empty() {
            return None;
        }
        let log_ratio = mean_of_blocks(&logs, 1);
        Some(Tried {
            outcome: change
                .effect()
                .judge(log_ratio.low.exp(), log_ratio.high.exp()),
            change,
            log_ratio,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::TrialOutcome;
    use super::*;
    use crate::{System, Trial, Workload};

    fn run(pair: u32, changed: bool, per_second: u64) -> Run {
        Run {
            system: System {
                name: "raid5".to_owned(),
                ..System::default()
            },
            workload: Workload {
                name: "seeks".to_owned(),
                ..Workload::default()
            },
            counted: per_second,
            elapsed_ns: 1_000_000_000,
            trial: Some(Trial {
                of: "seeks".to_owned(),
                change: Intervention::DoubleActors,
                pair,
                changed,
            }),
            ..Run::default()
        }
    }

    #[test]
    fn the_interval_of_the_pairs_decides() {
        let of = |after: [u64; 3]| {
            let pairs = (0..).zip(after);
            let runs: Vec<Run> = pairs
                .flat_map(|(pair, after)| [run(pair, false, 1000), run(pair, true, after)])
                .collect();
            tried(&runs, "raid5", "seeks").remove(0)
        };
        assert_eq!(of([1900, 1950, 1920]).outcome, TrialOutcome::Confirmed);
        assert_eq!(of([1010, 1000, 1020]).outcome, TrialOutcome::Refuted);
        assert_eq!(of([1000, 1500, 2200]).outcome, TrialOutcome::NotResolved);
        let words = of([1900, 1950, 1920]).words();
        assert!(
            words.starts_with(
                "use twice as many actors: the rate should grow by at least 50 %, and it grew by \
            92 % ("
            ),
            "{words}"
        );
        let fell = of([590, 600, 610]).words();
        assert!(fell.contains("and it fell by 40 % (3"), "{fell}");
    }

    /// One pair has no interval, and an incomplete pair says nothing.
    #[test]
    fn too_few_runs_decide_nothing() {
        let one = [run(0, false, 1000), run(0, true, 3000)];
        assert_eq!(
            tried(&one, "raid5", "seeks")[0].outcome,
            TrialOutcome::NotResolved
        );
        let words = tried(&one, "raid5", "seeks")[0].words();
        assert!(
            words.ends_with("and it grew by 200 % (one pair: no interval)"),
            "{words}"
        );
        assert_eq!(tried(&one[..1], "raid5", "seeks"), []);
        assert_eq!(tried(&one, "raid1", "seeks"), []);
        let failed = Run {
            failed: Some("no room".to_owned()),
            ..run(0, true, 3000)
        };
        assert_eq!(tried(&[run(0, false, 1000), failed], "raid5", "seeks"), []);
    }
}
