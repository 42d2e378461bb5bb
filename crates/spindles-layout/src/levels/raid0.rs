//! Chunks on all members in turn. Members of unequal size are divided into zones, each striped over
//! the members that reach it. Chunk numbers restart in each zone, but for the layout `original`:
//! Linux before 3.14 and `mdadm --layout=original`.

use crate::level::{ChunkPlace, LayoutRow, Level, Period, Redundancy, Shape, Sizes};
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
    layouts: &[
        LayoutRow {
            name: "",
            summary: "",
            usual: true,
            period,
            place: |_, chunk, _| place(chunk),
        },
        LayoutRow {
            name: "original",
            summary: "chunks of every zone are dealt by their number in the whole array",
            usual: false,
            period,
            place: |shape, chunk, _| {
                place((u32::from(shape.first_chunk) + chunk) % u32::from(shape.members))
            },
        },
    ],
};

fn period(shape: Shape) -> Period {
    Period {
        groups: u32::from(shape.members),
        rows: 1,
        sections: 1,
    }
}

fn place(member: u32) -> ChunkPlace {
    ChunkPlace {
        member: MemberIndex(u8::try_from(member).expect("less than the members")),
        row: 0,
        section: 0,
        code_index: 0,
    }
}
