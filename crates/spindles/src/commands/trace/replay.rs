//! `spindles trace replay`: sends the requests of a trace to a target.

use super::super::Command;
use super::convert::NewFile;
use super::formats;
use crate::documents::array::incidents;
use crate::documents::traces::{ComparedTimes, Lateness, ReplayedOperation, ReplayedTrace, Times};
use crate::failure::Usage;
use crate::measuring::{self, DeviceArguments};
use crate::ui::Ui;
use crate::words::traces as words;
use anyhow::{Context as _, anyhow};
use clap::builder::PossibleValuesParser;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_lab::replay::{ReplayAnswer, ReplayChoiceError, ReplaySink, ReplaySinks, ReplayWork};
use spindles_lab::traces::TraceFileError;
use spindles_lab::{Draws, Experiment, Members, Work, WorkloadSpec, targets};
use spindles_measure::statistics::demerit;
use spindles_measure::{Histogram, Record, Run};
use spindles_workload::replay::{Beyond, REPLAY, Timing};
use spindles_workload::trace::{TraceFormat, TraceOperation};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) static COMMAND: Command = Command {
    name: "replay",
    about: "Send the requests of a trace to a target and measure the answers",
    details: "TARGET is any target of spindles bench that is no folder. Timing: recorded sends \
              each request at its time; answered sends one at a time, each after the recorded gap \
              since the answer before; flat-out sends as many as may be in flight. Writes carry \
              random data and take --force on what exists. Where the trace has response times, \
              both are compared; demerit is the root mean square of the horizontal distance of \
              the two distributions.\n\n\
              spindles trace replay day.trace --on 'raid6(8)' --beyond scale\n\
              spindles trace replay requests.csv --on /dev/sdb --timing answered --force\n\
              spindles trace replay requests.csv --on single --members model:exos-x18-18tb",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The trace
    #[arg(value_name = "FILE")]
    file: String,
    /// The target
    #[arg(long, value_name = "TARGET")]
    on: String,
    /// Members of a target that only gives their number: files, mem, null, or model:NAME for
    /// modelled disks in virtual time
    #[arg(long, value_name = "WHAT", value_parser = measuring::members,
          default_value = Members::FILES)]
    members: Members,
    /// Its format [default: as the first line shows]
    #[arg(long, value_name = "FORMAT", value_parser = formats(|_| true))]
    format: Option<&'static TraceFormat>,
    /// When requests are sent
    #[arg(long, value_name = "TIMING", default_value = "recorded",
          value_parser = PossibleValuesParser::new(Timing::NAMES.map(|(name, _)| name)))]
    timing: String,
    /// Factor of the recorded speed, such as 2 or 0.5
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    speed: String,
    /// What becomes of requests beyond the target
    #[arg(long, value_name = "HOW", default_value = "refuse",
          value_parser = PossibleValuesParser::new(Beyond::NAMES.map(|(name, _)| name)))]
    beyond: String,
    /// Most requests in flight
    #[arg(long, value_name = "N", default_value = "64")]
    in_flight: String,
    /// How much of the target to use, from its start [default: all; with wrap and scale 256M, or
    /// all of a smaller target]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Write each answer to this file: request, operation, offset, bytes, `late_us`, `response_us`
    #[arg(long, value_name = "FILE")]
    responses: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArguments,
}

impl Arguments {
    /// Reads the whole trace for its facts.
    fn work(&self) -> anyhow::Result<ReplayWork> {
        let mut chosen: BTreeMap<String, String> = [
            ("trace", &self.file),
            ("timing", &self.timing),
            ("speed", &self.speed),
            ("beyond", &self.beyond),
            ("in_flight", &self.in_flight),
        ]
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .into();
        let format = self.format.map(|format| format.name.to_owned());
        let options = [("format", format), ("size", self.size.clone())];
        let options = options.into_iter();
        chosen.extend(options.filter_map(|(name, value)| Some((name.to_owned(), value?))));
        ReplayWork::new(&chosen).map_err(|error| match error {
            ReplayChoiceError::Trace(error @ TraceFileError::Io { .. }) => anyhow!("{error}"),
            error => Usage::error(error),
        })
    }

