//! `spindles status`: shows the state of an array, even while another process has it open.

use super::Command;
use crate::arrays::{self, Scan};
use crate::documents::array::{Array, State, replacement_of, snapshot_of};
use crate::documents::status::{
    Arrays, BadBlocks, ClearedAll, ClearedMember, InnerArrays, Job, Server,
    Status as StatusDocument, Task, User as UserDocument, Work,
};
use crate::failure::{Answer, STATUS_FAILED, STATUS_USAGE};
use crate::operation::{self, ClearErrors, Operation, Rebuild};
use crate::operations::{self, Outcome, Perform};
use crate::plain::Plain;
use crate::rates::{self, Sample};
use crate::serving::Serving;
use crate::several::do_each;
use crate::ui::Ui;
use crate::{overview, words};
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::assemble::{ArrayReport, AssembleOptions, JournalReport, MemberReport};
use spindles_admin::plain;
use spindles_admin::scan::{Forgotten, Given, Role, is_device, shell_word};
use spindles_admin::settings::{ClearedErrors, array_of_member, clear_errors};
use spindles_admin::survey::{Health, Survey, User, another_owner, survey};
use spindles_admin::write_back::WriteBack;
use spindles_array::{ArraySnapshot, MemberSnapshot, why_out};
use spindles_block::{MemberIndex, counted};
use spindles_device::OpenOptions;
use spindles_device::notice::percent;
use spindles_engine::{JobStatus, Member, OutReason, Policy, RegionsStatus, StageStatus, Status};
use spindles_format::{ChecksumKind, ErrorCounts};
use spindles_serve::control::Silent;
use spindles_serve::sandbox::Sandbox;
use spindles_serve::{ClientNumbers, JobPace, ServerNumbers};
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process;
use std::thread::sleep;
use std::time::Duration;

pub(crate) static COMMAND: Command = Command {
    name: "status",
    about: "Show the state of one array or of all: members, what is missing, whether clean",
    details: "Give the name of the array, several names, or the devices of one array in any \
              order. The command only reads, even while another command has the devices open; \
              then it shows that command and its progress. For the superblocks in detail, and \
              where they disagree, use spindles examine.\n\n\
              Without an array, lists all arrays found, and all arrays served on this machine \
              that this user may see, one on a line.\n\n\
              Exit status: 0 healthy; 3 degraded; 4 failed; 1 and 2 as for every command. An \
              array is degraded if all data can be read but members are missing or not filled \
              yet. It is also degraded if its journal device is missing, the last scrub could \
              not repair something, or blocks are lost and not written since. An array has \
              failed if too much is missing, or if its server no longer writes. For several \
              arrays, and for all, the highest status counts. The state is unknown, which is \
              0, if this user may not read enough devices. It is also unknown if another \
              user's server has the array and does not answer.\n\n\
              With --watch the command repeats its output until Ctrl-C. For a served array it \
              adds throughput, operations per second and latency since the last update, for \
              the export and for each member.\n\n\
              Each member's superblock counts the errors of its device: failed reads, corrupt \
              bytes, repaired bytes and late answers. Without errors there is no such line. \
              An array around an inner array counts what it finds wrong there at that member. \
              --clear-errors sets the counters of one device to 0, and those that arrays \
              around it count. The superblock of the device names the array if you don't. \
              With the name of an array instead of a device, it clears the counters of all \
              members.\n\n\
              plain:EXPR, the array of these members as they lie, shows what it is and holds.\n\n\
              spindles status\n\
              spindles status pool\n\
              spindles status pool music\n\
              spindles status pool --watch\n\
              spindles status a.img b.img c.img\n\
              spindles status --clear-errors b.img pool\n\
              spindles status --clear-errors pool",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// Repeat every SECONDS seconds [default: 2]
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    watch: Option<u64>,
    /// Reset the error counters of this member's device to 0, or those of all members of this
    /// array, and show nothing else
    #[arg(long, value_name = "DEV|ARRAY", conflicts_with = "watch")]
    clear_errors: Option<String>,
    /// The array: its name, or its devices in any order; or the names of several arrays [default:
    /// one line for every array]
    #[arg(value_name = "ARRAY|DEV")]
    devices: Vec<String>,
    #[command(flatten)]
    scan: Scan,
    #[command(flatten)]
    plain: Plain,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    if let Some(seconds) = arguments.watch {
        return watch(Duration::from_secs(seconds));
    }
    if let Some(device) = &arguments.clear_errors {
        return clear(device, &arguments.devices, &arguments.scan, ui);
    }
    if arguments.devices.is_empty() {
        return answer(overview::show(arguments.scan.places(), ui));
    }
    if let Some(array) = arguments.plain.of_one(&arguments.devices)? {
        let options = arguments
            .plain
            .options(&array, OpenOptions::default(), false);
        for note in &array.notes {
            ui.note(note);
        }
        let shown = plain::survey(&array.expression, &options);
        let shown = shown.map(|survey| present(&survey, &Given::default(), false, ui));
        operations::finish(operations::report(shown.map_err(Into::into)), ui)?;
        return Ok(());
    }
    let several = arrays::several(&arguments.devices)?;
    if !several.is_empty() {
        let command = [COMMAND.name.to_owned()].into_iter();
        let command: Vec<String> = command.chain(arguments.scan.words()).collect();
        return do_each(&command, &several, ui);
    }
    let found = arguments.scan.search(&arguments.devices, &[], ui)?;
    let report = match &found.server {
        None => operations::report(show(&found.given, false, ui)),
        Some(server) => match server.perform(&Operation::Status(operation::Status {}), ui) {
            Ok(report) => report,
            Err(error) => {
                let silent = error.downcast_ref().and_then(Silent::of);
                let Some(silent) = silent else {
                    return Err(error);
                };
                ui.note(format!("{silent}; this is what the superblocks say"));
                let given = arguments.scan.given(&arguments.devices, &[], ui)?;
                operations::report(show(&given, true, ui))
            }
        },
    };
    operations::finish(report, ui).map(drop)
}

