//! The nearest cylinder, with a turn of the arm costing a fifth of the stroke (Geist and Daniel
//! 1987).

use super::Discipline;

pub(crate) static DISCIPLINE: Discipline = Discipline {
    name: "cvscan",
    cost: Some(|choice, sweep, candidate| {
        let now = choice.mechanism.cylinder;
        let turns = if sweep.is_down {
            candidate.cylinder > now
        } else {
            candidate.cylinder < now
        };
        let penalty = if turns {
            choice.mechanism.seeks.cylinders() / 5
        } else {
            0
        };
        u64::from(now.abs_diff(candidate.cylinder)) + penalty
    }),
};
