//! Draws: one value for every number that is not known, and one angle for every spindle.

use crate::number::{Number, Switch};

/// A draw of all unknown numbers. Each value depends on the seed, the model's name and the key
/// alone, so disks of one model share their values, in any world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    seed: u64,
    spread: Spread,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    Exact,
    Nominal,
    Drawn,
}

impl Draw {
    /// Takes the values as they are, and starts every spindle at angle 0: for replays.
    pub const fn exact() -> Self {
        Self {
            seed: 0,
            spread: Spread::Exact,
        }
    }

    /// Takes the values as they are; the seed draws only the angles of the spindles.
    pub const fn nominal(seed: u64) -> Self {
        Self {
            seed,
            spread: Spread::Nominal,
        }
    }

    /// Draws every number between its low and high, every switch among its alternatives, and the
    /// angles of the spindles.
    pub const fn seeded(seed: u64) -> Self {
        Self {
            seed,
            spread: Spread::Drawn,
        }
    }

    /// The value of a number: as often below the nominal value as above it.
    pub(crate) fn number(&self, model: &str, key: &str, number: &Number) -> f64 {
        if self.spread != Spread::Drawn {
            return number.value;
        }
        let part = unit(hash(self.seed, &[model, key])) * 2.0;
        if part < 1.0 {
            number.low + (number.value - number.low) * part
        } else {
            number.value + (number.high - number.value) * (part - 1.0)
        }
    }

    /// The value of a switch: each alternative is equally likely.
    pub(crate) fn switch<'a>(&self, model: &str, key: &str, switch: &'a Switch) -> &'a str {
        let drawn = hash(self.seed, &[model, key]);
        let count = u64::try_from(switch.or.len()).expect("few alternatives") + 1;
        match (self.spread, usize::try_from(drawn % count)) {
            (Spread::Drawn, Ok(index)) if index > 0 => &switch.or[index - 1],
            _ => &switch.value,
        }
    }

    /// The angle of a spindle at time 0, in turns of 2^64.
    pub(crate) fn angle(&self, device: u32) -> u64 {
        match self.spread {
            Spread::Exact => 0,
            Spread::Nominal | Spread::Drawn => mix(hash(self.seed, &["angle"]) ^ u64::from(device)),
        }
    }
}

/// A hash of the words, the same on every machine (FNV-1a, then mixed).
fn hash(seed: u64, words: &[&str]) -> u64 {
    let mut hash = mix(seed) ^ 0xcbf2_9ce4_8422_2325;
    for word in words {
        for byte in word.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    mix(hash)
}

/// The finalizer of `SplitMix64`.
pub(crate) const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A number from 0 to below 1.
pub(crate) fn unit(hash: u64) -> f64 {
    let high = u32::try_from(hash >> 32).expect("32 bits");
    f64::from(high) / 4_294_967_296.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::How;

    #[test]
    fn draws_lie_between_low_and_high_and_repeat() {
        let number = Number {
            value: 3.0,
            low: 2.0,
            high: 6.0,
            how: How::Assumed,
            source: "test".to_owned(),
        };
        let drawn: Vec<f64> = (0..400)
            .map(|seed| Draw::seeded(seed).number("m", "k", &number))
            .collect();
        assert!(drawn.iter().all(|value| (2.0..=6.0).contains(value)));
        let below = drawn.iter().filter(|value| **value < 3.0).count();
        assert!((160..240).contains(&below), "{below}");
        let again = Draw::seeded(7).number("m", "k", &number);
        assert_eq!(drawn[7].to_bits(), again.to_bits());
        let nominal = Draw::nominal(9).number("m", "k", &number);
        assert_eq!(nominal.to_bits(), 3.0_f64.to_bits());
        assert_ne!(Draw::nominal(1).angle(0), Draw::nominal(1).angle(1));
        assert_eq!(Draw::exact().angle(5), 0);
    }

    #[test]
    fn a_switch_takes_every_alternative() {
        let switch = Switch {
            value: "any".to_owned(),
            or: vec!["none".to_owned()],
            how: How::Assumed,
            source: String::new(),
        };
        let count = (0..100)
            .filter(|seed| Draw::seeded(*seed).switch("m", "k", &switch) == "none")
            .count();
        assert!((30..70).contains(&count), "{count}");
        assert_eq!(Draw::nominal(3).switch("m", "k", &switch), "any");
    }
}
