//! Maps paths to pages, files and states.

use crate::library::{self, Drawn, Library, Report, is_live, said, state_of};
use crate::listing::{Stamp, Stored};
use crate::pages;
use crate::request::{Request, decoded, is_this_machine};
use crate::response::{Body, Response, Status};
use serde_json::json;
use spindles_lab::{RECORDS_FILE, RunState};
use spindles_measure::{Analysis, Verdicts, change, check_prediction, is_predicted};
use spindles_report::{OUTPUTS, Options};
use std::cmp::Reverse;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Version of the state documents. Raise it when a field is removed or changes its meaning.
const STATE_VERSION: u32 = 1;
/// The part of a state's path after the name of the run.
const STATE: &str = "state";
/// The media type of records.
const JSON_LINES: &str = "application/jsonl";
/// Media types of files by the ends of their names.
const MEDIA: &[(&str, &str)] = &[
    (".html", "text/html; charset=utf-8"),
    (".json", "application/json"),
    (".csv", "text/csv; charset=utf-8"),
    (".md", "text/markdown; charset=utf-8"),
];

/// Everything that the server answers.
#[derive(Debug)]
pub(crate) struct Site {
    library: Library,
    /// True if only requests to names of this machine are answered.
    local: bool,
    /// How long the list waits for findings that are not cached.
    list_time: Duration,
    command: ReportCommand,
}

/// Returns the command that draws the report of the records in a folder.
pub type ReportCommand = fn(&Path) -> Option<String>;

impl Site {
    pub(crate) fn new(
        library: Library,
        local: bool,
        list_time: Duration,
        command: ReportCommand,
    ) -> Self {
        Self {
            library,
            local,
            list_time,
            command,
        }
    }

    /// Answers a request.
    pub(crate) fn answer(&self, request: &Request) -> Response {
        if self.local && !is_this_machine(&request.host) {
            return Response::text(
                Status::Forbidden,
                "This server answers only this machine: use localhost or 127.0.0.1.",
            );
        }
        match &*request.path {
            "/" => self.index(),
            "/state" => self.index_state(),
            "/compare" => self.compare(request),
            path => {
                let rest = path.strip_prefix("/runs/");
                let found = rest.and_then(|rest| self.run(rest));
                found.unwrap_or_else(|| {
                    pages::message(Status::NotFound, "Not found", "The list has all runs.")
                })
            }
        }
    }

    fn index(&self) -> Response {
        let deadline = Instant::now() + self.list_time;
        let listing = self.library.listing();
        let mut runs: Vec<_> = (listing.runs.iter())
            .map(|stored| (stored, library::experiment(stored), state_of(stored)))
            .collect();
        // Running runs first, then the newest. Unreadable runs have no time and come last.
        runs.sort_by_key(|(_, experiment, state)| {
            let started = experiment
                .as_ref()
                .ok()
                .map(|experiment| experiment.started_unix_ms);
            Reverse((matches!(state, RunState::Running(_)), started))
        });
        let mut lines = Vec::new();
        let mut has_read = false;
        for (stored, experiment, state) in runs {
            // Each request of the list reads at least one run, so that all are read in the end.
            let is_known = self.library.has_findings(stored, &state);
            let may_read = is_known || !has_read || Instant::now() < deadline;
            has_read |= !is_known;
            let findings = may_read.then(|| self.library.findings(stored, &state));
            let broken = findings
                .as_deref()
                .and_then(|findings| findings.as_ref().err());
            lines.push(pages::Line {
                stored,
                experiment: broken.map_or(experiment, |why| Err(why.clone())),
                findings,
                state,
            });
        }
        let version = self.index_version();
        pages::index(self.library.root(), &lines, listing.is_cut(), &version)
    }

    /// Returns a word that changes when the list does.
    fn index_version(&self) -> String {
        let mut hasher = DefaultHasher::new();
        for stored in &self.library.listing().runs {
            let state = state_of(stored);
            let stamp = stored.stamp.clone().map(Stamp::word);
            let is_known = self.library.has_findings(stored, &state);
            (&stored.name, stamp, said(&state).details, is_known).hash(&mut hasher);
        }
        format!("{:x}", hasher.finish())
    }

    fn index_state(&self) -> Response {
        document(&json!({
            "schema": "spindles.lab-runs",
            "version": STATE_VERSION,
            "page": self.index_version(),
        }))
    }

    /// Answers a path below `/runs/`: the name of a run, then a page, a state or a file of it.
    fn run(&self, rest: &str) -> Option<Response> {
        let listing = self.library.listing();
        if let Some((name, of)) = rest.rsplit_once('/')
            && let Some(stored) = listing.by_name(&decoded(name)?)
        {
            let state = state_of(stored);
            return match &*decoded(of)? {
                "" => Some(self.page(stored, &state)),
                STATE => Some(self.state(stored, &state)),
                RECORDS_FILE => Some(self.records(stored, &state)),
                file => self.download(stored, &state, file),
            };
        }
        let stored = listing.by_name(&decoded(rest)?)?;
        let place = pages::address(&stored.name);
        let moved = Response::text(Status::MovedPermanently, &place);
        Some(moved.with("Location", place))
    }

    fn page(&self, stored: &Stored, state: &RunState) -> Response {
        match self.library.report(stored, state) {
            Ok((stamp, report)) => match &*report {
                Ok(report) => pages::run(state, report, &version(&stamp.word(), state)),
                Err(why) => pages::unreadable(stored, why),
            },
            Err(why) => pages::unreadable(stored, &why),
        }
    }

