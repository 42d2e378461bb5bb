//! `spindles sim`: runs the engine in virtual time, on simulated disks that fail.

use super::Command;
use crate::documents::tools::{SimulatedFailure, SimulatedRun, SimulatedRuns, SimulatedStory};
use crate::failure::Usage;
use crate::output::write_error;
use crate::progress::Unit;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _, ValueEnum};
use spindles_engine::{POLICIES, Policy};
use spindles_layout::{LEVELS, Level};
use spindles_sim::checkers::CHECKERS;
use spindles_sim::disks::{MODELS, Model};
use spindles_sim::faults::{FAULTS, Fault};
use spindles_sim::{Ending, Fixed, Options, Outcome, run as simulate, shrink};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

pub(crate) static COMMAND: Command = Command {
    name: "sim",
    about: "Run the engine on simulated disks that fail, and check every promise",
    details: "The seed determines everything: the array, the requests, the order in which \
              disks answer, the faults, and the times of power loss. Faults stay within what \
              the level survives, so anything that a checker finds is a bug in Spindles: \
              please report the seed. The simulation reads and writes nothing outside this \
              process.\n\n\
              spindles sim                                a thousand runs\n\
              spindles sim --seeds 5000..9000 --level raid6\n\
              spindles sim --seed 42                      one run, and how it ended\n\
              spindles sim --seed 42 --trace              the same, with every line of the run\n\
              spindles sim --seed 42 --shrink             the same, as short as it still fails",
    hidden: false,
    arguments: |command| {
        let list = |title: &str, rows: &mut dyn Iterator<Item = (&str, &str)>| {
            let lines = rows.map(|(name, about)| format!("\n  {name:<19}  {about}"));
            format!("\n\n{title}:{}", lines.collect::<String>())
        };
        let details = [
            COMMAND.details.to_owned(),
            list("Disks", &mut MODELS.iter().map(|row| (row.name, row.about))),
            list(
                "Faults",
                &mut FAULTS.iter().map(|row| (row.name, row.about)),
            ),
            list(
                "Checkers",
                &mut CHECKERS.iter().map(|row| (row.name, row.about)),
            ),
        ]
        .concat();
        Arguments::augment_args(command).after_help(details)
    },
    run,
};

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
struct Arguments {
    /// Run this seed alone, and print what happens at its end
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run these seeds, the last one not included
    #[arg(long, value_name = "A..B", default_value = "0..1000", value_parser = parse_seeds)]
    seeds: Range<u64>,
    /// Print everything that happens in the run of --seed, line by line
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Shorten a failing run of --seed, then print every line of it
    #[arg(long, requires = "seed")]
    shrink: bool,
    /// Run every seed twice and compare what happened
    #[arg(long)]
    twice: bool,
    /// Only arrays of this level, not nested
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    level: Option<&'static Level>,
    /// Only arrays of arrays
    #[arg(long, conflicts_with = "level")]
    nested: bool,
    /// Only arrays with this many members; with --level
    #[arg(
        long,
        value_name = "N",
        requires = "level",
        value_parser = clap::value_parser!(u8).range(1..=12),
    )]
    members: Option<u8>,
    /// Only disks of this model
    #[arg(long, value_name = "MODEL", value_parser = parse_model)]
    disk: Option<&'static Model>,
    /// Only this fault; may be given several times
    #[arg(long, value_name = "FAULT", value_parser = parse_fault)]
    fault: Vec<&'static Fault>,
    /// No faults; sessions may still end in a crash
    #[arg(long, conflicts_with = "fault")]
    no_faults: bool,
    /// Crash consistency policy
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    consistency: Option<&'static Policy>,
    /// Whether blocks have checksums: true or false
    #[arg(long, value_name = "BOOL")]
    checksums: Option<bool>,
    /// Whether an array that logs has a separate disk for its journal: true or false
    #[arg(long, value_name = "BOOL")]
    journal_device: Option<bool>,
    /// Whether disks differ in size and sectors, up to 100 TiB: true or false
    #[arg(long, value_name = "BOOL")]
    sizes: Option<bool>,
    /// Whether faults may go beyond what the array survives: true or false
    #[arg(long, value_name = "BOOL")]
    beyond: Option<bool>,
    /// How every session ends
    #[arg(long, value_name = "HOW")]
    ending: Option<How>,
    /// Number of requests in each session
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: Option<u32>,
    /// Requests in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    depth: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum How {
    /// The array is closed cleanly
    Close,
    /// The process dies, disks keep their caches
    ProcessCrash,
    /// Disks lose their caches, what is in flight is torn
    PowerLoss,
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let explain = || format!("'{text}' is no range of seeds; write 0..1000, for example");
    let (first, end) = text.split_once("..").ok_or_else(explain)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| explain());
    let seeds = number(first)?..number(end)?;
    if seeds.is_empty() {
        return Err(explain());
    }
    Ok(seeds)
}

