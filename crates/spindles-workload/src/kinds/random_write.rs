//! Writes of 4 KiB at random offsets, 32 in flight.

use crate::plan::Kind;
use crate::plan::{Counted, Streams};
use crate::random::{self, Each};
use alloc::format;

pub(super) static KIND: Kind = Kind {
    name: "random-write",
    summary: |plan| format!("writes {} at random places, {}", plan.chunk(), plan.depth()),
    counted: Counted::Writes,
    writes: true,
    streams: Streams::One,
    chunk_bytes: 4 << 10,
    in_flight: 32,
    operations: Some(8192),
    read_percent: None,
    start: |plan| random::start(plan, Each::Write),
};
