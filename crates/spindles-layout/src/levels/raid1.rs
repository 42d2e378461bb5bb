//! Every member holds everything. The chunk is only the unit of work.

use crate::level::{ChunkPlace, LayoutRow, Level, Period, Redundancy, Sizes};
use spindles_block::MemberIndex;

pub(super) static LEVEL: Level = Level {
    name: "raid1",
    summary: "every member holds everything",
    capacity: "one member",
    survives: "all members missing but one",
    members_min: 2,
    note: None,
    chunk_bytes: 1 << 20,
    redundancy: Redundancy::CopyOnEveryMember,
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
        place: |_, _, copy| ChunkPlace {
            member: MemberIndex(copy),
            row: 0,
            section: 0,
            code_index: 0,
        },
    }],
};
