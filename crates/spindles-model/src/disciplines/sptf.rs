//! The shortest time to the first sector. A request older than the age bound goes first.

use super::Discipline;

pub(crate) static DISCIPLINE: Discipline = Discipline {
    name: "sptf",
    cost: Some(|choice, _, candidate| {
        if choice.from.saturating_sub(candidate.arrived) > choice.age_bound_ns {
            return 0;
        }
        let mechanism = choice.mechanism;
        let moved = mechanism.move_ns(candidate.cylinder, candidate.surface, candidate.is_write);
        let from = choice.from.max(candidate.arrived) + moved;
        1 + (from - choice.from) + mechanism.spindle.wait_ns(from, candidate.angle)
    }),
};