fn named<Row>(
    what: &str,
    text: &str,
    row: Option<Row>,
    names: impl Iterator<Item = &'static str>,
) -> Result<Row, String> {
    let names: Vec<_> = names.collect();
    row.ok_or_else(|| format!("there is no {what} '{text}', only {}", names.join(", ")))
}

fn parse_level(text: &str) -> Result<&'static Level, String> {
    let names = LEVELS.iter().map(|row| row.name);
    named("level", text, Level::by_name(text), names)
}

fn parse_model(text: &str) -> Result<&'static Model, String> {
    let names = MODELS.iter().map(|row| row.name);
    named("disk", text, Model::by_name(text), names)
}

fn parse_fault(text: &str) -> Result<&'static Fault, String> {
    let names = FAULTS.iter().map(|row| row.name);
    named("fault", text, Fault::by_name(text), names)
}

fn parse_policy(text: &str) -> Result<&'static Policy, String> {
    let names = POLICIES.iter().map(|row| row.name);
    named("policy", text, Policy::by_name(text), names)
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    if let (Some(level), Some(members)) = (arguments.level, arguments.members)
        && members < level.members_min
    {
        let least = level.members_min;
        return Err(Usage::error(format!(
            "--members {members}: {level} needs at least {least}"
        )));
    }
    let fixed = Fixed {
        level: arguments.level,
        nested: arguments.nested,
        members: arguments.members,
        model: arguments.disk,
        requests: arguments.requests,
        depth: arguments.depth,
        faults: match (arguments.no_faults, arguments.fault.as_slice()) {
            (true, _) => Some(Vec::new()),
            (false, []) => None,
            (false, named) => Some(named.to_vec()),
        },
        consistency: arguments.consistency,
        checksums: arguments.checksums,
        journal_device: arguments.journal_device,
        staged: false,
        sizes: arguments.sizes,
        beyond: arguments.beyond,
        ending: arguments.ending.map(|how| match how {
            How::Close => Ending::Close,
            How::ProcessCrash => Ending::ProcessCrash,
            How::PowerLoss => Ending::PowerLoss,
        }),
    };
    name_seeds_in_panics();
    match arguments.seed {
        Some(seed) => tell(seed, &fixed, &arguments, ui),
        None => sweep(&arguments.seeds, &fixed, arguments.twice, ui),
    }
}

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Names the seed in a panic: a failed assertion of the engine ends the program.
fn name_seeds_in_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        if let Some(seed) = SEED.get() {
            let text =
                format!("spindles: that was seed {seed}; see it: spindles sim --seed {seed}\n");
            write_error(&text);
        }
    }));
}

fn run_seed(options: &Options, story: bool) -> Outcome {
    SEED.set(Some(options.seed));
    let outcome = simulate(options, story);
    SEED.set(None);
    outcome
}

/// The last lines of a run that are printed without `--trace`, at most.
const LINES_SHOWN: usize = 40;

/// Runs one seed, and prints what happened.
fn tell(seed: u64, fixed: &Fixed, arguments: &Arguments, ui: &Ui) -> anyhow::Result<()> {
    let mut options = Options::swarm(seed, fixed);
    if arguments.shrink {
        options = shrink(&options);
    }
    let outcome = run_seed(&options, true);
    let whole = arguments.trace || arguments.shrink;
    let shown = if whole { usize::MAX } else { LINES_SHOWN };
    let before = outcome.story.len().saturating_sub(shown);
    if before > 0 {
        ui.line(format!("({before} lines before these: --trace shows all)"));
    }
    for line in &outcome.story[before..] {
        ui.line(line);
    }
    ui.line(format!(
        "\nseed {seed}: {}; {} requests in {:.3} ms of virtual time; log {:016x}",
        outcome.tree,
        outcome.requests,
        milliseconds(outcome.virtual_time.0),
        outcome.hash,
    ));
    let again = arguments.twice.then(|| run_seed(&options, true));
    if again.is_some_and(|again| again != outcome) {
        anyhow::bail!("seed {seed} gave another run the second time");
    }
    if outcome.failure.is_none() {
        ui.line("all promises were kept");
    }
    ui.json(&SimulatedStory {
        run: document(&outcome),
        story: &outcome.story,
    });
    match &outcome.failure {
        None => Ok(()),
        Some(failure) => anyhow::bail!("seed {seed}: {failure}"),
    }
}

