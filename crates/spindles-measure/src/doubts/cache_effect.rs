//! Figures that a cache may have made: bytes that never reached the members, members that were reached
//! through the page cache, and whatever else the rules of caches see.

use super::{Kind, by_workload, percent};
use crate::Traffic;
use crate::verdicts::hit_share;

/// Share of bytes that may be missing at the members before we speak of a cache.
const HIT_MAX: f64 = 0.05;

/// Its row of the table.
pub(super) static KIND: Kind = Kind {
    name: "cache-effect",
    title: "A cache may have answered",
    remedy: "These figures may be those of memory, not of a disk. Use members on a file system \
             that supports O_DIRECT (ext4, xfs, btrfs; not tmpfs or overlayfs) or block devices, \
             or sizes of at least twice the memory.",
    find: |analysis| {
        // What is written is flushed within the time that counts.
        let read = |run: &&crate::Run| run.failed.is_none() && run.application.read > 0;
        let reads: Vec<&crate::Run> = analysis.runs.iter().filter(read).collect();
        let buffered = reads
            .iter()
            .filter(|run| !run.io.direct && !super::no_disk::without_disk(run))
            .count();
        let mut found = Vec::new();
        if buffered > 0 && buffered == reads.len() {
            found.push("every run that read went through the page cache".to_owned());
        } else if buffered > 0 {
            found.push(format!(
                "{buffered} of {} runs that read went through the page cache",
                reads.len()
            ));
        }
        // Reads that were not rebuilt from fewer members must be seen there in full.
        found.extend(by_workload(analysis, |cell| {
            let hit = hit_share(cell.application, cell.members)?;
            // With evidence the rules of caches see more.
            (hit > HIT_MAX && cell.verdicts.is_none())
                .then(|| format!("{} of the bytes were not read from members", percent(hit)))
        }));
        found.extend(device_hits(analysis));
        found.extend(by_workload(analysis, |cell| {
            let said = cell.verdicts.as_ref()?.cache.iter();
            let said: Vec<&str> = said.map(|it| &*it.evidence).collect();
            (!said.is_empty()).then(|| said.join("; "))
        }));
        found
    },
};

/// Runs whose physical devices moved fewer bytes than the members asked for.
fn device_hits(analysis: &crate::Analysis) -> Vec<String> {
    by_workload(analysis, |cell| {
        let (mut asked, mut moved) = (Traffic::default(), Traffic::default());
        for run in analysis.runs_of(cell) {
            if let Some(devices) = run.devices {
                asked.read = asked.read.saturating_add(run.members.read);
                moved.read = moved.read.saturating_add(devices.read);
            }
        }
        let hit = hit_share(asked, moved)?;
        (hit > HIT_MAX).then(|| {
            format!(
                "{} of the bytes read did not come from the device",
                percent(hit)
            )
        })
    })
}
