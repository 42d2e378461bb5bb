//! A second command arrives before the first is complete.

use super::Fault;

pub(super) static FAULT: Fault = Fault {
    name: "two_commands",
    about: "a second command changes an array's devices while the first is under way, or is \
        refused",
    percent: 30,
    own_stream: true,
    strike: |world| {
        let struck = world.strike_one_of(&["replace", "rebuild", "put_out", "scrub"]);
        world.is_refused_without_a_trace();
        let also = world.strike_one_of(&["replace", "scrub", "rebuild"]);
        world.is_refused_without_a_trace();
        struck || also
    },
};