    /// Checks what can be known before the run.
    fn check(&self, work: &ReplayWork) -> anyhow::Result<()> {
        targets::check(&self.on).map_err(Usage::error)?;
        let existing = targets::existing_bytes(&self.on, None, &self.device.open_options());
        let existing = existing.map_err(|why| anyhow!(why))?;
        // A new target gets the size that the trace needs.
        let fits = work.on(1, existing.unwrap_or(u64::MAX));
        fits.map(drop)
            .map_err(|error| Usage::error(format!("{}: {error}", self.on)))
    }
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let mut work = arguments.work()?;
    arguments.check(&work)?;
    let answers = Answers {
        responses: arguments
            .responses
            .as_deref()
            .map(|path| Responses::create(path, arguments.device.force()))
            .transpose()?,
        ..Answers::default()
    };
    let answers = Arc::new(Mutex::new(answers));
    work.sink = Some(ReplaySinks::new(&answers));
    let workload = WorkloadSpec {
        name: REPLAY.to_owned(),
        work: Work::Replay(work.clone()),
        systems: None,
        beside: None,
        on_nodes: None,
        line: 0,
    };
    let mut members = arguments.members.clone();
    if let Members::Modelled(model) = &mut members {
        model.draws = Draws::Nominal;
    }
    let experiment = Experiment {
        members,
        blocks: 1,
        blocks_max: 1,
        empty_caches: false,
        ..Experiment::of_one(&arguments.on, workload, None)
    };
    let measured = measuring::run(&experiment, &arguments.device, None, ui)?;
    let mut runs = measured.records.iter().filter_map(|record| match record {
        Record::Run(run) => Some(run),
        _ => None,
    });
    let run = runs.next().ok_or_else(|| anyhow!("interrupted"))?;
    if let Some(why) = &run.failed {
        return Err(anyhow!("{why}"));
    }
    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    if let (Some(responses), Some(path)) = (answers.responses.take(), &arguments.responses) {
        let written = responses.end();
        written.with_context(|| format!("{}: can't be written", path.display()))?;
    }
    let mut document = document(&arguments, &work, run, &mut answers);
    document.incidents = incidents(&measured.incidents);
    print(ui, &document);
    ui.json(&document);
    Ok(())
}

/// All answers of a replay.
#[derive(Debug, Default)]
struct Answers {
    by_operation: BTreeMap<TraceOperation, Histogram>,
    late: Histogram,
    recorded_ns: Vec<u64>,
    replayed_ns: Vec<u64>,
    responses: Option<Responses>,
}

impl ReplaySink for Answers {
    fn answered(&mut self, answer: &ReplayAnswer) {
        let histogram = self.by_operation.entry(answer.operation).or_default();
        histogram.record(answer.response_ns);
        self.late.record(answer.late_ns);
        if let Some(recorded_ns) = answer.recorded_ns {
            self.recorded_ns.push(recorded_ns);
            self.replayed_ns.push(answer.response_ns);
        }
        if let Some(responses) = &mut self.responses {
            responses.add(answer);
        }
    }
}

/// The file with all answers.
#[derive(Debug)]
struct Responses {
    file: BufWriter<NewFile>,
    failed: Option<std::io::Error>,
}

impl Responses {
    fn create(path: &Path, force: bool) -> anyhow::Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 20, NewFile::create(path, force)?);
        file.write_all(b"request,operation,offset,bytes,late_us,response_us\n")?;
        Ok(Self { file, failed: None })
    }

    fn add(&mut self, answer: &ReplayAnswer) {
        let us = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
        let written = writeln!(
            self.file,
            "{},{},{},{},{},{}",
            answer.request,
            answer.operation.name(),
            answer.offset_bytes,
            answer.bytes,
            us(answer.late_ns),
            us(answer.response_ns),
        );
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    fn end(self) -> std::io::Result<()> {
        self.failed.map_or(Ok(()), Err)?;
        let file = self
            .file
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        file.keep()
    }
}

