//! Creates and assembles arrays for the lab, and computes how many lost devices they survive.

use crate::systems::targets::Site;
use spindles_admin::assemble::{self, AssembleOptions};
use spindles_admin::create::{self, CreateOptions, Sync};
use spindles_admin::write_back::Wanted;
use spindles_array::Target;
use spindles_block::BlockSize;
use spindles_device::ArrayFacts;
use spindles_layout::{Expression, Geometry, Layout, Level, Spec};

/// Creates the array as the command `create` does. Overwrites the devices: the caller must have
/// checked for permission.
pub(crate) fn create(expression: &Expression, place: &Site<'_>) -> Result<(), String> {
    let options = CreateOptions {
        chunk_bytes: place.chunk_bytes,
        block_size: BlockSize::dividing(place.chunk_bytes.unwrap_or(0)),
        consistency: place.consistency,
        checksum: place.checksum,
        journal: place.journal.map(str::to_owned),
        write_back: Wanted {
            mode: place.write_back.unwrap_or_default(),
            memory_bytes: None,
        },
        // Experiments remove members.
        degraded_writes: true,
        force: true,
        open: place.open.clone(),
        ..CreateOptions::new("lab")
    };
    let mut go_on = |_done, _total| (place.go_on)().is_ok();
    let created = create::create(expression, &options, &mut go_on);
    match created.map_err(|error| error.to_string())?.sync {
        Sync::Stopped => Err("it was interrupted while it was made consistent".to_owned()),
        Sync::NotNeeded | Sync::Unwritten | Sync::KnownZero | Sync::Done => Ok(()),
    }
}

/// Assembles the array on these devices.
pub(crate) fn assemble(
    devices: &[String],
    options: &AssembleOptions,
) -> Result<Box<dyn Target>, String> {
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let assembled = assemble::assemble(&devices, options);
    Ok(assembled.map_err(|error| error.to_string())?.target)
}

/// Returns how many devices may be missing from an array, in any combination. Nested arrays are
/// only known from `expression`. Without it, returns the redundancy of the outermost array, a lower
/// bound.
pub(crate) fn survives(array: &ArrayFacts, expression: &str) -> u32 {
    match Expression::parse_counted(expression) {
        Ok(expression @ Expression::Array { .. }) => lost_with(&expression) - 1,
        _ => array.redundancy.into(),
    }
}

/// Returns how many devices of a Spindles array may be missing, by its expression; 0 for anything
/// else.
pub(crate) fn survives_of(expression: &str) -> u32 {
    match Expression::parse_counted(expression) {
        Ok(expression @ Expression::Array { .. }) => lost_with(&expression) - 1,
        _ => 0,
    }
}

/// Returns the smallest number of devices whose loss may lose data. It adds up this number for the
/// weakest members, one member more than the level survives.
fn lost_with(expression: &Expression) -> u32 {
    let Expression::Array {
        level,
        layout,
        members,
    } = expression.uncut()
    else {
        return 1;
    };
    let mut each: Vec<u32> = members.iter().map(lost_with).collect();
    each.sort_unstable();
    let survived = redundancy(level, *layout, each.len());
    each.iter().take(survived + 1).sum()
}

fn redundancy(level: &'static Level, layout: Option<Layout>, members: usize) -> usize {
    // Redundancy does not depend on sizes: two periods of any layout are enough.
    let rows = u64::try_from(members * members * 2).expect("few");
    let geometry = Geometry::new(&Spec {
        level,
        layout,
        chunk_blocks: 1,
        member_blocks: vec![rows; members],
    });
    geometry.map_or(0, |geometry| geometry.redundancy().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::MemberSet;

    #[test]
    fn fault_tolerance_of_an_array_is_counted() {
        for (expression, expected) in [
            ("concat(4)", 0),
            ("raid0(4)", 0),
            ("raid1(2)", 1),
            ("raid1(64)", 63),
            ("raid10:near 2(5)", 1),
            ("raid10:far 3(7)", 2),
            ("raid4(5)", 1),
            ("raid5(5)", 1),
            ("raid6(6)", 2),
            ("raid7(8)", 3),
            ("raid0(raid5(3),raid5(3))", 1),
            ("raid0(raid6(4),raid1(2))", 1),
            ("raid1(raid5(3),raid5(3))", 3),
            ("raid5(raid1(2),raid1(3),raid6(4))", 4),
            ("raid0(raid5(3),x)", 0),
        ] {
            let facts = ArrayFacts {
                level: "",
                layout: String::new(),
                chunk_blocks: 16,
                members: 2,
                missing: MemberSet::EMPTY,
                data_chunks: 1,
                redundancy: 7,
            };
            assert_eq!(survives(&facts, expression), expected, "{expression}");
            assert_eq!(survives(&facts, "array:home"), 7);
        }
    }
}
