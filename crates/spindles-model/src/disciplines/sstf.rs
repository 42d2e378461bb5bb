//! The nearest cylinder first.

use super::Discipline;

pub(crate) static DISCIPLINE: Discipline = Discipline {
    name: "sstf",
    cost: Some(|choice, _, candidate| {
        choice
            .mechanism
            .cylinder
            .abs_diff(candidate.cylinder)
            .into()
    }),
};
