//! `spindles lab compare`: compares an experiment before and after a change.

use super::Command;
use crate::measuring;
use crate::ui::Ui;
use anyhow::Context as _;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_measure::{Analysis, Verdicts, change};
use std::path::{Path, PathBuf};

pub(crate) static COMMAND: Command = Command {
    name: "compare",
    about: "Compare two runs of an experiment: before and after a change",
    details: "Shows each system and workload that both runs contain, with the ratio of the \
              rates, its interval and the verdict. Also shows the differences between the two \
              environments and their disks. If the work itself differs, the command reports \
              this first and gives no verdict.\n\n\
              spindles lab compare results-before results-after\n\
              spindles lab compare results-before results-after --format markdown",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// Folder of results before the change
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// Folder of results after the change
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Give a verdict even if the two did different work: another depth, size, chunk, level or
    /// option
    #[arg(long)]
    different_work: bool,
    #[command(flatten)]
    format: measuring::ChangeFormatArguments,
    #[command(flatten)]
    view: measuring::ViewArguments,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let verdicts = if arguments.different_work {
        Verdicts::All
    } else {
        Verdicts::SameWork
    };
    let (output, draw) = arguments.format.drawing(ui)?;
    let (before, after) = (load(&arguments.before)?, load(&arguments.after)?);
    let mut change = change(&before, &after, verdicts);
    if change.rows.is_empty() {
        return Err(nothing_in_common(&before, &after));
    }
    let folder = |folder: &Path| folder.display().to_string();
    let whole = [&arguments.before, &arguments.after].map(|it| it.canonicalize().ok());
    if let [Some(before), Some(after)] = whole
        && before == after
    {
        ui.note(format!(
            "{} is compared with itself, so nothing can have changed: give two runs",
            before.display()
        ));
    }
    change.read_from = (folder(&arguments.before), folder(&arguments.after));
    let options = measuring::report_options(&arguments.view, command(&arguments));
    measuring::show(output, &draw(&change, &options), ui);
    ui.json(&measuring::change_json(&change)?);
    Ok(())
}

/// The command that was given, without its output options.
fn command(arguments: &Arguments) -> Option<String> {
    let [before, after] = [&arguments.before, &arguments.after].map(|it| spindles_lab::typed(it));
    let work = if arguments.different_work {
        " --different-work"
    } else {
        ""
    };
    Some(format!("spindles lab compare {} {}{work}", before?, after?))
}

/// The error for two runs without a common row.
fn nothing_in_common(before: &Analysis, after: &Analysis) -> anyhow::Error {
    let of = |analysis: &Analysis| {
        let systems = analysis.experiment.systems.iter();
        let workloads = analysis.experiment.workloads.iter();
        let systems: Vec<&str> = systems.map(|system| &*system.name).collect();
        let workloads: Vec<&str> = workloads.map(|workload| &*workload.name).collect();
        format!("{} with {}", listed(&systems), listed(&workloads))
    };
    anyhow::anyhow!(
        "no system ran the same workload before and after, so there is nothing to compare: {} \
         before, {} after; systems and workloads are the same where their names are",
        of(before),
        of(after)
    )
}

/// Lists the first few of several names.
fn listed(names: &[&str]) -> String {
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..NAMES_SHOWN].join(", ")),
    }
}

/// Names listed for runs that have nothing in common, at most.
const NAMES_SHOWN: usize = 4;

fn load(folder: &Path) -> anyhow::Result<Analysis> {
    let records = spindles_lab::load(folder)?;
    Analysis::of(&records).with_context(|| format!("{}", folder.display()))
}
