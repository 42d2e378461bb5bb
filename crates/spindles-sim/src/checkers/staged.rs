//! Until it is released, a staged block is on as many holders as may be lost, and one more.

use super::{Checker, Scene, Seen, Stateless};
use crate::disk::View;
use crate::stack::staged::Batch;
use std::collections::{BTreeMap, BTreeSet};

pub(super) static CHECKER: Checker = Checker {
    name: "staged",
    about: "an answered block of the stage outlives as many lost members as the level tolerates",
    start: || {
        Box::new(Stateless(|scene, seen| match *seen {
            Seen::Written { .. } if scene.stack.is_staged(0) => {
                let batches = scene.stack.batches(0, View::Current);
                check_memory(scene, &batches)?;
                check_columns(scene, &batches)?;
                check_durable(scene, &batches)
            }
            Seen::Flushed { .. } if scene.stack.is_staged(0) => {
                check_durable(scene, &scene.stack.batches(0, View::Current))
            }
            _ => Ok(()),
        }))
    },
};

type Batches = BTreeMap<u64, Batch>;

/// Faults that may spoil a column on its holder. The next opening makes it whole.
const SPOILS: &[&str] = &[
    "journal_damaged",
    "journal_rot",
    "latent_sector_error",
    "lost_write",
    "metadata_rot",
    "metadata_rot_met",
    "misdirected_write",
    "rot",
    "rot_met",
];

/// Returns the members that may still be lost. `None` if nothing is promised.
fn may_go(scene: &Scene<'_>) -> Option<u32> {
    let array = &scene.stack.arrays[0];
    let mut faults = scene
        .options
        .sessions
        .iter()
        .flat_map(|session| &session.faults);
    let may_spoil = faults.any(|(name, _)| SPOILS.contains(name));
    let parity = u32::from(array.geometry.parity_chunks());
    // Unequal members without data in these rows may be lost beyond the parity.
    let more = parity.checked_sub(array.lost.count());
    more.filter(|_| array.geometry.survives(array.lost) && !may_spoil)
}

/// Returns true if a batch outlives the loss of `more` members.
fn is_safe(batch: &Batch, more: u32) -> bool {
    batch.whole >= u32::from(batch.shape.data) + more
}

/// Checks that all batches are whole on their holders. The last may be under way.
fn check_columns(scene: &Scene<'_>, batches: &Batches) -> Result<(), String> {
    let (Some(more), Some((&last, _))) = (may_go(scene), batches.last_key_value()) else {
        return Ok(());
    };
    // A batch that was written again because a holder failed is not whole.
    let is_later = |number: u64, block| {
        let mut later = batches.range(number + 1..);
        later.any(|(&number, batch)| batch.has(block) && (number == last || is_safe(batch, more)))
    };
    for (number, batch) in batches.range(..last) {
        if !is_safe(batch, more) && !batch.blocks().all(|block| is_later(*number, block)) {
            return Err(format!(
                "batch {number} is on too few holders: {more} more may be lost"
            ));
        }
    }
    Ok(())
}

/// Checks that batches which a header calls durable are.
fn check_durable(scene: &Scene<'_>, batches: &Batches) -> Result<(), String> {
    let Some(more) = may_go(scene) else {
        return Ok(());
    };
    let called = batches.values().map(|batch| batch.durable).max();
    let found = scene.stack.batches(0, View::Durable);
    // A batch that was written again because a holder failed is not whole.
    let is_later = |number: u64, block| {
        let mut later = found.range(number + 1..);
        later.any(|(_, batch)| batch.has(block) && is_safe(batch, more))
    };
    for (number, batch) in batches.range(..=called.unwrap_or(0)) {
        let is_whole = found.get(number).is_some_and(|batch| is_safe(batch, more));
        if !is_whole && !batch.blocks().all(|block| is_later(*number, block)) {
            return Err(format!("batch {number} is called durable, and is not"));
        }
    }
    Ok(())
}

/// Checks that the newest contents fit into the memory of the stage. An opening loads no others.
fn check_memory(scene: &Scene<'_>, batches: &Batches) -> Result<(), String> {
    let mut newest = BTreeSet::new();
    for batch in batches.values() {
        for block in batch.blocks() {
            newest.remove(&block.0);
        }
        newest.extend(batch.contents());
    }
    let (count, most) = (newest.len(), scene.options.staged_blocks);
    if u64::try_from(count).expect("fits") > u64::from(most) {
        return Err(format!("{count} blocks are staged in memory for {most}"));
    }
    Ok(())
}
