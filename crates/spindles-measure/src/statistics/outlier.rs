//! Flags figures far from the others. They are shown and still count: a disk that sometimes takes
//! five times as long is a finding, not dirt.

use super::averages::median;

/// Figures further from the median than this many scaled median deviations are flagged (Iglewicz
/// and Hoaglin 1993).
pub const MODIFIED_Z_MAX: f64 = 3.5;
/// Ratio of the standard deviation to the median deviation for normal data.
const SCALE: f64 = 1.482_602_218_505_602;

/// Returns true for each value that is an outlier. Fewer than 4 values have none.
pub fn outliers(values: &[f64]) -> Vec<bool> {
    let centre = median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    let limit = MODIFIED_Z_MAX * SCALE * median(&distances);
    distances
        .iter()
        .map(|&distance| values.len() >= 4 && limit > 0.0 && distance > limit)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_distant_values_are_flagged_as_outliers() {
        // Median 10, median distance 0.5: the limit is 3.5 × 1.4826 × 0.5 = 2.59.
        let values = [9.0, 9.5, 10.0, 10.5, 11.0, 10.0, 10.0, 13.0];
        let flagged = outliers(&values);
        assert_eq!(
            flagged,
            [false, false, false, false, false, false, false, true]
        );
        assert_eq!(outliers(&[1.0, 1.0, 100.0]), [false; 3]);
        assert_eq!(outliers(&[5.0; 6]), [false; 6]);
    }
}
