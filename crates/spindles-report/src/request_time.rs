//! Where the time of modelled disks' requests went, for each system and workload.

use spindles_measure::{Analysis, Cell, MemberTime};

use crate::figures::float;

/// A part of a request's time: its name, the CSS class of its bar, and its sum over all requests in
/// nanoseconds.
pub(crate) type TimeShare = (&'static str, &'static str, fn(&MemberTime) -> u64);

/// The parts in the order in which a request meets them.
pub(crate) const PARTS: [TimeShare; 6] = [
    ("queue", "part0", |time| time.queue_ns),
    ("arm", "part1", |time| time.seek_ns),
    ("rotation", "part2", |time| time.rotation_ns),
    ("medium", "part3", |time| time.transfer_ns),
    ("link", "part4", |time| time.link_ns),
    ("electronics", "part5", |time| time.overhead_ns),
];

/// The time of all disks in all runs of a cell.
pub(crate) struct CellTime {
    time: MemberTime,
    /// Time of the disks together.
    disks_ns: u64,
}

impl CellTime {
    /// Sums up a cell. `None` unless its disks are modelled and had requests.
    pub(crate) fn of(analysis: &Analysis, cell: &Cell) -> Option<Self> {
        let mut time = MemberTime::default();
        let mut disks_ns = 0;
        for run in analysis.runs_of(cell) {
            let members = run.evidence.iter().flat_map(|evidence| &evidence.members);
            for of_one in members.filter_map(|member| member.time) {
                time = time.with(&of_one, u64::saturating_add);
                disks_ns += run.elapsed_ns;
            }
        }
        (time.requests > 0 && disks_ns > 0).then_some(Self { time, disks_ns })
    }

    /// Share of the time in which a disk had a request, from 0 to 1.
    pub(crate) fn busy(&self) -> f64 {
        float(self.time.busy_ns) / float(self.disks_ns)
    }

    /// Mean time of a part, for each request of a disk, in nanoseconds.
    pub(crate) fn part_ns(&self, part: &TimeShare) -> f64 {
        float(part.2(&self.time)) / float(self.time.requests)
    }

    /// Mean response time of a disk, in nanoseconds.
    pub(crate) fn response_ns(&self) -> f64 {
        float(self.time.response_ns) / float(self.time.requests)
    }

    /// All parts of a request together.
    pub(crate) fn sum_ns(&self) -> f64 {
        PARTS.iter().map(|part| self.part_ns(part)).sum()
    }
}
