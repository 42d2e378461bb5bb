//! `spindles lab compare`: compares an experiment before and after a change, or a prediction with a
//! measurement.

use super::Command;
use crate::failure::Usage;
use crate::measuring;
use crate::ui::Ui;
use anyhow::Context as _;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_measure::{Analysis, Verdicts, change, check_prediction, is_predicted, nearest_cells};
use spindles_report::Output;
use std::path::{Path, PathBuf};

pub(crate) static COMMAND: Command = Command {
    name: "compare",
    about: "Compare two runs: before and after a change, or predicted and measured",
    details: "Shows each system and workload that both runs contain, with the ratio of the \
              rates, its interval and the verdict. Also shows the differences between the two \
              environments and their disks. If the work itself differs, the command reports \
              this first and gives no verdict.\n\n\
              If one run is on modelled disks and the other is not, in either order, the \
              command shows what the prediction is worth: errors, how often the measurement \
              lies in the band, and the order of the systems.\n\n\
              spindles lab compare results-before results-after\n\
              spindles lab compare results-before results-after --format markdown\n\
              spindles lab compare predicted measured",
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
    let output = arguments.format.output(ui)?;
    let (before, after) = (load(&arguments.before)?, load(&arguments.after)?);
    let sides = [(&before, &*arguments.before), (&after, &*arguments.after)];
    match (is_predicted(&before), is_predicted(&after)) {
        (true, false) => return show_prediction(&arguments, sides, output, ui),
        (false, true) => {
            let [measured, predicted] = sides;
            return show_prediction(&arguments, [predicted, measured], output, ui);
        }
        _ => {}
    }
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
    let draw = output.change.expect("only forms of two runs can be chosen");
    measuring::show(output, &draw(&change, &options), ui);
    ui.json(&measuring::change_json(&change)?);
    Ok(())
}

/// Shows a prediction next to a measurement.
fn show_prediction(
    arguments: &Arguments,
    [(predicted, predicted_from), (measured, measured_from)]: [(&Analysis, &Path); 2],
    output: &Output,
    ui: &Ui,
) -> anyhow::Result<()> {
    if arguments.different_work {
        return Err(Usage::error(
            "--different-work asks for verdicts on a change, and a prediction next to a \
             measurement has none: leave it out"
                .to_owned(),
        ));
    }
    let mut check = check_prediction(predicted, measured);
    if check.figures.is_empty() {
        return Err(no_common_cell(predicted, measured));
    }
    let folder = |folder: &Path| folder.display().to_string();
    check.read_from = (folder(predicted_from), folder(measured_from));
    let options = measuring::report_options(&arguments.view, command(arguments));
    let draw = output
        .prediction
        .expect("only forms of two runs can be chosen");
    measuring::show(output, &draw(&check, &options), ui);
    ui.json(&measuring::prediction_json(&check)?);
    Ok(())
}

/// The error for a prediction and a measurement without a common cell.
fn no_common_cell(predicted: &Analysis, measured: &Analysis) -> anyhow::Error {
    let Some([mine, other]) = nearest_cells(predicted, measured) else {
        return nothing_in_common(predicted, measured);
    };
    anyhow::anyhow!(
        "no system was predicted and measured in the same workload: the nearest are {} in {}, \
         predicted, and {} in {}, measured; give both the same names",
        mine.system,
        mine.workload,
        other.system,
        other.workload
    )
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
