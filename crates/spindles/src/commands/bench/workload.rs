//! `spindles bench WORKLOAD TARGET`: one workload on one target.

use super::Command;
use crate::arrays;
use crate::failure::Usage;
use crate::measuring;
use crate::ui::Ui;
use anyhow::anyhow;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_block::{BlockSize, SizeBytes};
use spindles_lab::{Experiment, Members, WorkloadSpec, targets};
use spindles_layout::chunk_blocks;
use spindles_measure::Analysis;
use spindles_workload::KINDS;
use std::path::PathBuf;

pub(crate) static COMMAND: Command = Command {
    name: super::DEFAULT,
    about: "Run one workload on one target",
    details: "",
    hidden: false,
    forwards: false,
    arguments: |command| {
        let workloads = KINDS
            .iter()
            .map(|kind| format!("\n  {:<13} {}", kind.name, kind.summary()));
        let kinds = targets::KINDS
            .iter()
            .map(|kind| format!("\n  {}\n      {}", kind.syntax, kind.summary));
        Arguments::augment_args(command).after_help(format!(
            "Workloads:{}\n\nTargets:{}\n\nWhat a writing workload finds on a device, file or \
             array is lost, so it asks for --force there.\n\n\
             spindles bench dd-read 'raid5(4)'\n\
             spindles bench seeks /dev/sdb --force\n\
             spindles bench random-write 'raid1(mem:1G,mem:1G)'\n\
             spindles bench dd-read array:a.img,b.img,c.img",
            workloads.collect::<String>(),
            kinds.collect::<String>(),
        ))
    },
    run,
};

/// How much a workload works on when nobody says and there is as much.
const SIZE_DEFAULT: u64 = 256 << 20;

#[derive(Args)]
struct Arguments {
    /// What to run, see below
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// What to run it on, see below
    #[arg(value_name = "TARGET")]
    target: String,
    /// How much of the target to work on, from its start [default: 256M, or all if it is less]
    #[arg(long, value_name = "SIZE")]
    size: Option<SizeBytes>,
    /// Size of one operation [default: the workload's]
    #[arg(long, value_name = "SIZE")]
    operation: Option<SizeBytes>,
    /// Operations in flight at once [default: the workload's]
    #[arg(long, value_name = "N")]
    in_flight: Option<u32>,
    /// How many operations, for random workloads [default: the workload's]
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// How often to run it
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// What arrays are made of that count their members
    #[arg(long, value_name = "WHAT", value_parser = members(), default_value = Members::FILES)]
    members: Members,
    /// Chunk of the array [default: the level's]
    #[arg(long, value_name = "SIZE")]
    chunk: Option<SizeBytes>,
    /// Where files are made for the time of the run [default: the temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    device: measuring::DeviceArguments,
    #[command(flatten)]
    view: measuring::ViewArguments,
}

/// The kinds of members, with a line of help each.
fn members() -> impl TypedValueParser<Value = Members> {
    let words = Members::words().map(|(word, what)| PossibleValue::new(word).help(what));
    PossibleValuesParser::new(words)
        .map(|word| Members::of_word(&word).expect("it is one of the words"))
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let name = &arguments.workload;
    let kind = spindles_workload::by_name(name).ok_or_else(|| {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        Usage::error(format!(
            "there is no workload \"{name}\": use one of {}",
            names.join(", ")
        ))
    })?;
    let target = &arguments.target;
    targets::check(target).map_err(Usage::error)?;
    if let Some(chunk) = arguments.chunk {
        chunk_blocks(chunk.0, BlockSize::B4096)
            .map_err(|error| Usage::error(format!("--chunk {}: {error}", chunk.typed())))?;
    }
    let open = arguments.device.open_options();
    let size_bytes = match arguments.size {
        Some(size) => size.0,
        None => targets::existing_bytes(target, &open)
            .map_err(|why| anyhow!(why))?
            .map_or(SIZE_DEFAULT, |bytes| bytes.min(SIZE_DEFAULT)),
    };
    let chunk_bytes = arguments.operation.map(|size| {
        u32::try_from(size.0)
            .map_err(|_| Usage::error(format!("--operation {}: choose less than 4G", size.typed())))
    });
    let workload = WorkloadSpec {
        name: name.clone(),
        kind,
        size_bytes,
        chunk_bytes: chunk_bytes.transpose()?,
        in_flight: arguments.in_flight,
        operations: arguments.operations,
        systems: None,
        beside: None,
    };
    let planned = kind.plan(&workload.params(arguments.seed, 1));
    planned.map_err(|error| Usage::error(format!("{name}: {error}")))?;
    let experiment = Experiment {
        seed: arguments.seed,
        blocks: arguments.runs,
        members: arguments.members,
        folder: arguments.folder,
        ..Experiment::of_one(target, workload, arguments.chunk.map(|size| size.0))
    };
    let measured = measuring::run(&experiment, &arguments.device, None, ui)?;
    if measured.outcome.runs == 0 {
        return Err(anyhow!("interrupted before the first run was done"));
    }
    let (text, mut value) = measuring::report(&Analysis::of(&measured.records)?, &arguments.view)?;
    ui.line(text.trim_end());
    value["incidents"] = arrays::incidents(&measured.incidents);
    ui.json(&value);
    match measured.outcome.failed {
        0 if measured.outcome.interrupted => Err(anyhow!("interrupted")),
        0 => Ok(()),
        failed => Err(anyhow!("{failed} of {} runs failed", measured.outcome.runs)),
    }
}
