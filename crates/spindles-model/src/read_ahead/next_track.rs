//! To the end of the track; once the segment reaches back before the track, to the end of the next.

use super::{Asked, ReadAhead};

pub(crate) static RULE: ReadAhead = ReadAhead {
    name: "next-track",
    limit,
};

fn limit(asked: &Asked) -> u64 {
    let next = asked.end.min(asked.geometry.sectors() - 1);
    let end = asked.geometry.track_end(next);
    let is_before = asked.geometry.track_start(next) > asked.first;
    if is_before && end < asked.geometry.sectors() {
        asked.geometry.track_end(end)
    } else {
        end
    }
}
