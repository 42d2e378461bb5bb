//! A link between disks and host: a rate, and a time for each command.

use super::{Kind, Part, Row, SwitchRule};
use crate::kind::number;

pub(crate) static ROW: Row = Row {
    kind: Kind {
        name: "link",
        about: "a link between disks and host",
        numbers: &[
            number("rate_mb_s", 0.001, 1e6, "MB/s of data"),
            number("command_ms", 0.0, 1e4, "ms of each command"),
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