fn document<'a>(
    arguments: &'a Arguments,
    work: &ReplayWork,
    run: &Run,
    answers: &mut Answers,
) -> ReplayedTrace<'a> {
    let operations = answers.by_operation.iter();
    let is_timed = work.plan.timing != Timing::FlatOut;
    ReplayedTrace {
        file: &arguments.file,
        target: &arguments.on,
        timing: work.plan.timing.name(),
        requests: run.operations,
        elapsed_ns: run.elapsed_ns,
        requests_per_s: per_s(run.operations, run.elapsed_ns),
        bytes_read: run.application.read,
        bytes_written: run.application.written,
        operations: operations
            .map(|(operation, histogram)| ReplayedOperation {
                operation: operation.name(),
                requests: histogram.total(),
                response: Times::of(histogram),
            })
            .collect(),
        late: is_timed.then(|| Lateness {
            times: Times::of(&answers.late),
            late_1_ms: answers
                .late
                .buckets()
                .filter(|(ns, _)| *ns >= 1_000_000)
                .map(|(_, count)| count)
                .sum(),
        }),
        compared: compared(answers),
        incidents: Vec::new(),
    }
}

/// Compares response times of trace and replay; `None` if the trace has none.
fn compared(answers: &mut Answers) -> Option<ComparedTimes> {
    let demerit_ns = demerit(&mut answers.recorded_ns, &mut answers.replayed_ns)?;
    let (recorded, replayed) = (&answers.recorded_ns, &answers.replayed_ns);
    let recorded_mean_ns = mean(recorded);
    Some(ComparedTimes {
        requests: u64::try_from(recorded.len()).expect("64 bits"),
        recorded_mean_ns,
        replayed_mean_ns: mean(replayed),
        recorded_p95_ns: at(recorded, 95),
        replayed_p95_ns: at(replayed, 95),
        recorded_p99_ns: at(recorded, 99),
        replayed_p99_ns: at(replayed, 99),
        demerit_ns,
        demerit_percent: 100.0 * demerit_ns / recorded_mean_ns.max(1.0),
    })
}

/// Returns the value that this percentage of a sorted list does not exceed.
fn at(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted[rank.saturating_sub(1)]
}

#[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
fn mean(all: &[u64]) -> f64 {
    let sum: u128 = all.iter().map(|one| u128::from(*one)).sum();
    sum as f64 / all.len() as f64
}

#[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
fn per_s(count: u64, ns: u64) -> f64 {
    (count as f64 * 1e10 / ns.max(1) as f64).round() / 10.0
}

fn print(ui: &Ui, replay: &ReplayedTrace<'_>) {
    ui.line(format!(
        "{} on {}, {}: {} requests in {}, {} a second\n",
        replay.file,
        replay.target,
        replay.timing,
        replay.requests,
        words::time(replay.elapsed_ns),
        replay.requests_per_s,
    ));
    let row = |name: String, count: u64, times: &Times| {
        let ns = [times.p50_ns, times.p95_ns, times.p99_ns, times.max_ns];
        let figures = ns.map(words::time).to_vec();
        [
            vec![name, count.to_string(), words::time_of(times.mean_ns)],
            figures,
        ]
        .concat()
    };
    let operations = replay.operations.iter();
    let operations = operations.map(|it| row(it.operation.to_owned(), it.requests, &it.response));
    let late = replay.late.iter();
    let late = late.map(|late| row("sent late by".to_owned(), replay.requests, &late.times));
    let rows: Vec<_> = operations.chain(late).collect();
    ui.table(
        &["operation", "requests", "mean", "p50", "p95", "p99", "max"],
        &rows,
    );
    if let Some(late) = replay.late.as_ref().filter(|late| late.late_1_ms > 0) {
        ui.line(format!(
            "{} requests were sent more than 1 ms late: the target did not keep up",
            late.late_1_ms
        ));
    }
    if let Some(compared) = &replay.compared {
        ui.line("");
        let row = |name: &str, mean: f64, p95: u64, p99: u64| {
            let times = [words::time_of(mean), words::time(p95), words::time(p99)];
            [vec![name.to_owned()], times.to_vec()].concat()
        };
        let (recorded, replayed) = (
            row(
                "in the trace",
                compared.recorded_mean_ns,
                compared.recorded_p95_ns,
                compared.recorded_p99_ns,
            ),
            row(
                "replayed",
                compared.replayed_mean_ns,
                compared.replayed_p95_ns,
                compared.replayed_p99_ns,
            ),
        );
        ui.table(&["response", "mean", "p95", "p99"], &[recorded, replayed]);
        ui.line(format!(
            "demerit: {}, {:.2} % of the mean in the trace",
            words::time_of(compared.demerit_ns),
            compared.demerit_percent
        ));
    }
}
