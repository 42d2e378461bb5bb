//! What `lab` and `bench` have in common: running an experiment with progress, Ctrl-C and records,
//! and reports.

use crate::degraded::Degraded;
use crate::failure::Usage;
use crate::interrupt;
use crate::progress::{Progress, Unit};
use crate::ui::Ui;
use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use serde_json::Value;
use spindles_io::{Incident, IoChoice, OpenOptions};
use spindles_lab::{
    Ending, Experiment, Observer, Options, Outcome, RecordsError, RecordsFile, RunError,
};
use spindles_measure::{Analysis, Change, Record};
use spindles_report::{OUTPUTS, Output, outputs, page};
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

// How devices are treated. (A doc comment here would become the help of the commands.)
#[derive(Args)]
pub(crate) struct DeviceArguments {
    /// Lose what the named devices, files and arrays hold
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    degraded: Degraded,
    /// What carries the I/O [default: `io_uring`, or threads where it is forbidden]
    #[arg(long, value_name = "HOW", value_enum)]
    io: Option<Carrier>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Carrier {
    /// `io_uring`
    #[value(name = "io_uring")]
    Uring,
    /// A pool of threads
    Threads,
}

impl DeviceArguments {
    /// How devices are opened.
    pub(crate) fn open_options(&self) -> OpenOptions {
        OpenOptions {
            io: match self.io {
                None => IoChoice::Auto,
                Some(Carrier::Uring) => IoChoice::Uring,
                Some(Carrier::Threads) => IoChoice::Threads,
            },
            ..OpenOptions::default()
        }
    }
}

// The form of a report.
#[derive(Args)]
pub(crate) struct FormatArguments {
    /// The form in which to print it
    #[arg(long, value_name = "FORMAT", value_parser = formats(|_| true))]
    format: Option<String>,
}

// The form of a comparison of before and after, for which not every form is made.
#[derive(Args)]
pub(crate) struct ChangeFormatArguments {
    /// The form in which to print it
    #[arg(long, value_name = "FORMAT", value_parser = formats(|form| form.change.is_some()))]
    format: Option<String>,
}

fn formats(is_meant: fn(&Output) -> bool) -> PossibleValuesParser {
    let outputs = OUTPUTS.iter().filter(|output| is_meant(output));
    PossibleValuesParser::new(outputs.map(|output| output.name))
}

impl FormatArguments {
    /// The form that was chosen, if one was.
    pub(crate) fn chosen(&self, ui: &Ui) -> anyhow::Result<Option<&'static Output>> {
        chosen(self.format.as_deref(), ui)
    }
}

impl ChangeFormatArguments {
    /// The form that was chosen, or the one for terminals, and what draws a change in it.
    pub(crate) fn drawing(
        &self,
        ui: &Ui,
    ) -> anyhow::Result<(&'static Output, outputs::DrawChange)> {
        let chosen = chosen(self.format.as_deref(), ui)?;
        let output = chosen.unwrap_or_else(|| form(TERMINAL));
        let draw = output.change.expect("only forms of changes can be chosen");
        Ok((output, draw))
    }
}

/// The form of this name, if one was given: an error beside `--json`, which is one itself.
fn chosen(format: Option<&str>, ui: &Ui) -> anyhow::Result<Option<&'static Output>> {
    match format {
        Some(format) if ui.wants_json() => Err(Usage::error(format!(
            "--format {format} and --json are two forms of one result: leave one out"
        ))),
        format => Ok(format.and_then(outputs::by_name)),
    }
}

/// The form for terminals.
const TERMINAL: &str = "terminal";

/// Prints what was drawn in a form.
pub(crate) fn show(output: &Output, text: &str, ui: &Ui) {
    if output.name == TERMINAL {
        ui.drawn(text.trim_end());
    } else {
        ui.line(text.trim_end());
    }
}

fn form(name: &str) -> &'static Output {
    outputs::by_name(name).expect("this form is always there")
}

/// What was measured.
pub(crate) struct Measured {
    pub(crate) outcome: Outcome,
    /// The folder of results, where there are records in one.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) records: Vec<Record>,
    pub(crate) incidents: Vec<Incident>,
}

