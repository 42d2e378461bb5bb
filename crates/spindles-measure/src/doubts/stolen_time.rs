//! Reports CPU time that the hypervisor gave to others.

use super::{Kind, Rank};

/// Entry in the table of doubts. The runner reads the kernel's counters and records the doubt.
pub(super) static KIND: Kind = Kind {
    name: "stolen-time",
    rank: Rank::Partial,
    title: "CPU time was stolen",
    remedy: "The hypervisor gave CPU time of this virtual machine to others during these runs. The \
        runs still count. Repeat them at a quieter hour, or on a dedicated machine.",
    find: |_| Vec::new(),
};
