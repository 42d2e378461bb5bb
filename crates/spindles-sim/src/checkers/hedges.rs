//! The number of hedged reads stays within its limit, however slow the members are.

use super::{Checker, Seen, Stateless};

pub(super) static CHECKER: Checker = Checker {
    name: "hedges",
    about: "no more reads are hedged than their share of all reads of members, and the first few",
    start: || {
        Box::new(Stateless(|scene, seen| match *seen {
            Seen::Hedged { hedged, reads } => {
                let first = u64::from(scene.options.limit_hedges);
                let most = first + reads / u64::from(scene.options.faults.hedge_share);
                if hedged > most {
                    return Err(format!("{hedged} reads were hedged of {reads} of members"));
                }
                Ok(())
            }
            _ => Ok(()),
        }))
    },
};
