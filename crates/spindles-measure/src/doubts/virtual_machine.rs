//! Reports a virtual machine: its neighbours on the hardware are invisible.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "virtual-machine",
    rank: Rank::Note,
    title: "Virtual machine",
    remedy: "Other guests on the same hardware may take CPU and disk time at any moment, and the \
             host may cache. Intervals include only the effects that varied. To exclude both, \
             measure on a physical machine.",
    find: |analysis| match &*analysis.environment.virtualization {
        "" | "none" => Vec::new(),
        kind => vec![format!("measured under {kind}")],
    },
};
