//! What a write changes in a redundancy group is durable in the members' journals before it goes to
//! its place: after a crash it is carried out as a whole or not at all, with members missing too.

use super::{Policy, WriteHole};

pub(crate) static POLICY: Policy = Policy {
    name: "journal",
    about: "writes to parity groups are logged on the members first: a crash leaves no write hole",
    resync_after_crash: true,
    write_hole: WriteHole::Closed,
};
