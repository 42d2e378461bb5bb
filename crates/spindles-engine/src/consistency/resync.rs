//! Marks the array unclean before its first write. An opening of an unclean array resynchronises
//! the whole array, each place before its first read.

use super::{Policy, WriteHole};

pub(crate) static POLICY: Policy = Policy {
    name: "resync",
    about: "after a crash the whole array is made consistent, each place before its first read",
    resync_after_crash: true,
    write_hole: WriteHole::Refused,
};
