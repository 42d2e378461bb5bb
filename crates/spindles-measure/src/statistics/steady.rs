//! The steady state of SNIA's Solid State Storage Performance Test Specification
//! (2.0.2, 2.1.24): over the last five rounds the range is at most 20 % of the
//! mean and the best-fit line rises or falls by at most 10 % of it.

use super::averages::{count, mean};

/// Number of rounds tested.
pub const WINDOW: usize = 5;
const RANGE_MAX: f64 = 0.20;
const EXCURSION_MAX: f64 = 0.10;

/// Result of the test, as fractions of the mean.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Steady {
    /// Largest minus smallest value of the window.
    pub range: f64,
    /// Rise of the best-fit line over the window.
    pub excursion: f64,
}

impl Steady {
    /// Returns true if both bounds hold.
    pub fn holds(&self) -> bool {
        self.range <= RANGE_MAX && self.excursion.abs() <= EXCURSION_MAX
    }
}

/// Tests the last [`WINDOW`] rounds. `None` if there are fewer.
pub fn steady(rounds: &[f64]) -> Option<Steady> {
    let window = rounds.last_chunk::<WINDOW>()?;
    let centre = mean(window);
    if centre <= 0.0 {
        return None;
    }
    let most = window.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = window.iter().copied().fold(f64::INFINITY, f64::min);
    let span = count(window) - 1.0;
    let (mut product, mut spread, mut x) = (0.0, 0.0, -span / 2.0);
    for value in window {
        product += x * (value - centre);
        spread += x * x;
        x += 1.0;
    }
    Some(Steady {
        range: (most - least) / centre,
        excursion: product / spread * span / centre,
    })
}

/// Tests the slots of one run without its warm-up. They are joined into [`WINDOW`] rounds of equal
/// length; excess slots at the start are ignored. `None` if there are fewer slots.
pub fn steady_over(slots: &[f64]) -> Option<Steady> {
    let length = slots.len() / WINDOW;
    let rounds = slots.get(slots.len() - length * WINDOW..)?;
    let rounds = rounds.chunks_exact(length.max(1)).map(mean);
    steady(&rounds.collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_state_tests_both_bounds_on_the_last_five_rounds() {
        for (rounds, holds) in [
            (&[100.0, 101.0, 99.0, 100.0, 100.0][..], true),
            (&[500.0, 100.0, 101.0, 99.0, 100.0, 100.0], true),
            (&[100.0, 100.0, 121.0, 100.0, 100.0], false),
            // A steady climb: range 12 %, line 12 %.
            (&[94.0, 97.0, 100.0, 103.0, 106.0], false),
            (&[96.0, 98.0, 100.0, 102.0, 104.0], true),
        ] {
            let found = steady(rounds).unwrap();
            assert_eq!(found.holds(), holds, "{rounds:?}: {found:?}");
        }
        let climb = steady(&[94.0, 97.0, 100.0, 103.0, 106.0]).unwrap();
        assert!((climb.excursion - 0.12).abs() < 1e-12 && (climb.range - 0.12).abs() < 1e-12);
        assert!(steady(&[1.0; 4]).is_none());
    }

    #[test]
    fn slots_are_joined_to_five_rounds() {
        // 13 slots: the first three are ignored, then five pairs of 90 and 110, which are steady
        // together.
        let mut slots = vec![5.0, 5.0, 5.0];
        slots.extend([90.0, 110.0].repeat(5));
        let found = steady_over(&slots).unwrap();
        assert!(found.range.abs() < 1e-12 && found.holds());
        assert!(
            !steady_over(&[90.0, 110.0, 90.0, 110.0, 90.0])
                .unwrap()
                .holds()
        );
        assert!(steady_over(&[1.0; 4]).is_none());
    }
}
