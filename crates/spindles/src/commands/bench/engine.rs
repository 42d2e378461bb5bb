//! `spindles bench engine`: measures how many requests the engine and its driver carry on one core.

use super::Command;
use crate::bench::engine::{ARRAYS, Bench, Case, Effort, Figure, Members, RequestKind, cases};
use crate::documents::tools::{EngineBench, EngineRow};
use crate::progress::Unit;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_block::SizeBytes;

pub(crate) static COMMAND: Command = Command {
    name: "engine",
    about: "Measure the request rate of the engine on one core, without any disk",
    details: "Runs a closed loop on one thread, with 1 and 32 requests in flight and chunks of \
              64 KiB. Members are null (they store nothing, so only the cost of the software \
              remains) or mem (memory). Degraded: the first member is missing. Promises: none \
              is without checksums and log; default is the configuration of new arrays. ratio: \
              default divided by none, on memory whose flush is free. device: the driver \
              without an array. Rates count seconds of processor time, so other programs \
              disturb them little. Each figure is the median of three slices. Takes about a \
              minute.\n\n\
              spindles bench engine\n\
              spindles bench engine 'raid5(4)' 'raid0(raid5(3),raid5(3))' --members null",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The arrays, such as raid5(4), or device [default: every level]
    #[arg(value_name = "EXPR")]
    arrays: Vec<String>,
    /// Only members of this kind: null or mem
    #[arg(long, value_name = "KIND", value_parser = ["null", "mem"])]
    members: Option<String>,
    /// The size of each member
    #[arg(long, value_name = "SIZE", default_value = "128M")]
    size: SizeBytes,
    /// Processor time of each of three slices of a measurement, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 40,
          value_parser = clap::value_parser!(u32).range(1..=60_000))]
    slice: u32,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let arrays: Vec<&str> = if arguments.arrays.is_empty() {
        ARRAYS.to_vec()
    } else {
        arguments.arrays.iter().map(String::as_str).collect()
    };
    let effort = Effort {
        member_bytes: arguments.size.0,
        slice_ns: u64::from(arguments.slice) * 1_000_000,
        ..Effort::default()
    };
    let mut todo: Vec<Case> = Vec::new();
    for array in arrays {
        let wanted = |case: &Case| match &arguments.members {
            None => true,
            Some(kind) => case.members.name() == kind,
        };
        todo.extend(cases(array)?.into_iter().filter(wanted));
    }
    let total = u64::try_from(todo.len())?;
    let mut progress = ui.progress("measuring", total, Unit::Steps);
    let mut bench = Bench::new(effort);
    let mut figures = Vec::new();
    for (case, done) in todo.iter().zip(1..) {
        figures.push(bench.measure(case)?);
        progress.set(done);
    }
    drop(progress);
    print(ui, &figures);
    Ok(())
}

fn print(ui: &Ui, figures: &[Figure]) {
    ui.line("requests a second on one core, in thousands; whole stripes in GB/s (10^9 bytes)\n");
    let same_row = |a: &Figure, b: &Figure| {
        a.case.array == b.case.array
            && a.case.members == b.case.members
            && a.case.degraded == b.case.degraded
            && a.case.promises == b.case.promises
    };
    let mut rows = Vec::new();
    for row in figures.chunk_by(same_row) {
        let case = &row[0].case;
        rows.push(cells(case, promises(case), row.iter().map(rate)));
        if case.promises {
            let ratios = row.iter().map(|figure| match ratio(figure, figures) {
                Some(ratio) => format!("{ratio:.2}"),
                None => "-".to_owned(),
            });
            rows.push(cells(case, "ratio", ratios));
        }
    }
    ui.table(
        &[
            "array",
            "members",
            "state",
            "promises",
            "read, 1",
            "read, 32",
            "write, 1",
            "write, 32",
            "stripes, 1",
            "stripes, 32",
        ],
        &rows,
    );
    let rows = figures.iter().map(|figure| record(figure, figures));
    ui.json(&EngineBench {
        rows: rows.collect(),
    });
}

/// One row of the table.
fn cells(case: &Case, promises: &str, figures: impl Iterator<Item = String>) -> Vec<String> {
    let state = if case.degraded { "degraded" } else { "healthy" };
    let mut cells = vec![
        case.array.clone(),
        case.members.name().to_owned(),
        state.to_owned(),
        promises.to_owned(),
    ];
    cells.extend(figures);
    cells
}

fn promises(case: &Case) -> &'static str {
    if case.promises { "default" } else { "none" }
}

fn rate(figure: &Figure) -> String {
    match figure.case.work {
        RequestKind::Read | RequestKind::Write => format!("{}", figure.requests_per_s / 1000),
        RequestKind::Stripes if figure.case.members == Members::Null => "-".to_owned(),
        RequestKind::Stripes => tenths(figure.bytes_per_s() / 100_000_000),
    }
}

/// The rate relative to the same case without promises; `None` for that case itself.
#[expect(
    clippy::cast_precision_loss,
    reason = "requests a second are far below 2^53"
)]
fn ratio(figure: &Figure, figures: &[Figure]) -> Option<f64> {
    let without =
        |other: &&Figure| !other.case.promises && other.case.is_same_but_promises(&figure.case);
    let without = figures
        .iter()
        .find(without)
        .filter(|_| figure.case.promises);
    without.map(|other| figure.requests_per_s as f64 / other.requests_per_s as f64)
}

fn tenths(tenths: u64) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn record<'a>(figure: &'a Figure, figures: &[Figure]) -> EngineRow<'a> {
    let (slowest, fastest) = figure.requests_per_s_range;
    EngineRow {
        array: &figure.case.array,
        members: figure.case.members.name(),
        degraded: figure.case.degraded,
        promises: promises(&figure.case),
        in_flight: figure.case.depth,
        work: figure.case.work.name(),
        request_bytes: figure.request_bytes,
        requests_per_s: figure.requests_per_s,
        requests_per_s_slowest: slowest,
        requests_per_s_fastest: fastest,
        bytes_per_s: figure.bytes_per_s(),
        ratio: ratio(figure, figures),
    }
}
