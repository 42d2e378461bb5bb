//! `spindles lab compare`: the same experiment before and after a change.

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
    details: "Each system and workload that both have, with the ratio of its rates, the interval \
              and the verdict, and what differs between the two environments. Where the work itself differs, that is said first, and no verdict \
              is given.\n\n\
              spindles lab compare results-before results-after\n\
              spindles lab compare results-before results-after --format markdown",
    hidden: false,
    forwards: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// Folder of results before the change
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// Folder of results after it
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Give a verdict also where the two did different work: another depth, size, chunk, level or option
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
    let change = change(&before, &after, verdicts);
    let options = measuring::report_options(&arguments.view);
    measuring::show(output, &draw(&change, &options), ui);
    ui.json(&measuring::change_json(&change)?);
    Ok(())
}

fn load(folder: &Path) -> anyhow::Result<Analysis> {
    let records = spindles_lab::load(folder)?;
    Analysis::of(&records).with_context(|| format!("{}", folder.display()))
}
