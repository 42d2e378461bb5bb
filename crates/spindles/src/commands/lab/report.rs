//! `spindles lab report`: draws reports again from stored records.

use super::Command;
use crate::documents::tools::Reports;
use crate::failure::Usage;
use crate::measuring;
use crate::ui::Ui;
use crate::words;
use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_measure::Analysis;
use spindles_report::{Output, outputs};
use std::path::{Path, PathBuf};

pub(crate) static COMMAND: Command = Command {
    name: "report",
    about: "Report on a run again, from its records",
    details: "Prints which system to choose, with --tables also all figures, and writes \
              report.html again. With --format, prints the report in that format and writes no \
              file. Several folders become one text, such as one JSON document.\n\n\
              spindles lab report lab-results/*\n\
              spindles lab report results --format csv > results.csv",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// Folders of results, or files of records
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    #[command(flatten)]
    format: measuring::FormatArguments,
    #[command(flatten)]
    report: measuring::ReportArguments,
    /// Only these sections of the page, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = sections())]
    sections: Vec<String>,
}

fn sections() -> PossibleValuesParser {
    PossibleValuesParser::new(outputs::section_names())
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    match arguments.format.chosen(ui)? {
        Some(output) => print(&arguments, output, ui),
        None => show(&arguments, ui),
    }
}

fn analysis_of(folder: &Path) -> anyhow::Result<Analysis> {
    let records = spindles_lab::load(folder)?;
    Analysis::of(&records).with_context(|| format!("{}", folder.display()))
}

/// Prints all reports in one format, as one text.
fn print(arguments: &Arguments, output: &Output, ui: &Ui) -> anyhow::Result<()> {
    let name = output.name;
    if !arguments.sections.is_empty() && !output.has_sections {
        return Err(Usage::error(format!(
            "--sections are those of the page, and --format {name} has none: leave them out, or \
             choose --format html"
        )));
    }
    let mut reports = Vec::new();
    for folder in &arguments.folders {
        let command = words::lab::report_command(folder);
        let options = outputs::Options {
            sections: arguments.sections.clone(),
            tables: arguments.report.tables,
            ..measuring::report_options(&arguments.report.view, command)
        };
        let report = (output.report)(&analysis_of(folder)?, &options);
        reports.push(report);
    }
    let is_some = |report: &String| !report.is_empty();
    if reports.iter().any(is_some) {
        let all = arguments.folders.iter().zip(&reports);
        for (folder, _) in all.filter(|(_, report)| report.is_empty()) {
            ui.note(format!("{}: nothing for --format {name}", folder.display()));
        }
    }
    reports.retain(is_some);
    let text = match reports.as_slice() {
        [] => anyhow::bail!(
            "--format {name} is {}, and there are none: choose another form, or run such a \
             workload",
            output.summary
        ),
        [only] => Some(only.clone()),
        several => output.together.map(|together| together(several)),
    };
    let text = text.ok_or_else(|| {
        Usage::error(format!(
            "--format {name} holds one report: give one folder, or leave --format out, which \
             writes a page into each"
        ))
    })?;
    measuring::show(output, &text, ui);
    Ok(())
}

/// Shows the reports, and rewrites the page in each folder.
fn show(arguments: &Arguments, ui: &Ui) -> anyhow::Result<()> {
    let is_file = |folder: &&PathBuf| !folder.is_dir();
    let without_page = match arguments.folders.iter().find(is_file) {
        _ if ui.wants_json() => Some("--json writes no page".to_owned()),
        Some(file) => Some(format!("{}: no page is written for a file", file.display())),
        None => None,
    };
    if let Some(without_page) = without_page.filter(|_| !arguments.sections.is_empty()) {
        return Err(Usage::error(format!(
            "{without_page}, and --sections are those of the page: leave them out, or choose \
             --format html"
        )));
    }
    if !ui.wants_json() {
        for folder in arguments.folders.iter().filter(|folder| folder.is_dir()) {
            measuring::check_page(folder, "choose --format html, which prints it")?;
        }
    }
    let mut reports = Vec::new();
    let shown = &arguments.report;
    for folder in &arguments.folders {
        let analysis = analysis_of(folder)?;
        let (text, json) = measuring::report(&analysis, &shown.view, shown.tables, Some(folder))?;
        ui.drawn(text.trim_end());
        if folder.is_dir() && !ui.wants_json() {
            let page = measuring::write_page(&analysis, folder, &arguments.sections)?;
            ui.line(format!("\nReport: {}", page.display()));
        }
        reports.push(json.report);
    }
    ui.json(&Reports { reports });
    Ok(())
}
