//! Up and down over the cylinders, turning at the last request.

use super::Discipline;

pub(crate) static DISCIPLINE: Discipline = Discipline {
    name: "scan",
    cost: Some(|choice, sweep, candidate| {
        let now = choice.mechanism.cylinder;
        let is_behind = if sweep.is_down {
            candidate.cylinder > now
        } else {
            candidate.cylinder < now
        };
        (u64::from(is_behind) << 32) + u64::from(now.abs_diff(candidate.cylinder))
    }),
};
