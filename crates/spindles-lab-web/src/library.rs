//! What the pages show of a run, drawn from its records.

use crate::cache::Cache;
use crate::listing::{Listing, Stamp, Stored};
use spindles_lab::{Ending, Progress, RunState, run_state};
use spindles_measure::{Analysis, Experiment, Record};
use spindles_report::page::Page;
use spindles_report::{Options, headline, outputs, report_page};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// So many lines of the list are kept drawn.
const SUMMARIES_MAX: usize = 10_000;
/// So many reports are kept drawn: each is as large as its records.
const REPORTS_MAX: usize = 6;

/// The section that embeds the records in a page: a server has them as a file.
const EMBEDDED_RECORDS: &str = "records";

/// What the list says of a run.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) experiment: String,
    pub(crate) about: String,
    pub(crate) started_unix_ms: u64,
    pub(crate) systems: usize,
    pub(crate) workloads: usize,
    pub(crate) blocks_done: usize,
    pub(crate) blocks: usize,
    /// What came out, where something was measured.
    pub(crate) lead: Option<String>,
}

/// What the page of a run is made of.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) experiment: Experiment,
    /// `None` before the first run is done.
    pub(crate) drawn: Option<(Analysis, Page)>,
}

/// What was read of a run, or why it can't be read.
pub(crate) type Read<T> = Arc<Result<T, String>>;

/// The runs in one folder of results.
#[derive(Debug)]
pub(crate) struct Library {
    root: PathBuf,
    summaries: Cache<Result<Summary, String>>,
    reports: Cache<Result<Report, String>>,
}

impl Library {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            summaries: Cache::new(SUMMARIES_MAX),
            reports: Cache::new(REPORTS_MAX),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What there is now.
    pub(crate) fn listing(&self) -> Listing {
        Listing::of(&self.root)
    }

    /// What the list says of a run.
    pub(crate) fn summary(&self, stored: &Stored, state: &RunState) -> Read<Summary> {
        match &stored.stamp {
            Ok(stamp) => {
                let draw = || summary(&stored.folder, state);
                let (_, summary) = (self.summaries).get(&stored.name, *stamp, is_live(state), draw);
                summary
            }
            Err(why) => Arc::new(Err(why.clone())),
        }
    }

    /// The report of a run, and the stamp of the records that it was drawn from.
    pub(crate) fn report(
        &self,
        stored: &Stored,
        state: &RunState,
    ) -> Result<(Stamp, Read<Report>), String> {
        let stamp = stored.stamp.clone()?;
        let draw = || report(&stored.folder);
        Ok((self.reports).get(&stored.name, stamp, is_live(state), draw))
    }

    /// The stamp of the report that a reader would get now.
    pub(crate) fn report_stamp(&self, stored: &Stored, state: &RunState) -> Result<Stamp, String> {
        let stamp = stored.stamp.clone()?;
        Ok(self.reports.stamp(&stored.name, stamp, is_live(state)))
    }
}

/// The state of a stored run.
pub(crate) fn state_of(stored: &Stored) -> RunState {
    match stored.stamp {
        Ok(_) => run_state(&stored.folder),
        Err(_) => RunState::NotKept,
    }
}

/// Whether more records may come.
pub(crate) fn is_live(state: &RunState) -> bool {
    matches!(state, RunState::Running(_))
}

fn summary(folder: &Path, state: &RunState) -> Result<Summary, String> {
    let records = spindles_lab::load(folder).map_err(|error| error.to_string())?;
    let analysis = Analysis::of(&records).ok();
    let experiment = match &analysis {
        Some(analysis) => analysis.experiment.clone(),
        None => experiment_of(&records).ok_or(NO_EXPERIMENT)?,
    };
    let blocks_done = analysis.as_ref().map_or(0, |analysis| {
        let expected = experiment.systems.len() * experiment.workloads.len();
        blocks_done(analysis, expected, state)
    });
    let asked = usize::try_from(experiment.repetition_blocks).unwrap_or(usize::MAX);
    Ok(Summary {
        systems: experiment.systems.len(),
        workloads: experiment.workloads.len(),
        blocks_done,
        blocks: asked.max(blocks_done),
        lead: analysis.as_ref().map(|analysis| headline(analysis).lead),
        started_unix_ms: experiment.started_unix_ms,
        experiment: experiment.name,
        about: experiment.summary,
    })
}

const NO_EXPERIMENT: &str = "no experiment is among the records";

fn experiment_of(records: &[Record]) -> Option<Experiment> {
    records.iter().find_map(|record| match record {
        Record::Experiment(experiment) => Some(experiment.clone()),
        _ => None,
    })
}

/// How many repetition blocks are whole: those with as many runs as the fullest. A first one by itself
/// is measured by what is `expected`, unless the run is over and so it was whole.
fn blocks_done(analysis: &Analysis, expected: usize, state: &RunState) -> usize {
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

fn report(folder: &Path) -> Result<Report, String> {
    let records = spindles_lab::load(folder).map_err(|error| error.to_string())?;
    let Ok(analysis) = Analysis::of(&records) else {
        let experiment = experiment_of(&records).ok_or(NO_EXPERIMENT)?;
        return Ok(Report {
            experiment,
            drawn: None,
        });
    };
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

/// What is said of the state of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// For programs: `running`.
    pub(crate) word: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// The rest of the sentence: `block 2: raid5, seq-read, 34 of 120 runs done`. May be empty.
    pub(crate) details: String,
}

/// How far a run is or how it ended, in words.
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
