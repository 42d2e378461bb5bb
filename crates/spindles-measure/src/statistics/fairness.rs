//! Measures how evenly a resource was shared.

/// Jain's fairness index (Jain, Chiu and Hawe 1984): 1 for equal rates, 1/n if only one rate is
/// above 0. `None` if all rates are 0.
pub fn fairness(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let count = f64::from(u32::try_from(rates.len()).expect("few"));
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_are_fair_and_one_taker_is_not() {
        let rounded =
            |rates: &[f64]| fairness(rates).map(|fairness| (fairness * 1000.0).round() / 1000.0);
        assert_eq!(rounded(&[5.0; 8]), Some(1.0));
        assert_eq!(rounded(&[7.0, 0.0, 0.0, 0.0]), Some(0.25));
        // (1 + 2 + 3)² ÷ (3 × (1 + 4 + 9)).
        assert_eq!(rounded(&[1.0, 2.0, 3.0]), Some(0.857));
        assert_eq!((fairness(&[]), fairness(&[0.0; 3])), (None, None));
    }
}
