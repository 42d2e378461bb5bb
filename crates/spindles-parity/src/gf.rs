//! Arithmetic in GF(2^8) with polynomial 0x11d, of which 2 is a generator.

const TABLES: ([u8; 255], [u8; 256]) = tables();
/// Powers of 2.
static EXP: [u8; 255] = TABLES.0;
/// Logarithms to base 2; that of 0 is unused.
static LOG: [u8; 256] = TABLES.1;

const fn tables() -> ([u8; 255], [u8; 256]) {
    let (mut exp, mut log) = ([0; 255], [0; 256]);
    let mut value: u8 = 1;
    let mut power: u8 = 0;
    while power < 255 {
        exp[power as usize] = value;
        log[value as usize] = power;
        value = double(value);
        power += 1;
    }
    (exp, log)
}

/// `2 * a`.
pub(crate) const fn double(a: u8) -> u8 {
    let carry = a >> 7;
    (a << 1) ^ (carry * 0x1d)
}

/// `a * b`.
pub(crate) fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    let power = usize::from(LOG[usize::from(a)]) + usize::from(LOG[usize::from(b)]);
    EXP[power % 255]
}

/// The inverse of `a`, which is not 0.
pub(crate) fn invert(a: u8) -> u8 {
    assert!(a != 0);
    EXP[(255 - usize::from(LOG[usize::from(a)])) % 255]
}

/// `2^power`.
pub(crate) fn exp(power: u16) -> u8 {
    EXP[usize::from(power % 255)]
}

/// `a * b` bit by bit, for tables made at compile time.
#[cfg(any(test, target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) const fn mul_slow(a: u8, b: u8) -> u8 {
    let (mut sum, mut shifted, mut rest) = (0, a, b);
    while rest != 0 {
        sum ^= shifted * (rest & 1);
        shifted = double(shifted);
        rest >>= 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_products_agree_and_inverses_invert() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), mul_slow(a, b));
            }
            assert!(a == 0 || mul(a, invert(a)) == 1);
        }
        assert_eq!((exp(0), exp(1), exp(8), exp(256)), (1, 2, 0x1d, 2));
    }
}
