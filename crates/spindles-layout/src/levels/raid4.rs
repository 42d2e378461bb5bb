//! Parity always on the last member.

use crate::level::{LayoutRow, Level, Period, Redundancy, Sizes};
use crate::rotation::{self, Order};

pub(super) static LEVEL: Level = Level {
    name: "raid4",
    summary: "parity, always on the last member",
    capacity: "all members but one",
    survives: "any one missing member",
    members_min: 3,
    note: None,
    chunk_bytes: 64 << 10,
    redundancy: Redundancy::Parity(1),
    sizes: Sizes::Smallest,
    layouts: &[LayoutRow {
        name: "",
        summary: "",
        usual: true,
        period: |_| Period {
            groups: 1,
            rows: 1,
            sections: 1,
        },
        place: |shape, stripe, slot| {
            let last = shape.members - 1;
            rotation::place(shape.members, 1, last, Order::Asymmetric, stripe, slot)
        },
    }],
};
