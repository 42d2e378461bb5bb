//! Reports a large spread between the repetitions of a cell.

use super::{Kind, Rank, by_workload};
use crate::statistics::{deviation, mean};

/// Ratio of the fastest to the slowest repetition from which a cell fluctuates.
const SPREAD: f64 = 2.0;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "fluctuating",
    rank: Rank::Unsure,
    title: "Fluctuates between repetitions",
    remedy: "The fastest repetition is at least twice as fast as the slowest. Other programs may \
             have used the device or the CPUs: stop them, or use more repetition blocks.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            let rates: Vec<f64> = cell.repetitions.iter().map(|r| r.per_second).collect();
            let most = rates.iter().copied().fold(0.0, f64::max);
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            (rates.len() > 1 && most >= SPREAD * least).then(|| {
                let variation = deviation(&rates) / mean(&rates) * 100.0;
                format!(
                    "fastest {:.1} times the slowest, deviation {variation:.0} %",
                    most / least
                )
            })
        })
    },
};
