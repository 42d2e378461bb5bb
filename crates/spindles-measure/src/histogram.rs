//! A log-linear histogram of latencies: exact below 64, then 64 buckets for each power of two. A
//! value is thus known to within 1/64, whatever its size. Merging adds counts, so threads and
//! repetitions join without loss.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Binary logarithm of the number of buckets for each power of two.
const PRECISION_BITS: u32 = 6;
const SUB_BUCKETS: usize = 1 << PRECISION_BITS;
/// Buckets for all of `u64`.
const BUCKETS: usize = SUB_BUCKETS * (64 - 6 + 1);

/// A percentile is at most this fraction above the true value.
pub const RELATIVE_ERROR_MAX: f64 = 1.0 / 64.0;

/// Counts of values; latencies are in nanoseconds. A record stores the list of `[least value of the
/// bucket, count]` of the buckets that are not empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.buckets()).finish()
    }
}

impl Histogram {
    /// Creates an empty histogram. Allocates here, never in `record`.
    pub fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            total: 0,
            max: 0,
        }
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value `count` times.
    pub fn record_many(&mut self, value: u64, count: u64) {
        if count == 0 {
            return;
        }
        let bucket = &mut self.counts[bucket_of(value)];
        *bucket = bucket.saturating_add(count);
        self.total = self.total.saturating_add(count);
        self.max = self.max.max(value);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
        self.total = self.total.saturating_add(other.total);
        self.max = self.max.max(other.max);
    }

    /// Number of values counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns true if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The exact largest value. 0 if empty.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value that `percent` of all values do not exceed: the highest value of its bucket. It is
    /// never below the truth and at most [`RELATIVE_ERROR_MAX`] above it. 0 if empty.
    pub fn percentile(&self, percent: f64) -> u64 {
        let fraction = (percent / 100.0).clamp(0.0, 1.0);
        let mut seen = 0_u64;
        for (index, &count) in self.counts.iter().enumerate() {
            seen = seen.saturating_add(count);
            if count > 0 && to_f64(seen) >= fraction * to_f64(self.total) {
                return highest_of(index).min(self.max);
            }
        }
        self.max
    }

    /// The mean, with each value taken as the middle of its bucket. 0 if empty.
    pub fn mean(&self) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        let sum: f64 = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, &count)| {
                let middle = f64::midpoint(to_f64(least_of(index)), to_f64(highest_of(index)));
                middle * to_f64(count)
            })
            .sum();
        sum / to_f64(self.total)
    }

    /// The buckets that are not empty: least value and count, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, &count)| (least_of(index), count))
    }
}

fn bucket_of(value: u64) -> usize {
    let magnitude = 63_u32.saturating_sub(value.leading_zeros());
    let shift = magnitude.saturating_sub(PRECISION_BITS);
    let within = usize::try_from(value >> shift).expect("below 128 after the shift");
    // From the first shift on, `within` is 64..128, so the rows join without a gap.
    usize::try_from(shift).expect("at most 57") * SUB_BUCKETS + within
}

fn shift_and_within(index: usize) -> (u32, u64) {
    let row = (index / SUB_BUCKETS).saturating_sub(1);
    let within = index - row * SUB_BUCKETS;
    (
        u32::try_from(row).expect("at most 57 rows"),
        u64::try_from(within).expect("below 128"),
    )
}

fn least_of(index: usize) -> u64 {
    let (shift, within) = shift_and_within(index);
    within << shift
}

fn highest_of(index: usize) -> u64 {
    let (shift, within) = shift_and_within(index);
    (within << shift) | ((1 << shift) - 1)
}

/// Converts a count or nanoseconds to a float: exact below 2^53, rounded above.
#[expect(
    clippy::cast_precision_loss,
    reason = "rounding is meant: this is for statistics"
)]
pub(crate) fn to_f64(value: u64) -> f64 {
    value as f64
}

#[derive(Serialize, Deserialize)]
struct Stored {
    max: u64,
    buckets: Vec<(u64, u64)>,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Stored {
            max: self.max,
            buckets: self.buckets().collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(deserializer)?;
        let mut histogram = Histogram::new();
        for (least, count) in stored.buckets {
            histogram.record_many(least, count);
        }
        histogram.max = histogram.max.max(stored.max);
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_every_value_once() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        for index in 0..BUCKETS - 1 {
            assert_eq!(highest_of(index) + 1, least_of(index + 1), "bucket {index}");
            assert_eq!(bucket_of(least_of(index)), index);
            assert_eq!(bucket_of(highest_of(index)), index);
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        // A long-tailed set: i^3 for i in 1..=1000.
        let values: Vec<u64> = (1..=1000_u64).map(|i| i * i * i).collect();
        let mut histogram = Histogram::new();
        for &value in &values {
            histogram.record(value);
        }
        for (percent, rank) in [(0.1, 0), (50.0, 499), (90.0, 899), (99.0, 989), (99.9, 998)] {
            let truth = values[rank];
            let found = histogram.percentile(percent);
            assert!(found >= truth, "{percent}: {found} < {truth}");
            let error = to_f64(found - truth) / to_f64(truth);
            assert!(
                error <= RELATIVE_ERROR_MAX,
                "{percent}: {found} for {truth}"
            );
        }
        assert_eq!(histogram.percentile(100.0), 1_000_000_000);
        assert_eq!(histogram.max(), 1_000_000_000);
        let mean = 1000.0 * 1001.0 * 1001.0 / 4.0;
        assert!((histogram.mean() / mean - 1.0).abs() < RELATIVE_ERROR_MAX);
    }

    #[test]
    fn merged_histograms_equal_one_recorded_together() {
        let (mut left, mut right, mut both) =
            (Histogram::new(), Histogram::new(), Histogram::new());
        for value in 0..10_000_u64 {
            let value = value * value;
            if value % 3 == 0 {
                &mut left
            } else {
                &mut right
            }
            .record(value);
            both.record(value);
        }
        left.merge(&right);
        assert_eq!(left, both);
    }

    #[test]
    fn an_empty_histogram_is_zero_everywhere() {
        let empty = Histogram::new();
        assert!(empty.is_empty());
        assert_eq!(
            (empty.percentile(50.0), empty.max(), empty.total()),
            (0, 0, 0)
        );
        assert!(empty.mean().abs() < f64::EPSILON);
    }
}
