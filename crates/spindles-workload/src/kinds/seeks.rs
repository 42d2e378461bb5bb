//! Bonnie's seeks: 3 seekers draw 4000 tickets; a seeker's every 10th chunk is written back.

use super::Kind;
use crate::random::{self, Each};
use crate::{Counted, Streams};

pub(super) static KIND: Kind = Kind {
    name: "seeks",
    summary: "Bonnie's seeks: 4000 random 8 KiB reads by 3 seekers, every 10th written back",
    counted: Counted::Reads,
    writes: true,
    streams: Streams::One,
    chunk_bytes: 8 << 10,
    in_flight: 3,
    operations: Some(4000),
    start: |plan| random::start(plan, Each::ReadAndWriteBackEvery(10)),
};
