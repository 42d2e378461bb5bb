//! Stripes of copies, on any number of members, odd ones too.

use crate::level::{ChunkPlace, LayoutRow, Level, Period, Redundancy, Shape, Sizes};
use spindles_block::MemberIndex;

pub(super) static LEVEL: Level = Level {
    name: "raid10",
    summary: "striped copies, also on an odd number of members",
    capacity: "all members divided by the copies",
    survives: "as many missing members as there are further copies; more, where no chunk loses all",
    members_min: 2,
    note: None,
    chunk_bytes: 64 << 10,
    redundancy: Redundancy::Copies,
    sizes: Sizes::Smallest,
    layouts: &[
        LayoutRow {
            name: "near",
            summary: "copies side by side on neighbouring members",
            usual: true,
            period: |shape| near_period(shape, shape.copies, 1),
            place: |shape, chunk, copy| near_place(shape, shape.copies, chunk, copy),
        },
        LayoutRow {
            name: "far",
            summary: "as raid0, the copies again in further sections, one member on",
            usual: true,
            period: |shape| Period {
                groups: u32::from(shape.members),
                rows: 1,
                sections: shape.copies,
            },
            place: |shape, chunk, copy| ChunkPlace {
                member: member(shape, chunk + u32::from(copy)),
                row: 0,
                section: copy,
                code_index: 0,
            },
        },
        LayoutRow {
            name: "offset",
            summary: "each row of chunks again in the rows below it, one member on",
            usual: true,
            period: |shape| Period {
                groups: u32::from(shape.members),
                rows: u32::from(shape.copies),
                sections: 1,
            },
            place: |shape, chunk, copy| ChunkPlace {
                member: member(shape, chunk + u32::from(copy)),
                row: u32::from(copy),
                section: 0,
                code_index: 0,
            },
        },
        LayoutRow {
            name: "near far",
            summary: "near copies, again in further sections on the members after them",
            usual: false,
            period: |shape| near_period(shape, shape.copies / shape.sections, shape.sections),
            place: |shape, chunk, copy| {
                let near = shape.copies / shape.sections;
                near_place(shape, near, chunk, copy)
            },
        },
    ],
};

/// Copies straddle rows if their number does not divide that of the members.
fn near_period(shape: Shape, near: u8, sections: u8) -> Period {
    let common = common_divisor(shape.members, near);
    Period {
        groups: u32::from(shape.members / common),
        rows: u32::from(near / common),
        sections,
    }
}

/// Places the first `near` copies side by side, and each further set of as many in the next section
/// and on the members after it.
fn near_place(shape: Shape, near: u8, chunk: u32, copy: u8) -> ChunkPlace {
    let (section, nth) = (copy / near, copy % near);
    let position = chunk * u32::from(near) + u32::from(nth);
    ChunkPlace {
        member: member(shape, position + u32::from(section * near)),
        row: position / u32::from(shape.members),
        section,
        code_index: 0,
    }
}

fn member(shape: Shape, position: u32) -> MemberIndex {
    let member = position % u32::from(shape.members);
    MemberIndex(u8::try_from(member).expect("less than the members"))
}

fn common_divisor(a: u8, b: u8) -> u8 {
    match b {
        0 => a,
        _ => common_divisor(b, a % b),
    }
}
