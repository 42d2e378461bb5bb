//! Writes new systems once before anything is measured on them.

use crate::measure::execute::{self, Orders};
use crate::measure::failure::Failure;
use spindles_array::Target;
use spindles_workload::Params;
use std::sync::atomic::AtomicBool;

/// Size of a write, if it divides the size.
const CHUNK_BYTES: u64 = 1 << 20;
const IN_FLIGHT: u32 = 8;

/// Writes at least the first `size_bytes` of the target with incompressible bytes, and flushes it.
pub(crate) fn fill(
    target: &mut dyn Target,
    size_bytes: u64,
    interrupt: &AtomicBool,
) -> Result<(), Failure> {
    let kind = spindles_workload::by_name("dd-write").expect("a row of the table");
    let whole = size_bytes.next_multiple_of(CHUNK_BYTES);
    let fits = whole <= target.facts().bytes();
    let size_bytes = if fits { whole } else { size_bytes };
    let divides = 1
        << size_bytes
            .trailing_zeros()
            .min(CHUNK_BYTES.trailing_zeros());
    let plan = kind.plan(&Params {
        chunk_bytes: Some(divides),
        in_flight: Some(IN_FLIGHT),
        ..Params::new(size_bytes, 0)
    });
    let plan = plan.map_err(|error| Failure::Failed(error.to_string()))?;
    execute::run(target, &plan, &Orders::new(interrupt)).map(drop)
}
