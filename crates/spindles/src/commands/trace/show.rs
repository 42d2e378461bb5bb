//! `spindles trace show`: the distributions of a trace.

use super::super::Command;
use super::{formats, refused};
use crate::documents::traces::{
    GAP_PERCENTS, HotSpot, OperationRow, Shape, ShapeOperation, ShownTrace, Tenth, Times,
};
use crate::ui::Ui;
use crate::words::traces as words;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_block::SizeBytes;
use spindles_lab::traces::{ClassProfile, Profile, TraceFile};
use spindles_measure::Histogram;
use spindles_workload::trace::{TraceFormat, TraceOperation};

pub(crate) static COMMAND: Command = Command {
    name: "show",
    about: "Show operations, sizes, places, gaps, depth and hot spots of a trace",
    details: "sequential: requests that begin where one of the last 16 ended. Below the tables \
              stands a profile: distributions without any address, which you can publish. \
              busiest gives pairs: this percentage of the address range receives that \
              permille of the requests.\n\n\
              spindles trace show day.trace\n\
              blkparse -i sda | spindles trace show -",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

/// Hot spots that are shown.
const HOT_SPOTS: usize = 5;
/// Lengths of a profile: the most frequent.
const SIZES: usize = 16;
/// Shares of the address range, in percent.
const BUSIEST_PERCENTS: [usize; 5] = [1, 5, 10, 20, 50];

#[derive(Args)]
struct Arguments {
    /// The trace, or - for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Its format [default: as the first line shows]
    #[arg(long, value_name = "FORMAT", value_parser = formats(|_| true))]
    format: Option<&'static TraceFormat>,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let trace = TraceFile::open(&arguments.file, arguments.format).map_err(|e| refused(&e))?;
    let mut profile = Profile::default();
    let format = trace.each(&mut |request| profile.add(&request));
    let format = format.map_err(|error| refused(&error))?;
    let document = document(&arguments.file, format, &profile);
    print(ui, &document);
    ui.json(&document);
    Ok(())
}

fn document<'a>(file: &'a str, format: &'a TraceFormat, profile: &Profile) -> ShownTrace<'a> {
    let tenths = profile.tenths().into_iter();
    let spots = profile.hot_spots(HOT_SPOTS).into_iter();
    ShownTrace {
        file,
        format: format.name,
        requests: profile.requests,
        closed_loop: profile.has_gaps,
        span_ns: profile.span_ns,
        range_bytes: profile.end_bytes,
        operations: profile
            .classes()
            .map(|(operation, class)| operation_row(operation, class))
            .collect(),
        tenths: tenths
            .map(|[reads, others]| Tenth { reads, others })
            .collect(),
        hot_spots: spots
            .map(|spot| HotSpot {
                offset_bytes: spot.offset_bytes,
                bytes: spot.bytes,
                requests: spot.requests,
            })
            .collect(),
        gaps: times(&profile.gaps),
        depth_mean: (!profile.depth.is_empty()).then(|| rounded(profile.depth.mean())),
        depth_max: (!profile.depth.is_empty()).then(|| profile.depth.max()),
        profile: shape(profile),
    }
}

fn operation_row(operation: TraceOperation, class: &ClassProfile) -> OperationRow {
    OperationRow {
        operation: operation.name(),
        requests: class.requests,
        bytes: class.bytes,
        bytes_mean: class.bytes / class.requests.max(1),
        bytes_p50: class.size_at(50),
        bytes_p95: class.size_at(95),
        bytes_max: class.size_at(100),
        sequential: class.sequential,
        response: times(&class.responses),
    }
}

/// Returns figures of times; `None` if there are none.
fn times(histogram: &Histogram) -> Option<Times> {
    (!histogram.is_empty()).then(|| Times::of(histogram))
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Returns the distributions without any address.
fn shape(profile: &Profile) -> Shape {
    let permille = |part: u64, of: u64| part.saturating_mul(1000) / of.max(1);
    let operations = profile.classes().map(|(operation, class)| ShapeOperation {
        operation: operation.name(),
        permille: permille(class.requests, profile.requests),
        sequential_permille: permille(class.sequential, class.requests),
        sizes: class
            .sizes()
            .into_iter()
            .take(SIZES)
            .map(|(bytes, count)| (bytes, permille(count, class.requests)))
            .collect(),
    });
    Shape {
        version: 1,
        requests: profile.requests,
        closed_loop: profile.has_gaps,
        range_bytes: profile
            .end_bytes
            .checked_next_power_of_two()
            .unwrap_or(u64::MAX),
        gap_ns: GAP_PERCENTS
            .map(|percent| profile.gaps.percentile(percent))
            .to_vec(),
        busiest: BUSIEST_PERCENTS
            .map(|percent| {
                let percentage = u64::try_from(percent).expect("at most 100");
                (percentage, profile.busiest_permille(percent))
            })
            .to_vec(),
        operations: operations.collect(),
    }
}

fn print(ui: &Ui, trace: &ShownTrace<'_>) {
    let loops = if trace.closed_loop {
        ", a closed loop"
    } else {
        ""
    };
    ui.line(format!(
        "{}: {}, {} requests in {}{loops}, within {}\n",
        trace.file,
        trace.format,
        trace.requests,
        words::time(trace.span_ns),
        SizeBytes(trace.range_bytes),
    ));
    print_operations(ui, trace);
    print_times(ui, trace);
    ui.line("");
    let rows = trace.tenths.iter().zip(1..).map(|(tenth, number)| {
        let Tenth { reads, others } = tenth;
        vec![format!("{number}"), reads.to_string(), others.to_string()]
    });
    ui.table(
        &["tenth of the range", "reads", "others"],
        &rows.collect::<Vec<_>>(),
    );
    ui.line("");
    let rows = trace.hot_spots.iter().map(|spot| {
        vec![
            spot.offset_bytes.to_string(),
            SizeBytes(spot.bytes).to_string(),
            spot.requests.to_string(),
            words::share(spot.requests, trace.requests),
        ]
    });
    ui.table(
        &["hot spot at", "length", "requests", "share"],
        &rows.collect::<Vec<_>>(),
    );
    ui.line("");
    ui.line(words::profile(&trace.profile).trim_end());
}

fn print_operations(ui: &Ui, trace: &ShownTrace<'_>) {
    let rows = trace.operations.iter().map(|row| {
        let size = |bytes: u64| match row.bytes {
            0 => "-".to_owned(),
            _ => bytes.to_string(),
        };
        vec![
            row.operation.to_owned(),
            row.requests.to_string(),
            words::share(row.requests, trace.requests),
            SizeBytes(row.bytes).to_string(),
            size(row.bytes_mean),
            size(row.bytes_p50),
            size(row.bytes_p95),
            size(row.bytes_max),
            words::share(row.sequential, row.requests),
        ]
    });
    ui.table(
        &[
            "operation",
            "requests",
            "share",
            "bytes",
            "mean",
            "p50",
            "p95",
            "longest",
            "sequential",
        ],
        &rows.collect::<Vec<_>>(),
    );
    ui.line("");
}

fn print_times(ui: &Ui, trace: &ShownTrace<'_>) {
    let gaps = if trace.closed_loop {
        "gap after the answer"
    } else {
        "gap between requests"
    };
    let responses = trace.operations.iter().filter_map(|row| {
        let times = row.response.as_ref()?;
        Some((format!("response, {}", row.operation), times))
    });
    let gaps = trace.gaps.iter().map(|times| (gaps.to_owned(), times));
    let rows = gaps.chain(responses).map(|(name, times)| {
        let ns = [times.p50_ns, times.p95_ns, times.p99_ns, times.max_ns];
        let figures = ns.map(words::time);
        [vec![name, words::time_of(times.mean_ns)], figures.to_vec()].concat()
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        ui.table(&["time", "mean", "p50", "p95", "p99", "max"], &rows);
    }
    if let (Some(mean), Some(max)) = (trace.depth_mean, trace.depth_max) {
        ui.line(format!(
            "requests in flight: {mean} on average, at most {max}"
        ));
    }
}
