//! Bonnie's seeks: 3 seekers draw 4000 tickets; a seeker's every 10th chunk is written back.

use crate::plan::Kind;
use crate::plan::{Counted, Streams};
use crate::random::{self, Each};
use alloc::borrow::ToOwned as _;
use alloc::format;

pub(super) static KIND: Kind = Kind {
    name: "seeks",
    summary: |plan| {
        let (count, chunk, seekers) = (plan.operations, plan.chunk(), plan.actors_per_stream);
        let seekers = match seekers {
            1 => "1 seeker".to_owned(),
            seekers => format!("{seekers} seekers"),
        };
        format!(
            "Bonnie's seeks: {count} random {chunk} reads by {seekers}, every 10th written back"
        )
    },
    counted: Counted::Reads,
    writes: true,
    streams: Streams::One,
    chunk_bytes: 8 << 10,
    in_flight: 3,
    operations: Some(4000),
    read_percent: None,
    start: |plan| random::start(plan, Each::ReadAndWriteBackEvery(10)),
};
