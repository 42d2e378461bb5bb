//! The pages: the list of runs, a run, a comparison of two runs, and messages.

use crate::library::{Drawn, Findings, Report, failed, is_live, said};
use crate::listing::Stored;
use crate::response::{Response, Status};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use spindles_lab::{RECORDS_FILE, RunState};
use spindles_measure::{Change, Experiment, PredictionCheck};
use spindles_report::page::{Page, Served, date, escape};
use spindles_report::{OUTPUTS, change_page, prediction_page, scaled};
use std::path::Path;

const STYLE: &str = include_str!("page/style.css");
/// Keeps an open page up to date.
const SCRIPT: &str = include_str!("page/live.js");

/// Query parameter of a comparison: give verdicts even if the runs did different work.
pub(crate) const DIFFERENT_WORK: &str = "different-work";

/// Characters that a path contains unescaped: letters, digits and these.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// Returns the path of a run's page.
pub(crate) fn address(name: &str) -> String {
    format!("/runs/{}/", utf8_percent_encode(name, PATH))
}

fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

fn served(above: String) -> Served {
    Served {
        nonce: String::new(),
        home: "/".to_owned(),
        style: STYLE,
        script: SCRIPT,
        above,
    }
}

const ALL_RUNS: &str = "<p><a href=\"/\">← All runs</a></p>";

/// Returns the number of finished runs and the total number of runs; zeros if unknown.
pub(crate) fn done(state: &RunState) -> (u64, u64) {
    match state {
        RunState::Running(progress)
        | RunState::Ended(_, progress)
        | RunState::CutShort(progress) => (progress.done, progress.total),
        RunState::NotKept => (0, 0),
    }
}

/// A run in the list.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) stored: &'a Stored,
    /// The experiment of the run, or the reason why its records can't be read.
    pub(crate) experiment: Result<Experiment, String>,
    /// The findings; `None` if not read yet.
    pub(crate) findings: Option<Drawn<Findings>>,
    pub(crate) state: RunState,
}

