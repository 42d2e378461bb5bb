//! Reads of 4 KiB at random offsets, 32 in flight.

use crate::plan::Kind;
use crate::plan::{Counted, Streams};
use crate::random::{self, Each};
use alloc::format;

pub(super) static KIND: Kind = Kind {
    name: "random-read",
    summary: |plan| format!("reads {} at random places, {}", plan.chunk(), plan.depth()),
    counted: Counted::Reads,
    writes: false,
    streams: Streams::One,
    chunk_bytes: 4 << 10,
    in_flight: 32,
    operations: Some(8192),
    read_percent: None,
    start: |plan| random::start(plan, Each::Read),
};
