//! Bonnie's rewrite: each chunk is read, changed in one integer and written back.

use super::Kind;
use crate::sequential::{self, Each};
use crate::{Counted, Streams};

pub(super) static KIND: Kind = Kind {
    name: "rewrite",
    summary: "Bonnie's rewrite: reads 8 KiB, changes an integer, writes it back, goes on",
    counted: Counted::WrittenBytes,
    writes: true,
    streams: Streams::One,
    chunk_bytes: 8 << 10,
    in_flight: 1,
    operations: None,
    start: |plan| sequential::start(plan, Each::Rewrite, true),
};
