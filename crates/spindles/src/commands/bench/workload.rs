//! `spindles bench WORKLOAD TARGET`: runs one workload on one target.

use super::Command;
use crate::documents::array::incidents;
use crate::documents::tools::BenchRun;
use crate::failure::Usage;
use crate::measuring;
use crate::ui::Ui;
use anyhow::anyhow;
use clap::builder::PossibleValuesParser;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_block::{BlockSize, SizeBytes};
use spindles_lab::archive::{self, ARCHIVE, ARCHIVE_FOLDER};
use spindles_lab::replay::{PARAMETERS, ReplayWork};
use spindles_lab::targets::Mounting;
use spindles_lab::{
    BlockWork, Experiment, Members, TOOLS, Work, WorkloadSpec, parameter_of, targets,
};
use spindles_layout::chunk_blocks;
use spindles_measure::Analysis;
use spindles_workload::file::{self, FileKind, FilePlan};
use spindles_workload::replay::{self, REPLAY};
use spindles_workload::{KINDS, Kind, On, workloads};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) static COMMAND: Command = Command {
    name: super::DEFAULT,
    about: "Run one workload on one target",
    details: "",
    hidden: false,
    arguments: |command| {
        let workloads = KINDS
            .iter()
            .map(|kind| format!("\n  {:<16} {}", kind.name, kind.summary()));
        let files = file::KINDS
            .iter()
            .map(|kind| format!("\n  {:<16} {}", kind.name, kind.summary));
        let kinds = targets::KINDS
            .iter()
            .map(|kind| format!("\n  {}\n      {}", kind.syntax, kind.summary));
        Arguments::augment_args(command).after_help(format!(
            "Workloads on blocks:{}\n\n\
             Workloads on files, with parameters of their own (`spindles lab list` names them; \
             --set):{}\n\n\
             Workload of a trace (--set trace=FILE):\n  {REPLAY:<16} {}\n\nTargets:{}\n\n\
             A workload that writes, an array or a file system destroys the data of its device, \
             file or array: that takes --force.\n\n\
             spindles bench dd-read 'raid5(4)'\n\
             spindles bench seeks /dev/sdb --force\n\
             spindles bench random-write 'raid1(mem:1G,mem:1G)'\n\
             spindles bench dd-read array:a.img,b.img,c.img\n\
             spindles bench dd-read 'plain:raid5(a.img,missing,c.img)' --chunk 279K\n\
             spindles bench bonnie folder:/mnt --set size=1G\n\
             spindles bench varmail 'raid5(4)' --fs ext4 --set nfiles=10000 --set seconds=30",
            workloads.collect::<String>(),
            files.collect::<String>(),
            replay::SUMMARY,
            kinds.collect::<String>(),
        ))
    },
    run,
};

/// The default size of a workload's target, unless that is smaller.
const SIZE_DEFAULT: u64 = 256 << 20;

#[derive(Args)]
struct Arguments {
    /// What to run, see below
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// What to run it on, see below
    #[arg(value_name = "TARGET")]
    target: String,
    /// How much of the target to work on, from its start [default: 256M, or all of an existing
    /// target that holds less]
    #[arg(long, value_name = "SIZE")]
    size: Option<SizeBytes>,
    /// Size of one operation [default: the workload's]
    #[arg(long, value_name = "SIZE")]
    operation: Option<SizeBytes>,
    /// Operations in flight at once [default: the workload's]
    #[arg(long, value_name = "N")]
    in_flight: Option<u32>,
    /// Number of operations, for random workloads [default: the workload's]
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// Reads among 100 operations of random-mixed [default: 70]
    #[arg(long, value_name = "N")]
    reads: Option<u32>,
    /// Run for this many seconds, instead of to the end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: Option<u64>,
    /// Issue this many operations per second, whether or not earlier ones were answered (an open
    /// loop)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    arrivals: Option<u64>,
    /// A parameter of a workload on files, by its original name; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Do not empty the machine's caches before the phases of a workload on files
    #[arg(long)]
    keep_caches: bool,
    /// Make this file system on the target, mount it and run the workload there; requires root,
    /// but for bare and ffs, which are modelled with a host
    #[arg(long, value_name = "FS", value_parser = file_systems())]
    fs: Option<String>,
    /// Mount options, separated by commas
    #[arg(long, value_name = "OPTIONS", requires = "fs")]
    mount: Option<String>,
    /// Number of runs
    #[arg(long, visible_alias = "repeat", value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Afterwards try the changes that would confirm the findings about the bottleneck and caches,
    /// if possible here. Takes six runs for each
    #[arg(long)]
    confirm: bool,
    /// Members of arrays that only give their number: files, mem, null, or model:NAME for modelled
    /// disks in virtual time
    #[arg(long, value_name = "WHAT", value_parser = measuring::members,
          default_value = Members::FILES)]
    members: Members,
    /// The modelled host that carries out a workload on files on modelled members
    #[arg(long, value_name = "HOST", value_parser = measuring::host)]
    host: Option<measuring::Host>,
    /// Chunk size of the array [default: the level's]
    #[arg(long, value_name = "SIZE")]
    chunk: Option<SizeBytes>,
    /// Folder for the temporary files of the run [default: the temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Seed for all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    device: measuring::DeviceArguments,
    #[command(flatten)]
    view: measuring::ViewArguments,
}

