//! Bonnie's rewrite: each chunk is read, changed in one integer and written back.

use crate::plan::Kind;
use crate::plan::{Counted, Streams};
use crate::sequential::{self, Each};
use alloc::format;

pub(super) static KIND: Kind = Kind {
    name: "rewrite",
    summary: |plan| {
        let (chunk, depth) = (plan.chunk(), plan.depth());
        format!("Bonnie's rewrite: reads {chunk}, changes an integer, writes it back, {depth}")
    },
    counted: Counted::WrittenBytes,
    writes: true,
    streams: Streams::One,
    chunk_bytes: 8 << 10,
    in_flight: 1,
    operations: None,
    read_percent: None,
    start: |plan| sequential::start(plan, Each::Rewrite, true),
};
