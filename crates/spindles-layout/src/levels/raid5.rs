//! Parity that steps from member to member with every stripe.

use crate::level::{LayoutRow, Level, Period, Redundancy, Shape, Sizes};
use crate::rotation::{self, Order, left, right};

pub(super) static LEVEL: Level = Level {
    name: "raid5",
    summary: "parity, spread over all members",
    capacity: "all members but one",
    survives: "any one missing member",
    members_min: 2,
    note: Some((
        3,
        "raid5 on two members is a mirror in effect: take it as a step from raid1, and grow it",
    )),
    chunk_bytes: 64 << 10,
    redundancy: Redundancy::Parity(1),
    sizes: Sizes::Smallest,
    layouts: &[
        LayoutRow {
            name: "left-symmetric",
            summary: "parity steps towards member 0, data starts right after it",
            usual: true,
            period: rotation::period,
            place: |shape, stripe, slot| {
                let first = left(shape.members, stripe);
                rotation::place(shape.members, 1, first, Order::Symmetric, stripe, slot)
            },
        },
        LayoutRow {
            name: "left-asymmetric",
            summary: "parity steps towards member 0, data starts on member 0",
            usual: true,
            period: rotation::period,
            place: |shape, stripe, slot| {
                let first = left(shape.members, stripe);
                rotation::place(shape.members, 1, first, Order::Asymmetric, stripe, slot)
            },
        },
        LayoutRow {
            name: "right-symmetric",
            summary: "parity steps away from member 0, data starts right after it",
            usual: true,
            period: rotation::period,
            place: |shape, stripe, slot| {
                let first = right(shape.members, stripe);
                rotation::place(shape.members, 1, first, Order::Symmetric, stripe, slot)
            },
        },
        LayoutRow {
            name: "right-asymmetric",
            summary: "parity steps away from member 0, data starts on member 0",
            usual: true,
            period: rotation::period,
            place: |shape, stripe, slot| {
                let first = right(shape.members, stripe);
                rotation::place(shape.members, 1, first, Order::Asymmetric, stripe, slot)
            },
        },
        LayoutRow {
            name: "parity-first",
            summary: "parity always on member 0",
            usual: false,
            period: in_place,
            place: |shape, stripe, slot| {
                rotation::place(shape.members, 1, 0, Order::Symmetric, stripe, slot)
            },
        },
        LayoutRow {
            name: "parity-last",
            summary: "parity always on the last member, as raid4",
            usual: false,
            period: in_place,
            place: |shape, stripe, slot| {
                let last = shape.members - 1;
                rotation::place(shape.members, 1, last, Order::Symmetric, stripe, slot)
            },
        },
    ],
};

/// Parity that stays in place repeats with every stripe.
fn in_place(_: Shape) -> Period {
    Period {
        groups: 1,
        rows: 1,
        sections: 1,
    }
}
