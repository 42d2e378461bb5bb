//! Not a fault: the administrator scrubs an array while clients use it.

use super::{Fault, Stateless};
use crate::world::World;
use spindles_engine::{Command, Repair, Scrub};

pub(super) static FAULT: Fault = Fault {
    name: "scrub",
    about: "the administrator scrubs an array while clients use it",
    percent: 25,
    own_stream: false,
    start: |_| Box::new(Stateless(scrub_during_requests)),
};

/// Scrubs an array while clients continue, as the administrator would.
fn scrub_during_requests(world: &mut World) -> bool {
    let array = world.faults.index(world.stack.arrays.len());
    let anew = world.faults.percent(50);
    if !world.may_be_scrubbed(array) {
        return false;
    }
    let repair = Repair::Located;
    world.command(array, Command::Scrub(Scrub { anew, repair }));
    true
}
