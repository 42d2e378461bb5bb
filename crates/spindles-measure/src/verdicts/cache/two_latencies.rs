//! C7: reads that take two very different times, as hits and misses do. It sees caches that nothing
//! else shows, those of controllers and servers. Reads of which some have to move an arm look alike, so
//! it is never more than a note.

use super::super::{Intervention, percent};
use super::{CacheRule, CacheVerdict, Grade, grade};
use crate::statistics::two_modes;

/// With more hits than this the misses are too few to be told from stragglers.
const HITS_MAX: f64 = 0.95;

pub(super) static RULE: CacheRule = CacheRule {
    id: "C7",
    name: "two-latencies",
    when: "reads that pass the page cache by, or whose devices nobody counted, take one of two times at least 4 times apart; the share of the short ones is the estimate of the hits; a note, since arms do the same",
    decide: |facts| {
        // One member that takes far longer than the others makes two latencies, and no cache.
        facts.straggler().is_none().then_some(())?;
        // Of the page cache it is known, and reads ahead make its short ones.
        (facts.direct || facts.moved.is_none()).then_some(())?;
        let modes = two_modes(&facts.reads)?;
        // A few that take much longer are stragglers.
        (modes.share_below <= HITS_MAX).then_some(())?;
        let microseconds = |ns: f64| format!("{:.0} µs", ns / 1e3);
        Some(CacheVerdict {
            rule: RULE.name,
            grade: grade(modes.share_below).and(Some(Grade::Note))?,
            evidence: format!(
                "{} of the reads took about {}, the others about {}: hits and misses of a \
                 cache, or requests of which some move an arm",
                percent(modes.share_below),
                microseconds(modes.low),
                microseconds(modes.high)
            ),
            intervention: Intervention::WithoutCache,
        })
    },
};
