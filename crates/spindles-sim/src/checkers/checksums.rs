//! When an array is closed, the checksums on its members match their contents.

use super::{Checker, Scene, Seen, Stateless};
use crate::disk::View;

pub(super) static CHECKER: Checker = Checker {
    name: "checksums",
    about: "after a close, the checksums on the members are durably those of what they hold",
    start: || {
        Box::new(Stateless(|scene, seen| match seen {
            Seen::ClosedClean => check(scene),
            _ => Ok(()),
        }))
    },
};

fn check(scene: &Scene<'_>) -> Result<(), String> {
    (0..scene.stack.arrays.len())
        .filter(|&array| !scene.stack.is_given_up(array))
        .try_for_each(|array| scene.stack.check_checksums(array, View::Durable))
}