/// Where records go.
#[derive(Clone, Copy)]
pub(crate) enum Out<'a> {
    /// To a folder that the user named.
    Named(&'a Path),
    /// To a new folder of that name, or with a number behind it.
    New(&'a Path),
}

/// Runs an experiment; its records also go to a new file in `out`.
pub(crate) fn run(
    experiment: &Experiment,
    device: &DeviceArguments,
    out: Option<Out<'_>>,
    ui: &Ui,
) -> anyhow::Result<Measured> {
    let interrupt = interrupt::flag()?;
    remove_files_on_panic();
    if let Some(Out::Named(out)) = out {
        RecordsFile::check_free(out)?;
        check_page(out, "choose another folder with --out")?;
    }
    let mut screen = Screen {
        ui,
        name: experiment.name.clone(),
        progress: None,
        out,
        file: None,
        records: Vec::new(),
        runs: 0,
        incidents: Vec::new(),
    };
    let options = Options {
        force: device.force,
        degraded: device.degraded.degraded,
        open: device.open_options(),
        program: std::env::current_exe().context("the path of this program is not known")?,
        calibrate: out.is_some(),
        interrupt: &interrupt,
    };
    let ended = spindles_lab::run(experiment, &options, &mut screen);
    let folder = screen.file.as_ref().map(|file| file.folder().to_owned());
    if let Some(file) = screen.file.take() {
        file.end(screen.runs, ending(&ended));
    }
    Ok(Measured {
        outcome: ended?,
        folder,
        records: screen.records,
        incidents: screen.incidents,
    })
}

/// How it ended, for the folder of results.
fn ending(ended: &Result<Outcome, RunError>) -> Ending {
    match ended {
        Ok(outcome) if outcome.interrupted => Ending::Interrupted,
        Ok(outcome) if outcome.out_of_time => Ending::OutOfTime,
        Ok(_) => Ending::Finished,
        Err(error) => Ending::Failed(error.to_string()),
    }
}

/// A panic ends the process without unwinding, so the temporary files go before.
fn remove_files_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        spindles_lab::remove_all();
    }));
}

struct Screen<'a> {
    ui: &'a Ui,
    name: String,
    progress: Option<Progress>,
    out: Option<Out<'a>>,
    file: Option<RecordsFile>,
    records: Vec<Record>,
    /// Those of them that are runs, trials aside: these come on top of the runs that are asked for.
    runs: u64,
    /// What was lost on devices meanwhile.
    incidents: Vec<Incident>,
}

impl Observer for Screen<'_> {
    fn record(&mut self, record: &Record) -> Result<(), RecordsError> {
        if let (Some(out), None) = (self.out, &self.file) {
            self.file = Some(match out {
                Out::Named(folder) => RecordsFile::create(folder)?,
                Out::New(folder) => RecordsFile::create_in_new(folder)?,
            });
        }
        if let Some(file) = &mut self.file {
            file.add(record)?;
        }
        self.runs += u64::from(matches!(record, Record::Run(run) if run.trial.is_none()));
        self.records.push(record.clone());
        Ok(())
    }

    fn progress(&mut self, done: u64, total: u64, what: &str) {
        let (ui, name) = (self.ui, &self.name);
        let progress = self
            .progress
            .get_or_insert_with(|| ui.progress(name, total, Unit::Steps));
        progress.message(what);
        progress.set(done);
        if let Some(file) = &mut self.file {
            file.progress(done, total, what);
        }
    }

    fn trouble(&mut self, system: &str, what: &str) {
        self.ui.note(format!("{system}: {what}"));
    }

    fn incidents(&mut self, system: &str, incidents: &[Incident]) {
        // Of members that were slow the report speaks.
        for incident in incidents.iter().filter(|incident| incident.is_loss()) {
            self.ui.note(format!("{system}: {incident}"));
            self.incidents.push(incident.clone());
        }
    }
}

// How much of a report is shown.
#[derive(Args)]
pub(crate) struct ViewArguments {
    /// List all doubts about the figures, not only those that matter most
    #[arg(long)]
    all_doubts: bool,
}

