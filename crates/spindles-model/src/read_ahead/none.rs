//! No read-ahead.

use super::ReadAhead;

pub(crate) static RULE: ReadAhead = ReadAhead {
    name: "none",
    limit: |asked| asked.end,
};
