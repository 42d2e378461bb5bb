//! Everything asked is answered, resyncs end, and arrays close.

use super::{Checker, Seen, Stateless};

pub(super) static CHECKER: Checker = Checker {
    name: "liveness",
    about: "every request is answered, a resync ends, an array closes, and becomes healthy again",
    start: || {
        Box::new(Stateless(|_, seen| match *seen {
            Seen::Stalled { what } => Err(what.to_owned()),
            _ => Ok(()),
        }))
    },
};
