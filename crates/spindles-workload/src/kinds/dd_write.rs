//! dd writing: the whole size in order, one operation of 1 MiB at a time.

use super::Kind;
use crate::sequential::{self, Each};
use crate::{Counted, Streams};

pub(super) static KIND: Kind = Kind {
    name: "dd-write",
    summary: "writes 1 MiB after 1 MiB in order, one at a time, as dd bs=1M does",
    counted: Counted::WrittenBytes,
    writes: true,
    streams: Streams::One,
    chunk_bytes: 1 << 20,
    in_flight: 1,
    operations: None,
    start: |plan| sequential::start(plan, Each::Write, false),
};