impl Arguments {
    fn mounting(&self) -> Option<Mounting> {
        let name = self.fs.as_ref()?;
        let is_modelled = self.members.modelled().is_some()
            && measuring::modelled_names().any(|modelled| modelled == name);
        let kind = targets::FileSystem::by_name(name).filter(|_| !is_modelled)?;
        Some(Mounting {
            kind,
            mkfs: Vec::new(),
            options: self.mount.clone().unwrap_or_default(),
        })
    }

    fn block_work(&self, kind: &'static Kind) -> anyhow::Result<BlockWork> {
        if !self.set.is_empty() {
            return Err(Usage::error(format!(
                "--set is for workloads on files, and {} works on blocks: use --size, --operation, \
                 --in-flight or --operations",
                kind.name
            )));
        }
        let size_bytes = if let Some(size) = self.size {
            size.0
        } else {
            let chunk_bytes = self.chunk.map(|chunk| chunk.0);
            let open = self.device.open_options();
            targets::existing_bytes(&self.target, chunk_bytes, &open)
                .map_err(|why| anyhow!(why))?
                .map_or(SIZE_DEFAULT, |bytes| bytes.min(SIZE_DEFAULT))
        };
        let chunk_bytes = self.operation.map(|size| {
            let wrong = || format!("--operation {}: choose less than 4G", size.typed());
            u32::try_from(size.0).map_err(|_| Usage::error(wrong()))
        });
        let work = BlockWork {
            kind,
            size_bytes,
            chunk_bytes: chunk_bytes.transpose()?,
            in_flight: self.in_flight,
            operations: self.operations,
            read_percent: self.reads,
            seconds: self.seconds,
            arrivals_per_s: self.arrivals,
            steady: false,
        };
        let planned = kind.plan(&work.params(self.seed, 1));
        let planned = planned.and_then(|plan| match self.size {
            Some(size) => plan.check_size(size.0),
            None => Ok(()),
        });
        planned.map_err(|error| Usage::error(format!("{}: {error}", kind.name)))?;
        Ok(work)
    }

    /// Reads a replay, whose choices are its parameters.
    fn replay_work(&self) -> anyhow::Result<ReplayWork> {
        let of_blocks = [
            ("--size", self.size.is_some()),
            ("--operation", self.operation.is_some()),
            ("--in-flight", self.in_flight.is_some()),
            ("--operations", self.operations.is_some()),
            ("--reads", self.reads.is_some()),
            ("--seconds", self.seconds.is_some()),
            ("--arrivals", self.arrivals.is_some()),
        ];
        if let Some((option, _)) = of_blocks.iter().find(|(_, given)| *given) {
            let names = PARAMETERS.map(|(name, ..)| name).join(", ");
            return Err(Usage::error(format!(
                "{option} is for other workloads on blocks: use --set with any of {names}"
            )));
        }
        let mut chosen = BTreeMap::new();
        for text in &self.set {
            let Some((name, value)) = text.split_once('=') else {
                return Err(Usage::error(format!("--set {text}: write NAME=VALUE")));
            };
            chosen.insert(name.to_owned(), value.to_owned());
        }
        ReplayWork::new(&chosen).map_err(Usage::error)
    }

    fn file_work(&self, kind: &'static FileKind) -> anyhow::Result<FilePlan> {
        // `--seconds` sets the parameter of that name.
        let goes_on = kind
            .parameters
            .iter()
            .any(|parameter| parameter.name == file::SECONDS);
        let of_blocks = [
            ("--size", self.size.is_some()),
            ("--operation", self.operation.is_some()),
            ("--in-flight", self.in_flight.is_some()),
            ("--operations", self.operations.is_some()),
            ("--reads", self.reads.is_some()),
            ("--seconds", self.seconds.is_some() && !goes_on),
            ("--arrivals", self.arrivals.is_some()),
        ];
        if let Some((option, _)) = of_blocks.iter().find(|(_, given)| *given) {
            let names: Vec<_> = kind
                .parameters
                .iter()
                .map(|parameter| parameter.name)
                .collect();
            return Err(Usage::error(format!(
                "{option} is for workloads on blocks, and {} works on files: use --set with any of \
                 {}",
                kind.name,
                names.join(", ")
            )));
        }
        let seconds = self.seconds.map(file::Value::Number);
        let seconds = seconds.map(|seconds| (file::SECONDS.to_owned(), seconds));
        let mut chosen = BTreeMap::from_iter(seconds);
        let (mut tree, mut archive_folder) = (None, None);
        for text in &self.set {
            let Some((name, value)) = text.split_once('=') else {
                return Err(Usage::error(format!("--set {text}: write NAME=VALUE")));
            };
            if kind.takes_archive && name == ARCHIVE {
                let read = archive::read(Path::new(value)).map_err(|error| {
                    Usage::error(format!(
                        "--set {text}: {error}: give an archive of tar that is not compressed"
                    ))
                });
                tree = Some(Arc::new(read?));
                continue;
            }
            if kind.takes_archive && name == ARCHIVE_FOLDER {
                let folder = archive::folder(value).map_err(|why| {
                    Usage::error(format!(
                        "--set {text}: {why}: give a folder of another disk"
                    ))
                });
                archive_folder = Some(folder?);
                continue;
            }
            chosen.insert(name.to_owned(), parameter_of(value));
        }
        let plan = kind.plan(&chosen, 1.0, self.seed);
        let mut plan = plan.map_err(|error| Usage::error(error.to_string()))?;
        if let Some(tree) = tree {
            plan = plan.with_tree(tree);
        }
        if let Some(folder) = archive_folder {
            plan = plan.with_archive_in(folder);
        }
        Ok(plan)
    }
}

