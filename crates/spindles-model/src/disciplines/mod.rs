//! Queue disciplines: which waiting request is next. One file each, one row in the table.

mod cscan;
mod cvscan;
mod fifo;
mod scan;
mod sptf;
mod sstf;

use crate::mechanics::Mechanism;

/// A waiting request as a discipline sees it. The place is computed once, at queueing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) cylinder: u32,
    pub(crate) surface: u32,
    pub(crate) angle: u64,
    pub(crate) is_write: bool,
    pub(crate) arrived: u64,
}

/// The state of a queue that outlives a choice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sweep {
    /// True while the arm moves towards cylinder 0.
    pub(crate) is_down: bool,
}

/// What a discipline looks at.
#[derive(Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) mechanism: &'a Mechanism,
    /// The moment from which the arm can move.
    pub(crate) from: u64,
    pub(crate) age_bound_ns: u64,
}

/// A queue discipline.
#[derive(Debug)]
pub(crate) struct Discipline {
    /// The word in parameters.
    pub(crate) name: &'static str,
    /// The cost of a candidate; the lowest is next, and of equal costs the first that arrived.
    /// `None` if the first that arrived is always next.
    pub(crate) cost: Option<Cost>,
}

/// The cost of a candidate.
pub(crate) type Cost = fn(&Choice, Sweep, &Candidate) -> u64;

/// Every discipline.
pub(crate) static DISCIPLINES: &[&Discipline] = &[
    &fifo::DISCIPLINE,
    &sstf::DISCIPLINE,
    &scan::DISCIPLINE,
    &cscan::DISCIPLINE,
    &cvscan::DISCIPLINE,
    &sptf::DISCIPLINE,
];

/// The words of the switches.
pub(crate) static WORDS: &[&str] = &["fifo", "sstf", "scan", "cscan", "cvscan", "sptf"];

impl Discipline {
    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        DISCIPLINES.iter().find(|row| row.name == name).copied()
    }

    /// The index of the next candidate; `None` if there is none.
    pub(crate) fn choose(
        &self,
        choice: &Choice,
        sweep: &mut Sweep,
        mut candidates: impl Iterator<Item = Candidate>,
    ) -> Option<usize> {
        let Some(cost) = self.cost else {
            return candidates.next().map(|_| 0);
        };
        let mut best: Option<(u64, usize, u32)> = None;
        for (index, candidate) in candidates.enumerate() {
            let cost = cost(choice, *sweep, &candidate);
            if best.is_none_or(|(least, ..)| cost < least) {
                best = Some((cost, index, candidate.cylinder));
            }
        }
        let (_, index, cylinder) = best?;
        let now = choice.mechanism.cylinder;
        if cylinder != now {
            sweep.is_down = cylinder < now;
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_names_of_the_rows() {
        let names: Vec<&str> = DISCIPLINES.iter().map(|row| row.name).collect();
        assert_eq!(names, WORDS);
    }
}