impl Perform for operation::Status {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<StatusDocument<Arrays>>> {
        show(given, false, ui)
    }
}

/// Shows one array; its health is the exit status. `is_silent`: its server does not answer.
fn show(
    given: &Given,
    is_silent: bool,
    ui: &Ui,
) -> anyhow::Result<Outcome<StatusDocument<Arrays>>> {
    let mut survey = survey(arrays::host(&arrays::names(&given.devices), ui))?;
    let is_member = |it: &Forgotten| matches!(it.role, Role::Member(_));
    let are_forgotten = given.forgotten.iter().any(is_member);
    let hides_devices = given.hides_devices() || are_forgotten;
    if hides_devices {
        survey.note_hidden_devices();
    }
    if is_silent || are_forgotten {
        survey.note_members_elsewhere();
    }
    Ok(present(&survey, given, hides_devices, ui))
}

/// Shows what a survey found; the health is the exit status.
fn present(
    survey: &Survey,
    given: &Given,
    hides_devices: bool,
    ui: &Ui,
) -> Outcome<StatusDocument<Arrays>> {
    let open = survey.open.as_slice();
    let numbers = ui.serving().and_then(|serving| serving.handle().numbers());
    let jobs = ui
        .serving()
        .map_or_else(Vec::new, |_| jobs(open, numbers.as_ref()));
    let view = View {
        jobs: &jobs,
        open,
        users: &survey.users,
        is_in_use: !survey.users.is_empty(),
        numbers: numbers.as_ref(),
        addresses: ui.serving().map_or(&[], Serving::addresses),
        sandbox: (ui.serving().and_then(Serving::sandbox)).map_or(&[], Sandbox::holding),
        ui,
    };
    for report in &survey.reports {
        view.show(report, None, 0);
    }
    let warnings = warnings(survey, given, hides_devices, ui);
    let bad = open.first().zip(survey.reports.first());
    let bad = bad.map(|(array, report)| show_bad_blocks(&array.status, report, ui));
    for warning in &warnings {
        ui.note(warning);
    }
    let served = view.numbers;
    let served = served.map(|numbers| Server::new(numbers, view.addresses, view.sandbox));
    let state = State::from(survey.health());
    let array = match survey.reports.as_slice() {
        [only] => Arrays::Outer(Box::new(Array::new(only, open))),
        several => Arrays::Inner(InnerArrays {
            arrays: several.iter().map(|it| Array::new(it, open)).collect(),
            state,
        }),
    };
    let document = StatusDocument {
        array,
        warnings,
        bad_blocks: bad,
        unreadable: given.unreadable.clone(),
        served,
        users: survey.users.iter().map(|it| user(it, &jobs)).collect(),
        jobs: jobs.iter().map(RunningJob::document).collect(),
    };
    Outcome::of(document).ending(answer(state.exit_status()))
}

/// Lists the warnings on the arrays, with the remedies.
fn warnings(survey: &Survey, given: &Given, hides_devices: bool, ui: &Ui) -> Vec<String> {
    if survey.reports.iter().any(plain::is_plain) {
        return Vec::new(); // No command mends a plain array.
    }
    let is_in_use = !survey.users.is_empty();
    let denied = words::scan::denied(given);
    let why = denied.iter().chain(&given.may_have_missed);
    let why = why.map(|why| unknown_state(survey, hides_devices, why));
    let mut warnings: Vec<String> = why.collect();
    // Nothing resumes by itself if another process has the array, or if --force is needed.
    let stands_still = is_in_use || survey.needs_force.is_some();
    for report in survey.reports.iter().filter(|_| !hides_devices) {
        warnings.extend(if stands_still {
            words::report::warnings_in_use(report)
        } else {
            words::report::warnings(report)
        });
    }
    warnings.extend(lack_of_space(&survey.open));
    warnings.extend(survey.open.iter().filter_map(stuck_stage));
    warnings.extend(words::scan::former(given, true));
    warnings.extend(
        survey
            .reports
            .iter()
            .flat_map(words::report::replaced_texts),
    );
    warnings.extend(survey.reports.iter().flat_map(words::report::left_by_scrub));
    warnings.extend(survey.reports.iter().flat_map(words::report::lost_texts));
    let serving = ui.serving();
    let moved = serving
        .iter()
        .flat_map(|_| survey.reports.iter().flat_map(moved_away));
    warnings.extend(moved);
    warnings.extend(serving.map(Serving::losses).unwrap_or_default());
    let may_rebuild = serving.is_some_and(|serving| {
        serving
            .refuses(&Operation::Rebuild(Rebuild::default()))
            .is_none()
    });
    match &survey.needs_force {
        _ if hides_devices => {}
        Some(why) => warnings.push(words::errors::text(why)),
        // The server repairs the array itself, if permitted.
        None if is_in_use && !may_rebuild => {}
        None => warnings.extend(survey.reports.iter().filter_map(words::report::remedy)),
    }
    warnings
}

