//! Latencies of clients before, during and after a job.

use super::{Body, Section, TextTable};
use crate::comparisons::Column;
use crate::figures;
use spindles_measure::statistics::Estimate;
use spindles_measure::{Analysis, JobLine, job_lines};

pub(super) static SECTION: Section = Section {
    name: "jobs",
    title: "Latency around jobs",
    body: Body::Table(&TABLE),
};

static TABLE: TextTable = TextTable {
    caption: "Latency of operations before, during and after a job of the array: medians over \
    repetition blocks, with 95 % intervals from five blocks on. Then the rate of the job through \
    the array during the workload and alone, and the first as a share of the second. A rate limit \
    of a job holds for each member: the job then passes through an array with the data of three \
    members three times as fast.",
    class: |_| "full loose",
    columns,
};

fn columns(analysis: &Analysis) -> Vec<Column> {
    let titles = [
        "workload",
        "system",
        "p50 before",
        "p50 during",
        "p50 after",
        "p99 before",
        "p99 during",
        "p99 after",
        "job",
        "alone",
        "share",
    ];
    let titles = titles.iter().enumerate();
    let titles = titles.map(|(at, title)| ((*title).to_owned(), at > 1, 0));
    Column::of_rows(titles, &rows(analysis))
}

/// One row for each workload next to a job on each system.
pub(crate) fn rows(analysis: &Analysis) -> Vec<Vec<String>> {
    job_lines(analysis).iter().map(row).collect()
}

fn row(line: &JobLine) -> Vec<String> {
    let workload = format!("{} ({}), {}", line.workload, line.operation, line.job);
    let mut row = vec![workload, line.system.clone()];
    row.extend((line.stages.iter()).map(|stage| estimate(&stage.p50_ns, figures::time)));
    row.extend((line.stages.iter()).map(|stage| estimate(&stage.p99_ns, figures::time)));
    let rate = |rate: &Option<Estimate>| {
        let rate = rate.as_ref();
        rate.map_or(String::new(), |rate| {
            format!("{}/s", figures::bytes(rate.value))
        })
    };
    row.push(rate(&line.beside));
    row.push(rate(&line.alone));
    let share = line.share.as_ref();
    row.push(share.map_or(String::new(), |share| {
        estimate(share, |share| format!("{:.0} %", share * 100.0))
    }));
    row
}

/// Formats a figure, with its interval if known.
fn estimate(estimate: &Estimate, words: impl Fn(f64) -> String) -> String {
    if !estimate.value.is_finite() {
        return String::new();
    }
    let value = words(estimate.value);
    if estimate.low.is_finite() && estimate.high.is_finite() {
        let (low, high) = (words(estimate.low), words(estimate.high));
        format!("{value} [{low} … {high}]")
    } else {
        value
    }
}
