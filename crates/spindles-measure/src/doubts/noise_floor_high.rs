//! Reports identical systems that came out different.

use super::{Kind, Rank, signed};

/// Difference of an A/A pair, as a log-ratio, from which it is reported (5 %).
const FLOOR_MAX: f64 = 0.048_79;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "noise-floor-high",
    rank: Rank::Unsure,
    title: "Identical systems came out different",
    remedy: "The baseline was measured twice under two names, and the two differ. Other \
        differences of this size may be noise too, so a verdict needs an interval that lies wholly \
        beyond it. Quieten the machine, or use more repetition blocks.",
    find: |analysis| {
        analysis
            .comparisons
            .iter()
            .filter(|c| c.control && c.log_ratio.blocks > 0)
            .filter(|c| c.log_ratio.excludes_zero() || c.log_ratio.value.abs() > FLOOR_MAX)
            .map(|c| {
                let (value, low, high) = c.percent();
                if low.is_finite() && high.is_finite() {
                    format!(
                        "{}: {} % ({} … {})",
                        c.of(),
                        signed(value),
                        signed(low),
                        signed(high)
                    )
                } else {
                    format!("{}: {} %", c.of(), signed(value))
                }
            })
            .collect()
    },
};
