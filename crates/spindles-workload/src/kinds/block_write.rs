//! Bonnie's block output: chunk after chunk, one integer changed in each.

use super::Kind;
use crate::sequential::{self, Each};
use crate::{Counted, Streams};

pub(super) static KIND: Kind = Kind {
    name: "block-write",
    summary: "Bonnie's block output: writes 8 KiB after 8 KiB, one at a time",
    counted: Counted::WrittenBytes,
    writes: true,
    streams: Streams::One,
    chunk_bytes: 8 << 10,
    in_flight: 1,
    operations: None,
    start: |plan| sequential::start(plan, Each::Write, true),
};
