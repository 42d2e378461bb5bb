//! Makes the changes of a write to a redundancy group durable in the members' journals before they
//! go to their places. After a crash a write is carried out as a whole or not at all, even if
//! members are missing.

use super::{Policy, WriteHole};

pub(crate) static POLICY: Policy = Policy {
    name: "journal",
    about: "writes to parity groups are logged on the members first: a crash leaves no write hole",
    resync_after_crash: true,
    write_hole: WriteHole::Closed,
};
