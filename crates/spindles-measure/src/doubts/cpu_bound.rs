//! Reports that the CPUs, not the disks, limited the rate.

use super::{Kind, Rank, by_workload, percent};

/// Busy share of all CPUs from which the CPUs count as the limit.
const BUSY: f64 = 0.9;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "cpu-bound",
    rank: Rank::Note,
    title: "The CPUs were the limit",
    remedy: "Nearly all CPU time of the machine was used, so these figures measure the CPUs more \
             than the disks. Repeat with more CPUs, or with fewer other programs.",
    find: |analysis| {
        let cpus = f64::from(analysis.environment.cpus);
        if cpus < 1.0 {
            return Vec::new();
        }
        by_workload(analysis, |cell| {
            let share = cell.cpus_busy() / cpus;
            (share >= BUSY).then(|| format!("{} busy", percent(share.min(1.0))))
        })
    },
};
