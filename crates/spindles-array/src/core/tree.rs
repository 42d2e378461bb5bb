//! The tree of arrays, their members and devices.

use super::carry::{Array, ArrayIndex, Carry, Node};
use crate::device_io::DeviceIndex;
use spindles_block::{BlockIndex, MemberIndex};
use spindles_engine::CommandError;

/// Returns all devices under a node, from left to right. An array's journal device comes after its
/// members.
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

/// Follows a place of a member down to where the block finally lies: through arrays without
/// redundancy, in which every block has one place. Returns the array, its member, the block on that
/// member, and the number of blocks from there on that lie in order.
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

/// Returns all arrays in use: not left over, not out of the outer array, and not inside such an
/// array.
pub(super) fn in_use(carry: &Carry) -> impl Iterator<Item = (ArrayIndex, &Array)> {
    let arrays = carry.arrays();
    arrays.filter(|(index, _)| is_in_use(carry, *index))
}

/// Returns the devices of members that are not out, and of journals.
pub(crate) fn devices_in_use(carry: &Carry) -> impl Iterator<Item = DeviceIndex> {
    in_use(carry).flat_map(|(_, array)| {
        let members = array.engine().status().members.into_iter();
        let here =
            members.map(|member| !matches!(member.state, spindles_engine::Member::Missing { .. }));
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

/// Returns all arrays, each before its members.
pub(crate) fn arrays_from_the_top(carry: &Carry) -> Vec<ArrayIndex> {
    from_the_top(carry, carry.arrays())
}

/// Returns the arrays in use, each before its members.
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

/// Returns open devices that no array uses, as a member or for its journal.
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

/// Returns the array that this one is a member of, then that array's parent, and so on.
pub(super) fn arrays_above(
    carry: &Carry,
    array: ArrayIndex,
) -> impl Iterator<Item = ArrayIndex> + use<'_> {
    let above = |array: &ArrayIndex| carry.array(*array).parent().map(|(parent, _)| parent);
    std::iter::successors(above(&array), above)
}

/// Returns true if a scrub of an outer array repairs this array too: this array has checksums and
/// no redundancy, and the outer array has redundancy.
fn is_mended_from_above(carry: &Carry, array: ArrayIndex) -> bool {
    let redundant = |array: ArrayIndex| carry.array(array).engine().geometry().redundancy() > 0;
    carry.array(array).engine().compares()
        && !redundant(array)
        && arrays_above(carry, array).any(redundant)
}

/// Passes of the scrub of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// All arrays that don't wait for the second pass.
    First,
    /// The arrays that the first pass repaired from above.
    Below,
}

/// Returns the arrays that one pass of a scrub covers. Of an array without redundancy and checksums
/// only the metadata is inspected. Leaves out a failed inner array: the outer array reports the
/// data lost with it.
///
/// # Errors
///
/// No array has anything to compare, or an array is busy with another job; then no scrub may begin.
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
    if !all
        .iter()
        .any(|array| carry.array(*array).engine().compares())
    {
        return Err(why_none);
    }
    Ok(all)
}

/// Returns true if the outer array has all of its data without the `failed` arrays, or has already
/// continued without this array.
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
