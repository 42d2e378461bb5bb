//! What an array's stage holds, before and after a workload.

use spindles_array::Target;
use spindles_measure::Staging;

/// Returns what the stage of a target holds at the end of a window, and its sums since it was
/// opened. `None` if it uses no stage.
pub(crate) fn now(target: &dyn Target) -> Option<Staging> {
    let stage = target.status()?.stage?;
    let block_bytes = u64::from(target.facts().block_size.bytes());
    Some(Staging {
        begin_bytes: 0,
        end_bytes: stage.staged_blocks * block_bytes,
        absorbed_bytes: stage.absorbed_blocks * block_bytes,
        placed_bytes: stage.placed_blocks * block_bytes,
    })
}

/// Returns the use of the stage since `before`.
pub(crate) fn since(before: Option<Staging>, target: &dyn Target) -> Option<Staging> {
    let (before, after) = (before?, now(target)?);
    Some(Staging {
        begin_bytes: before.end_bytes,
        end_bytes: after.end_bytes,
        absorbed_bytes: after.absorbed_bytes - before.absorbed_bytes,
        placed_bytes: after.placed_bytes - before.placed_bytes,
    })
}
