//! A disk that answers a write once it is durable.

use super::{Model, Work};

pub(super) static MODEL: Model = Model {
    name: "write-through",
    about: "a disk without a write cache: an answered write is durable",
    volatile_cache: false,
    service_ns: |random, work| {
        let base = match work {
            Work::Read(bytes) => 40_000 + bytes / 2,
            Work::Write(bytes) => 400_000 + bytes,
            Work::Flush => 2_000,
        };
        base + random.below(base * 2)
    },
};
