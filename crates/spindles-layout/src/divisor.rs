//! Division by a number that is fixed when the array is opened: a multiplication and shifts.

/// Divides by one number without a division instruction.
///
/// Granlund and Montgomery, "Division by invariant integers using multiplication" (1994),
/// figure 4.1: exact for every dividend and divisor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    by: u64,
    factor: u64,
    shift_first: u8,
    shift_last: u8,
}

impl Divisor {
    /// Panics for 0.
    pub(crate) fn new(divisor: u64) -> Self {
        assert!(divisor > 0, "nothing can be divided by 0");
        let log = u64::BITS - (divisor - 1).leading_zeros();
        let excess = (1_u128 << log) - u128::from(divisor);
        let factor = (excess << 64) / u128::from(divisor) + 1;
        let log = u8::try_from(log).expect("at most 64");
        Self {
            by: divisor,
            factor: u64::try_from(factor).expect("the excess is less than the divisor"),
            shift_first: log.min(1),
            shift_last: log.saturating_sub(1),
        }
    }

    /// Returns the quotient and the remainder. Can't overflow, and skips the checks for it: this is
    /// the hot path of every small read.
    #[inline]
    pub(crate) fn div_rem(self, dividend: u64) -> (u64, u64) {
        let product = u128::from(self.factor).wrapping_mul(u128::from(dividend));
        let high = u64::try_from(product >> 64).expect("the upper half");
        let rest = dividend.wrapping_sub(high) >> (self.shift_first & 1);
        let quotient = high.wrapping_add(rest) >> (self.shift_last & 63);
        (
            quotient,
            dividend.wrapping_sub(quotient.wrapping_mul(self.by)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_division() {
        let edges = [
            0,
            1,
            2,
            3,
            5,
            7,
            10,
            63,
            64,
            65,
            4095,
            4096,
            1 << 32,
            1 << 63,
        ];
        let near = |n: u64| [n.wrapping_sub(1), n, n.wrapping_add(1)];
        for divisor in edges.into_iter().flat_map(near).filter(|n| *n > 0) {
            let fast = Divisor::new(divisor);
            let multiples = edges.map(|n: u64| n.wrapping_mul(divisor));
            for dividend in edges.into_iter().chain(multiples).flat_map(near) {
                let expected = (dividend / divisor, dividend % divisor);
                assert_eq!(fast.div_rem(dividend), expected, "{dividend} / {divisor}");
            }
        }
    }
}
