//! Detects two names of one device that no comparison of names detects: one server has several
//! addresses, or several servers share one disk. A write through one name shows up in a read
//! through the other.

use super::writing::put;
use crate::errors::CreateError;
use spindles_array::{NodeId, Stack};
use spindles_block::BlockIndex;
use spindles_device::identity::{Identity, identity};
use spindles_device::{OpenError, random};
use spindles_format::SLOT_BYTES;

/// Refuses devices that turn out to be the same, if some are exports. They must be open and hold no
/// data; their first superblock slot is left zeroed.
pub(super) fn refuse(
    devices: &[&str],
    stack: &mut Stack,
    nodes: &[NodeId],
) -> Result<(), CreateError> {
    let is_export = |name: &&str| {
        let whole = identity(name).map(Identity::whole);
        matches!(whole, Some(Identity::Export { .. }))
    };
    if !devices.iter().any(is_export) {
        return Ok(());
    }
    let block_bytes = stack.block_size().bytes();
    let block = BlockIndex(SLOT_BYTES[0] / u64::from(block_bytes));
    let zeros = vec![0; usize::try_from(block_bytes).expect("64 bits")];
    let mut marks = Vec::new();
    for (name, node) in devices.iter().zip(nodes) {
        let mut mark = zeros.clone();
        mark[..16].copy_from_slice(&random::uuid()?.0);
        put(stack, *node, block, &mark, name)?;
        marks.push(mark);
    }
    let mut same = None;
    for (second, (name, node)) in devices.iter().zip(nodes).enumerate() {
        let mut found = zeros.clone();
        let read = stack.read(*node, block, &mut found);
        read.map_err(|error| OpenError::Io {
            device: (*name).to_owned(),
            action: "read back the test block of",
            source: std::io::Error::other(error.to_string()),
        })?;
        // All names of a device show its last write.
        let last = marks.iter().position(|mark| *mark == found);
        same = same.or(last
            .filter(|last| *last != second)
            .map(|last| (second, last)));
    }
    for (name, node) in devices.iter().zip(nodes) {
        put(stack, *node, block, &zeros, name)?;
    }
    match same {
        None => Ok(()),
        Some((first, second)) => Err(CreateError::SameDevice {
            first: devices[first].to_owned(),
            second: devices[second].to_owned(),
        }),
    }
}
