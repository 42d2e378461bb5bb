//! A controller: a cache between the host and an array.

use super::{Kind, NumberRule, Part, Row, SwitchRule};

const fn number(key: &'static str, least: f64, most: f64, about: &'static str) -> NumberRule {
    NumberRule {
        key,
        least,
        most,
        about,
    }
}

pub(crate) static ROW: Row = Row {
    kind: Kind {
        name: "controller",
        about: "a cache between the host and an array, with a processor and a link of its own",
        numbers: &[
            number("cache_mib", 0.0, 1e6, "MiB of the cache"),
            number(
                "high_percent",
                1.0,
                100.0,
                "% of the cache that unwritten data takes before writers wait",
            ),
            number(
                "low_percent",
                0.0,
                100.0,
                "% of the cache above which unwritten data is destaged at once",
            ),
            number(
                "destage_age_s",
                0.0,
                1e6,
                "s until unwritten data is destaged",
            ),
            number(
                "destage_kib",
                4.0,
                1e5,
                "KiB destaged together without gathering",
            ),
            number("destage_depth", 1.0, 1024.0, "stripes destaged at once"),
            number(
                "request_ms",
                0.0,
                1e4,
                "ms of the processor for each request",
            ),
            number(
                "rate_mb_s",
                0.001,
                1e6,
                "MB/s of data through the controller",
            ),
            number("link_mb_s", 0.001, 1e6, "MB/s of the link to the host"),
            number("read_ahead_kib", 0.0, 1e6, "KiB read beyond reads in order"),
        ],
        switches: &[
            SwitchRule {
                key: "write_back",
                words: &["on", "off"],
                about: "on: writes are answered once they are in the cache",
            },
            SwitchRule {
                key: "battery",
                words: &["on", "off"],
                about: "on: flushes cost nothing, since the cache survives a loss of power",
            },
            SwitchRule {
                key: "destage",
                words: &["oldest", "cscan"],
                about: "the order of destaging",
            },
            SwitchRule {
                key: "gather",
                words: &["on", "off"],
                about: "on: destaging takes all unwritten data of a stripe",
            },
        ],
        parts: &[
            Part {
                name: "processor",
                times: &["request_ms"],
                rates: &[],
            },
            Part {
                name: "path",
                times: &[],
                rates: &["rate_mb_s", "link_mb_s"],
            },
        ],
    },
    build: None,
    portrait: None,
};
