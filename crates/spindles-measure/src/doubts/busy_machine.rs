//! Reports that other programs used the CPUs before the experiment began.

use super::{Kind, Rank};

/// Entry in the table of doubts. The runner measures the idle machine and records the doubt.
pub(super) static KIND: Kind = Kind {
    name: "busy-machine",
    rank: Rank::Unsure,
    title: "The machine was busy",
    remedy: "Other programs used the CPUs, and perhaps the disk, during the measurement. Stop them \
        and measure again. Until then, trust only the differences that the intervals confirm.",
    find: |_| Vec::new(),
};
