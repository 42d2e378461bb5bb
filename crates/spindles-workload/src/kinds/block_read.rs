//! Bonnie's block input: chunk after chunk, one integer of each looked at.

use crate::plan::Kind;
use crate::plan::{Counted, Streams};
use crate::sequential::{self, Each};
use alloc::format;

pub(super) static KIND: Kind = Kind {
    name: "block-read",
    summary: |plan| format!("Bonnie's block input: reads {}", plan.in_order()),
    counted: Counted::ReadBytes,
    writes: false,
    streams: Streams::One,
    chunk_bytes: 8 << 10,
    in_flight: 1,
    operations: None,
    read_percent: None,
    start: |plan| sequential::start(plan, Each::Read, true),
};
