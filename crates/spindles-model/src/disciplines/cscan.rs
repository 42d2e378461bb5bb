//! Upwards over the cylinders, then back to the lowest request.

use super::Discipline;

pub(crate) static DISCIPLINE: Discipline = Discipline {
    name: "cscan",
    cost: Some(|choice, _, candidate| {
        let now = choice.mechanism.cylinder;
        match candidate.cylinder.checked_sub(now) {
            Some(ahead) => ahead.into(),
            None => (1 << 32) + u64::from(candidate.cylinder),
        }
    }),
};
