//! The copies in turn.

use super::ReadPolicy;

pub(super) static POLICY: ReadPolicy = ReadPolicy {
    name: "round-robin",
    about: "the copies in turn",
    cost: |load, _| load.last_chosen,
};