/// Warns that an array refuses writes because no space is left below its members.
fn lack_of_space(open: &[ArraySnapshot]) -> Option<String> {
    // An array that stopped writing has a warning of its own.
    let writing = open.iter().filter(|array| !array.status.stopped_writing);
    let lies_on = |array: &ArraySnapshot| -> Vec<String> {
        let members = (array.members.iter().flatten()).filter_map(|member| match member {
            MemberSnapshot::Device(device) => device.left_bytes.and(Some(device.name.clone())),
            MemberSnapshot::Array => None,
        });
        members.collect()
    };
    let lacking: Vec<String> = writing.flat_map(lies_on).collect();
    let outermost = open.first().filter(|_| !lacking.is_empty())?;
    Some(format!(
        "array '{}' refuses writes now: no space is left for them on the file system of {}; free \
         some there, and it takes writes again",
        outermost.name,
        lacking.join(", ")
    ))
}

/// Warns that some staged writes can't be placed.
fn stuck_stage(array: &ArraySnapshot) -> Option<String> {
    let stage = array.status.stage.as_ref();
    stage.filter(|stage| stage.is_stuck).map(|_| {
        format!(
            "array '{}': some staged writes can't be placed, as their rows have lost more than the \
             level survives; they are read from the stage, and devices that are added wait: copy \
             the data to another array",
            array.name
        )
    })
}

/// Says what is unknown about the arrays because devices were not read.
fn unknown_state(survey: &Survey, hides_devices: bool, why: &str) -> String {
    if survey.health() == Health::Unknown {
        format!("too few devices could be read to know the state of the array: {why}")
    } else if hides_devices {
        format!("it is not known whether the array lacks members: {why}")
    } else {
        why.to_owned()
    }
}

/// Warns of members of a served array whose files were moved or deleted.
fn moved_away(report: &ArrayReport) -> Vec<String> {
    let outermost = shell_word(&report.name);
    let said = report.moved_devices().into_iter().map(|name| {
        let device = shell_word(name);
        format!(
            "{name} was moved or deleted: the server has it open still, and does not find it when \
             it opens the array again; put it back, or copy what it holds: `spindles replace \
             {device} {outermost} --onto DEV`"
        )
    });
    said.collect()
}

/// Ends the command with an exit status.
fn answer(status: u8) -> anyhow::Result<()> {
    match status {
        0 => Ok(()),
        status => Err(Answer(status).into()),
    }
}

/// Runs the same command without `--watch` again and again, and shows its output: in place on a
/// terminal, one below the other elsewhere. Returns if the command fails at first, or if the output
/// is closed.
fn watch(interval: Duration) -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let is_watch = |word: &OsString| word.to_string_lossy().starts_with("--watch");
    let words = std::env::args_os().skip(1).filter(|word| !is_watch(word));
    let words: Vec<OsString> = words.collect();
    let mut out = io::stdout();
    let in_place = out.is_terminal();
    let mut is_first = true;
    let mut before: Option<Sample> = None;
    loop {
        let shown = process::Command::new(&program).args(&words).output()?;
        let status = shown.status.code().and_then(|code| u8::try_from(code).ok());
        let cant = [STATUS_FAILED, STATUS_USAGE].map(Some).contains(&status);
        if is_first && cant {
            out.write_all(&shown.stdout)?;
            io::stderr().write_all(&shown.stderr)?;
            return Err(Answer(status.unwrap_or(STATUS_FAILED)).into());
        }
        let now = (!words.iter().any(|word| word == "--json"))
            .then(|| sample(&program, &words))
            .flatten();
        let rates = before.as_ref().zip(now.as_ref());
        let rates = rates.map_or_else(String::new, |(before, now)| now.rates_since(before));
        before = now;
        let text = [shown.stdout, rates.into_bytes(), shown.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let text = match (in_place, is_first) {
            // Overwrite each line in place to avoid flicker.
            (true, _) => format!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\n")),
            (false, true) => text.into_owned(),
            (false, false) => format!("\n{text}"),
        };
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if written.is_err() {
            return Ok(());
        }
        is_first = false;
        sleep(interval);
    }
}

/// Takes a sample from the JSON that the same command prints for a served array.
fn sample(program: &Path, words: &[OsString]) -> Option<Sample> {
    let mut command = process::Command::new(program);
    let said = command.args(words).arg("--json").output().ok()?;
    Sample::of(&serde_json::from_slice(&said.stdout).ok()?)
}

