//! Detects latencies of two kinds, such as hits and misses of a cache: two peaks in the histogram
//! over the logarithm of time, with a valley between them.

use super::averages::count;
use crate::Histogram;
use crate::histogram::to_f64;

/// The two peaks of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct TwoModes {
    /// Top of the lower peak, in the unit of the histogram.
    pub low: f64,
    /// Bottom of the valley: values below it are of the lower kind.
    pub antimode: f64,
    /// Top of the higher peak.
    pub high: f64,
    /// Share of the values below the antimode.
    pub share_below: f64,
}

/// Bins for each doubling.
const BINS: f64 = 4.0;
/// Smallest share of all values in each peak.
const SHARE_MIN: f64 = 0.02;
/// Largest height of the valley, as a fraction of the lower peak.
const VALLEY_MAX: f64 = 0.25;
/// Smallest factor between the two peaks.
const APART_MIN: f64 = 4.0;
/// Fewest values for a result.
const VALUES_MIN: u64 = 200;

/// Finds two peaks. `None` if there is one, if more than two kinds blur into each other, or with
/// fewer than 200 values.
pub fn two_modes(histogram: &Histogram) -> Option<TwoModes> {
    if histogram.total() < VALUES_MIN {
        return None;
    }
    let bins = smoothed(&binned(histogram));
    let total: f64 = bins.iter().sum();
    let apart = bin_of(APART_MIN);
    let top = |range: std::ops::Range<usize>| {
        range.max_by(|&a, &b| bins[a].total_cmp(&bins[b]).then(b.cmp(&a)))
    };
    // Every bin may be the valley; take the deepest relative to the lower of its two peaks.
    let valleys = (1..bins.len().saturating_sub(1)).filter_map(|valley| {
        let (low, high) = (top(0..valley)?, top(valley + 1..bins.len())?);
        let lower = bins[low].min(bins[high]);
        let below: f64 = bins[..valley].iter().sum();
        let shares = below.min(total - below - bins[valley]) / total;
        let are_apart = high - low >= apart
            && shares >= SHARE_MIN
            && lower > 0.0
            && bins[valley] <= VALLEY_MAX * lower;
        are_apart.then(|| (bins[valley] / lower, valley, low, high))
    });
    let valleys: Vec<(f64, usize, usize, usize)> = valleys.collect();
    let least = valleys
        .iter()
        .map(|valley| valley.0)
        .min_by(f64::total_cmp)?;
    // Take the middle of a broad valley.
    let deepest: Vec<_> = valleys
        .iter()
        .filter(|valley| valley.0 <= least + 1e-9)
        .collect();
    let &&(_, valley, low, high) = deepest.get(deepest.len() / 2)?;
    let antimode = value_of(valley);
    let below: u64 = histogram
        .buckets()
        .filter(|&(least, _)| to_f64(least) < antimode)
        .map(|(_, count)| count)
        .sum();
    Some(TwoModes {
        low: value_of(low),
        antimode,
        high: value_of(high),
        share_below: to_f64(below) / to_f64(histogram.total()),
    })
}

fn binned(histogram: &Histogram) -> Vec<f64> {
    let mut bins = Vec::new();
    for (least, count) in histogram.buckets() {
        let bin = bin_of(to_f64(least.max(1)));
        if bins.len() < bin + 2 {
            bins.resize(bin + 2, 0.0);
        }
        bins[bin] += to_f64(count);
    }
    bins
}

/// Smooths each bin with its neighbours, 1 : 2 : 1, twice, so that sparse peaks become smooth.
fn smoothed(bins: &[f64]) -> Vec<f64> {
    let once = |bins: &[f64]| -> Vec<f64> {
        let at = |index: Option<usize>| {
            index
                .and_then(|index| bins.get(index))
                .copied()
                .unwrap_or(0.0)
        };
        (0..bins.len())
            .map(|index| {
                let beside = at(index.checked_sub(1)) + at(index.checked_add(1));
                (beside + 2.0 * at(Some(index))) / 4.0
            })
            .collect()
    };
    once(&once(bins))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 to 4 × 64"
)]
fn bin_of(value: f64) -> usize {
    (value.log2() * BINS).floor().max(0.0) as usize
}

/// Value in the middle of a bin.
fn value_of(bin: usize) -> f64 {
    let doublings = (count(&vec![(); bin]) + 0.5) / BINS;
    doublings.exp2()
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, below 2^53"
    )]
    fn histogram(count: usize, mut draw: impl FnMut() -> f64) -> Histogram {
        let mut histogram = Histogram::new();
        (0..count).for_each(|_| histogram.record(draw() as u64));
        histogram
    }

    #[test]
    fn hits_and_misses_form_two_modes() {
        for seed in 0..30 {
            let mut random = Random::new(seed);
            // 30 % hits at 20 µs, misses at 8 ms, each lognormal.
            let found = two_modes(&histogram(3000, || {
                let centre = if random.unit() < 0.3 { 2e4 } else { 8e6 };
                centre * (0.5 * random.normal()).exp()
            }));
            let found = found.unwrap_or_else(|| panic!("seed {seed}"));
            assert!((found.share_below - 0.3).abs() < 0.03, "{found:?}");
            assert!((1e4..4e4).contains(&found.low) && (4e6..16e6).contains(&found.high));
            assert!((5e4..3e6).contains(&found.antimode), "{found:?}");
        }
    }

    #[test]
    fn one_broad_peak_are_apart_mode() {
        for seed in 0..30 {
            let mut random = Random::new(seed);
            for width in [0.1, 0.5, 1.0, 1.5] {
                let one = histogram(1000, || 1e6 * (width * random.normal()).exp());
                assert_eq!(two_modes(&one), None, "seed {seed}, width {width}");
            }
            let exponential = histogram(1000, || -1e6 * (1.0 - random.unit()).ln());
            assert_eq!(two_modes(&exponential), None, "seed {seed}");
        }
    }

    #[test]
    fn few_values_or_stragglers_show_no_second_mode() {
        let mut histogram = Histogram::new();
        histogram.record_many(1000, 100);
        histogram.record_many(1_000_000, 99);
        assert_eq!(two_modes(&histogram), None);
        histogram.record_many(1000, 9_801);
        assert_eq!(two_modes(&histogram), None);
    }
}
