//! The three lines of the shell's `time`, for workloads that were timed with it.

use spindles_measure::{Analysis, Run};

use super::{Block, Format, Repetition, seconds, wholes};
use crate::figures;

pub(super) static FORMAT: Format = Format {
    title: "time",
    remark: "Real time, and CPU time of the requesting processes in user space and in the kernel. \
        If a record has only the sum of these two, the sum is printed; if it has neither, nothing \
        is.",
    kinds: &["touch", "untar", "cp", "newfs"],
    blocks,
};

fn blocks(analysis: &Analysis) -> Vec<Block> {
    let wholes = wholes(analysis, FORMAT.kinds, &[]);
    let blocks = wholes.iter().filter_map(|whole| whole.block(lines));
    blocks.collect()
}

/// Formats the phases in the order in which they ran.
fn lines(runs: &Repetition) -> String {
    let mut ordered: Vec<&Run> = runs.runs.values().copied().collect();
    ordered.sort_by_key(|run| run.order);
    let several = ordered.len() > 1;
    let lines = ordered.into_iter().map(|run| {
        let head = match &run.workload.part {
            Some(part) if several => format!("$ time {}\n", part.phase),
            _ => String::new(),
        };
        format!("{head}{}", times(run))
    });
    lines.collect()
}

fn times(run: &Run) -> String {
    let mut text = format!("\nreal\t{}\n", minutes(seconds(run)));
    let usage = run.evidence.as_ref().and_then(|evidence| evidence.usage);
    let of = |ns: u64| minutes(figures::float(ns) / 1e9);
    text += &match usage {
        Some(usage) => format!(
            "user\t{}\nsys\t{}\n",
            of(usage.user_ns),
            of(usage.system_ns)
        ),
        // The CPU time of an external program is unknown.
        None if run.cpu_ns.workload == 0 => String::new(),
        None => format!("user+sys\t{}\n", of(run.cpu_ns.workload)),
    };
    text
}

/// `1m2.345s`.
fn minutes(seconds: f64) -> String {
    // The shell also truncates below a millisecond.
    let milliseconds = (seconds * 1000.0).floor();
    let minutes = (milliseconds / 60_000.0).floor();
    format!(
        "{minutes:.0}m{:.3}s",
        (milliseconds - minutes * 60_000.0) / 1000.0
    )
}

#[cfg(test)]
mod tests {
    use super::minutes;

    #[test]
    fn times_are_formatted_like_the_shell() {
        for (seconds, text) in [
            (0.0, "0m0.000s"),
            (0.3149, "0m0.314s"),
            (62.345, "1m2.345s"),
            (3600.0, "60m0.000s"),
        ] {
            assert_eq!(minutes(seconds), text);
        }
    }
}
