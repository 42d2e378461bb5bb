//! The summary lines of filebench: the format of 2005 to 2009, and the one since 2017, which counts
//! latency differently.

use spindles_measure::{Analysis, Run};

use super::{Block, Format, Repetition, seconds, wholes};
use crate::figures;

pub(super) static FORMAT: Format = Format {
    title: "filebench",
    remark: "The first line has the format of versions 0.1.64 to 1.4.8, the second the format \
        since 2017. Operations include opening, closing and flushing files. The new latency is the \
        mean. The old latency exceeds it: the time of all synchronous operations divided by reads \
        and writes alone.",
    kinds: &["varmail", "oltp", "multistreamread", "multistreamwrite"],
    blocks,
};

/// Operations that move bytes, by direction.
const READS: &[&str] = &["read", "readwhole"];
const WRITES: &[&str] = &["write", "append"];
/// Asynchronous operations, and the ones that write.
const ASYNCHRONOUS: &[&str] = &["aiowrite", "aiowait"];
const ASYNCHRONOUS_WRITES: &[&str] = &["aiowrite"];
/// Entries of a record that are not operations.
const NO_OPERATIONS: &[&str] = &["think", "seek", "wait"];

fn blocks(analysis: &Analysis) -> Vec<Block> {
    let wholes = wholes(analysis, FORMAT.kinds, &[""]);
    let blocks = wholes.iter().filter_map(|whole| whole.block(lines));
    blocks.collect()
}

/// Number of the selected operations, and the sum of their times.
fn sum(run: &Run, is_meant: impl Fn(&str) -> bool) -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    for (_, histogram) in run.latency.iter().filter(|(name, _)| is_meant(name)) {
        let count = figures::float(histogram.total());
        sums.0 += count;
        sums.1 += count * histogram.mean();
    }
    sums
}

fn lines(runs: &Repetition) -> String {
    let run = runs.run("");
    let seconds = seconds(run);
    let (all, all_ns) = sum(run, |name| !NO_OPERATIONS.contains(&name));
    let (_, synchronous_ns) = sum(run, |name| {
        !ASYNCHRONOUS.contains(&name) && !NO_OPERATIONS.contains(&name)
    });
    let (reads, _) = sum(run, |name| READS.contains(&name));
    let (writes, _) = sum(run, |name| WRITES.contains(&name));
    let (later, _) = sum(run, |name| ASYNCHRONOUS_WRITES.contains(&name));
    let moved = reads + writes + later;
    let ratio = |amount: f64, of: f64| if of > 0.0 { amount / of } else { 0.0 };
    let megabytes = figures::float(run.application.total()) / f64::from(1_u32 << 20) / seconds;
    let cpu_us = ratio(figures::float(run.cpu_ns.machine) / 1e3, moved);
    let (per_second, reads_s, writes_s) =
        (all / seconds, reads / seconds, (writes + later) / seconds);
    let old_ms = ratio(synchronous_ns / 1e6, reads + writes);
    let new_ms = ratio(all_ns / 1e6, all);
    format!(
        "IO Summary:      {all:>5.0} ops {per_second:>5.1} ops/s, ({reads_s:.0}/{writes_s:.0} r/w) \
         {megabytes:>5.1}mb/s, {cpu_us:>6.0}us cpu/op, {old_ms:>5.1}ms latency\n\
         IO Summary: {all:>5.0} ops {per_second:>5.3} ops/s {reads_s:.0}/{writes_s:.0} rd/wr \
         {megabytes:>5.1}mb/s {new_ms:>5.3}ms/op\n"
    )
}
