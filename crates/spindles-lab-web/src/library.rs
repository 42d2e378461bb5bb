//! The findings and reports that the pages show, drawn from the records of a run.

use crate::cache::Cache;
use crate::listing::{Listing, Stamp, Stored};
use spindles_lab::{Ending, Progress, RECORDS_FILE, RunState, run_state};
use spindles_measure::{Analysis, Experiment, Record, doubts};
use spindles_report::page::Page;
use spindles_report::{Options, headline, outputs, report_page};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Limit on the runs whose findings are cached.
const FINDINGS_MAX: usize = 10_000;
/// Limit on cached reports: a report is as large as the records of its run.
const REPORTS_MAX: usize = 6;

/// The section that embeds the records in a page. The server offers them as a file instead.
const EMBEDDED_RECORDS: &str = "records";

/// The result of a run, for the list.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The result in one sentence; `None` before anything was measured.
    pub(crate) lead: Option<String>,
    /// Complete repetition blocks.
    pub(crate) blocks_done: usize,
    /// Runs that did not finish, and all runs.
    pub(crate) failed: (usize, usize),
}

/// The experiment of a run, and its report.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) experiment: Experiment,
    /// `None` before the first run is done.
    pub(crate) drawn: Option<(Analysis, Page)>,
}

/// A drawing of a run, or the reason why it can't be drawn.
pub(crate) type Drawn<T> = Arc<Result<T, String>>;

/// The runs in one folder of results.
#[derive(Debug)]
pub(crate) struct Library {
    root: PathBuf,
    findings: Cache<Result<Findings, String>>,
    reports: Cache<Result<Report, String>>,
}

impl Library {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            findings: Cache::new(FINDINGS_MAX),
            reports: Cache::new(REPORTS_MAX),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Lists the runs that are in the folder now.
    pub(crate) fn listing(&self) -> Listing {
        Listing::of(&self.root)
    }

    /// Returns the findings of a run. Reads all records of the run unless the findings are cached.
    pub(crate) fn findings(&self, stored: &Stored, state: &RunState) -> Drawn<Findings> {
        match &stored.stamp {
            Ok(stamp) => {
                let draw = || findings(&stored.folder, state);
                (self.findings)
                    .get(&stored.name, *stamp, is_live(state), draw)
                    .1
            }
            Err(why) => Arc::new(Err(why.clone())),
        }
    }

    /// Returns true if the findings are cached, or can't be read.
    pub(crate) fn has_findings(&self, stored: &Stored, state: &RunState) -> bool {
        let has = |stamp: &Stamp| self.findings.has(&stored.name, *stamp, is_live(state));
        stored.stamp.as_ref().map_or(true, has)
    }

    /// Returns the report of a run, and the stamp of the records it was drawn from.
    pub(crate) fn report(
        &self,
        stored: &Stored,
        state: &RunState,
    ) -> Result<(Stamp, Drawn<Report>), String> {
        let stamp = stored.stamp.clone()?;
        let draw = || report(&stored.folder, state);
        Ok((self.reports).get(&stored.name, stamp, is_live(state), draw))
    }

    /// Returns the stamp of the report that `report` would return now.
    pub(crate) fn report_stamp(&self, stored: &Stored, state: &RunState) -> Result<Stamp, String> {
        let stamp = stored.stamp.clone()?;
        Ok(self.reports.stamp(&stored.name, stamp, is_live(state)))
    }
}

/// Returns the state of a stored run.
pub(crate) fn state_of(stored: &Stored) -> RunState {
    match stored.stamp {
        Ok(_) => run_state(&stored.folder),
        Err(_) => RunState::NotKept,
    }
}

/// Returns true if the run is going, so that more records may follow.
pub(crate) fn is_live(state: &RunState) -> bool {
    matches!(state, RunState::Running(_))
}

/// The error of a folder without records.
const NO_RECORD: &str = "it contains no record";
/// Largest first record that is read, in bytes.
const FIRST_BYTES_MAX: u64 = 4 << 20;

/// Returns the experiment of a run from its first record, which is fast however many follow.
pub(crate) fn experiment(stored: &Stored) -> Result<Experiment, String> {
    stored.stamp.as_ref().map_err(Clone::clone)?;
    let mut line = String::new();
    File::open(stored.folder.join(RECORDS_FILE))
        .and_then(|file| BufReader::new(file.take(FIRST_BYTES_MAX)).read_line(&mut line))
        .map_err(|error| format!("{RECORDS_FILE}: {error}"))?;
    let records = spindles_measure::from_lines(&line);
    let records = records.map_err(|error| format!("{RECORDS_FILE}, {error}"))?;
    experiment_of(&records)
}

