//! The copy whose device has the least to do; between equals, the one nearest.

use super::ReadPolicy;

pub(crate) static POLICY: ReadPolicy = ReadPolicy {
    name: "shortest-queue",
    about: "the copy whose device has the fewest requests in flight, then the nearest",
    // Distances on a device fit 40 bits of blocks (4 EiB); larger ones saturate.
    cost: |load, block| {
        let distance = load.last_end.0.abs_diff(block.0).min((1 << 40) - 1);
        u64::from(load.in_flight) << 40 | distance
    },
};
