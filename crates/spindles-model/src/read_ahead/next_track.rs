//! To the end of the next track.

use super::ReadAhead;

pub(crate) static RULE: ReadAhead = ReadAhead {
    name: "next-track",
    limit: |asked| {
        let end = asked.geometry.track_end(asked.end - 1);
        if end < asked.geometry.sectors() {
            asked.geometry.track_end(end)
        } else {
            end
        }
    },
};
