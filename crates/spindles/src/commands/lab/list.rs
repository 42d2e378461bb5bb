//! `spindles lab list`: the workloads, targets and experiments there are.

use super::Command;
use crate::failure::Usage;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_block::SizeBytes;
use spindles_lab::builtin::{self, BUILTINS};
use spindles_lab::{Experiment, TOOLS, targets};
use spindles_workload::KINDS;
use spindles_workload::file::{self, FileKind, Range};

pub(crate) static COMMAND: Command = Command {
    name: "list",
    about: "List the workloads, targets and built-in experiments",
    details: "With --show it prints one of the experiments: a file to copy and change.\n\n\
              spindles lab list\n\
              spindles lab list --show your-devices > mine.toml",
    hidden: false,
    forwards: false,
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
        let names: Vec<_> = BUILTINS.iter().map(|builtin| builtin.name).collect();
        let builtin = builtin::by_name(&name).ok_or_else(|| {
            Usage::error(format!(
                "there is no built-in experiment \"{name}\": choose one of {}",
                names.join(", ")
            ))
        })?;
        ui.text("experiment", builtin.text);
        return Ok(());
    }
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
    let parameters: Vec<_> = file::KINDS
        .iter()
        .flat_map(|kind| parameters(kind))
        .collect();
    ui.table(&["of", "parameter", "default", "what it is"], &parameters);
    ui.line("");
    let kinds: Vec<_> = targets::KINDS
        .iter()
        .map(|kind| vec![kind.syntax.to_owned(), kind.summary.to_owned()])
        .collect();
    ui.table(&["target", "what it is"], &kinds);
    ui.line("");
    let experiments = BUILTINS
        .iter()
        .map(|builtin| {
            let experiment = Experiment::parse(builtin.name, builtin.text)?;
            Ok(vec![builtin.name.to_owned(), experiment.summary])
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    ui.table(&["experiment", "what it compares"], &experiments);
    let workloads = KINDS.iter().map(|kind| {
        json!({
            "name": kind.name,
            "summary": kind.summary(),
            "writes": kind.writes,
            "chunk": SizeBytes(kind.chunk_bytes.into()).typed().to_string(),
            "in_flight": kind.in_flight,
            "operations": kind.operations,
        })
    });
    let files = file::KINDS.iter().map(|kind| {
        let parameters = kind.parameters.iter().map(|parameter| {
            json!({
                "name": parameter.name,
                "default": parameter.words_of(parameter.default),
                "summary": parameter.about,
            })
        });
        json!({
            "name": kind.name,
            "summary": kind.summary,
            "parameters": parameters.collect::<Vec<_>>(),
        })
    });
    let tools = (TOOLS.iter()).map(|(name, what)| json!({ "name": name, "summary": what }));
    let targets = targets::KINDS
        .iter()
        .map(|kind| json!({ "name": kind.name, "syntax": kind.syntax, "summary": kind.summary }));
    let experiments = experiments
        .iter()
        .map(|row| json!({ "name": row[0], "summary": row[1] }));
    ui.json(&json!({
        "workloads": workloads.collect::<Vec<_>>(),
        "tool_workloads": tools.collect::<Vec<_>>(),
        "file_workloads": files.collect::<Vec<_>>(),
        "targets": targets.collect::<Vec<_>>(),
        "experiments": experiments.collect::<Vec<_>>(),
    }));
    Ok(())
}

/// The parameters of a workload on files, a row each.
fn parameters(kind: &FileKind) -> impl Iterator<Item = Vec<String>> + use<'_> {
    kind.parameters.iter().map(|parameter| {
        let default = match parameter.range {
            Range::Bytes(..) => SizeBytes(parameter.default).typed().to_string(),
            Range::Count(..) | Range::Words(_) => parameter.words_of(parameter.default),
        };
        let words = match parameter.range {
            Range::Words(words) => format!(" ({})", words.join(", ")),
            Range::Count(..) | Range::Bytes(..) => String::new(),
        };
        vec![
            kind.name.to_owned(),
            parameter.name.to_owned(),
            default,
            format!("{}{words}", parameter.about),
        ]
    })
}
