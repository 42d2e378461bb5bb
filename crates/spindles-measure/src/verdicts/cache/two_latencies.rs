//! C7: reads with two very different latencies, such as hits and misses. It reveals caches of
//! controllers and servers, which nothing else shows. Reads of which some move an arm look the
//! same, so it is never more than a note.

use super::super::{Intervention, percent};
use super::{CacheRule, CacheVerdict, Grade, grade};
use crate::statistics::two_modes;

/// With more hits than this, the misses are too few to distinguish from stragglers.
const HITS_MAX: f64 = 0.95;

pub(super) static RULE: CacheRule = CacheRule {
    id: "C7",
    name: "two-latencies",
    when: "reads that bypass the page cache, or whose devices were not counted, take one of two \
        times at least 4 times apart; the share of the short ones estimates the hits; only a note, \
        because arms have the same effect",
    decide: |facts| {
        // One much slower member makes two latencies without any cache.
        facts.straggler().is_none().then_some(())?;
        // The page cache is known from its counters, and its read-ahead makes the short latencies.
        (facts.direct || facts.moved.is_none()).then_some(())?;
        let modes = two_modes(&facts.reads)?;
        // A few much longer reads are stragglers.
        (modes.share_below <= HITS_MAX).then_some(())?;
        let microseconds = |ns: f64| format!("{:.0} µs", ns / 1e3);
        Some(CacheVerdict {
            rule: RULE.name,
            grade: grade(modes.share_below).and(Some(Grade::Note))?,
            evidence: format!(
                "{} of the reads took about {}, the others about {}: hits and misses of a cache, \
                 or requests with and without a seek",
                percent(modes.share_below),
                microseconds(modes.low),
                microseconds(modes.high)
            ),
            intervention: Intervention::WithoutCache,
        })
    },
};
