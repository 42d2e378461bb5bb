//! Writes of 4 KiB at random places, 32 in flight.

use super::Kind;
use crate::random::{self, Each};
use crate::{Counted, Streams};

pub(super) static KIND: Kind = Kind {
    name: "random-write",
    summary: "writes 4 KiB at random places, 32 in flight",
    counted: Counted::Writes,
    writes: true,
    streams: Streams::One,
    chunk_bytes: 4 << 10,
    in_flight: 32,
    operations: Some(8192),
    start: |plan| random::start(plan, Each::Write),
};
