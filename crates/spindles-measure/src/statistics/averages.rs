//! Means, medians, the deviation of a sample, and the correction of p-values for several tests.

/// The arithmetic mean. 0 if empty.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        0.0
    } else {
        values.iter().sum::<f64>() / count(values)
    }
}

/// The median. 0 if empty.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    median_in_place(&mut sorted)
}

/// The median; sorts the values. 0 if empty.
pub(super) fn median_in_place(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values {
        [] => 0.0,
        values if values.len() % 2 == 1 => values[middle],
        values => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The geometric mean of positive values. 0 if empty.
pub fn geometric_mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    mean(&logs).exp()
}

/// The standard deviation of a sample (divided by n - 1). 0 for fewer than two values.
pub fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    (squares / (count(values) - 1.0)).sqrt()
}

/// Number of values, as a float.
pub(super) fn count<T>(values: &[T]) -> f64 {
    crate::histogram::to_f64(u64::try_from(values.len()).expect("a length fits u64"))
}

/// Applies Holm's correction: returns each p-value adjusted for testing all of them together.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut floor = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        floor = floor.max((count(&order[rank..]) * p_values[index]).min(1.0));
        corrected[index] = floor;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_medians_of_known_sets() {
        assert!((mean(&[1.0, 2.0, 6.0]) - 3.0).abs() < 1e-12);
        assert!((median(&[5.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
        assert!((geometric_mean(&[1.0, 2.0, 4.0]) - 2.0).abs() < 1e-12);
        assert!(
            (deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]) - 2.138_089_935).abs() < 1e-8
        );
        for empty in [mean(&[]), median(&[]), geometric_mean(&[]), deviation(&[])] {
            assert!(empty.abs() < f64::EPSILON);
        }
    }

    #[test]
    fn holm_correction_gives_the_textbook_values() {
        // Holm 1979's procedure on 0.01, 0.04, 0.03, 0.005: 0.03, 0.06, 0.06, 0.02 (R's p.adjust).
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{corrected:?}");
        }
    }
}
