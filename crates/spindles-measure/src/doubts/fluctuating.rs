//! Repetitions that jump rather than scatter: the middle ones lie far apart.

use super::{Kind, Rank, by_workload};
use crate::statistics::{deviation, mean};

/// Slowest to fastest repetition, as a ratio, from which on we call it a jump.
const SPREAD: f64 = 2.0;

/// Its row of the table.
pub(super) static KIND: Kind = Kind {
    name: "fluctuating",
    rank: Rank::Unsure,
    title: "Fluctuates between repetitions",
    remedy: "The fastest repetition is at least twice as fast as the slowest. Something else used \
             the device or the CPUs: stop it, or ask for more repetition blocks.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            let rates: Vec<f64> = cell.repetitions.iter().map(|r| r.per_second).collect();
            let most = rates.iter().copied().fold(0.0, f64::max);
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            (rates.len() > 1 && most >= SPREAD * least).then(|| {
                let variation = deviation(&rates) / mean(&rates) * 100.0;
                format!("{:.1} times, deviation {variation:.0} %", most / least)
            })
        })
    },
};
