//! Stripes over all members, with parity that moves from stripe to stripe.

use crate::level::{ChunkPlace, Period, Shape};
use spindles_block::MemberIndex;

/// The order of a stripe's data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// On the members right after the parity, wrapping round.
    Symmetric,
    /// On the members in rising order, parity skipped.
    Asymmetric,
}

/// The period after which parity has been on every member: as many stripes as members.
pub(crate) fn period(shape: Shape) -> Period {
    Period {
        groups: u32::from(shape.members),
        rows: u32::from(shape.members),
        sections: 1,
    }
}

/// The member of P when it steps one member to the left with every stripe.
pub(crate) fn left(members: u8, stripe: u32) -> u8 {
    members - 1 - right(members, stripe)
}

/// The member of P when it steps one member to the right with every stripe.
pub(crate) fn right(members: u8, stripe: u32) -> u8 {
    u8::try_from(stripe % u32::from(members)).expect("less than the members")
}

/// The place of chunk `slot` of a stripe. The first of its `parity_chunks` parity chunks is on
/// member `first`, the others are on the members after it.
pub(crate) fn place(
    members: u8,
    parity_chunks: u8,
    first: u8,
    order: Order,
    stripe: u32,
    slot: u8,
) -> ChunkPlace {
    let data_chunks = members - parity_chunks;
    let after = |distance: u8| modulo(first, distance, members);
    let parity = |member: u8| (0..parity_chunks).any(|p| after(p) == member);
    let (member, code_index) = match (order, slot.checked_sub(data_chunks)) {
        (_, Some(p)) => (after(p), slot),
        (Order::Symmetric, None) => (after(parity_chunks + slot), slot),
        (Order::Asymmetric, None) => {
            let mut others = (0..members).filter(|member| !parity(*member));
            let member = others.nth(usize::from(slot)).expect("a data chunk");
            // Codes with coefficients count from the member after the last parity chunk.
            let distance = modulo(member, members - after(parity_chunks), members);
            (member, if parity_chunks == 1 { slot } else { distance })
        }
    };
    ChunkPlace {
        member: MemberIndex(member),
        row: stripe,
        section: 0,
        code_index,
    }
}

/// `(a + b) mod members`
fn modulo(a: u8, b: u8, members: u8) -> u8 {
    let sum = (u16::from(a) + u16::from(b)) % u16::from(members);
    u8::try_from(sum).expect("less than the members")
}
