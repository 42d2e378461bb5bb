//! A link between disks and host: a rate, and a time for each command.

use super::{Kind, NumberRule, Part, Row, SwitchRule};

pub(crate) static ROW: Row = Row {
    kind: Kind {
        name: "link",
        about: "a link between disks and host",
        numbers: &[
            NumberRule {
                key: "rate_mb_s",
                least: 0.001,
                most: 1e6,
                about: "MB/s of data",
            },
            NumberRule {
                key: "command_ms",
                least: 0.0,
                most: 1e4,
                about: "ms of each command",
            },
        ],
        switches: &[SwitchRule {
            key: "held",
            words: &["off", "on"],
            about: "a request holds the link from its command to its answer",
        }],
        parts: &[Part {
            name: "link",
            times: &["command_ms"],
            rates: &["rate_mb_s"],
        }],
    },
    build: None,
    portrait: None,
};
