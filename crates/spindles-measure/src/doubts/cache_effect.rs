//! Reports figures that a cache may explain: bytes that never reached the members, members read
//! through the page cache, and findings of the cache rules. Workloads on files use the page cache
//! on purpose, so they get a remedy of their own.

use super::{Kind, Rank, by_workload, percent};
use crate::verdicts::hit_share;
use crate::{Analysis, Cell, Run, Traffic};

/// Share of bytes that may be missing at the members before a cache is suspected.
const HIT_MAX: f64 = 0.05;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "cache-effect",
    rank: Rank::Untrue,
    title: "A cache may have answered",
    remedy: "These figures may measure memory, not a disk. Use block devices, members on a file \
        system that supports O_DIRECT (ext4, xfs, btrfs; not tmpfs or overlayfs), or sizes of at \
        least twice the memory. An array also answers reads of never-written blocks without its \
        members: write them first, for example with `dd-write`.",
    find: |analysis| found(analysis, |run| !is_on_files(run)),
};

/// The same doubt for workloads on files.
pub(super) static OF_FILES: Kind = Kind {
    name: "page-cache",
    rank: Rank::Untrue,
    title: "The page cache may have answered",
    remedy: "Workloads on files use the page cache on purpose, so these figures may measure \
        memory. Use files of at least twice the memory, and flush written data within the measured \
        time. As root, the lab empties the caches before each phase, unless the experiment has \
        `caches = \"keep\"`.",
    find: |analysis| found(analysis, is_on_files),
};

/// Returns true if a run worked on files of a file system.
fn is_on_files(run: &Run) -> bool {
    run.io.backend == "files"
}

fn found(analysis: &Analysis, is_meant: fn(&Run) -> bool) -> Vec<String> {
    // Writes don't count here: they are flushed within the measured time.
    let read = |run: &&Run| run.failed.is_none() && run.application.read > 0 && is_meant(run);
    let reads: Vec<&Run> = analysis.runs.iter().filter(read).collect();
    // With evidence, the cache rules see more than the mere use of the page cache.
    let unseen = |run: &Run| !is_on_files(run) || run.evidence.is_none();
    let buffered = reads
        .iter()
        .filter(|run| !run.io.direct && !super::no_disk::without_disk(run) && unseen(run))
        .count();
    let mut found = Vec::new();
    if buffered > 0 && buffered == reads.len() {
        found.push("all runs that read used the page cache".to_owned());
    } else if buffered > 0 {
        found.push(format!(
            "{buffered} of {} runs that read used the page cache",
            reads.len()
        ));
    }
    found.extend(by_workload(analysis, |cell| {
        let has_effect = analysis.runs_of(cell).any(is_meant);
        // A phase that only flushes reads nothing that a cache could serve.
        let moved = cell.application.total() > 0;
        (has_effect && moved)
            .then(|| note(analysis, cell))
            .flatten()
    }));
    found
}

/// Returns the signs of a cache in a cell: the findings of the cache rules if there is evidence,
/// otherwise the bytes counted at the members and at their devices.
fn note(analysis: &Analysis, cell: &Cell) -> Option<String> {
    let Some(verdicts) = &cell.verdicts else {
        return member_hits(cell).or_else(|| device_hits(analysis, cell));
    };
    let said: Vec<&str> = verdicts
        .cache
        .iter()
        .map(|verdict| &*verdict.evidence)
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Reports bytes read that the members did not see.
fn member_hits(cell: &Cell) -> Option<String> {
    let hit = hit_share(cell.application, cell.members)?;
    (hit > HIT_MAX).then(|| {
        format!(
            "{} of the bytes read did not come from the members",
            percent(hit)
        )
    })
}

/// Reports bytes of the members' reads that did not come from the physical devices.
fn device_hits(analysis: &Analysis, cell: &Cell) -> Option<String> {
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
}
