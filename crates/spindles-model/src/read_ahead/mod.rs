//! Rules of read-ahead: how far a drive reads beyond a request. One file each, one row in
//! the table.

mod buffer;
mod cylinder;
mod next_track;
mod none;
mod track;

use crate::mechanics::Geometry;

/// What a rule looks at.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) geometry: &'a Geometry,
    /// The first sector that the segment keeps.
    pub(crate) first: u64,
    /// One past the last sector asked for.
    pub(crate) end: u64,
}

/// A rule of read-ahead.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    /// The word in parameters.
    pub(crate) name: &'static str,
    /// One past the last sector to read, before the bounds of the buffer; `u64::MAX` if only they
    /// count.
    pub(crate) limit: fn(&Asked) -> u64,
}

/// Every rule.
pub(crate) static RULES: &[&ReadAhead] = &[
    &none::RULE,
    &track::RULE,
    &cylinder::RULE,
    &buffer::RULE,
    &next_track::RULE,
];

/// The words of the switch.
pub(crate) static WORDS: &[&str] = &["none", "track", "cylinder", "buffer", "next-track"];

impl ReadAhead {
    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        RULES.iter().find(|rule| rule.name == name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_names_of_the_rows() {
        let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names, WORDS);
    }
}
