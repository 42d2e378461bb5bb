//! When no work is left, redundancy agrees with data everywhere.

use super::{Checker, Scene, Seen, Stateless};
use crate::disk::View;
use spindles_layout::GroupIndex;

pub(super) static CHECKER: Checker = Checker {
    name: "redundancy",
    about: "when nothing is left to do, all copies and all parity agree with the data",
    start: || {
        Box::new(Stateless(|scene, seen| match seen {
            Seen::Settled => check(scene, View::Current),
            Seen::ClosedClean => check(scene, View::Durable),
            _ => Ok(()),
        }))
    },
};

pub(super) fn check(scene: &Scene<'_>, view: View) -> Result<(), String> {
    for (index, array) in scene.stack.arrays.iter().enumerate() {
        if scene.stack.is_given_up(index) {
            continue; // It is no longer maintained.
        }
        for group in (0..array.geometry.groups()).map(GroupIndex) {
            scene.stack.check_group(index, group, view)?;
        }
    }
    Ok(())
}
