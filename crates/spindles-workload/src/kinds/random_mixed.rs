//! Mixed reads and writes at random offsets.

use crate::plan::Kind;
use crate::plan::{Counted, Streams};
use crate::random::{self, Each};
use alloc::format;

pub(super) static KIND: Kind = Kind {
    name: "random-mixed",
    summary: |plan| {
        format!(
            "reads and writes {} at random places, {} of 100 reads, {}",
            plan.chunk(),
            plan.read_percent,
            plan.depth()
        )
    },
    counted: Counted::Operations,
    writes: true,
    streams: Streams::One,
    chunk_bytes: 4 << 10,
    in_flight: 32,
    operations: Some(8192),
    read_percent: Some(70),
    start: |plan| random::start(plan, Each::Mixed),
};
