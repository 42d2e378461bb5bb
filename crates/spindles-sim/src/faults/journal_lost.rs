//! The disk that an array has for its journal drops out.

use super::{Fault, Stateless};
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "journal_lost",
    about: "the dedicated journal disk of an array is gone",
    percent: 40,
    own_stream: true,
    start: |_| Box::new(Stateless(World::drop_journal)),
};
