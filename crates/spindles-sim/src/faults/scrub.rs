//! Not a fault: the administrator scrubs an array while clients use it.

use super::{Fault, Stateless};

pub(super) static FAULT: Fault = Fault {
    name: "scrub",
    about: "the administrator scrubs an array while clients use it",
    percent: 25,
    own_stream: false,
    start: |_| Box::new(Stateless(|world| world.scrub_during_requests())),
};
