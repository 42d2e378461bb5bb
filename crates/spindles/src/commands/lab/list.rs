//! `spindles lab list`: lists the workloads, targets and experiments.

use super::Command;
use crate::documents::tools::{
    self, ExperimentText, LabExperiment, LabList, LabTarget, Named, ToolWorkload, Workload,
};
use crate::failure::Usage;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_block::SizeBytes;
use spindles_lab::builtin::{self, BUILTINS};
use spindles_lab::{Experiment, TOOLS, replay, targets};
use spindles_workload::KINDS;
use spindles_workload::file::{self, Parameter, Range};
use spindles_workload::network;
use spindles_workload::replay::{self as workload_replay, REPLAY};

pub(crate) static COMMAND: Command = Command {
    name: "list",
    about: "List the workloads, targets and built-in experiments",
    details: "With --show, prints one of the experiments as a file to copy and change.\n\n\
              spindles lab list\n\
              spindles lab list --show your-devices > mine.toml",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// Print this built-in experiment
    #[arg(long, value_name = "NAME")]
    show: Option<String>,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    if let Some(name) = arguments.show {
        return show_experiment(&name, ui);
    }
    show_workloads(ui);
    show_parameters(ui);
    show_targets(ui);
    let experiments = BUILTINS
        .iter()
        .map(|builtin| Experiment::parse(builtin.name, builtin.text))
        .collect::<Result<Vec<_>, _>>()?;
    show_experiments(&experiments, ui);
    ui.json(&document(&experiments));
    Ok(())
}

/// Prints the file of a built-in experiment.
fn show_experiment(name: &str, ui: &Ui) -> anyhow::Result<()> {
    let names: Vec<_> = BUILTINS.iter().map(|builtin| builtin.name).collect();
    let builtin = builtin::by_name(name).ok_or_else(|| {
        Usage::error(format!(
            "there is no built-in experiment \"{name}\": choose one of {}",
            names.join(", ")
        ))
    })?;
    ui.text(
        builtin.text,
        &ExperimentText {
            experiment: builtin.text,
        },
    );
    Ok(())
}

/// Prints a table for each sort of workload.
fn show_workloads(ui: &Ui) {
    let workloads: Vec<_> = KINDS
        .iter()
        .map(|kind| vec![kind.name.to_owned(), kind.summary()])
        .collect();
    ui.table(&["workload on blocks", "what it does"], &workloads);
    ui.line("");
    let files: Vec<_> = file::KINDS
        .iter()
        .map(|kind| vec![kind.name.to_owned(), kind.summary.to_owned()])
        .collect();
    ui.table(&["workload on files", "what it does"], &files);
    ui.line("");
    let tools: Vec<_> = (TOOLS.iter())
        .map(|(name, what)| vec![(*name).to_owned(), (*what).to_owned()])
        .collect();
    ui.table(&["workload of another tool", "what it does"], &tools);
    ui.line("");
    let copy = vec![network::COPY.to_owned(), network::SUMMARY.to_owned()];
    ui.table(&["workload between machines", "what it does"], &[copy]);
    ui.line("");
    let replay = vec![REPLAY.to_owned(), workload_replay::SUMMARY.to_owned()];
    ui.table(&["workload of a trace", "what it does"], &[replay]);
    ui.line("");
}

/// Prints the table of the parameters of workloads.
fn show_parameters(ui: &Ui) {
    let parameters: Vec<_> = (file::KINDS.iter())
        .map(|kind| (kind.name, kind.parameters))
        .chain([(network::COPY, network::PARAMETERS)])
        .flat_map(|(name, all)| parameters(name, all))
        .chain(replay::PARAMETERS.map(|(name, default, about)| {
            [REPLAY, name, default, about].map(str::to_owned).to_vec()
        }))
        .collect();
    ui.table(&["of", "parameter", "default", "what it is"], &parameters);
    ui.line("");
}

/// Prints the table of the targets.
fn show_targets(ui: &Ui) {
    let kinds: Vec<_> = targets::KINDS
        .iter()
        .map(|kind| vec![kind.syntax.to_owned(), kind.summary.to_owned()])
        .collect();
    ui.table(&["target", "what it is"], &kinds);
    ui.line("");
}

/// Prints the table of the built-in experiments.
fn show_experiments(experiments: &[Experiment], ui: &Ui) {
    let rows: Vec<_> = (experiments.iter())
        .map(|experiment| {
            let scale_min = experiment.scale_min;
            let scale_min = scale_min.map_or("any".to_owned(), |least| least.to_string());
            vec![
                experiment.name.clone(),
                scale_min,
                experiment.summary.clone(),
            ]
        })
        .collect();
    ui.table(
        &["experiment", "smallest --scale", "what it compares"],
        &rows,
    );
}

/// Returns the JSON document of all lists.
fn document(experiments: &[Experiment]) -> LabList<'_> {
    let workloads = KINDS.iter().map(|kind| Workload {
        name: kind.name,
        summary: kind.summary(),
        writes: kind.writes,
        chunk: SizeBytes(kind.chunk_bytes.into()).typed().to_string(),
        in_flight: kind.in_flight,
        operations: kind.operations,
    });
    let files = file::KINDS.iter().map(|kind| ToolWorkload {
        name: kind.name,
        summary: kind.summary,
        parameters: parameters_json(kind.parameters),
    });
    let copy = ToolWorkload {
        name: network::COPY,
        summary: network::SUMMARY,
        parameters: parameters_json(network::PARAMETERS),
    };
    let replay = ToolWorkload {
        name: REPLAY,
        summary: workload_replay::SUMMARY,
        parameters: replay::PARAMETERS
            .map(|(name, default, summary)| tools::Parameter {
                name,
                default: default.to_owned(),
                summary,
            })
            .into_iter()
            .collect(),
    };
    let tools = TOOLS.iter();
    let targets = targets::KINDS.iter().map(|kind| LabTarget {
        name: kind.name,
        syntax: kind.syntax,
        summary: kind.summary,
    });
    let experiments = experiments.iter().map(|experiment| LabExperiment {
        name: &experiment.name,
        scale_min: experiment.scale_min,
        summary: &experiment.summary,
    });
    LabList {
        workloads: workloads.collect(),
        tool_workloads: tools
            .map(|&(name, summary)| Named { name, summary })
            .collect(),
        file_workloads: files.collect(),
        network_workloads: vec![copy],
        trace_workloads: vec![replay],
        targets: targets.collect(),
        experiments: experiments.collect(),
    }
}

fn parameters_json(parameters: &[Parameter]) -> Vec<tools::Parameter> {
    let one = |parameter: &Parameter| tools::Parameter {
        name: parameter.name,
        default: parameter.words_of(parameter.default),
        summary: parameter.about,
    };
    parameters.iter().map(one).collect()
}

/// The parameters of a workload, one row each.
fn parameters<'a>(
    workload: &'a str,
    parameters: &'a [Parameter],
) -> impl Iterator<Item = Vec<String>> + use<'a> {
    parameters.iter().map(move |parameter| {
        let default = match parameter.range {
            Range::Bytes(..) => SizeBytes(parameter.default).typed().to_string(),
            Range::Count(..) | Range::Words(_) => parameter.words_of(parameter.default),
        };
        let words = match parameter.range {
            Range::Words(words) => format!(" ({})", words.join(", ")),
            Range::Count(..) | Range::Bytes(..) => String::new(),
        };
        vec![
            workload.to_owned(),
            parameter.name.to_owned(),
            default,
            format!("{}{words}", parameter.about),
        ]
    })
}
