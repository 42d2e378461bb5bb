//! An array marked clean needs no resync.

use super::{Checker, Seen, Stateless};
use crate::disk::View;
use spindles_layout::GroupIndex;

pub(super) static CHECKER: Checker = Checker {
    name: "clean_mark",
    about: "an array whose superblocks say that it is clean needs no resync",
    start: || {
        Box::new(Stateless(|scene, seen| {
            let Seen::Assembled {
                array, clean: true, ..
            } = *seen
            else {
                return Ok(());
            };
            let groups = scene.stack.arrays[array].geometry.groups();
            (0..groups).map(GroupIndex).try_for_each(|group| {
                let result = scene.stack.check_group(array, group, View::Current);
                result.map_err(|what| format!("called clean, but {what}"))
            })
        }))
    },
};
