//! Until the segment is full.

use super::ReadAhead;

pub(crate) static RULE: ReadAhead = ReadAhead {
    name: "buffer",
    limit: |_| u64::MAX,
};
