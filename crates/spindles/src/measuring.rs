//! The code that `lab` and `bench` share: reports, and running an experiment with progress, Ctrl-C
//! and records.

use crate::degraded::Degraded;
use crate::documents::tools::{self, Report};
use crate::failure::Usage;
use crate::interrupt;
use crate::progress::{Progress, Unit};
use crate::ui::Ui;
use crate::words;
use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use spindles_array::Incident;
use spindles_device::{IoChoice, OpenOptions};
use spindles_lab::{
    Ending, Experiment, Members, ModelledFileSystem, Observer, Options, Outcome, RecordsError,
    RecordsFile, RunError,
};
use spindles_measure::{Analysis, Change, PredictionCheck, Record};
use spindles_model::Parameters;
use spindles_report::{OUTPUTS, Output, outputs, page};
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

// How to open devices. (A doc comment here would become the help of the commands.)
#[derive(Args)]
pub(crate) struct DeviceArguments {
    /// Overwrite the named devices, files and arrays, and lose their data
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    degraded: Degraded,
    /// I/O backend [default: `io_uring`, or threads if that is forbidden]
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
    /// Returns true if contents may be overwritten.
    pub(crate) fn force(&self) -> bool {
        self.force
    }

    /// Returns the options with which devices are opened.
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

/// A modelled host of the command line.
pub(crate) type Host = Arc<Parameters>;

/// Parses the name of a modelled host.
pub(crate) fn host(name: &str) -> Result<Host, String> {
    spindles_lab::load_host(name)
}

/// Returns the names of modelled file systems.
pub(crate) fn modelled_names() -> impl Iterator<Item = &'static str> {
    spindles_host::file_systems::ROWS.iter().map(|row| row.name)
}

/// Accepts the names of modelled file systems.
pub(crate) fn modelled_file_systems() -> PossibleValuesParser {
    PossibleValuesParser::new(modelled_names())
}

/// Gives an experiment the modelled host and file system of the command line, if any.
pub(crate) fn take_modelled(
    experiment: &mut Experiment,
    host: Option<Host>,
    file_system: Option<&str>,
    mount: Option<&str>,
) -> anyhow::Result<()> {
    if let Some(host) = host {
        take_host(&mut experiment.members, host)?;
    }
    let mount = mount.unwrap_or_default();
    file_system.map_or(Ok(()), |name| take_file_system(experiment, name, mount))
}

/// Gives modelled members a host.
fn take_host(members: &mut Members, host: Host) -> anyhow::Result<()> {
    let Members::Modelled(model) = members else {
        return Err(Usage::error(
            "--host is for modelled members: give --members model:NAME",
        ));
    };
    model.host = Some(host);
    Ok(())
}

/// Gives every system a modelled file system.
fn take_file_system(experiment: &mut Experiment, name: &str, mount: &str) -> anyhow::Result<()> {
    let made = ModelledFileSystem::new(name, &[], mount).expect("the parser knows the names");
    let made = made.map_err(Usage::error)?;
    for system in &mut experiment.systems {
        system.mounting = None;
        system.modelled_fs = Some(made.clone());
    }
    Ok(())
}

/// Parses the members of an experiment: a word of the table, or a model.
pub(crate) fn members(text: &str) -> Result<Members, String> {
    let words = || {
        let words: Vec<&str> = Members::words().map(|(word, _)| word).collect();
        format!("use {} or model:NAME", words.join(", "))
    };
    Members::of_word(text)?.ok_or_else(words)
}

// The format of a report.
#[derive(Args)]
pub(crate) struct FormatArguments {
    /// Output format of the report
    #[arg(long, value_name = "FORMAT", value_parser = formats(|_| true))]
    format: Option<String>,
}

// The format of a comparison of before and after. Not all formats support it.
#[derive(Args)]
pub(crate) struct ChangeFormatArguments {
    /// Output format of the comparison
    #[arg(long, value_name = "FORMAT", value_parser = formats(draws_two_runs))]
    format: Option<String>,
}

/// Returns true if a format shows two runs next to each other.
fn draws_two_runs(form: &Output) -> bool {
    form.change.is_some() && form.prediction.is_some()
}

fn formats(is_meant: fn(&Output) -> bool) -> PossibleValuesParser {
    let outputs = OUTPUTS.iter().filter(|output| is_meant(output));
    PossibleValuesParser::new(outputs.map(|output| output.name))
}

impl FormatArguments {
    /// The format given on the command line, if any.
    pub(crate) fn chosen(&self, ui: &Ui) -> anyhow::Result<Option<&'static Output>> {
        chosen(self.format.as_deref(), ui)
    }
}

impl ChangeFormatArguments {
    /// The chosen format, or the one for terminals.
    pub(crate) fn output(&self, ui: &Ui) -> anyhow::Result<&'static Output> {
        let chosen = chosen(self.format.as_deref(), ui)?;
        Ok(chosen.unwrap_or_else(|| form(TERMINAL)))
    }
}

/// Looks up the format of this name. Fails with `--json`, which is a format itself.
fn chosen(format: Option<&str>, ui: &Ui) -> anyhow::Result<Option<&'static Output>> {
    match format {
        Some(format) if ui.wants_json() => Err(Usage::error(format!(
            "--format {format} and --json are two forms of one result: leave one out"
        ))),
        format => Ok(format.and_then(outputs::by_name)),
    }
}

/// The format for terminals.
const TERMINAL: &str = "terminal";

