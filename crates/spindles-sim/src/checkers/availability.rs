//! Within the budget nothing fails and nothing is refused, save an unclean degraded array with
//! parity.

use super::{Checker, Seen, Stateless};

pub(super) static CHECKER: Checker = Checker {
    name: "availability",
    about: "as long as the level survives what is lost, no request fails and the array opens",
    start: || {
        Box::new(Stateless(|scene, seen| match *seen {
            Seen::Failed { what } if !scene.errors_excused => Err(format!("{what} failed")),
            Seen::Refused {
                unclean_degraded: true,
                is_unclean_degraded: true,
                ..
            } => Ok(()),
            Seen::Refused { array, why, .. } if !scene.errors_excused => {
                Err(format!("array {array} was refused: {why}"))
            }
            _ => Ok(()),
        }))
    },
};
