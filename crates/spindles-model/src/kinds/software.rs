//! The software of an array: what it costs the processors of the host.

use super::{Kind, NumberRule, Row};

pub(crate) static ROW: Row = Row {
    kind: Kind {
        name: "software",
        about: "the software of an array: what it costs the processors of the host",
        numbers: &[NumberRule {
            key: "cost_factor",
            least: 0.0,
            most: 1000.0,
            about: "cost of an array's KiB, as a multiple of the host's numbers for arrays",
        }],
        switches: &[],
        parts: &[],
    },
    build: None,
    portrait: None,
};