// How much of the report of an experiment is shown.
#[derive(Args)]
pub(crate) struct ReportArguments {
    #[command(flatten)]
    pub(crate) view: ViewArguments,
    /// Before that, print a table for each workload, each system beside each other, and the bottlenecks
    #[arg(long)]
    pub(crate) tables: bool,
}

/// How reports look on this terminal. `command` draws them again, where there is one.
pub(crate) fn report_options(view: &ViewArguments, command: Option<String>) -> outputs::Options {
    let terminal = std::io::stdout().is_terminal();
    let default = outputs::Options::default();
    let width = terminal_size::terminal_size().map(|(width, _)| width.0);
    outputs::Options {
        width: width.filter(|_| terminal).unwrap_or(default.width),
        colour: terminal && std::env::var_os("NO_COLOR").is_none(),
        all_doubts: view.all_doubts,
        command,
        ..default
    }
}

/// The report for the terminal, with tables before what to take where these are wanted, and as JSON: `{"report": ...}`.
/// `path` is where its records are, if they are kept.
pub(crate) fn report(
    analysis: &Analysis,
    view: &ViewArguments,
    tables: bool,
    path: Option<&Path>,
) -> anyhow::Result<(String, Value)> {
    let options = outputs::Options {
        tables,
        ..report_options(view, path.and_then(spindles_lab::report_command))
    };
    let text = (form(TERMINAL).report)(analysis, &options);
    let json = (form("json").report)(analysis, &options);
    Ok((text, without_schema(&json)?))
}

/// A document of the report as part of another one, which has a schema and a version itself.
fn without_schema(json: &str) -> anyhow::Result<Value> {
    let mut value: Value = serde_json::from_str(json)?;
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| name != "schema" && name != "version");
    }
    Ok(value)
}

/// The report of a change as JSON: `{"change": ...}`.
pub(crate) fn change_json(change: &Change) -> anyhow::Result<Value> {
    let json = form("json").change.expect("JSON is a form of changes too");
    without_schema(&json(change, &outputs::Options::default()))
}

/// The form of the page for the browser.
const PAGE: &str = "html";

/// Whether `write_page` would replace in that folder what is no page of ours.
///
/// # Errors
/// It would, and the remedy: to move that away, or `otherwise`.
pub(crate) fn check_page(folder: &Path, otherwise: &str) -> anyhow::Result<()> {
    let path = folder.join(form(PAGE).file_name);
    let Ok(facts) = fs::symlink_metadata(&path) else {
        return Ok(());
    };
    // What is no file may have no end.
    let is_ours = facts.is_file() && fs::read(&path).is_ok_and(|it| page::is_page(&it));
    anyhow::ensure!(
        is_ours,
        "{}: it is not a report of spindles, and would be replaced by one: move it away, or {otherwise}",
        path.display()
    );
    Ok(())
}

/// Writes the page for the browser into the folder of results; without `sections` with all.
pub(crate) fn write_page(
    analysis: &Analysis,
    folder: &Path,
    sections: &[String],
) -> anyhow::Result<PathBuf> {
    let output = form(PAGE);
    let path = folder.join(output.file_name);
    let options = outputs::Options {
        sections: sections.to_vec(),
        ..outputs::Options::default()
    };
    let page = (output.report)(analysis, &options);
    replace(&path, &page).with_context(|| format!("{}: can't be written", path.display()))?;
    Ok(path)
}

/// Says so where changes were to be tried and none of those that would confirm something can be made here.
pub(crate) fn note_untried(experiment: &Experiment, analysis: &Analysis, ui: &Ui) {
    if experiment.confirm && analysis.trials.is_empty() {
        ui.note("nothing that is said of bottlenecks and caches could be tried here");
    }
}

/// Writes a file whole or not at all, in the place of what has its name: through no link, which may be another's.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let written = File::create_new(&new).and_then(|mut file| file.write_all(text.as_bytes()));
    let written = written.and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        drop(fs::remove_file(&new));
    }
    written
}
