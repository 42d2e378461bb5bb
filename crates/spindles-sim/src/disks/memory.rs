//! Memory with a volatile write cache: operations complete in any order, and unflushed data may be
//! lost.

use super::{Model, Work};

pub(super) static MODEL: Model = Model {
    name: "memory",
    about: "a fast disk with a volatile write cache; operations overtake each other",
    volatile_cache: true,
    service_ns: |random, work| {
        let base = match work {
            Work::Read(bytes) => 40_000 + bytes / 2,
            Work::Write(bytes) => 15_000 + bytes / 2,
            Work::Flush => 200_000,
        };
        // 3 % of requests are so slow that many later requests overtake them.
        let spread = if random.percent(3) { 40 } else { 2 };
        base + random.below(base * spread)
    },
};
