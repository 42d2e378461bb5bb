//! Not a fault: the administrator scrubs an array while clients use it.

use super::Fault;

pub(super) static FAULT: Fault = Fault {
    name: "scrub",
    about: "the administrator scrubs an array while clients use it",
    percent: 25,
    own_stream: false,
    strike: |world| world.scrub_during_requests(),
};
