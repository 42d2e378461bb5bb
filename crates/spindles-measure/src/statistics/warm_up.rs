//! Finds the warm-up at the start of a run: MSER-5 (White, Cobb and Spratt 2000). It cuts off the
//! part that minimises the standard error of the mean of the rest. Batches of five slots even out
//! single ones.

use super::averages::{count, mean};

/// Slots in a batch.
const BATCH: usize = 5;
/// Fewest batches for a result.
const BATCHES_MIN: usize = 4;

/// Returns the number of slots at the start that are warm-up: a multiple of five, at most half of
/// them. Use [`super::steady_over`] to test whether the rest is steady. `None` with fewer than 20
/// slots.
pub fn warm_up(slots: &[f64]) -> Option<usize> {
    let batches: Vec<f64> = slots.chunks_exact(BATCH).map(mean).collect();
    if batches.len() < BATCHES_MIN {
        return None;
    }
    // A few batches at the end may agree by chance, so search the first half only.
    let cut = (0..=batches.len() / 2)
        .min_by(|&a, &b| error(&batches[a..]).total_cmp(&error(&batches[b..])))?;
    Some(cut * BATCH)
}

/// The squared standard error of the mean, up to a constant factor.
fn error(rest: &[f64]) -> f64 {
    let centre = mean(rest);
    let squares: f64 = rest.iter().map(|value| (value - centre).powi(2)).sum();
    squares / count(rest).powi(2)
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    fn five_times(batches: &[f64]) -> Vec<f64> {
        batches.iter().flat_map(|&value| [value; 5]).collect()
    }

    #[test]
    fn the_cut_equals_the_hand_computed_rule() {
        // Errors from 0, 1, 2 on: 92.8/36, 2.8/25 …, 1/16 (mean 10.5), 0.667/9, 0.5/4.
        let batches = [0.0, 12.0, 10.0, 11.0, 10.0, 11.0];
        assert!((error(&batches[2..]) - 1.0 / 16.0).abs() < 1e-12);
        assert!((error(&batches[1..]) - 2.8 / 25.0).abs() < 1e-12);
        assert_eq!(warm_up(&five_times(&batches)), Some(10));
    }

    #[test]
    fn only_a_planted_warm_up_is_found() {
        let mut cuts = Vec::new();
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut steady = |level: f64| level * (1.0 + 0.03 * random.normal());
            let ramp: Vec<f64> = (0_u8..20)
                .map(|slot| 40.0 + 3.0 * f64::from(slot))
                .collect();
            let mut slots = ramp;
            slots.extend((0..80).map(|_| steady(100.0)));
            let cut = warm_up(&slots).unwrap();
            assert!((15..=50).contains(&cut), "seed {seed}: {cut}");
            cuts.push(cut);
        }
        let close = cuts.iter().filter(|&&cut| cut <= 25).count();
        assert!(close >= 35, "{cuts:?}");
        assert_eq!(warm_up(&[7.0; 100]), Some(0));
    }

    #[test]
    fn unsettled_runs_lose_half_and_short_runs_have_no_answer() {
        let climb: Vec<f64> = (0_u8..100).map(f64::from).collect();
        assert_eq!(warm_up(&climb), Some(50));
        assert!(!super::super::steady_over(&climb[50..]).unwrap().holds());
        assert_eq!(warm_up(&[1.0; 19]), None);
    }
}