    fn state(&self, stored: &Stored, state: &RunState) -> Response {
        let stamp = match self.library.report_stamp(stored, state) {
            Ok(stamp) => stamp,
            Err(why) => return pages::unreadable(stored, &why),
        };
        let said = said(state);
        let (done, total) = pages::done(state);
        document(&json!({
            "schema": "spindles.lab-state",
            "version": STATE_VERSION,
            "state": said.word,
            "title": said.title,
            "details": said.details,
            "done": done,
            "total": total,
            "page": version(&stamp.word(), state),
        }))
    }

    /// Sends the records unchanged, but only if they are readable as records: no other file may
    /// leak.
    fn records(&self, stored: &Stored, state: &RunState) -> Response {
        let (Ok(stamp), Some(_)) = (&stored.stamp, self.drawn(stored, state)) else {
            return pages::unreadable(stored, "it contains no readable record");
        };
        match File::open(stored.folder.join(RECORDS_FILE)) {
            Ok(file) => {
                let body = Body::File(file, stamp.bytes);
                let response = Response::plain(Status::Ok, JSON_LINES, body);
                response.with("Content-Disposition", attachment(stored, RECORDS_FILE))
            }
            Err(error) => pages::unreadable(stored, &error.to_string()),
        }
    }

    /// Sends the report as a file in one of its forms.
    fn download(&self, stored: &Stored, state: &RunState, file_name: &str) -> Option<Response> {
        let output = OUTPUTS
            .iter()
            .find(|output| output.file_name == file_name)?;
        let report = self.drawn(stored, state);
        let Some(analysis) = analysis_of(report.as_deref()) else {
            let why = "nothing is measured yet, so there is no report";
            return Some(pages::unreadable(stored, why));
        };
        if !(output.applies)(analysis) {
            let why = format!(
                "it has no runs for the format {}: {}",
                output.name, output.summary
            );
            return Some(pages::unreadable(stored, &why));
        }
        let media = MEDIA.iter().find(|(end, _)| file_name.ends_with(end));
        let media = media.map_or("text/plain; charset=utf-8", |(_, media)| media);
        let options = Options {
            command: (self.command)(&stored.folder),
            ..Options::default()
        };
        let text = (output.report)(analysis, &options);
        let response = Response::plain(Status::Ok, media, Body::Text(text));
        Some(response.with("Content-Disposition", attachment(stored, file_name)))
    }

    /// Returns the report of a run; `None` if its records can't be read.
    fn drawn(&self, stored: &Stored, state: &RunState) -> Option<Drawn<Report>> {
        let (_, report) = self.library.report(stored, state).ok()?;
        report.is_ok().then_some(report)
    }

    /// Compares two runs. The run that began first counts as "before".
    fn compare(&self, request: &Request) -> Response {
        let listing = self.library.listing();
        let names = request.values("run");
        let runs: Vec<_> = names
            .iter()
            .filter_map(|name| listing.by_name(name))
            .collect();
        let [one, other] = runs[..] else {
            return pages::message(
                Status::BadRequest,
                "Choose two runs",
                "A comparison needs two runs: tick two in the list.",
            );
        };
        let reports = [one, other].map(|stored| self.drawn(stored, &state_of(stored)));
        let [of_one, of_other] = reports
            .each_ref()
            .map(|report| analysis_of(report.as_deref()));
        let (Some(of_one), Some(of_other)) = (of_one, of_other) else {
            let without = if of_one.is_none() { one } else { other };
            return pages::unreadable(without, "it has no result to compare");
        };
        let mut sides = [(one, of_one), (other, of_other)];
        if is_predicted(of_one) != is_predicted(of_other) {
            sides.sort_by_key(|(_, analysis)| !is_predicted(analysis));
            let [(predicted, of_predicted), (measured, of_measured)] = sides;
            let check = check_prediction(of_predicted, of_measured);
            return pages::prediction(predicted, measured, &check);
        }
        sides.sort_by_key(|(_, analysis)| analysis.experiment.started_unix_ms);
        let [(before, of_before), (after, of_after)] = sides;
        let all = !request.values(pages::DIFFERENT_WORK).is_empty();
        let verdicts = if all {
            Verdicts::All
        } else {
            Verdicts::SameWork
        };
        pages::comparison(before, after, &change(of_before, of_after, verdicts), all)
    }
}

/// Returns the analysis of a report; `None` if nothing was measured.
fn analysis_of(report: Option<&Result<Report, String>>) -> Option<&Analysis> {
    let drawn = report?.as_ref().ok()?.drawn.as_ref();
    drawn.map(|(analysis, _)| analysis)
}

/// Identifies one state of a page: its records, and whether the run is going.
fn version(stamp: &str, state: &RunState) -> String {
    let live = if is_live(state) { "live" } else { "still" };
    format!("{stamp}-{live}")
}

fn document(value: &serde_json::Value) -> Response {
    let body = Body::Text(format!("{value}\n"));
    Response::plain(Status::Ok, "application/json", body)
}

/// The `Content-Disposition` of a download, whose file name contains the name of the run.
fn attachment(stored: &Stored, file_name: &str) -> String {
    let title = stored.title();
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' | '_' => letter,
        _ => '_',
    };
    let run: String = title.chars().map(plain).collect();
    format!("attachment; filename=\"{run}-{file_name}\"")
}
