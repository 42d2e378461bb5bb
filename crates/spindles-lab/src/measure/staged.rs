//! The contents of an array's stage, before and after a workload.

use spindles_array::Target;
use spindles_measure::Staging;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// The wait between two looks at a stage that is being emptied.
const LOOK_NS: u64 = 2_000_000;

/// Waits until the stage of a target is empty, and returns how long that took, in nanoseconds.
/// Gives up if blocks can't be placed, or if the run is interrupted.
pub(crate) fn drain(target: &mut dyn Target, interrupt: &AtomicBool) -> u64 {
    let began = target.now();
    while !interrupt.load(Ordering::Relaxed) {
        let stage = target.status().and_then(|status| status.stage);
        if stage.is_none_or(|stage| stage.staged_blocks == 0 || stage.is_stuck) {
            break;
        }
        target.wait_until(target.now().plus_ns(LOOK_NS));
    }
    target.now().ns_since(began)
}

/// The most rounds of a workload before the window. A stage that placing keeps empty, or that takes
/// no such writes, never fills.
const ROUNDS_MAX: u32 = 4;

/// Finds out when a stage is in its steady state: twice its capacity was placed since answers
/// first waited for room.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    /// The blocks placed until answers first waited.
    placed_until_full: Cell<Option<u64>>,
    rounds: Cell<u32>,
}

impl Steady {
    /// Returns true in the steady state, and if the target has no stage.
    pub(crate) fn is_reached(&self, target: &dyn Target) -> bool {
        let Some(stage) = target.status().and_then(|status| status.stage) else {
            return true;
        };
        if self.placed_until_full.get().is_none() && stage.is_paced {
            self.placed_until_full.set(Some(stage.placed_blocks));
        }
        match self.placed_until_full.get() {
            Some(before) => stage.placed_blocks - before >= 2 * u64::from(stage.memory_blocks),
            None => self.rounds.get() >= ROUNDS_MAX,
        }
    }

    /// Notes that the workload has ended.
    pub(crate) fn ends_round(&self) {
        self.rounds.set(self.rounds.get() + 1);
    }
}

/// Returns what the stage of a target holds, and its sums since it was opened. It was emptied in
/// `drained_ns`. `None` if the target uses no stage.
pub(crate) fn now(target: &dyn Target, drained_ns: u64) -> Option<Staging> {
    let stage = target.status()?.stage?;
    let block_bytes = u64::from(target.facts().block_size.bytes());
    let bytes = stage.staged_blocks * block_bytes;
    Some(Staging {
        begin_bytes: bytes,
        end_bytes: bytes,
        absorbed_bytes: stage.absorbed_blocks * block_bytes,
        placed_bytes: stage.placed_blocks * block_bytes,
        drained_ns,
    })
}

/// Returns the use of the stage since `before`.
pub(crate) fn since(before: Option<Staging>, target: &dyn Target) -> Option<Staging> {
    let before = before?;
    let after = now(target, before.drained_ns)?;
    Some(Staging {
        begin_bytes: before.begin_bytes,
        absorbed_bytes: after.absorbed_bytes - before.absorbed_bytes,
        placed_bytes: after.placed_bytes - before.placed_bytes,
        ..after
    })
}
