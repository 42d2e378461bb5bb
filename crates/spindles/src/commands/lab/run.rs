//! `spindles lab run`: runs an experiment and reports.

use super::Command;
use crate::documents::tools::{self, LabRun};
use crate::failure::Usage;
use crate::measuring::{self, Out};
use crate::ui::Ui;
use anyhow::{Context as _, anyhow};
use clap::{ArgMatches, Args, FromArgMatches as _, ValueEnum};
use spindles_block::counted;
use spindles_lab::builtin::{self, BUILTINS};
use spindles_lab::nodes::{ip_address, node_name};
use spindles_lab::{
    Draws, DryRun, Experiment, Loss, Members, Outcome, RECORDS_FILE, RecordsFile, Tuning,
    default_folder,
};
use spindles_measure::Analysis;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

pub(crate) static COMMAND: Command = Command {
    name: "run",
    about: "Run an experiment: every workload on every system, several times",
    details: "Without a file, runs `quickstart`: every RAID level next to a single disk, on \
              files in a temporary folder. Standard output shows which system to choose, any \
              doubts about that choice, and with --tables all figures. The folder of results \
              holds the page for the browser, report.html, and the records. Everything can be \
              drawn again from these records. Ctrl-C keeps the records made so far.\n\n\
              spindles lab run\n\
              spindles lab run mirrors-vs-parity --out results\n\
              spindles lab list --show your-devices > mine.toml\n\
              spindles lab run mine.toml --dry-run\n\
              spindles lab run mine.toml --force",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// An experiment file, or the name of a built-in one [default: quickstart]
    #[arg(value_name = "EXPERIMENT")]
    experiment: Option<String>,
    /// The folder for results, which is created [default: lab-results/NAME-DATE]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Number of repetition blocks, instead of the experiment's; no more follow without
    /// --max-blocks
    #[arg(long, visible_alias = "repeat", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    blocks: Option<u32>,
    /// Then continue until the interval of every ratio is within ±5 %, up to this many blocks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_blocks: Option<u32>,
    /// Multiply all sizes and times by this factor, below 1 for a trial run. All output mentions
    /// the factor
    #[arg(long, value_name = "F", value_parser = scale, default_value = "1")]
    scale: f64,
    /// Seconds that timed workloads run, instead of the experiment's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: Option<u64>,
    /// Afterwards try the changes that would confirm the findings about bottlenecks and caches, if
    /// possible here: more actors, no flushes, emptied caches, less CPU time. Takes six runs for
    /// each
    #[arg(long)]
    confirm: bool,
    /// On modelled disks, afterwards run all blocks again with each part of the disks a tenth
    /// faster, to see what would help. Takes about seven times as long
    #[arg(long)]
    what_would_help: bool,
    /// Report how long the run takes, how much it writes and what it destroys, but run nothing.
    /// Devices are read, not written
    #[arg(long)]
    dry_run: bool,
    /// Folder for the temporary files of the run, instead of the experiment's
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Seed for all random numbers, instead of the experiment's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Members of arrays that only give their number, instead of the experiment's: files, mem,
    /// null, or model:NAME for modelled disks in virtual time (20 blocks, unless --blocks says
    /// otherwise)
    #[arg(long, value_name = "WHAT", value_parser = measuring::members)]
    members: Option<Members>,
    /// The modelled host that carries out workloads on files on modelled members: a model of kind
    /// host in `spindles model list`, or a file of your own
    #[arg(long, value_name = "HOST", value_parser = measuring::host)]
    host: Option<measuring::Host>,
    /// The modelled file system of every system, instead of the experiment's
    #[arg(long, value_name = "FS", value_parser = measuring::modelled_file_systems())]
    fs: Option<String>,
    /// Of modelled disks: draw all uncertain numbers for each block, or take the nominal values
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value = "all",
        requires = "members"
    )]
    draws: DrawsWord,
    /// Other machines, separated by commas, on which ssh starts agents. Workloads on nodes use as
    /// many of the first ones as they need, and are left out without nodes
    #[arg(long, value_name = "[USER@]HOST", value_delimiter = ',', value_parser = node_name)]
    nodes: Vec<String>,
    /// The command for ssh, which must not ask for a password: "ssh -p 2222 -i KEY" [default: ssh]
    #[arg(long, value_name = "COMMAND")]
    ssh: Option<String>,
    /// The command that starts an agent on a node, with its options [default: spindles lab agent]
    #[arg(long, value_name = "COMMAND")]
    agent: Option<String>,
    /// Address at which nodes reach this machine [default: the address from which ssh comes]
    #[arg(long, value_name = "ADDRESS", value_parser = own_address)]
    listen: Option<IpAddr>,
    #[command(flatten)]
    device: measuring::DeviceArguments,
    #[command(flatten)]
    report: measuring::ReportArguments,
}

