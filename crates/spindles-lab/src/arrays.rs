//! Arrays of the lab: made, assembled and asked what they survive.

use crate::targets::Site;
use spindles_io::{ArrayFacts, OpenOptions, Target};
use spindles_layout::Expression;

/// Writes superblocks on the devices of the expression and makes the array consistent.
pub(crate) fn create(_expression: &Expression, _site: &Site<'_>) -> Result<(), String> {
    Err("arrays can't be created yet".to_owned())
}

/// Opens the array on these devices.
pub(crate) fn assemble(
    _devices: &[String],
    _options: &OpenOptions,
) -> Result<Box<dyn Target>, String> {
    Err("arrays can't be assembled yet".to_owned())
}

/// Opens an array over memory, which has no superblocks.
pub(crate) fn without_superblocks(
    _expression: &Expression,
    _chunk_bytes: Option<u64>,
    _options: &OpenOptions,
) -> Result<Box<dyn Target>, String> {
    Err("arrays can't be opened yet".to_owned())
}

/// How many members may be missing, whichever they are.
pub(crate) fn survives(_array: &ArrayFacts) -> u32 {
    0
}