/// The list of all runs.
pub(crate) fn index(root: &Path, runs: &[Line<'_>], is_cut: bool, version: &str) -> Response {
    let (mut lines, mut unreadable) = (String::new(), String::new());
    let (mut readable, mut going) = (0, 0);
    for run in runs {
        match &run.experiment {
            Ok(experiment) => {
                readable += 1;
                going += u32::from(is_live(&run.state));
                lines += &line(run, experiment);
            }
            Err(why) => {
                let title = escape(&run.stored.title());
                unreadable += &format!("<div><dt>{title}</dt><dd>{}</dd></div>", escape(why));
            }
        }
    }
    let count = match (readable, going) {
        (0, _) => "No runs yet".to_owned(),
        (1, 0) => "One run".to_owned(),
        (runs, 0) => format!("{runs} runs"),
        (1, _) => "One run, in progress".to_owned(),
        (runs, 1) => format!("{runs} runs, one of them in progress"),
        (runs, going) => format!("{runs} runs, {going} of them in progress"),
    };
    let cut = if is_cut {
        "<ul class=\"caveats\"><li>This folder contains too many folders to search them all: serve \
         one of them.</li></ul>"
    } else {
        ""
    };
    let list = match readable {
        0 => {
            "<p class=\"caption\">The lab writes the results of each run here into this folder. A \
            run appears in this list as soon as it starts.</p>"
                .to_owned()
        }
        1 => format!("<ul class=\"frame runs\">{lines}</ul>"),
        _ => format!(
            "<form action=\"/compare\"><p class=\"choose\"><button>Compare</button> <span>Tick two \
             runs of an experiment to see before and after.</span></p><ul class=\"frame \
             runs\">{lines}</ul></form>"
        ),
    };
    let unreadable = match &*unreadable {
        "" => String::new(),
        rows => format!(
            "<section id=\"unreadable\"><h2>Not readable</h2><dl \
             class=\"table\">{rows}</dl></section>"
        ),
    };
    let body = format!(
        "<section id=\"headline\"><h1>{count}</h1><p class=\"lead\">in \
         <code>{}</code></p>{cut}</section><div id=\"list\">{list}</div>{unreadable}",
        escape(&root.display().to_string()),
    );
    let above = format!(
        "<div id=\"live\" data-page=\"{version}\" data-going><p class=\"silent\" \
         hidden>{SILENT}</p></div>"
    );
    Response::page(
        Status::Ok,
        Page {
            title: format!("{count} – Spindles lab"),
            contents: String::new(),
            body,
            served: Some(served(above)),
        },
    )
}

const SILENT: &str = "The server does not answer: this page shows its last answer.";

fn line(run: &Line<'_>, experiment: &Experiment) -> String {
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let stored = run.stored;
    let kicker = [date(experiment.started_unix_ms), stored.title()];
    let known = kicker.iter().filter(|part| !part.is_empty());
    let kicker: Vec<String> = known.map(|part| escape(part)).collect();
    let findings = run
        .findings
        .as_deref()
        .and_then(|findings| findings.as_ref().ok());
    let asked = usize::try_from(experiment.repetition_blocks).unwrap_or(usize::MAX);
    let blocks = match findings {
        Some(Findings { blocks_done, .. }) => {
            format!(
                "{blocks_done} of {}",
                count(asked.max(*blocks_done), "block")
            )
        }
        None => count(asked, "block"),
    };
    let extent = format!(
        "{} × {}<br>{blocks}",
        count(experiment.systems.len(), "system"),
        count(experiment.workloads_that_run().count(), "workload"),
    );
    let about = match &*experiment.summary {
        "" => String::new(),
        about => format!("<p class=\"about\">{}</p>", escape(about)),
    };
    let scaled = scaled(experiment).map_or(String::new(), |scaled| {
        format!("<p class=\"about\">{}</p>", escape(&scaled))
    });
    let result = match findings {
        Some(Findings {
            lead: Some(lead), ..
        }) => lead,
        Some(Findings { lead: None, .. }) => "Nothing is measured yet.",
        None => "Not read yet: it appears in a moment, or when you reload this page.",
    };
    let class = if findings.is_some() {
        "result"
    } else {
        "result soft"
    };
    let title = match &*experiment.name {
        "" => stored.title(),
        name => name.to_owned(),
    };
    format!(
        "<li id=\"run-{name}\"><label><input type=\"checkbox\" name=\"run\" value=\"{value}\">\
         <span class=\"hidden\">Compare {title}</span></label><div><p class=\"kicker\">{}</p>\
         <h2><a href=\"{}\">{}</a></h2>{about}{scaled}<p class=\"{class}\">{}</p></div>\
         <div class=\"side\">{}<p>{extent}</p></div></li>",
        kicker.join(" · "),
        address(&stored.name),
        escape(&title),
        escape(result),
        state(
            &run.state,
            findings.map_or((0, 0), |findings| findings.failed)
        ),
        name = encoded(&stored.name),
        value = escape(&stored.name),
        title = escape(&stored.title()),
    )
}

/// Describes the progress, with a bar while the run is going, and the number of `failed` runs.
fn state(state: &RunState, failed: (usize, usize)) -> String {
    let (mut said, (done, total)) = (said(state), done(state));
    if let (1.., runs) = failed {
        let comma = if said.details.is_empty() { "" } else { ", " };
        said.details += &format!("{comma}{} of {runs} runs failed", failed.0);
    }
    let bar = if is_live(state) && total > 0 {
        format!("<progress max=\"{total}\" value=\"{done}\">{done} of {total}</progress>")
    } else {
        String::new()
    };
    format!(
        "<p class=\"state {}\"><b>{}</b> <span>{}</span></p>{bar}",
        said.word,
        said.title,
        escape(&said.details)
    )
}

/// The page of a run, with its report.
pub(crate) fn run(run: &RunState, report: &Report, version: &str) -> Response {
    let live = is_live(run);
    let links: String = OUTPUTS
        .iter()
        .filter(|output| {
            (report.drawn.as_ref()).is_some_and(|(analysis, _)| (output.applies)(analysis))
        })
        .map(|output| {
            let file = utf8_percent_encode(output.file_name, PATH);
            let name = escape(output.name);
            let summary = escape(output.summary);
            format!("<li><a href=\"{file}\" download title=\"{summary}\">{name}</a></li>")
        })
        .collect();
    let above = format!(
        "<div id=\"live\" data-page=\"{}\"{}>{ALL_RUNS}{}<p class=\"silent\" \
         hidden>{SILENT}</p><ul class=\"files\"><li>As a file:</li><li><a href=\"{RECORDS_FILE}\" \
         download title=\"the data behind this report\">records</a></li>{links}</ul></div>",
        escape(version),
        if live { " data-going" } else { "" },
        state(
            run,
            (report.drawn.as_ref()).map_or((0, 0), |(analysis, _)| failed(analysis))
        ),
    );
    let experiment = &report.experiment;
    let mut page = match &report.drawn {
        Some((_, page)) => page.clone(),
        None => Page {
            title: format!("{} – Spindles lab report", experiment.name),
            contents: String::new(),
            body: headline(
                match &*experiment.summary {
                    "" => &experiment.name,
                    summary => summary,
                },
                if live {
                    "Nothing is measured yet. The first result appears here."
                } else {
                    "The run ended before its first result."
                },
            ),
            served: None,
        },
    };
    page.served = Some(served(above));
    Response::page(Status::Ok, page)
}

/// The comparison of two runs.
pub(crate) fn comparison(before: &Stored, after: &Stored, change: &Change, all: bool) -> Response {
    let mut page = change_page(change);
    let query = format!(
        "run={}&amp;run={}",
        encoded(&before.name),
        encoded(&after.name)
    );
    let work = match (change.different_work.is_empty(), all) {
        (true, _) => String::new(),
        (false, true) => {
            format!("<li><a href=\"?{query}\">Verdicts only if both did the same work</a></li>")
        }
        (false, false) => format!(
            "<li><a href=\"?{query}&amp;{DIFFERENT_WORK}=on\">Verdicts also if the work \
             differs</a></li>"
        ),
    };
    let above = format!(
        "<div id=\"live\">{ALL_RUNS}<ul class=\"files\">{}{}{work}</ul></div>",
        link_to("Before", before),
        link_to("After", after),
    );
    page.served = Some(served(above));
    Response::page(Status::Ok, page)
}

/// A prediction next to a measurement.
pub(crate) fn prediction(
    predicted: &Stored,
    measured: &Stored,
    check: &PredictionCheck,
) -> Response {
    if check.figures.is_empty() {
        return message(
            Status::NotFound,
            "Nothing in common",
            "No system was predicted and measured in the same workload. Give both the same names.",
        );
    }
    let mut page = prediction_page(check);
    let above = format!(
        "<div id=\"live\">{ALL_RUNS}<ul class=\"files\">{}{}</ul></div>",
        link_to("Predicted", predicted),
        link_to("Measured", measured),
    );
    page.served = Some(served(above));
    Response::page(Status::Ok, page)
}

/// An entry of a list with a link to the page of a run.
fn link_to(what: &str, stored: &Stored) -> String {
    let (address, title) = (address(&stored.name), escape(&stored.title()));
    format!("<li>{what}: <a href=\"{address}\">{title}</a></li>")
}

/// The page of a run that can't be shown.
pub(crate) fn unreadable(stored: &Stored, why: &str) -> Response {
    let title = format!("{} can’t be shown", stored.title());
    message(Status::NotFound, &title, why)
}

/// A page with one message.
pub(crate) fn message(status: Status, title: &str, text: &str) -> Response {
    Response::page(
        status,
        Page {
            title: format!("{title} – Spindles lab"),
            contents: String::new(),
            body: headline(title, text),
            served: Some(served(format!("<div id=\"live\">{ALL_RUNS}</div>"))),
        },
    )
}

fn headline(title: &str, text: &str) -> String {
    format!(
        "<section id=\"headline\"><h1>{}</h1><p class=\"lead\">{}</p></section>\n",
        escape(title),
        escape(text)
    )
}
