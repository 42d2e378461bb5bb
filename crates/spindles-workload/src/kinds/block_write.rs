//! Bonnie's block output: chunk after chunk, one integer changed in each.

use crate::plan::Kind;
use crate::plan::{Counted, Streams};
use crate::sequential::{self, Each};
use alloc::format;

pub(super) static KIND: Kind = Kind {
    name: "block-write",
    summary: |plan| format!("Bonnie's block output: writes {}", plan.in_order()),
    counted: Counted::WrittenBytes,
    writes: true,
    streams: Streams::One,
    chunk_bytes: 8 << 10,
    in_flight: 1,
    operations: None,
    read_percent: None,
    start: |plan| sequential::start(plan, Each::Write, true),
};
