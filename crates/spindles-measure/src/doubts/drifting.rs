//! Reports that the machine became faster or slower during the experiment.

use super::{Kind, Rank, signed};
use crate::SIGNIFICANCE;
use crate::histogram::to_f64;
use crate::statistics::{drift, median};

/// Log-ratio below which a drift does not matter (2 %).
const EXCURSION_MIN: f64 = 0.02;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "drifting",
    rank: Rank::Unsure,
    title: "Drift",
    remedy: "The machine itself changed during the experiment (heat, device wear, other work). The \
             random order within blocks keeps comparisons fair, but absolute figures depend on the \
             time of measurement. Compare systems only within this experiment.",
    find: |analysis| {
        // Each figure against the median of its own cell, in order of time.
        let points: Vec<(f64, f64)> = analysis
            .cells
            .iter()
            .flat_map(|cell| {
                let logs: Vec<f64> = cell.repetitions.iter().map(|r| r.per_second.ln()).collect();
                let centre = median(&logs);
                cell.repetitions
                    .iter()
                    .zip(logs)
                    .map(move |(repetition, log)| {
                        (to_f64(u64::from(repetition.order)), log - centre)
                    })
            })
            .collect();
        match drift(&points) {
            Some(drift)
                if drift.p_value < SIGNIFICANCE && drift.excursion.abs() > EXCURSION_MIN =>
            {
                let percent = drift.excursion.exp_m1() * 100.0;
                let changed = signed(percent);
                vec![format!(
                    "the rates changed by {changed} % from the first run to the last"
                )]
            }
            _ => Vec::new(),
        }
    },
};
