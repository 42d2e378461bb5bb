//! P and Q side by side, stepping from member to member with every stripe.

use crate::level::{LayoutRow, Level, Redundancy, Sizes};
use crate::rotation::{self, Order, left, right};

pub(super) static LEVEL: Level = Level {
    name: "raid6",
    summary: "two parity chunks, P and Q, spread over all members",
    capacity: "all members but two",
    survives: "any two missing members",
    members_min: 4,
    note: None,
    chunk_bytes: 64 << 10,
    redundancy: Redundancy::Parity(2),
    sizes: Sizes::Smallest,
    layouts: &[
        LayoutRow {
            name: "left-symmetric",
            summary: "parity steps towards member 0, data starts right after it",
            usual: true,
            period: rotation::period,
            place: |shape, stripe, slot| {
                let first = left(shape.members, stripe);
                rotation::place(shape.members, 2, first, Order::Symmetric, stripe, slot)
            },
        },
        LayoutRow {
            name: "left-asymmetric",
            summary: "parity steps towards member 0, data starts on member 0",
            usual: true,
            period: rotation::period,
            place: |shape, stripe, slot| {
                let first = left(shape.members, stripe);
                rotation::place(shape.members, 2, first, Order::Asymmetric, stripe, slot)
            },
        },
        LayoutRow {
            name: "right-symmetric",
            summary: "parity steps away from member 0, data starts right after it",
            usual: false,
            period: rotation::period,
            place: |shape, stripe, slot| {
                let first = right(shape.members, stripe);
                rotation::place(shape.members, 2, first, Order::Symmetric, stripe, slot)
            },
        },
        LayoutRow {
            name: "right-asymmetric",
            summary: "parity steps away from member 0, data starts on member 0",
            usual: false,
            period: rotation::period,
            place: |shape, stripe, slot| {
                let first = right(shape.members, stripe);
                rotation::place(shape.members, 2, first, Order::Asymmetric, stripe, slot)
            },
        },
    ],
};
