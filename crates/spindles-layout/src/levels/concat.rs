//! Members one after another, each used to its last block. The chunk is only the unit of work.

use crate::level::{ChunkPlace, LayoutRow, Level, Period, Redundancy, Sizes};
use spindles_block::MemberIndex;

pub(super) static LEVEL: Level = Level {
    name: "concat",
    summary: "members one after another",
    capacity: "all members, of any sizes",
    survives: "no missing member",
    members_min: 1,
    note: None,
    chunk_bytes: 1 << 20,
    redundancy: Redundancy::None,
    sizes: Sizes::Sequence,
    layouts: &[LayoutRow {
        name: "",
        summary: "",
        usual: true,
        period: |_| Period {
            groups: 1,
            rows: 1,
            sections: 1,
        },
        place: |_, _, _| ChunkPlace {
            member: MemberIndex(0),
            row: 0,
            section: 0,
            code_index: 0,
        },
    }],
};
