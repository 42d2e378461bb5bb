//! P, Q and R side by side, stepping from member to member with every stripe.

use crate::level::{LayoutRow, Level, Redundancy, Sizes};
use crate::rotation::{self, Order, left};

pub(super) static LEVEL: Level = Level {
    name: "raid7",
    summary: "three parity chunks, P, Q and R, spread over all members",
    capacity: "all members but three",
    survives: "any three missing members",
    members_min: 5,
    note: None,
    chunk_bytes: 64 << 10,
    redundancy: Redundancy::Parity(3),
    sizes: Sizes::Smallest,
    layouts: &[LayoutRow {
        name: "",
        summary: "",
        usual: true,
        period: rotation::period,
        place: |shape, stripe, slot| {
            let first = left(shape.members, stripe);
            rotation::place(shape.members, 3, first, Order::Symmetric, stripe, slot)
        },
    }],
};