/// What the blocks of a prediction draw.
#[derive(Clone, Copy, ValueEnum)]
enum DrawsWord {
    /// All numbers between their low and high, and the angles of spindles
    All,
    /// Only the angles of spindles
    Nominal,
}

/// Repetition blocks of a prediction, by default.
const PREDICTED_BLOCKS: u32 = 20;

impl Arguments {
    /// Replaces the members of an experiment by those of the command line.
    fn take_members(&mut self, experiment: &mut Experiment) {
        let Some(mut members) = self.members.take() else {
            return;
        };
        if let Members::Modelled(model) = &mut members {
            model.draws = match self.draws {
                DrawsWord::All => Draws::Drawn,
                DrawsWord::Nominal => Draws::Nominal,
            };
            experiment.time_limit = None;
            if self.blocks.is_none() && self.max_blocks.is_none() {
                experiment.blocks = PREDICTED_BLOCKS;
                experiment.blocks_max = PREDICTED_BLOCKS;
            }
        }
        experiment.members = members;
    }

    /// Replaces the host and the file systems of an experiment by those of the command line.
    fn take_host(&mut self, experiment: &mut Experiment) -> anyhow::Result<()> {
        measuring::take_modelled(experiment, self.host.take(), self.fs.as_deref(), None)
    }
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let mut arguments = Arguments::from_arg_matches(matches)?;
    let tuning = Tuning {
        scale: arguments.scale,
        seconds: arguments.seconds,
        blocks: arguments.blocks,
        blocks_max: arguments.max_blocks,
        nodes: std::mem::take(&mut arguments.nodes),
        ssh: arguments.ssh.take(),
        agent: arguments.agent.take(),
        listen: arguments.listen,
    };
    let mut experiment = load(arguments.experiment.as_deref(), &tuning)?;
    arguments.take_members(&mut experiment);
    arguments.take_host(&mut experiment)?;
    if let Some(seed) = arguments.seed {
        experiment.seed = seed;
    }
    experiment.confirm |= arguments.confirm;
    match &mut experiment.members {
        Members::Modelled(model) => model.what_would_help = arguments.what_would_help,
        _ if arguments.what_would_help => {
            return Err(Usage::error(
                "--what-would-help makes parts of modelled disks faster, and the members of this \
                 experiment are none: add --members model:NAME",
            ));
        }
        _ => {}
    }
    if let Some(folder) = arguments.folder {
        experiment.folder = Some(folder);
    }
    for note in &experiment.notes {
        ui.note(note);
    }
    if let Some(what) = &experiment.left_out {
        ui.note(format!("left out: {what}"));
    }
    if arguments.dry_run {
        let dry_run = spindles_lab::dry_run(&experiment, &arguments.device.open_options());
        let dry_run = dry_run.map_err(|error| anyhow!("{error}"))?;
        ui.drawn(forecast(&experiment, &dry_run).trim_end());
        ui.json(&forecast_json(&dry_run));
        return Ok(());
    }
    let default = default_folder(&experiment.name);
    let out = arguments.out.as_deref();
    let out = out.map_or(Out::New(&default), Out::Named);
    let measured = measuring::run(&experiment, &arguments.device, Some(out), ui)?;
    let runs = measured.outcome.runs;
    let Some(out) = measured.folder.as_ref().filter(|_| runs > 0) else {
        measured.folder.inspect(|out| RecordsFile::remove(out));
        return Err(anyhow!(
            "interrupted before the first run was done: nothing is kept"
        ));
    };
    let analysis = Analysis::of(&measured.records)?;
    measuring::note_untried(&experiment, &analysis, ui);
    let page = measuring::write_page(&analysis, out, &[])?;
    let shown = &arguments.report;
    let (text, report) = measuring::report(&analysis, &shown.view, shown.tables, Some(out))?;
    ui.drawn(text.trim_end());
    ui.line(format!("\n{}", kept(out, &page)));
    ui.json(&LabRun {
        folder: out.display().to_string(),
        report,
    });
    judge(measured.outcome, &experiment, ui)
}

