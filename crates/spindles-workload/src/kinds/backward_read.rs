//! iozone's backward read: every chunk once, from the last to the first. Read-ahead rarely foresees
//! it.

use crate::plan::Kind;
use crate::plan::{Counted, Streams};
use crate::sequential::{self, Each};
use alloc::format;

pub(super) static KIND: Kind = Kind {
    name: "backward-read",
    summary: |plan| {
        let (chunk, depth) = (plan.chunk(), plan.depth());
        format!("iozone's backward read: reads {chunk} before {chunk}, {depth}")
    },
    counted: Counted::ReadBytes,
    writes: false,
    streams: Streams::One,
    chunk_bytes: 64 << 10,
    in_flight: 1,
    operations: None,
    read_percent: None,
    start: |plan| sequential::start(plan, Each::ReadBackward, false),
};
