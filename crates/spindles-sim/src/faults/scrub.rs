//! Not a fault: the administrator scrubs an array while clients use it.

use super::{Fault, Stateless};
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "scrub",
    about: "the administrator scrubs an array while clients use it",
    percent: 25,
    own_stream: false,
    start: |_| Box::new(Stateless(World::scrub_during_requests)),
};