/// A job that runs in the server of an array.
struct RunningJob {
    array: String,
    /// True if the array is not the outermost one.
    inner: bool,
    job: JobStatus,
    /// The job of the same array that runs first.
    waits_for: Option<&'static str>,
    /// `None` until it is known.
    bytes_per_s: Option<u64>,
}

/// Lists the jobs of a server's arrays.
fn jobs(open: &[ArraySnapshot], numbers: Option<&ServerNumbers>) -> Vec<RunningJob> {
    let paces = numbers.map_or(&[][..], |numbers| &numbers.paces);
    let of_array = |(at, array): (usize, &ArraySnapshot)| {
        let going = array.status.jobs.iter().filter(|job| job.going);
        let first = going.clone().next().map(|job| job.name);
        let running = going.map(move |job| {
            let is_it = |pace: &&JobPace| pace.array == array.name && pace.job == job.name;
            RunningJob {
                array: array.name.clone(),
                inner: at > 0,
                job: *job,
                waits_for: first.filter(|first| *first != job.name),
                bytes_per_s: paces.iter().find(is_it).map(|pace| pace.bytes_per_s),
            }
        });
        running.collect::<Vec<_>>()
    };
    open.iter().enumerate().flat_map(of_array).collect()
}

impl RunningJob {
    /// Estimates the time left from the recent pace.
    fn left_s(&self) -> Option<u64> {
        let left = self.job.total_bytes.saturating_sub(self.job.done_bytes);
        left.checked_div(self.bytes_per_s?)
    }

    /// The line for people: `scrub: 43 % done, 4.3 GiB of 10 GiB, 120 MiB/s, about 48 s left`.
    fn line(&self) -> String {
        let JobStatus {
            name,
            done_bytes,
            total_bytes,
            failed,
            ..
        } = self.job;
        let of = if self.inner {
            format!(" of array '{}'", self.array)
        } else {
            String::new()
        };
        let pace = self.bytes_per_s.map_or_else(String::new, |bytes| {
            format!(", {:.1} MiB/s", rates::mib(bytes))
        });
        let left = self.left_s().map_or_else(String::new, |left_s| {
            format!(", about {} left", arrays::duration(left_s))
        });
        let failed = match failed {
            0 => String::new(),
            some => format!("; failed stretches: {some}"),
        };
        let pace = self.waits_for.map_or(format!("{pace}{left}"), |first| {
            format!(", waits for the {first}")
        });
        format!(
            "{name}{of}: {} % done, {} of {}{pace}{failed}",
            percent(done_bytes, total_bytes),
            arrays::size(done_bytes),
            arrays::size(total_bytes)
        )
    }

    fn document(&self) -> Job {
        Job {
            array: self.array.clone(),
            what: self.job.name.to_owned(),
            done_bytes: self.job.done_bytes,
            total_bytes: self.job.total_bytes,
            bytes_per_s: self.bytes_per_s,
            left_s: self.left_s(),
            waits_for: self.waits_for.map(str::to_owned),
            failed: self.job.failed,
        }
    }
}

/// The line of a client: `client 127.0.0.1:40312 over nbd since 2026-11-26 08:15:07 UTC, 3 min ago:
/// read 12 MiB, wrote 3 MiB`.
fn client_line(client: &ClientNumbers) -> String {
    format!(
        "client {} over {} since {}: read {}, wrote {}",
        client.origin,
        client.origin.transport,
        arrays::moment(client.since_s),
        arrays::size(client.read_bytes),
        arrays::size(client.written_bytes)
    )
}

/// `served since 2026-11-26 08:15:07 UTC, 3 min ago: 2 clients, 5 in all, 1234 requests`.
fn numbers_line(numbers: &ServerNumbers) -> String {
    let since = arrays::moment(numbers.since_s);
    let served = numbers.served;
    let clients = numbers.clients.len().try_into().unwrap_or(u64::MAX);
    let over_ring = match numbers.over_ring {
        0 => String::new(),
        some => format!(" ({some} over io_uring)"),
    };
    format!(
        "served since {since}: {}{over_ring}, {} in all, {}",
        counted(clients, "client"),
        served.connections,
        counted(served.requests, "request")
    )
}

/// Describes a user of the array as JSON. The work of a server without a command is its first job.
fn user(user: &User, jobs: &[RunningJob]) -> UserDocument {
    let work = user.work.as_ref().map(|work| {
        Task::Command(Work {
            what: work.what.clone(),
            done_bytes: work.done_bytes,
            total_bytes: work.total_bytes,
            left_s: work.left_s,
        })
    });
    let is_server = user.pid == Some(process::id());
    let job = jobs.first().filter(|_| is_server);
    UserDocument {
        pid: user.pid,
        command: user.command.clone(),
        work: work.or(job.map(|job| Task::Job(job.document()))),
    }
}

