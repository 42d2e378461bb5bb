//! `spindles bench engine`: how many requests the engine and its driver carry on one core.

use super::Command;
use crate::progress::Unit;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::{Value, json};
use spindles_block::SizeBytes;
use spindles_io::bench::engine::{ARRAYS, Bench, Case, Effort, Figure, Members, Work, cases};

pub(crate) static COMMAND: Command = Command {
    name: "engine",
    about: "Measure how many requests the engine carries on one core, without any disk",
    details: "A closed loop on one thread, 1 and 32 requests in flight, chunks of 64 KiB. Members are \
              null (nothing is stored: what remains is the software) or mem (memory). Degraded: \
              the first member is missing. device: the driver without an array. Seconds are of \
              processor time, so that other programs disturb little; medians of three slices. \
              Takes about half a minute.\n\n\
              spindles bench engine\n\
              spindles bench engine 'raid5(4)' 'raid0(raid5(3),raid5(3))' --members null",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The arrays, as raid5(4), or device [default: every level]
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
    };
    let rows = figures.chunk_by(same_row).map(|row| {
        let case = &row[0].case;
        let state = if case.degraded { "degraded" } else { "healthy" };
        let mut cells = vec![
            case.array.clone(),
            case.members.name().to_owned(),
            state.to_owned(),
        ];
        cells.extend(row.iter().map(|figure| match figure.case.work {
            Work::Read | Work::Write => format!("{}", figure.requests_per_s / 1000),
            Work::Stripes if figure.case.members == Members::Null => "-".to_owned(),
            Work::Stripes => tenths(figure.bytes_per_s() / 100_000_000),
        }));
        cells
    });
    ui.table(
        &[
            "array",
            "members",
            "state",
            "read, 1",
            "read, 32",
            "write, 1",
            "write, 32",
            "stripes, 1",
            "stripes, 32",
        ],
        &rows.collect::<Vec<_>>(),
    );
    let rows: Vec<Value> = figures.iter().map(record).collect();
    ui.json(&json!({ "rows": rows }));
}

fn tenths(tenths: u64) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn record(figure: &Figure) -> Value {
    let (slowest, fastest) = figure.requests_per_s_range;
    json!({
        "array": figure.case.array,
        "members": figure.case.members.name(),
        "degraded": figure.case.degraded,
        "in_flight": figure.case.depth,
        "work": figure.case.work.name(),
        "request_bytes": figure.request_bytes,
        "requests_per_s": figure.requests_per_s,
        "requests_per_s_slowest": slowest,
        "requests_per_s_fastest": fastest,
        "bytes_per_s": figure.bytes_per_s(),
    })
}