/// Prints text drawn in a format.
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

/// The result of an experiment.
pub(crate) struct Measured {
    pub(crate) outcome: Outcome,
    /// The folder of results; `None` if no record was written to one.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) records: Vec<Record>,
    pub(crate) incidents: Vec<Incident>,
}

/// The destination of records.
#[derive(Clone, Copy)]
pub(crate) enum Out<'a> {
    /// A folder that the user named.
    Named(&'a Path),
    /// A new folder of that name, with a number appended if the name is taken.
    New(&'a Path),
}

/// Runs an experiment; writes its records also to a new file in `out`.
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
        program: std::env::current_exe().context("the path of this program is unknown")?,
        agent: "spindles lab agent",
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

/// How the experiment ended, for the folder of results.
fn ending(ended: &Result<Outcome, RunError>) -> Ending {
    match ended {
        Ok(outcome) if outcome.interrupted => Ending::Interrupted,
        Ok(outcome) if outcome.out_of_time => Ending::OutOfTime,
        Ok(_) => Ending::Finished,
        Err(error) => Ending::Failed(error.to_string()),
    }
}

/// Removes temporary files on panic: a panic ends the process without unwinding.
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
    /// Runs among the records, without trials, which come on top of the requested runs.
    runs: u64,
    /// Losses on devices during the runs.
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
        // The report covers slow members.
        for incident in incidents.iter().filter(|incident| incident.is_loss()) {
            self.ui.note(format!("{system}: {incident}"));
            self.incidents.push(incident.clone());
        }
    }
}

// How much of a report to show.
#[derive(Args)]
pub(crate) struct ViewArguments {
    /// List all doubts about the figures, not only the most important ones
    #[arg(long)]
    all_doubts: bool,
}

// How much of an experiment's report to show.
#[derive(Args)]
pub(crate) struct ReportArguments {
    #[command(flatten)]
    pub(crate) view: ViewArguments,
    /// First print a table for each workload, with the systems side by side, and the bottlenecks
    #[arg(long)]
    pub(crate) tables: bool,
}

/// Returns the options for reports on this terminal. `command`, if any, draws the report again.
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

/// Draws the report for the terminal, and as JSON. `tables` puts tables first.
/// `path` is the folder of the records; `None` if the run keeps no records.
pub(crate) fn report(
    analysis: &Analysis,
    view: &ViewArguments,
    tables: bool,
    path: Option<&Path>,
) -> anyhow::Result<(String, Report)> {
    let options = outputs::Options {
        tables,
        ..report_options(view, path.and_then(words::lab::report_command))
    };
    let text = (form(TERMINAL).report)(analysis, &options);
    let json = (form("json").report)(analysis, &options);
    let report = part(&json, "report")?;
    Ok((text, Report { report }))
}

/// Returns a field of a document for use inside another, which has its own schema and version.
fn part(json: &str, field: &str) -> anyhow::Result<serde_json::Value> {
    Ok(serde_json::from_str::<serde_json::Value>(json)?[field].take())
}

/// Returns the JSON document of a change.
pub(crate) fn change_json(change: &Change) -> anyhow::Result<tools::Change> {
    let json = form("json").change.expect("JSON is a form of changes too");
    let change = part(&json(change, &outputs::Options::default()), "change")?;
    Ok(tools::Change { change })
}

/// Returns the JSON document of a prediction next to a measurement.
pub(crate) fn prediction_json(check: &PredictionCheck) -> anyhow::Result<tools::Prediction> {
    let json = form("json").prediction.expect("JSON is a form of all");
    let prediction = part(&json(check, &outputs::Options::default()), "prediction")?;
    Ok(tools::Prediction { prediction })
}

/// The format of the page for the browser.
const PAGE: &str = "html";

/// Checks that `write_page` would not replace a file in that folder other than our own page.
///
/// # Errors
/// `write_page` would replace a foreign file. The message names the remedy: to move that file
/// away, or `otherwise`.
pub(crate) fn check_page(folder: &Path, otherwise: &str) -> anyhow::Result<()> {
    check_page_at(&folder.join(form(PAGE).file_name), otherwise)
}

/// Checks that a page may be written to a file: it is missing, or a page of ours.
///
/// # Errors
/// As of `check_page`.
pub(crate) fn check_page_at(path: &Path, otherwise: &str) -> anyhow::Result<()> {
    let Ok(facts) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    // Reading anything but a file may never end.
    let is_ours = facts.is_file() && fs::read(path).is_ok_and(|it| page::is_page(&it));
    anyhow::ensure!(
        is_ours,
        "{}: it is not a report of spindles, and would be replaced by one: move it away, or \
         {otherwise}",
        path.display()
    );
    Ok(())
}

/// Writes the page for the browser into the folder of results, with all sections if `sections` is
/// empty.
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
    write_page_at(&path, &page)?;
    Ok(path)
}

/// Writes a page to a file, atomically.
pub(crate) fn write_page_at(path: &Path, page: &str) -> anyhow::Result<()> {
    replace(path, page).with_context(|| format!("{}: can't be written", path.display()))
}

/// Notes if changes should have been tried, but none of the confirming ones could be made here.
pub(crate) fn note_untried(experiment: &Experiment, analysis: &Analysis, ui: &Ui) {
    if experiment.confirm && analysis.trials.is_empty() {
        ui.note("no verdict on bottlenecks or caches could be tried here");
    }
}

/// Replaces a file atomically. Does not follow a link, which may point to another's file.
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
