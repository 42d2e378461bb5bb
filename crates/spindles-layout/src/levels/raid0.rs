//! Chunks on all members in turn. Members of unequal size are divided into zones, each striped over
//! the members that reach it. Chunk numbers restart in each zone.

use crate::level::{ChunkPlace, LayoutRow, Level, Period, Redundancy, Sizes};
use spindles_block::MemberIndex;

pub(super) static LEVEL: Level = Level {
    name: "raid0",
    summary: "chunks on all members in turn, no redundancy",
    capacity: "all members, of any sizes",
    survives: "no missing member",
    members_min: 1,
    note: None,
    chunk_bytes: 64 << 10,
    redundancy: Redundancy::None,
    sizes: Sizes::Zones,
    layouts: &[LayoutRow {
        name: "",
        summary: "",
        period: |shape| Period {
            groups: u32::from(shape.members),
            rows: 1,
            sections: 1,
        },
        place: |_, chunk, _| ChunkPlace {
            member: MemberIndex(u8::try_from(chunk).expect("less than the members")),
            row: 0,
            section: 0,
            code_index: 0,
        },
    }],
};
