//! A host: the costs of its processor, its memory, and its rules of caching. `spindles-host` makes
//! a machine of it.

use super::{Kind, NumberRule, Row, SwitchRule};
use crate::disciplines;
use crate::kind::number;

const fn cost(key: &'static str, about: &'static str) -> NumberRule {
    number(key, 0.0, 1e6, about)
}

pub(crate) static ROW: Row = Row {
    kind: Kind {
        name: "host",
        about: "processors, memory for files, and rules of caching",
        parts: &[],
        numbers: &[
            number("cpus", 1.0, 1024.0, "processors"),
            cost("putc_us_per_kib", "us of a KiB written byte after byte"),
            cost("getc_us_per_kib", "us of a KiB read byte after byte"),
            cost("write_us_per_kib", "us of a KiB written to a new block"),
            cost(
                "overwrite_us_per_kib",
                "us of a KiB written to an old block",
            ),
            cost("read_us_per_kib", "us of a KiB read"),
            cost(
                "array_write_us_per_kib",
                "us of a KiB written, for the array",
            ),
            cost("array_read_us_per_kib", "us of a KiB read, for the array"),
            cost("syscall_us", "us of a call that finds its file"),
            cost("create_us", "us of a file created, without the search"),
            cost("remove_us", "us of a file removed"),
            cost("set_times_us", "us of times or permissions set"),
            cost("entry_scan_us", "us for each entry of a searched folder"),
            cost("loop_ns", "ns of a loop that stores a byte"),
            number("cache_mib", 0.125, 1e9, "MiB of memory for files"),
            number(
                "dirty_percent",
                1.0,
                100.0,
                "% of it that may wait to be written",
            ),
            number(
                "throttle_percent",
                1.0,
                100.0,
                "% of it beyond which writers wait, if they do not write themselves",
            ),
            number("cluster_kib", 1.0, 65_536.0, "KiB of blocks in one request"),
            number("read_ahead_clusters", 0.0, 1024.0, "clusters read ahead"),
            number(
                "write_behind_mib",
                0.0625,
                1e6,
                "MiB under way until writers wait",
            ),
            number(
                "write_back_age_s",
                0.0,
                1e6,
                "s until a changed block is written",
            ),
            number(
                "metadata_age_s",
                0.0,
                1e6,
                "s until a changed block of metadata is written, if sooner",
            ),
            number(
                "write_back_period_s",
                0.01,
                1e6,
                "s between searches for old blocks",
            ),
            number(
                "openings",
                1.0,
                256.0,
                "requests that a disk with tags has at once",
            ),
        ],
        switches: &[
            SwitchRule {
                key: "tags",
                words: &["off", "on"],
                about: "tagged queueing; without it a disk has one request at a time",
            },
            SwitchRule {
                key: "queue",
                words: disciplines::WORDS,
                about: "the order in which a disk gets its requests",
            },
            SwitchRule {
                key: "memory",
                words: &["ample", "shared"],
                about: "shared: processors copy data one at a time",
            },
            SwitchRule {
                key: "read_ahead",
                words: &["fixed", "growing"],
                about: "growing: windows double from 16 KiB to the clusters read ahead",
            },
            SwitchRule {
                key: "written_pages",
                words: &["equal", "kept"],
                about: "kept: pages last read are evicted before pages last written",
            },
            SwitchRule {
                key: "file_lock",
                words: &["off", "on"],
                about: "reads and writes of one file take turns",
            },
            SwitchRule {
                key: "directories",
                words: &["spread", "near"],
                about: "groups of new folders: the emptiest, or the parent's",
            },
        ],
    },
    build: None,
    portrait: None,
};
