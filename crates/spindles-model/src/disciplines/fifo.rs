//! In order of arrival.

use super::Discipline;

pub(crate) static DISCIPLINE: Discipline = Discipline {
    name: "fifo",
    cost: None,
};
