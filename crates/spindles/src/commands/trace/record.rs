//! `spindles trace record`: writes what a served array is asked.

use super::super::Command;
use super::convert::NewFile;
use crate::arrays::Scan;
use crate::documents::traces::TraceRecorded;
use crate::operation::TraceRecord;
use crate::operations::{self, Outcome, Perform};
use crate::ui::{self, Ui};
use anyhow::{Context as _, anyhow};
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::scan::Given;
use spindles_array::tap::Recorded;
use spindles_block::Operation;
use spindles_workload::trace::{TraceOperation, TraceRequest, TraceWriter, When, named};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) static COMMAND: Command = Command {
    name: "record",
    about: "Record what a served array is asked: when, operation, place, length, response time",
    details: "The trace holds no data. Recording never stalls the array: requests that come \
              faster than they can be written are dropped and counted. Ctrl-C ends it early \
              and keeps the trace. Requests in flight at the end are left out. An existing file \
              is overwritten only with --force.\n\n\
              spindles trace record pool --out day.trace --seconds 3600\n\
              spindles trace show day.trace",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

/// Time between two looks at the ring.
const POLL: Duration = Duration::from_millis(5);
/// Bytes that are sent at once.
const PIECE_BYTES: usize = 1 << 15;

#[derive(Args)]
struct Arguments {
    /// The array: its name, or its devices in any order
    #[arg(value_name = "ARRAY|DEV", required = true)]
    devices: Vec<String>,
    /// The file for the trace
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// How long to record
    #[arg(long, value_name = "N", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    seconds: u64,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    scan: Scan,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let mut file = NewFile::create(&arguments.out, arguments.force)?;
    let found = arguments.scan.search(&arguments.devices, &[], ui)?;
    let called = arguments.devices.join(" ");
    let Some(server) = &found.server else {
        return Err(anyhow!(
            "no server of this user serves {called}, and only requests to a server are recorded: \
             serve it first, as with `spindles serve {called} --nbd 10809`"
        ));
    };
    let operation = TraceRecord {
        seconds: arguments.seconds,
    };
    let mut failed = None;
    let report = server.perform_into(&operation.into(), ui, &mut |text| {
        if failed.is_none() {
            failed = file.write_all(text.as_bytes()).err();
        }
    })?;
    let shown = arguments.out.display();
    if let Some(error) = failed {
        return Err(error).with_context(|| format!("{shown}: can't be written"));
    }
    let is_empty = |recorded: &&TraceRecorded| recorded.requests == 0;
    if let Some(recorded) = report.document.as_ref().filter(is_empty) {
        return Err(anyhow!(
            "{called} was asked nothing in {:.1} s, so {shown} is not written: record while it is \
             used",
            recorded.seconds
        ));
    }
    if report.document.is_some() {
        file.keep()
            .with_context(|| format!("{shown}: can't be written"))?;
    }
    let recorded = operations::finish::<TraceRecorded>(report, ui)?;
    let recorded = recorded.context("the server reports no recording")?;
    ui.line(format!(
        "{shown}: {} requests in {:.1} s",
        recorded.requests, recorded.seconds
    ));
    if recorded.dropped > 0 {
        ui.note(format!(
            "{} more requests came faster than they could be written, and are missing",
            recorded.dropped
        ));
    }
    Ok(())
}

impl Perform for TraceRecord {
    fn perform(&self, _: &Given, ui: &Ui) -> anyhow::Result<Outcome<TraceRecorded>> {
        let serving = ui.serving();
        let serving = serving.ok_or_else(|| anyhow!("no server serves the array"))?;
        let name = serving.name();
        let mut recording = (serving.handle().tap().record())
            .map_err(|error| anyhow!("array '{name}': {error}: wait until that has ended"))?;
        let (stops, begun) = (ui::stops(ui)?, Instant::now());
        let seconds = self.seconds;
        ui.note(format!(
            "array '{name}' is recorded for {seconds} s; Ctrl-C ends it and keeps the trace"
        ));
        let mut lines = Lines::new(ui);
        let until = Duration::from_secs(self.seconds);
        while begun.elapsed() < until && !stops.load(Ordering::SeqCst) {
            thread::sleep(POLL);
            recording.poll(|recorded| lines.add(&recorded));
        }
        let seconds = begun.elapsed().as_secs_f64();
        let dropped = recording.end(|recorded| lines.add(&recorded));
        Ok(Outcome::of(TraceRecorded {
            requests: lines.end(),
            dropped,
            seconds,
        }))
    }
}

/// The lines of a trace on their way to the client.
struct Lines<'a> {
    writer: TraceWriter,
    text: Vec<u8>,
    requests: u64,
    begun_ns: Option<u64>,
    ui: &'a Ui,
}

impl<'a> Lines<'a> {
    fn new(ui: &'a Ui) -> Self {
        let format = named("spindles").expect("it is a row of the table");
        Self {
            writer: TraceWriter::new(format).expect("our own format is written"),
            text: Vec::with_capacity(2 * PIECE_BYTES),
            requests: 0,
            begun_ns: None,
            ui,
        }
    }

    fn add(&mut self, recorded: &Recorded) {
        let since = recorded.since.0;
        let begun_ns = *self.begun_ns.get_or_insert(since);
        let request = TraceRequest {
            when: When::At(since.saturating_sub(begun_ns)),
            operation: operation_of(recorded.access.operation),
            offset_bytes: recorded.access.offset_bytes,
            bytes: recorded.access.bytes.into(),
            client: u32::try_from(recorded.user).unwrap_or(u32::MAX),
            response_ns: Some(recorded.took_ns),
        };
        let put = self.writer.put(&request, &mut self.text);
        assert!(put.is_ok(), "our own format holds every request");
        self.requests += 1;
        if self.text.len() >= PIECE_BYTES {
            self.send();
        }
    }

    fn send(&mut self) {
        self.ui.printed(&String::from_utf8_lossy(&self.text));
        self.text.clear();
    }

    fn end(mut self) -> u64 {
        self.writer.end(&mut self.text);
        self.send();
        self.requests
    }
}

const fn operation_of(operation: Operation) -> TraceOperation {
    match operation {
        Operation::Read => TraceOperation::Read,
        Operation::Write { .. } => TraceOperation::Write,
        Operation::Flush => TraceOperation::Flush,
        Operation::Discard => TraceOperation::Trim,
        Operation::WriteZeroes { .. } => TraceOperation::Zero,
    }
}