fn milliseconds(ns: u64) -> f64 {
    std::time::Duration::from_nanos(ns).as_secs_f64() * 1e3
}

/// Returns a run as in the JSON document.
fn document(outcome: &Outcome) -> SimulatedRun<'_> {
    SimulatedRun {
        seed: outcome.seed,
        array: &outcome.tree,
        requests: outcome.requests,
        virtual_ns: outcome.virtual_time.0,
        log: format!("{:016x}", outcome.hash),
        entries: outcome.entries,
        faults: &outcome.struck,
        failure: outcome.failure.as_ref().map(|failure| SimulatedFailure {
            checker: failure.checker,
            what: &failure.what,
            session: failure.session,
            virtual_ns: failure.at.0,
        }),
    }
}

/// Totals of many runs.
#[derive(Default)]
struct Sums {
    runs: u64,
    requests: u64,
    virtual_ns: u64,
    struck: BTreeMap<&'static str, u64>,
    failures: Vec<Outcome>,
    /// Seeds whose second run differed.
    unlike: Vec<u64>,
}

impl Sums {
    fn add(&mut self, outcome: Outcome, same: bool) {
        self.runs += 1;
        self.requests += outcome.requests;
        self.virtual_ns += outcome.virtual_time.0;
        for (what, times) in &outcome.struck {
            *self.struck.entry(what).or_default() += times;
        }
        if !same {
            self.unlike.push(outcome.seed);
        }
        if outcome.failure.is_some() {
            self.failures.push(outcome);
        }
    }
}

/// Maximum number of failing seeds to print individually.
const FAILURES_SHOWN: usize = 10;

/// Runs all seeds, on all processors.
fn sweep(seeds: &Range<u64>, fixed: &Fixed, twice: bool, ui: &Ui) -> anyhow::Result<()> {
    let started = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (sender, receiver) = mpsc::channel();
    let mut progress = ui.progress("seeds", seeds.end - seeds.start, Unit::Steps);
    let mut sums = Sums::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let options = Options::swarm(seed, fixed);
                    let outcome = run_seed(&options, false);
                    let same = !twice || run_seed(&options, false) == outcome;
                    if sender.send((outcome, same)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (outcome, same) in receiver {
            if let Some(failure) = &outcome.failure {
                ui.note(format!("seed {}: {failure}", outcome.seed));
            }
            sums.add(outcome, same);
            progress.set(sums.runs);
        }
    });
    drop(progress);
    sums.failures.sort_by_key(|outcome| outcome.seed);
    sums.unlike.sort_unstable();
    report(&sums, seeds, started.elapsed().as_secs_f64(), ui);
    match (sums.failures.first(), sums.unlike.first()) {
        (None, None) => Ok(()),
        (Some(outcome), _) => anyhow::bail!(
            "{} of {} seeds found something; see one: spindles sim --seed {} --shrink",
            sums.failures.len(),
            sums.runs,
            outcome.seed
        ),
        (None, Some(seed)) => anyhow::bail!("seed {seed} gave another run the second time"),
    }
}

fn report(sums: &Sums, seeds: &Range<u64>, seconds: f64, ui: &Ui) {
    let &Range { start, end } = seeds;
    ui.line(format!(
        "seeds {start}..{end}: {} runs in {seconds:.1} s, {} requests in {:.1} s of virtual time\n",
        sums.runs,
        sums.requests,
        milliseconds(sums.virtual_ns) / 1e3
    ));
    let rows = sums.struck.iter();
    let rows: Vec<_> = rows
        .map(|(what, times)| vec![(*what).to_owned(), times.to_string()])
        .collect();
    ui.table(&["what happened", "times"], &rows);
    ui.line("");
    if sums.failures.is_empty() {
        ui.line("all promises were kept");
    }
    for outcome in sums.failures.iter().take(FAILURES_SHOWN) {
        let failure = outcome.failure.as_ref().expect("it is among the failures");
        ui.line(format!(
            "seed {}: {}: {failure}",
            outcome.seed, outcome.tree
        ));
    }
    ui.json(&SimulatedRuns {
        first: start,
        end,
        runs: sums.runs,
        seconds,
        requests: sums.requests,
        virtual_ns: sums.virtual_ns,
        faults: &sums.struck,
        failures: sums.failures.iter().map(document).collect(),
        unlike: &sums.unlike,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_ranges_are_parsed() {
        assert_eq!(parse_seeds("3..10"), Ok(3..10));
        for wrong in ["", "3", "3..", "..3", "3..3", "9..3", "a..b"] {
            let error = parse_seeds(wrong).unwrap_err();
            assert!(error.contains("write 0..1000"), "{wrong}: {error}");
        }
    }
}
