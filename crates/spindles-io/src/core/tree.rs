//! Which arrays and devices are members of which arrays.

use super::carry::{Array, ArrayIndex, Carry, Node};
use crate::members::DeviceIndex;
use spindles_block::{BlockIndex, MemberIndex};
use spindles_engine::CommandError;

/// All devices under a node, from left to right; that of an array's journal comes after its members.
pub(crate) fn leaves(carry: &Carry, node: Node) -> Vec<DeviceIndex> {
    let mut todo = vec![node];
    let mut leaves = Vec::new();
    while let Some(node) = todo.pop() {
        match node {
            Node::Device(device) => leaves.push(device),
            Node::Array(array) => {
                let array = carry.array(array);
                todo.extend(array.journal().map(Node::Device));
                todo.extend(array.members().iter().rev().flatten());
            }
        }
    }
    leaves
}

/// A place of a member of an array, on what it lies on at last: through arrays without redundancy, in which
/// every block has one place. The array, its member, the block on that, and how many follow it in order.
pub(crate) fn lowest_place(
    carry: &Carry,
    (mut array, mut member, mut block): (ArrayIndex, MemberIndex, BlockIndex),
) -> (ArrayIndex, MemberIndex, BlockIndex, u32) {
    let mut blocks = u32::MAX;
    while let Some(Some(Node::Array(inner))) =
        carry.array(array).members().get(usize::from(member.0))
        && let Some((below, place, in_order)) = carry.array(*inner).engine().only_place(block)
    {
        (array, member, block) = (*inner, below, place);
        blocks = blocks.min(in_order);
    }
    (array, member, block, blocks)
}

/// All arrays but those that the one around them goes on without, and what is inside these.
pub(super) fn in_use(carry: &Carry) -> impl Iterator<Item = (ArrayIndex, &Array)> {
    let arrays = carry.arrays();
    arrays.filter(|(index, _)| is_in_use(carry, *index))
}

/// The devices of members that are not out, and of journals.
pub(crate) fn devices_in_use(carry: &Carry) -> impl Iterator<Item = DeviceIndex> {
    in_use(carry).flat_map(|(_, array)| {
        let members = array.engine().status().members.into_iter();
        let here = members.map(|it| !matches!(it.state, spindles_engine::Member::Missing { .. }));
        let nodes = here.zip(array.members());
        let devices = nodes.filter_map(|(here, node)| match node {
            Some(Node::Device(device)) if here => Some(*device),
            _ => None,
        });
        devices.chain(array.journal()).collect::<Vec<_>>()
    })
}

fn is_in_use(carry: &Carry, array: ArrayIndex) -> bool {
    let is_part = |array: ArrayIndex| match carry.array(array).parent() {
        Some((around, member)) => !carry.array(around).engine().is_out(member),
        None => !carry.array(array).is_left_over(),
    };
    is_part(array) && arrays_above(carry, array).all(is_part)
}

/// All arrays, each before its members.
pub(crate) fn arrays_from_the_top(carry: &Carry) -> Vec<ArrayIndex> {
    from_the_top(carry, carry.arrays())
}

/// Those in use, each before its members.
pub(crate) fn in_use_from_the_top(carry: &Carry) -> Vec<ArrayIndex> {
    from_the_top(carry, in_use(carry))
}

fn from_the_top<'a>(
    carry: &Carry,
    arrays: impl Iterator<Item = (ArrayIndex, &'a Array)>,
) -> Vec<ArrayIndex> {
    let mut all: Vec<ArrayIndex> = arrays.map(|(index, _)| index).collect();
    all.reverse();
    all.sort_by_key(|array| arrays_above(carry, *array).count());
    all
}

/// Devices that are open and that no array has, as a member or for its journal.
pub(crate) fn unused_devices(carry: &Carry) -> Vec<DeviceIndex> {
    let is_used = |device: DeviceIndex| {
        carry.arrays().any(|(_, array)| {
            let mut nodes = array.members().iter().flatten();
            array.journal() == Some(device)
                || nodes.any(|node| matches!(node, Node::Device(used) if *used == device))
        })
    };
    let devices = carry.members().devices();
    devices
        .filter(|device| !carry.members().is_gone(*device) && !is_used(*device))
        .collect()
}

/// The array that one is a member of, the one that this is a member of, and so on.
pub(super) fn arrays_above(
    carry: &Carry,
    array: ArrayIndex,
) -> impl Iterator<Item = ArrayIndex> + use<'_> {
    let above = |array: &ArrayIndex| carry.array(*array).parent().map(|(parent, _)| parent);
    std::iter::successors(above(&array), above)
}

/// Whether a scrub of an array around this one repairs it too: it has checksums and no redundancy, and
/// that one has redundancy.
fn is_mended_from_above(carry: &Carry, array: ArrayIndex) -> bool {
    let redundant = |array: ArrayIndex| carry.array(array).engine().geometry().redundancy() > 0;
    carry.array(array).engine().can_scrub()
        && !redundant(array)
        && arrays_above(carry, array).any(redundant)
}

/// The scrubs of a tree come in two passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Of all arrays that don't wait for the second.
    First,
    /// Of those that the first has mended from above.
    Below,
}

/// The arrays that one pass of a scrub goes through. One inside another that has failed is left out: the array around
/// it says what is lost with it.
///
/// # Errors
///
/// Why there is none, or what is under way in one of them; then none is to be begun.
pub(crate) fn to_scrub(carry: &Carry, pass: Pass) -> Result<Vec<ArrayIndex>, CommandError> {
    let mut all = Vec::new();
    let mut why_none = CommandError::NoRedundancy;
    for array in in_use_from_the_top(carry) {
        if is_mended_from_above(carry, array) != (pass == Pass::Below) {
            continue;
        }
        match carry.array(array).engine().may_scrub() {
            Ok(()) => all.push(array),
            Err(CommandError::NoRedundancy) => {}
            Err(lost @ CommandError::BeyondTolerance) if carry.array(array).parent().is_some() => {
                why_none = lost;
            }
            Err(other) => return Err(other),
        }
    }
    if all.is_empty() {
        return Err(why_none);
    }
    Ok(all)
}

/// Whether the array that this one is a member of has all of its data without those that failed, or goes
/// on without this one anyway.
pub(crate) fn survives(carry: &Carry, array: ArrayIndex, failed: &[ArrayIndex]) -> bool {
    if !is_in_use(carry, array) {
        return true;
    }
    let Some((outer, _)) = carry.array(array).parent() else {
        return false;
    };
    let engine = carry.array(outer).engine();
    let status = engine.status();
    let out = (status.members.iter())
        .filter(|member| member.state != spindles_engine::Member::Active)
        .map(|member| member.member);
    let of_outer = failed
        .iter()
        .filter_map(|failed| carry.array(*failed).parent());
    let of_outer = of_outer.filter(|(parent, _)| *parent == outer);
    let lost = out.chain(of_outer.map(|(_, member)| member)).collect();
    engine.geometry().survives(lost)
}
