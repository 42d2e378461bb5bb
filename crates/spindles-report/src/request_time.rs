//! Where the time of modelled disks' requests went, for each system and workload.

use spindles_measure::{Analysis, Cell, MemberTime};

use crate::figures::float;

/// A part of a request's time.
pub(crate) struct Part {
    /// Name.
    pub(crate) name: &'static str,
    /// CSS class of its bar.
    pub(crate) class: &'static str,
    /// Sum over all requests, in nanoseconds.
    pub(crate) sum_ns: fn(&MemberTime) -> u64,
}

/// The parts in the order in which a request meets them.
pub(crate) const PARTS: [Part; 6] = [
    Part {
        name: "queue",
        class: "part0",
        sum_ns: |time| time.queue_ns,
    },
    Part {
        name: "arm",
        class: "part1",
        sum_ns: |time| time.seek_ns,
    },
    Part {
        name: "rotation",
        class: "part2",
        sum_ns: |time| time.rotation_ns,
    },
    Part {
        name: "medium",
        class: "part3",
        sum_ns: |time| time.transfer_ns,
    },
    Part {
        name: "link",
        class: "part4",
        sum_ns: |time| time.link_ns,
    },
    Part {
        name: "electronics",
        class: "part5",
        sum_ns: |time| time.overhead_ns,
    },
];

/// The time of all disks in all runs of a cell.
pub(crate) struct CellTime {
    time: MemberTime,
    /// Share of the time in which a disk had a request, from 0 to 1.
    pub(crate) busy: f64,
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
        (time.requests > 0 && disks_ns > 0).then(|| Self {
            busy: float(time.busy_ns) / float(disks_ns),
            time,
        })
    }

    /// Mean time of a part, for each request of a disk, in nanoseconds.
    pub(crate) fn part_ns(&self, part: &Part) -> f64 {
        float((part.sum_ns)(&self.time)) / float(self.time.requests)
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
