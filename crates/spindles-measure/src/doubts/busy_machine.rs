//! Something else used the CPUs before the experiment had begun.

use super::{Kind, Rank};

/// Its row of the table. The runner measures the idle machine and records the doubt.
pub(super) static KIND: Kind = Kind {
    name: "busy-machine",
    rank: Rank::Unsure,
    title: "The machine was busy",
    remedy: "Other programs used the CPUs, and perhaps the disk, while this was measured. Stop them \
             and measure again; until then read only what the intervals leave standing.",
    find: |_| Vec::new(),
};
