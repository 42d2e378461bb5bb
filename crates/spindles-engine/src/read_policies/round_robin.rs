//! The copies in turn.

use super::ReadPolicy;

pub(crate) static POLICY: ReadPolicy = ReadPolicy {
    name: "round-robin",
    about: "the copies in turn",
    cost: |load, _| load.last_chosen,
};