/// `scrub by pid 7: 40 % done, about 3 min left (spindles scrub pool)`.
fn user_line(user: &User) -> String {
    let command = user.command.as_ref();
    let command = command.map_or_else(String::new, |command| format!(" ({command})"));
    match (&user.work, user.pid) {
        (Some(work), _) => {
            let left = work.left_s.map_or_else(String::new, |left_s| {
                format!(", about {} left", arrays::duration(left_s))
            });
            let (what, pid, percent) = (&work.what, work.pid, work.percent());
            format!("in use: {what} by pid {pid}, {percent} % done{left}{command}")
        }
        (None, Some(pid)) => {
            let owner = another_owner(pid).map_or_else(String::new, |owner| format!(" of {owner}"));
            format!("in use by pid {pid}{owner}{command}")
        }
        (None, None) => "in use by a process that this user may not see".to_owned(),
    }
}

/// Shows the list of bad blocks: the number of lost blocks, and of unwritten blocks of each member.
fn show_bad_blocks(status: &Status, report: &ArrayReport, ui: &Ui) -> BadBlocks {
    let members = status.members.iter().map(|member| {
        let blocks = member.faults.bad_blocks;
        if blocks > 0 {
            let s = if blocks == 1 { " holds" } else { "s hold" };
            ui.line(format!(
                "  {blocks} block{s} nothing on {}, and what belongs there is read from the others \
                 where that can be",
                report.name_of(member.member)
            ));
        }
        blocks
    });
    BadBlocks {
        lost: status.lost_blocks,
        members: members.collect(),
    }
}

/// Describes for people what the stage of an open array holds.
fn staged(stage: &StageStatus, block_bytes: u32) -> String {
    let bytes = |blocks: u64| arrays::size(blocks * u64::from(block_bytes));
    if stage.staged_blocks == 0 {
        return "empty".to_owned();
    }
    let oldest = stage.oldest_ns.map_or_else(String::new, |age_ns| {
        let age = arrays::duration(age_ns / 1_000_000_000);
        format!(", the oldest for {age}")
    });
    let placed = match stage.placing_blocks_per_s {
        0 => String::new(),
        rate => format!(", placed at {}/s", bytes(rate)),
    };
    let waits = if stage.is_paced {
        ", so full that answers wait"
    } else {
        ""
    };
    format!(
        "holds {} ({} % full){oldest}{placed}{waits}",
        bytes(stage.staged_blocks),
        stage.fill_256 * 100 / 256
    )
}

/// Describes the bitmaps for people.
fn regions_line(regions: &RegionsStatus) -> String {
    let dirty = match regions.dirty {
        0 => "none is dirty".to_owned(),
        count => {
            let are = if count == 1 { "is" } else { "are" };
            format!(
                "{count} {are} marked dirty: written lately or while a member was away, or about \
                 to get their first data"
            )
        }
    };
    let unsettled = match regions.unsettled {
        0 => String::new(),
        count => format!("; {count} to resync after a crash"),
    };
    format!(
        "{} of {} regions of {} are allocated; {dirty}{unsettled}",
        regions.written,
        regions.total,
        arrays::size(regions.region_bytes),
    )
}

/// Describes for people what a member lacks.
fn lacks(status: Option<&Status>, member: usize) -> String {
    let Some((regions, member)) =
        status.and_then(|status| status.regions.as_ref().zip(status.members.get(member)))
    else {
        return String::new();
    };
    let count = member.lacks_regions;
    let s = if count == 1 { "" } else { "s" };
    match member.state {
        Member::Active => String::new(),
        Member::Rebuilding { .. } => format!(", {count} region{s} to go"),
        Member::Missing { .. } if member.counted_on && regions.unsettled > 0 => format!(
            "; {} of {} regions may differ after the crash, and are made to agree when the array \
             is next opened for writing with it",
            regions.unsettled, regions.written
        ),
        Member::Missing { .. } if count == 0 => "; it missed nothing".to_owned(),
        Member::Missing { .. } => format!(
            "; {count} of {} regions were written without it, and are copied to it when it comes \
             back; to a new device all are",
            regions.written
        ),
    }
}

/// Describes the device of a member if it is too short, or does not hold the member's current state
/// and can't catch up.
fn device_of_no_use(report: &ArrayReport, member: usize) -> Option<String> {
    let is_it = |of: MemberIndex| usize::from(of.0) == member;
    let mut truncated = report.truncated.iter();
    let mut stale = report.stale.iter();
    if let Some((_, device, _)) = truncated.find(|(of, ..)| is_it(*of)) {
        return Some(format!("; {device} is too short"));
    }
    let mut outrun = report.outrun.iter();
    if let Some((_, device)) = outrun.find(|(of, _)| is_it(*of)) {
        return Some(format!(
            "; {device} is back, and what it missed is not known"
        ));
    }
    let (_, device) = stale.find(|(of, _)| is_it(*of))?;
    Some(format!("; {device} holds an older state of it"))
}

/// Describes a missing member by its superblocks.
fn missing_since(out_since: Option<u64>, held_out: bool) -> String {
    match (out_since, held_out) {
        (None, _) => "not there".to_owned(),
        (Some(since), false) => format!("missing since generation {since}"),
        (Some(since), true) => {
            let asked = why_out(OutReason::Command);
            format!("out: {asked}, in generation {since}")
        }
    }
}

