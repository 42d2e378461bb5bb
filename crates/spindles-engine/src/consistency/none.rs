//! Marks nothing and repairs nothing after a crash: for contents that can be created again.

use super::{Policy, WriteHole};

pub(crate) static POLICY: Policy = Policy {
    name: "none",
    about: "nothing is done after a crash: copies and parity may disagree with data",
    resync_after_crash: false,
    write_hole: WriteHole::Open,
};
