//! To the end of the cylinder.

use super::ReadAhead;

pub(crate) static RULE: ReadAhead = ReadAhead {
    name: "cylinder",
    limit: |asked| asked.geometry.cylinder_end(asked.end - 1),
};
