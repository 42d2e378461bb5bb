//! To the end of the track.

use super::ReadAhead;

pub(crate) static RULE: ReadAhead = ReadAhead {
    name: "track",
    limit: |asked| asked.geometry.track_end(asked.end - 1),
};
