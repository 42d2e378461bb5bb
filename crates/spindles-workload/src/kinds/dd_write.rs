//! dd writing: the whole size in order, one operation of 1 MiB at a time.

use crate::plan::Kind;
use crate::plan::{Counted, Streams};
use crate::sequential::{self, Each};
use alloc::format;

pub(super) static KIND: Kind = Kind {
    name: "dd-write",
    summary: |plan| format!("writes {}, as dd does", plan.in_order()),
    counted: Counted::WrittenBytes,
    writes: true,
    streams: Streams::One,
    chunk_bytes: 1 << 20,
    in_flight: 1,
    operations: None,
    read_percent: None,
    start: |plan| sequential::start(plan, Each::Write, false),
};
