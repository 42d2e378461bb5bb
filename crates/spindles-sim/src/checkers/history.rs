//! Every read returns legal contents, in every byte.

use super::{Checker, Seen, Stateless};

pub(super) static CHECKER: Checker = Checker {
    name: "history",
    about: "a read returns the last write, after a crash a legal one, and then always the same",
    start: || {
        Box::new(Stateless(|scene, seen| match *seen {
            Seen::Read { token, bytes } => scene
                .history
                .read_answered(token, bytes)
                .map_err(|violation| violation.to_string()),
            _ => Ok(()),
        }))
    },
};
