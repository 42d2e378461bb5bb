//! One dd for each member at once: measures the throughput of all members together.

use crate::plan::Kind;
use crate::plan::{Counted, Streams};
use crate::sequential::{self, Each};
use alloc::format;

pub(super) static KIND: Kind = Kind {
    name: "dd-parallel",
    summary: |plan| {
        let each = plan.in_order();
        format!("reads all members at once, each by itself: {each}")
    },
    counted: Counted::ReadBytes,
    writes: false,
    streams: Streams::Members,
    chunk_bytes: 1 << 20,
    in_flight: 1,
    operations: None,
    read_percent: None,
    start: |plan| sequential::start(plan, Each::Read, false),
};