/// Explains why a member is out, if it went out since the array was opened.
fn why_it_is_out(array: &ArraySnapshot, member: usize) -> Option<String> {
    let status = array.status.members.get(member)?;
    let Member::Missing { reason } = status.state else {
        return None;
    };
    let why = why_out(reason?);
    Some(match array.members.get(member)? {
        Some(MemberSnapshot::Device(device)) => format!("{}, out: {why}", device.name),
        Some(MemberSnapshot::Array) => format!("out: {why}"),
        // The server closed its device.
        None => format!("removed; it was out: {why}"),
    })
}

/// Names the checksums of an array; if it has none, also the arrays inside or around it that have
/// some.
fn checksums(report: &ArrayReport, around: Option<&ArrayReport>) -> String {
    let others = if keeps_checksums(report) {
        ""
    } else if report.arrays().into_iter().any(keeps_checksums) {
        "; arrays inside it have their own"
    } else if around.is_some_and(keeps_checksums) {
        "; the array around it has them"
    } else {
        ""
    };
    format!("{}{others}", report.checksum)
}

fn keeps_checksums(report: &ArrayReport) -> bool {
    report.checksum != ChecksumKind::None.name()
}

/// The facts for the report, and its output.
struct View<'a> {
    open: &'a [ArraySnapshot],
    users: &'a [User],
    is_in_use: bool,
    /// Numbers of the server that runs this command.
    numbers: Option<&'a ServerNumbers>,
    /// Running jobs of the server.
    jobs: &'a [RunningJob],
    /// Addresses for clients of the server.
    addresses: &'a [String],
    /// Active parts of the server's sandbox.
    sandbox: &'a [&'static str],
    ui: &'a Ui,
}

