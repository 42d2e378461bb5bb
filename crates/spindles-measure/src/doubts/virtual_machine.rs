//! Reports a virtual machine: its neighbours on the hardware are invisible.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "virtual-machine",
    rank: Rank::Note,
    title: "Virtual machine",
    remedy: "Neighbours on the same hardware may take CPU and disk time at any moment, and the \
             host may cache. Intervals show the part of it that varied.",
    find: |analysis| match &*analysis.environment.virtualization {
        "" | "none" => Vec::new(),
        kind => vec![format!("measured under {kind}")],
    },
};