/// Returns the experiment that the first of these records names.
fn experiment_of(records: &[Record]) -> Result<Experiment, String> {
    Ok(match records.first().ok_or(NO_RECORD)? {
        Record::Experiment(experiment) => experiment.clone(),
        Record::Run(run) => Experiment {
            name: run.experiment.clone(),
            started_unix_ms: run.started_unix_ms,
            ..Experiment::default()
        },
        Record::Environment(_) | Record::Calibration(_) | Record::Discard(_) => {
            Experiment::default()
        }
    })
}

fn findings(folder: &Path, state: &RunState) -> Result<Findings, String> {
    let records = spindles_lab::load(folder).map_err(|error| error.to_string())?;
    let analysis = Analysis::of(&records).ok();
    let analysis = analysis.as_ref();
    Ok(Findings {
        lead: analysis.map(|analysis| headline(analysis).lead),
        blocks_done: analysis.map_or(0, |analysis| blocks_done(analysis, state)),
        failed: analysis.map_or((0, 0), failed),
    })
}

/// Returns how many runs did not finish, and how many there are.
pub(crate) fn failed(analysis: &Analysis) -> (usize, usize) {
    let failed = analysis.runs.iter().filter(|run| run.failed.is_some());
    (failed.count(), analysis.runs.len())
}

/// Counts the complete repetition blocks: those with as many runs as the fullest. A single block is
/// compared with the expected count instead, unless the run is over and the block thus complete.
fn blocks_done(analysis: &Analysis, state: &RunState) -> usize {
    let expected = analysis.experiment.runs_per_block();
    let mut runs = BTreeMap::<u32, usize>::new();
    for run in &analysis.runs {
        *runs.entry(run.repetition_block).or_default() += 1;
    }
    let is_over = matches!(
        state,
        RunState::NotKept | RunState::Ended(Ending::Finished | Ending::OutOfTime, _)
    );
    let fullest = runs.values().copied().max().unwrap_or(0);
    let whole = if runs.len() > 1 || is_over {
        fullest
    } else {
        fullest.max(expected)
    };
    runs.values().filter(|&&count| count >= whole).count()
}

fn report(folder: &Path, state: &RunState) -> Result<Report, String> {
    let records = spindles_lab::load(folder).map_err(|error| error.to_string())?;
    let Ok(mut analysis) = Analysis::of(&records) else {
        return Ok(Report {
            experiment: experiment_of(&records)?,
            drawn: None,
        });
    };
    if is_live(state) {
        doubts::retain_while_going(&mut analysis.findings);
    }
    let sections = outputs::section_names().into_iter();
    let options = Options {
        sections: sections
            .filter(|name| *name != EMBEDDED_RECORDS)
            .map(str::to_owned)
            .collect(),
        ..Options::default()
    };
    let page = report_page(&analysis, &options);
    Ok(Report {
        experiment: analysis.experiment.clone(),
        drawn: Some((analysis, page)),
    })
}

/// The state of a run in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// For programs, such as `running`.
    pub(crate) word: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// The rest of the sentence: `block 2: raid5, seq-read, 34 of 120 runs done`. May be empty.
    pub(crate) details: String,
}

/// Describes the progress or the end of a run.
pub(crate) fn said(state: &RunState) -> Said {
    let after = |progress: &Progress| match progress.total {
        0 => String::new(),
        total => format!("after {} of {total} runs", progress.done),
    };
    let (word, title, details) = match state {
        RunState::Running(progress) if progress.total == 0 => ("running", "Running", String::new()),
        RunState::Running(Progress { done, total, what }) => {
            let details = format!("{what}, {done} of {total} runs done");
            ("running", "Running", details)
        }
        RunState::Ended(Ending::Finished, _) => ("finished", "Finished", String::new()),
        RunState::Ended(Ending::OutOfTime, progress) => {
            ("out_of_time", "Ended by its time limit", after(progress))
        }
        RunState::Ended(Ending::Interrupted, progress) => {
            ("interrupted", "Interrupted", after(progress))
        }
        RunState::Ended(Ending::Failed(why), progress) => {
            let details = format!("{}: {why}", after(progress));
            ("failed", "Failed", details)
        }
        RunState::CutShort(progress) => {
            let details = format!("{}: killed, or the power failed", after(progress));
            ("cut_short", "Cut short", details)
        }
        RunState::NotKept => ("stored", "Stored", String::new()),
    };
    Said {
        word,
        title,
        details,
    }
}