impl View<'_> {
    /// Shows an array and those inside it.
    fn show(&self, report: &ArrayReport, around: Option<&ArrayReport>, depth: usize) {
        self.show_shape(report, around, depth);
        self.show_state(report, depth);
        if depth == 0 {
            self.show_use();
        }
        if let Some(growing) = &report.growing {
            self.line(
                depth,
                format!(
                    "  growing from {} on {} members in chunks of {}: {} % moved",
                    growing.level,
                    growing.members,
                    arrays::size(growing.chunk_bytes),
                    percent(growing.moved_bytes, report.bytes)
                ),
            );
        }
        let status = self.open_array(report).map(|array| &array.status);
        if let Some(regions) = status.and_then(|status| status.regions.as_ref()) {
            self.line(depth, format!("  {}", regions_line(regions)));
        }
        for index in 0..report.members.len() {
            self.show_member(report, index, depth);
        }
        self.show_journal(report, depth);
        self.show_spares(report, depth);
    }

    /// Prints a line about an array, indented by its depth.
    fn line(&self, depth: usize, text: impl Display) {
        self.ui.line(format!("{}{text}", "  ".repeat(depth)));
    }

    /// Shows the name of an array, its shape, its size and its settings.
    fn show_shape(&self, report: &ArrayReport, around: Option<&ArrayReport>, depth: usize) {
        let line = |text: String| self.line(depth, text);
        let inner = if depth == 0 { "" } else { "inner " };
        line(if plain::is_plain(report) {
            format!("{inner}plain array '{}'", report.name)
        } else {
            format!("{inner}array '{}' ({})", report.name, report.uuid)
        });
        line(format!(
            "  {}",
            arrays::shape(
                report.level.name,
                &report.layout,
                report.members.len(),
                report.chunk_bytes,
                report.block_bytes
            )
        ));
        if plain::is_plain(report) {
            let (size, bytes) = (arrays::size(report.bytes), report.bytes);
            return line(format!("  holds {size} ({bytes} bytes)"));
        }
        line(format!(
            "  holds {}, consistency policy {}, checksums {}",
            arrays::size(report.bytes),
            arrays::policy(report.consistency, report.level),
            checksums(report, around)
        ));
        self.show_write_back(report, depth);
        if depth == 0 && report.degraded_writes {
            line(
                "  commands write it even while absent members may be newer (--degraded-writes \
                 allow)"
                    .to_owned(),
            );
        }
        if let Some(room) = report.room_bytes {
            // An inner array can't grow by itself.
            let grow = if depth == 0 {
                format!(
                    ": spindles grow {} --size max",
                    words::report::as_written(report)
                )
            } else {
                String::new()
            };
            line(format!(
                "  its members have room for {}{grow}",
                arrays::size(room)
            ));
        }
    }

    /// Shows the stage of an array, if it has one.
    fn show_write_back(&self, report: &ArrayReport, depth: usize) {
        if report.write_back == WriteBack::Off {
            return;
        }
        let (mode, size) = (report.write_back.name(), arrays::size(report.stage_bytes));
        let stage = self.open_array(report);
        let stage = stage.and_then(|array| array.status.stage.as_ref());
        let holds = match stage {
            Some(stage) => staged(stage, report.block_bytes),
            None if report.staged => "may hold writes that are not placed".to_owned(),
            None => "empty".to_owned(),
        };
        let text = format!("  write-back {mode}, a stage of {size}, {holds}");
        self.line(depth, text);
    }

    /// Shows the state of an array, when it was used, and what it has lost.
    fn show_state(&self, report: &ArrayReport, depth: usize) {
        let line = |text: String| self.line(depth, text);
        if plain::is_plain(report) {
            return line(format!("  {}", State::from(report.health())));
        }
        line(format!(
            "  {}, {}, generation {}",
            State::from(report.health()),
            self.clean(report),
            report.generation
        ));
        line(format!("  {}", self.times(report)));
        if report.lost_bytes > 0 {
            let lost = arrays::size(report.lost_bytes);
            line(format!(
                "  {lost} lost, which answer errors until they are written"
            ));
        }
    }

    /// Shows the users of the outermost array, its jobs, and its server with the clients.
    fn show_use(&self) {
        let line = |text: String| self.line(0, text);
        self.users
            .iter()
            .for_each(|user| line(format!("  {}", user_line(user))));
        self.jobs
            .iter()
            .for_each(|job| line(format!("  {}", job.line())));
        if let Some(numbers) = self.numbers {
            line(format!("  {}", numbers_line(numbers)));
            let clients = numbers.clients.iter();
            clients.for_each(|client| line(format!("  {}", client_line(client))));
            for address in self.addresses {
                line(format!("  clients find it at {address}"));
            }
            let sandbox = match self.sandbox {
                [] => "none".to_owned(),
                parts => parts.join(", "),
            };
            line(format!("  sandbox of the server: {sandbox}"));
        }
    }

    /// Shows a member, with all of an inner array.
    fn show_member(&self, report: &ArrayReport, index: usize, depth: usize) {
        let array = self.open_array(report);
        // A failed array brings no member up to date.
        let status = array.map(|array| &array.status);
        let status = status.filter(|status| !status.stopped_writing);
        let position = u8::try_from(index).ok().map(MemberIndex);
        let open = array.zip(position);
        let device = open.and_then(|(array, member)| array.device(member));
        let replacement = open.and_then(|(array, member)| replacement_of(array, member));
        let lacks = lacks(status, index);
        let line = |text: String| self.line(depth, text);
        match &report.members[index] {
            MemberReport::Device {
                name,
                lagging,
                filled_bytes,
                errors,
            } => {
                let onto = replacement.map_or_else(String::new, |device| {
                    format!(", being copied onto {}", device.name)
                });
                let lagging = if *lagging && !self.is_in_use {
                    ", missed the last superblock write"
                } else {
                    ""
                };
                let state = filled_bytes.map_or_else(
                    || "active".to_owned(),
                    |bytes| self.rebuilding(report, bytes),
                );
                line(format!(
                    "  member {index}: {name}, {state}{onto}{lacks}{lagging}"
                ));
                if let Some(left) = device.and_then(|device| device.left_bytes) {
                    line(format!(
                        "    writes found no space where it lies; {} is left there now",
                        arrays::size(left)
                    ));
                }
                self.show_errors(errors, report, depth);
            }
            MemberReport::Array(inner) => {
                let state = inner.filled_bytes.map_or_else(
                    || State::from(inner.health()).to_string(),
                    |bytes| self.rebuilding(report, bytes),
                );
                line(format!("  member {index}: an array, {state}{lacks}"));
                self.show_errors(&inner.errors, report, depth);
                self.show(inner, Some(report), depth + 2);
            }
            MemberReport::Missing {
                out_since,
                held_out,
            } => {
                let why = array.and_then(|array| why_it_is_out(array, index));
                let why = why.unwrap_or_else(|| missing_since(*out_since, *held_out));
                let lacks = device_of_no_use(report, index).unwrap_or(lacks);
                line(format!("  member {index}: {why}{lacks}"));
            }
        }
    }

    /// Shows the error counters of a member, if there are errors.
    fn show_errors(&self, errors: &ErrorCounts, report: &ArrayReport, depth: usize) {
        if !errors.is_empty() {
            let errors = arrays::errors_text(errors, report.block_bytes);
            self.line(depth, format!("    errors: {errors}"));
        }
    }

    /// Shows where the journal of an array is, if it has a device for it.
    fn show_journal(&self, report: &ArrayReport, depth: usize) {
        match &report.journal {
            JournalReport::Members => {}
            JournalReport::Device(name) => self.line(depth, format!("  journal: {name}")),
            JournalReport::DeviceMissing => {
                self.line(depth, "  journal: on the members, its device is not there");
            }
        }
    }

    /// Shows the spares of an array.
    fn show_spares(&self, report: &ArrayReport, depth: usize) {
        let array = self.open_array(report);
        let replacement = array.and_then(ArraySnapshot::replacement);
        for spare in &report.spares {
            if replacement.is_some_and(|(_, device)| device.name == spare.name) {
                continue; // The line of the member names it.
            }
            let shared = if spare.shared { ", shared" } else { "" };
            self.line(
                depth,
                format!(
                    "  spare: {}, {}{shared}",
                    spare.name,
                    arrays::size(spare.bytes)
                ),
            );
        }
    }

    /// The snapshot of this array, if it is open.
    fn open_array(&self, report: &ArrayReport) -> Option<&ArraySnapshot> {
        snapshot_of(report, self.open)
    }

    fn clean(&self, report: &ArrayReport) -> &'static str {
        let marks = Policy::by_name(report.consistency).is_none_or(|it| it.resync_after_crash);
        if self.open_array(report).is_some() && report.health() == Health::Failed {
            return "nothing more is written"; // It is open, but stopped.
        }
        match (marks, report.clean) {
            (false, _) => "no record of crashes",
            (true, true) => "clean",
            // Superblocks say so while the array is open.
            (true, false) if self.is_in_use => "open for writing",
            (true, false) => "unclean",
        }
    }

    /// Describes a member that is being rebuilt, or whose rebuild was stopped.
    fn rebuilding(&self, report: &ArrayReport, filled_bytes: u64) -> String {
        let is_its_job =
            |running: &RunningJob| running.job.name == "rebuild" && running.array == report.name;
        if self.jobs.iter().any(is_its_job) {
            return "being rebuilt".to_owned(); // The line of the job says how far.
        }
        let percent = percent(filled_bytes, report.bytes);
        let mut works = self.users.iter().filter_map(|user| user.work.as_ref());
        match works.find(|work| work.what == "rebuild") {
            Some(work) => {
                let left = work.left_s.map_or_else(String::new, |left_s| {
                    format!(", about {} left", arrays::duration(left_s))
                });
                let (pid, percent) = (work.pid, work.percent());
                format!("being rebuilt by pid {pid}, {percent} % done{left}")
            }
            None if self.is_in_use => format!("being rebuilt, {percent} % done"),
            None => format!("rebuilding, {percent} % done"),
        }
    }

    /// Returns true if a scrub of the array is running, or it is unknown whether one is.
    fn may_be_scrubbing(&self, report: &ArrayReport) -> bool {
        let mut jobs = self.jobs.iter();
        let is_its_job =
            |running: &RunningJob| running.job.name == "scrub" && running.array == report.name;
        self.is_in_use && (self.numbers.is_none() || jobs.any(is_its_job))
    }

    /// Times of the last use and the last scrub.
    fn times(&self, report: &ArrayReport) -> String {
        // A server updates the time in the superblocks only occasionally.
        let used = match report.last_written_s {
            _ if self.is_in_use => String::new(),
            0 => "it is not known when it was last used; ".to_owned(),
            at => format!("last used {}; ", arrays::moment(at)),
        };
        let scrubbed = match report.last_scrub_s {
            0 => "never scrubbed".to_owned(),
            at => format!("last scrubbed {}", arrays::moment(at)),
        };
        let left = match report.scrub_left_bytes {
            0 => String::new(),
            bytes => format!(
                "; {} that was found wrong could not be repaired",
                arrays::size(bytes)
            ),
        };
        let stopped = match report.scrub_stopped_bytes {
            0 => String::new(),
            // While a scrub runs, this is how far it got.
            _ if self.may_be_scrubbing(report) => String::new(),
            at => format!(
                "; a scrub was stopped at {} %, and goes on there",
                percent(at, report.bytes)
            ),
        };
        format!("{used}{scrubbed}{left}{stopped}")
    }
}