fn file_systems() -> PossibleValuesParser {
    let real = targets::FILE_SYSTEMS.iter().map(|one| one.name);
    let is_real = |name: &str| targets::FileSystem::by_name(name).is_some();
    let modelled = measuring::modelled_names().filter(|name| !is_real(name));
    PossibleValuesParser::new(real.chain(modelled))
}

impl Arguments {
    /// Replaces the configuration of another system by the array of its shape.
    fn take_shape(&mut self, ui: &Ui) -> anyhow::Result<()> {
        let Some(shape) = targets::fresh_shape(&self.target) else {
            return Ok(());
        };
        let shape = shape.map_err(Usage::error)?;
        self.target = shape.target;
        self.chunk = self.chunk.or(shape.chunk_bytes.map(SizeBytes));
        for note in shape.notes {
            ui.note(note);
        }
        Ok(())
    }
}

/// Returns the error for a workload that does not exist.
fn unknown(name: &str) -> anyhow::Error {
    let names: Vec<_> = workloads().map(On::name).chain([REPLAY]).collect();
    let names = names.join(", ");
    Usage::error(format!(
        "there is no workload \"{name}\": use one of {names}"
    ))
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let mut arguments = Arguments::from_arg_matches(matches)?;
    arguments.take_shape(ui)?;
    let name = &arguments.workload;
    let target = &arguments.target;
    targets::check(target).map_err(Usage::error)?;
    if let Some(chunk) = arguments.chunk {
        chunk_blocks(chunk.0, BlockSize::B512)
            .map_err(|error| Usage::error(format!("--chunk {}: {error}", chunk.typed())))?;
        targets::check_chunk(target, &arguments.members)
            .map_err(|why| Usage::error(format!("--chunk means nothing for {target}, {why}")))?;
    }
    let work = match spindles_workload::workload(name) {
        Some(On::Blocks(kind)) => Work::Blocks(arguments.block_work(kind)?),
        Some(On::Files(kind)) => Work::Files(arguments.file_work(kind)?),
        None if name == REPLAY => Work::Replay(arguments.replay_work()?),
        None if TOOLS.iter().any(|(tool, _)| tool == name) => {
            return Err(Usage::error(format!(
                "{name} runs in experiments: give it its parameters in a file for `spindles lab \
                 run`"
            )));
        }
        None => return Err(unknown(name)),
    };
    let workload = WorkloadSpec {
        name: name.clone(),
        work,
        systems: None,
        beside: None,
        on_nodes: None,
        line: 0,
    };
    let mounting = arguments.mounting();
    let mut experiment = Experiment {
        seed: arguments.seed,
        blocks: arguments.runs,
        blocks_max: arguments.runs,
        empty_caches: !arguments.keep_caches,
        confirm: arguments.confirm,
        members: arguments.members,
        folder: arguments.folder,
        ..Experiment::of_one(target, workload, arguments.chunk.map(|size| size.0))
    };
    for system in &mut experiment.systems {
        system.mounting.clone_from(&mounting);
    }
    let modelled = arguments.fs.as_deref().filter(|_| mounting.is_none());
    let mount = &arguments.mount;
    measuring::take_modelled(&mut experiment, arguments.host, modelled, mount.as_deref())?;
    let measured = measuring::run(&experiment, &arguments.device, None, ui)?;
    show(&experiment, &measured, &arguments.view, ui)
}

/// Shows the results of a measurement.
fn show(
    experiment: &Experiment,
    measured: &measuring::Measured,
    view: &measuring::ViewArguments,
    ui: &Ui,
) -> anyhow::Result<()> {
    if measured.outcome.runs == 0 {
        return Err(anyhow!("interrupted before the first run was done"));
    }
    let analysis = Analysis::of(&measured.records)?;
    measuring::note_untried(experiment, &analysis, ui);
    let (text, report) = measuring::report(&analysis, view, false, None)?;
    ui.drawn(text.trim_end());
    ui.json(&BenchRun {
        report,
        incidents: incidents(&measured.incidents),
    });
    match measured.outcome.failed {
        0 if measured.outcome.interrupted => Err(anyhow!("interrupted")),
        0 => Ok(()),
        failed => Err(anyhow!("{failed} of {} runs failed", measured.outcome.runs)),
    }
}