/// Describes for people what a run would take.
fn forecast(experiment: &Experiment, dry_run: &DryRun) -> String {
    let (blocks, most) = dry_run.blocks;
    let up_to = if most > blocks {
        format!(", and up to {most} blocks until the intervals are narrow")
    } else {
        String::new()
    };
    let (in_order, random) = dry_run.rates;
    let taken = if dry_run.is_measured {
        "as the slowest member just did"
    } else {
        "as is assumed of each member"
    };
    let mut lines = vec![
        format!(
            "{}: {} in {}{up_to}",
            experiment.name,
            counted(dry_run.runs, "run"),
            counted(blocks, "block")
        ),
        format!(
            "takes about {}, at {:.0} MB/s in order and {random:.0} blocks a second at random, \
             {taken}",
            duration(dry_run.seconds),
            in_order / 1e6
        ),
        format!(
            "writes about {}, redundancy included",
            binary(dry_run.written_bytes)
        ),
    ];
    if let Some(limit) = experiment.time_limit {
        let seconds = limit.as_secs();
        lines.insert(
            2,
            format!("but begins no block that would end after {seconds} s (time_limit_s)"),
        );
    }
    if let Some((folder, bytes)) = &dry_run.files {
        let folder = folder.display();
        lines.push(format!("makes files of {} in {folder}", binary(*bytes)));
    }
    if dry_run.lost.is_empty() {
        lines.push("nothing is lost".to_owned());
    }
    for Loss { device, why, holds } in &dry_run.lost {
        let holds = holds.as_deref().unwrap_or("nothing of a known kind");
        lines.push(format!("LOST: all on {device}, which holds {holds}: {why}"));
    }
    lines.join("\n")
}

fn forecast_json(dry_run: &DryRun) -> tools::DryRun<'_> {
    let lost = dry_run
        .lost
        .iter()
        .map(|Loss { device, why, holds }| tools::Loss {
            device,
            why,
            holds: holds.as_deref(),
        });
    let files = dry_run.files.as_ref();
    tools::DryRun {
        runs: dry_run.runs,
        blocks: dry_run.blocks.0,
        max_blocks: dry_run.blocks.1,
        seconds: dry_run.seconds,
        written_bytes: dry_run.written_bytes,
        read_bytes_per_s: dry_run.rates.0,
        random_reads_per_s: dry_run.rates.1,
        measured: dry_run.is_measured,
        folder: files.map(|(folder, _)| folder.display().to_string()),
        file_bytes: files.map(|(_, bytes)| *bytes),
        lost: lost.collect(),
    }
}

/// Formats a time of which only the first digits matter.
fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 100.0 => format!("{short:.0} s"),
        long if long < 6000.0 => format!("{:.0} min", long / 60.0),
        longer => format!("{:.1} h", longer / 3600.0),
    }
}

/// Formats bytes of which only the first digits matter.
fn binary(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        few if few < 10 << 30 => format!("{} MiB", few.div_ceil(MIB)),
        many => format!("{} GiB", many.div_ceil(1 << 30)),
    }
}

/// Parses an address of this machine.
fn own_address(text: &str) -> Result<IpAddr, String> {
    ip_address(text)
        .ok_or_else(|| "give an address of this machine, such as 10.0.0.1 or fd00::1".to_owned())
}

/// Parses a number above 0 and at most 1.
fn scale(text: &str) -> Result<f64, String> {
    let scale = text.parse::<f64>().ok();
    let fits = scale.filter(|scale| *scale > 0.0 && *scale <= 1.0);
    fits.ok_or_else(|| "give a number above 0 and at most 1, such as 0.1".to_owned())
}

fn kept(out: &Path, page: &Path) -> String {
    let records = out.join(RECORDS_FILE);
    format!("Report: {}\nRecords: {}", page.display(), records.display())
}

/// Reports how the run ended.
fn judge(outcome: Outcome, experiment: &Experiment, ui: &Ui) -> anyhow::Result<()> {
    if outcome.out_of_time {
        ui.note(format!(
            "the time limit ended it after {} of {} blocks; more blocks make the intervals \
             narrower",
            outcome.blocks, experiment.blocks
        ));
    }
    if outcome.interrupted {
        return Err(anyhow!(
            "interrupted: what ran is kept and reported, {}",
            counted(outcome.runs, "run")
        ));
    }
    if outcome.failed > 0 {
        return Err(anyhow!(
            "{} of {} runs failed: the report says why",
            outcome.failed,
            outcome.runs
        ));
    }
    Ok(())
}

/// Loads the experiment from a file, or by its built-in name.
fn load(name: Option<&str>, tuning: &Tuning) -> anyhow::Result<Experiment> {
    let name = name.unwrap_or(BUILTINS[0].name);
    let path = Path::new(name);
    let text = match builtin::by_name(name) {
        Some(builtin) if !path.exists() => builtin.text.to_owned(),
        _ if path.exists() => {
            fs::read_to_string(path).with_context(|| format!("{name}: can't be read"))?
        }
        _ => {
            let names: Vec<_> = BUILTINS.iter().map(|builtin| builtin.name).collect();
            return Err(Usage::error(format!(
                "there is no file and no built-in experiment \"{name}\": give a file, or one of {}",
                names.join(", ")
            )));
        }
    };
    Experiment::parse_tuned(name, &text, tuning).map_err(Usage::error)
}
