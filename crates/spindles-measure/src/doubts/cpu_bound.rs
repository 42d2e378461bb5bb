//! The CPUs, not the disks, set the pace.

use super::{Kind, Rank, by_workload, percent};

/// Share of all CPUs busy from which on they set the pace.
const BUSY: f64 = 0.9;

/// Its row of the table.
pub(super) static KIND: Kind = Kind {
    name: "cpu-bound",
    rank: Rank::Note,
    title: "The CPUs were the limit",
    remedy: "Nearly all CPU time of the machine was used, so these figures are of the CPUs more \
             than of the disks. More CPUs would give other figures, and other work beside it too.",
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
