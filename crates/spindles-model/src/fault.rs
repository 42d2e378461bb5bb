//! Faults of parameters: the place in the text, the fact and the remedy.

use thiserror::Error;

/// A fault in a text of parameters.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{place}: {problem}")]
pub struct Fault {
    /// The file or preset, and the key or line in it.
    pub place: String,
    /// The problem there.
    pub problem: Problem,
}

impl Fault {
    pub(crate) fn new(place: impl Into<String>, problem: Problem) -> Self {
        Self {
            place: place.into(),
            problem,
        }
    }
}

/// A problem of parameters.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Problem {
    /// The text is not TOML.
    #[error("not valid TOML: {0}")]
    Toml(String),
    /// A key is missing.
    #[error("the key is missing. Add it: {expected}")]
    Missing {
        /// What the key holds.
        expected: &'static str,
    },
    /// A value of the wrong type or shape.
    #[error("expected {expected}")]
    Expected {
        /// The right shape.
        expected: String,
    },
    /// A key that no model reads.
    #[error("unknown key{}", near(.nearest.as_deref()))]
    UnknownKey {
        /// The most similar known key.
        nearest: Option<String>,
    },
    /// No preset has that name.
    #[error("no such preset{}", near(.nearest.as_deref()))]
    UnknownPreset {
        /// The most similar name.
        nearest: Option<String>,
    },
    /// A word that is not in the table.
    #[error("unknown value '{found}'. Use one of: {known}")]
    UnknownWord {
        /// The word in the text.
        found: String,
        /// All known words.
        known: String,
    },
    /// `low <= value <= high` does not hold.
    #[error("low {low}, value {value}, high {high}: they must rise, low <= value <= high")]
    Order {
        /// The lower bound.
        low: f64,
        /// The value.
        value: f64,
        /// The upper bound.
        high: f64,
    },
    /// A number outside its range.
    #[error("{value} is out of range. Use {least} to {most}")]
    Range {
        /// The number.
        value: f64,
        /// The least allowed.
        least: f64,
        /// The most allowed.
        most: f64,
    },
    /// A number has no source.
    #[error("the number has no source. Add how = \"...\" and source = \"...\"")]
    NoSource,
    /// Zones overlap, leave gaps or are out of order.
    #[error(
        "the zone starts at cylinder {found}; the zone before it ends at {before}. \
             Start it at {expected}"
    )]
    Zones {
        /// The first cylinder of the zone.
        found: u64,
        /// The last cylinder of the zone before.
        before: i64,
        /// The cylinder at which the zone must start.
        expected: u64,
    },
    /// Sectors do not add up.
    #[error("{found} sectors; {expected} expected from {from}")]
    Sectors {
        /// The number in the text.
        found: u64,
        /// The right number.
        expected: u64,
        /// The table that gives the right number.
        from: &'static str,
    },
    /// More rows than the limit.
    #[error("more than {most} rows. Use fewer, larger ones")]
    TooMany {
        /// The limit.
        most: usize,
    },
}

fn near(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |key| format!(". Did you mean '{key}'?"))
}

/// Returns the known word most similar to `found`, if it is similar at all.
pub(crate) fn nearest<'a>(found: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|word| (distance(found, word), word))
        .min()
        .filter(|(distance, word)| *distance <= word.len().div_ceil(2))
        .map(|(_, word)| word.to_owned())
}

/// The edit distance of two words. Long words are cut: texts can be hostile.
fn distance(a: &str, b: &str) -> usize {
    const MOST: usize = 64;
    let b: Vec<char> = b.chars().take(MOST).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().take(MOST).enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = corner + usize::from(letter != *other);
            corner = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_found() {
        let known = ["rpm", "head_switch_ms", "write_back"];
        let near = |found| nearest(found, known.iter().copied());
        assert_eq!(near("head_swich_ms").as_deref(), Some("head_switch_ms"));
        assert_eq!(near("writeback").as_deref(), Some("write_back"));
        assert_eq!(near("zzzzzzzzzzzz"), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