/// Resets the error counters of a device to 0, or those of all members of an array.
fn clear(word: &str, given: &[String], scan: &Scan, ui: &Ui) -> anyhow::Result<()> {
    let (array, device) = match (given, array_of_member(word)) {
        ([], Some(array)) => (vec![array.to_string()], Some(word)),
        ([], None) if is_device(word) => {
            bail!("{word} is no member of an array, so it has no error counters")
        }
        ([], None) => (vec![word.to_owned()], None),
        (given, _) => (given.to_vec(), Some(word)),
    };
    let found = scan.find(&array, &[], ui)?;
    let operation = ClearErrors {
        device: device.map(|device| found.device(device)).transpose()?,
        called: word.to_owned(),
    };
    operations::run(operation, &found, ui).map(drop)
}

impl Perform for ClearErrors {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<ClearedAll>> {
        let names = arrays::names(&given.devices);
        let (host, device) = (arrays::host(&names, ui), self.device.as_deref());
        let cleared = clear_errors(host, &AssembleOptions::default(), device)?;
        for it in cleared.iter().filter(|it| !it.errors.is_empty()) {
            let errors = arrays::errors_text(&it.errors, it.block_bytes);
            ui.line(format!("{}: cleared {errors}", cleared_place(it)));
        }
        if cleared.iter().all(|it| it.errors.is_empty()) {
            ui.line(match (device, cleared.first()) {
                (Some(_), Some(it)) => format!("{}, had no errors", cleared_place(it)),
                _ => format!("{}: no member had errors", self.called),
            });
        }
        let members: Vec<ClearedMember> = cleared.iter().map(ClearedMember::from).collect();
        // The first is the device itself; arrays with it follow.
        let first = members.first().filter(|_| device.is_some()).cloned();
        let first = first.unwrap_or(ClearedMember {
            array: self.called.clone(),
            ..ClearedMember::default()
        });
        Ok(Outcome::of(ClearedAll { first, members }))
    }
}

/// `array 'pool': member 1, b.img`.
fn cleared_place(cleared: &ClearedErrors) -> String {
    let what = cleared.device.as_deref().unwrap_or("an array");
    format!(
        "array '{}': member {}, {what}",
        cleared.array, cleared.member
    )
}
