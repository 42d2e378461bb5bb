//! The CSV of bonnie++, format 1.98: 50 fields, which `bon_csv2html` turns into a table. The field
//! of the chunk size, which bonnie++ 2.00a leaves empty, is filled.

use spindles_measure::{Analysis, Rate, Run};

use super::bonnie::COLUMNS;
use super::{Block, Format, Repetition, Whole, cpu_percent, parameter, seconds, size};
use crate::figures;

pub(super) static FORMAT: Format = Format {
    title: "bonnie++",
    remark: "CSV of format 1.98. K is 1024 bytes; bon_csv2html prints M. A phase under 500 ms is \
        +++++, as the original prints it. Latencies are those of the slowest operation. The format \
        bonnie++ of this report has a line for every repetition.",
    kinds: &["bonnie++"],
    blocks,
};

/// Shorter phases are not printed.
const SECONDS_MIN: f64 = 0.5;
/// Phases on small files, if the workload has them.
const FILE_COLUMNS: [&str; 6] = [
    "create-in-order",
    "stat-in-order",
    "delete-in-order",
    "create-at-random",
    "stat-at-random",
    "delete-at-random",
];
/// bonnie++ counts files in units of this size.
const FILES_UNIT: f64 = 1024.0;
/// Number of fields for their sizes, folders and chunk. bonnie++ leaves them empty for empty files
/// in one folder.
const FILE_FACTS: usize = 4;

/// The workload on every system.
pub(crate) fn wholes(analysis: &Analysis) -> Vec<Whole<'_>> {
    super::wholes(analysis, FORMAT.kinds, &COLUMNS)
}

fn blocks(analysis: &Analysis) -> Vec<Block> {
    let wholes = wholes(analysis);
    let version = &analysis.environment.tool_version;
    let blocks = wholes
        .iter()
        .filter_map(|whole| whole.block(|runs| line(version, &whole.system.name, runs) + "\n"));
    blocks.collect()
}

/// Formats the line of one repetition.
pub(crate) fn line(version: &str, machine: &str, runs: &Repetition) -> String {
    let first = runs.run("putc");
    let seeks = runs.run("seeks");
    let chunk = parameter(first, "chunk").unwrap_or(first.workload.operation_bytes);
    let seekers = parameter(seeks, "seekers").unwrap_or(seeks.workload.in_flight_max.into());
    let mut fields = vec![
        "1.98".to_owned(),
        plain(&["spindles", version].join(" ")),
        plain(machine),
        // Number of concurrent copies of the program.
        "1".to_owned(),
        first.seed.to_string(),
        with_unit(size(first)),
        with_unit(chunk),
        parameter(seeks, "seeks")
            .unwrap_or(seeks.counted)
            .to_string(),
        seekers.to_string(),
    ];
    for phase in COLUMNS {
        fields.extend(rate_and_cpu(runs.run(phase), phase == "seeks"));
    }
    let of_files = FILE_COLUMNS.map(|phase| runs.runs.get(phase).copied());
    let files = of_files.iter().flatten().next();
    let files = files.and_then(|run| parameter(run, "files"));
    fields.push(files.map_or(String::new(), |files| {
        (figures::float(files) / FILES_UNIT).to_string()
    }));
    fields.extend(vec![String::new(); FILE_FACTS]);
    for run in of_files {
        let none = [String::new(), String::new()];
        fields.extend(run.map_or(none, |run| rate_and_cpu(run, false)));
    }
    fields.extend(COLUMNS.map(|phase| latency(runs.run(phase))));
    fields.extend(of_files.map(|run| run.map_or(String::new(), latency)));
    fields.join(",")
}

/// Turns a text into one field: `bon_csv2html` has no quotes.
fn plain(text: &str) -> String {
    text.trim().replace([',', '\n', '\r'], ";")
}

/// Formats sizes like bonnie++: `256M`, `8G`, `8k`, `512`.
fn with_unit(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "k")];
    let unit = units
        .into_iter()
        .find(|(power, _)| bytes > 0 && bytes.trailing_zeros() >= *power);
    match unit {
        Some((power, unit)) => format!("{}{unit}", bytes >> power),
        None => bytes.to_string(),
    }
}

fn rate_and_cpu(run: &Run, is_seeks: bool) -> [String; 2] {
    if seconds(run) < SECONDS_MIN {
        return ["+++++".to_owned(), "+++".to_owned()];
    }
    let rate = if run.workload.rate == Rate::Bytes {
        format!("{:.0}", super::k_per_second(run))
    } else if !is_seeks {
        format!("{:.0}", run.per_second().trunc())
    } else if run.per_second() < 1000.0 {
        format!("{:.1}", run.per_second())
    } else {
        format!("{:.0}", run.per_second())
    };
    [rate, format!("{:.0}", cpu_percent(run).trunc())]
}

fn latency(run: &Run) -> String {
    let slowest = run
        .latency
        .values()
        .map(spindles_measure::Histogram::max)
        .max();
    let Some(ns) = slowest.filter(|ns| *ns > 0) else {
        return String::new();
    };
    let microseconds = figures::float(ns) / 1000.0;
    if microseconds < 100_000.0 {
        format!("{:.0}us", microseconds.trunc())
    } else if microseconds < 100_000_000.0 {
        format!("{:.0}ms", (microseconds / 1e3).trunc())
    } else {
        format!("{:.0}s", (microseconds / 1e6).trunc())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_formatted_like_bonnie() {
        for (bytes, text) in [
            (256 << 20, "256M"),
            (16 << 30, "16G"),
            (1536 << 20, "1536M"),
            (8192, "8k"),
            (512, "512"),
            (0, "0"),
        ] {
            assert_eq!(with_unit(bytes), text);
        }
        assert_eq!(plain("raid5(a,b)\n"), "raid5(a;b)");
    }
}
