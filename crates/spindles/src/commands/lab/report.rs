//! `spindles lab report`: reports again from stored records.

use super::Command;
use crate::measuring;
use crate::ui::Ui;
use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_measure::Analysis;
use spindles_report::outputs;
use std::path::PathBuf;

pub(crate) static COMMAND: Command = Command {
    name: "report",
    about: "Report again from the records of a run",
    details: "Prints the table and writes report.html anew; with --format prints the report in \
              that form and writes nothing.\n\n\
              spindles lab report lab-results/*\n\
              spindles lab report results --format csv > results.csv",
    hidden: false,
    forwards: false,
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
    view: measuring::ViewArguments,
    /// Only these sections of the page, with commas between them
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = sections())]
    sections: Vec<String>,
}

fn sections() -> PossibleValuesParser {
    PossibleValuesParser::new(outputs::section_names())
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let format = arguments.format.chosen(ui)?;
    let mut reports = Vec::new();
    for folder in &arguments.folders {
        let records = spindles_lab::load(folder)?;
        let analysis = Analysis::of(&records).with_context(|| format!("{}", folder.display()))?;
        if let Some(output) = format {
            let options = outputs::Options {
                sections: arguments.sections.clone(),
                ..measuring::report_options(&arguments.view)
            };
            measuring::show(output, &(output.report)(&analysis, &options), ui);
        } else {
            let (text, _) = measuring::report(&analysis, &arguments.view)?;
            ui.drawn(text.trim_end());
            if folder.is_dir()
                && !ui.wants_json()
                && let Some(page) = measuring::write_page(&analysis, folder, &arguments.sections)?
            {
                ui.line(format!("\nReport: {}", page.display()));
            }
        }
        if ui.wants_json() {
            reports.push(measuring::report(&analysis, &arguments.view)?.1["report"].take());
        }
    }
    ui.json(&json!({ "reports": reports }));
    Ok(())
}
