//! Bonnie's block input: chunk after chunk, one integer of each looked at.

use super::Kind;
use crate::sequential::{self, Each};
use crate::{Counted, Streams};

pub(super) static KIND: Kind = Kind {
    name: "block-read",
    summary: "Bonnie's block input: reads 8 KiB after 8 KiB, one at a time",
    counted: Counted::ReadBytes,
    writes: false,
    streams: Streams::One,
    chunk_bytes: 8 << 10,
    in_flight: 1,
    operations: None,
    start: |plan| sequential::start(plan, Each::Read, true),
};
