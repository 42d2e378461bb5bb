//! How an array is, whoever has it: as the engine sees it where nobody does; from its superblocks alone
//! where another program does, or where too much is missing. Nothing is written.

use crate::assemble::{ArrayReport, AssembleError, AssembleOptions, assemble, describe};
use crate::identity::{Identity, identity};
use crate::notice::{Work, work_on};
use crate::{OpenError, OpenOptions, Target};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, major, minor, open};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// How often it is looked again where superblocks change meanwhile.
const LOOKS_MAX: u32 = 40;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// So much of a command line is shown.
const COMMAND_CHARS_MAX: usize = 120;

/// How an array is.
pub struct Survey {
    /// The array. Several only where too much is missing to know the one around them.
    pub reports: Vec<ArrayReport>,
    /// To be looked at; `None` where it can't be opened, or another program has it.
    pub target: Option<Box<dyn Target>>,
    /// Who else has its devices.
    pub users: Vec<User>,
    /// Why it is not opened for use unless that is forced.
    pub needs_force: Option<String>,
}

/// How an array is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// All redundancy is there.
    Healthy,
    /// Members are missing or not filled yet; all data can be read.
    Degraded,
    /// Too much is missing.
    Failed,
}

/// A program that has devices of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The process, where that can be known.
    pub pid: Option<u32>,
    /// As it was started, where that can be known.
    pub command: Option<String>,
    /// What it is doing with the array, if it says so.
    pub work: Option<Work>,
}

impl User {
    /// One that does not say what it is doing.
    fn silent(pid: u32) -> Self {
        Self {
            pid: Some(pid),
            command: command_of(pid),
            work: None,
        }
    }
}

impl std::fmt::Debug for Survey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Survey")
            .field("reports", &self.reports)
            .field("users", &self.users)
            .finish_non_exhaustive()
    }
}

impl Survey {
    /// The worst of it.
    #[must_use]
    pub fn health(&self) -> Health {
        let worst = |health: Health, report: &ArrayReport| match (health, report.health()) {
            (Health::Failed, _) | (_, Health::Failed) => Health::Failed,
            (Health::Degraded, _) | (_, Health::Degraded) => Health::Degraded,
            _ => Health::Healthy,
        };
        self.reports.iter().fold(Health::Healthy, worst)
    }
}

/// Looks at the array that these devices, in any order, belong to.
///
/// # Errors
///
/// Where the devices make no array. That too much is missing is none.
pub fn survey(devices: &[&str]) -> Result<Survey, AssembleError> {
    let mut looks = 0;
    loop {
        let surveyed = if is_in_use(devices) {
            in_use(devices)
        } else {
            free(devices)
        };
        match surveyed {
            // Somebody writes superblocks, or has just begun to use it.
            Err(AssembleError::Changed | AssembleError::Open(OpenError::Busy { .. }))
                if looks < LOOKS_MAX =>
            {
                looks += 1;
                sleep(PAUSE);
            }
            result => return result,
        }
    }
}

fn in_use(devices: &[&str]) -> Result<Survey, AssembleError> {
    let open = OpenOptions {
        read_only: true,
        unlocked: true,
        patience: Duration::ZERO,
        ..OpenOptions::default()
    };
    let reports = describe(devices, &open)?;
    let users = users(devices, &reports);
    if users.iter().all(|user| user.pid.is_none()) && !is_in_use(devices) {
        // Whoever had it is done.
        return Err(AssembleError::Changed);
    }
    Ok(Survey {
        users,
        reports,
        target: None,
        needs_force: None,
    })
}

fn free(devices: &[&str]) -> Result<Survey, AssembleError> {
    let mut options = AssembleOptions {
        open: OpenOptions {
            read_only: true,
            patience: Duration::ZERO,
            ..OpenOptions::default()
        },
        ..AssembleOptions::default()
    };
    let mut assembled = assemble(devices, &options);
    let mut needs_force = None;
    if let Err(error @ AssembleError::UncleanDegraded { .. }) = &assembled {
        needs_force = Some(error.to_string());
        // To be looked at, not to be trusted.
        options.force = true;
        assembled = assemble(devices, &options);
    }
    let (reports, target) = match assembled {
        Ok(mut assembled) => {
            while assembled.target.work() {}
            (vec![assembled.report], Some(assembled.target))
        }
        Err(AssembleError::Incomplete { .. } | AssembleError::NothingLeft { .. }) => {
            (describe(devices, &options.open)?, None)
        }
        Err(error) => return Err(error),
    };
    Ok(Survey {
        users: users_by_notice(&reports),
        reports,
        target,
        needs_force,
    })
}

/// Whether another program has one of the devices for itself. Asked twice: one that only looks does so
/// for a moment.
fn is_in_use(devices: &[&str]) -> bool {
    let mut busy = devices.iter().filter(|device| is_busy(device)).peekable();
    if busy.peek().is_none() {
        return false;
    }
    sleep(PAUSE);
    busy.any(|device| is_busy(device))
}

fn is_busy(device: &str) -> bool {
    let Some(identity) = identity(device) else {
        return false;
    };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if matches!(identity, Identity::Block { .. }) {
        return open(device, flags | OFlags::EXCL, Mode::empty()).err() == Some(Errno::BUSY);
    }
    let Ok(file) = open(device, flags, Mode::empty()) else {
        return false;
    };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// Who has locked these devices, or has them open for writing, as far as that can be known.
pub(crate) fn holders(devices: &[&str]) -> Vec<User> {
    let identities = devices.iter().filter_map(|name| identity(name)).collect();
    let pids = lockers(&identities).into_iter().chain(writers(&identities));
    let pids: BTreeSet<u32> = pids.collect();
    pids.into_iter().map(User::silent).collect()
}

/// Who has the devices, and what they say of it.
fn users(devices: &[&str], reports: &[ArrayReport]) -> Vec<User> {
    let mut users = users_by_notice(reports);
    for user in holders(devices) {
        if users.iter().all(|other| other.pid != user.pid) {
            users.push(user);
        }
    }
    if users.is_empty() {
        users.push(User {
            pid: None,
            command: None,
            work: None,
        });
    }
    users
}

fn users_by_notice(reports: &[ArrayReport]) -> Vec<User> {
    let arrays: Vec<_> = reports.iter().flat_map(ArrayReport::uuids).collect();
    let works = work_on(&arrays).into_iter();
    let users = works.map(|work| User {
        pid: Some(work.pid),
        command: command_of(work.pid),
        work: Some(work),
    });
    users.collect()
}

/// Who has locked one of these files, as the kernel's table says.
fn lockers(identities: &BTreeSet<Identity>) -> BTreeSet<u32> {
    let table = fs::read_to_string("/proc/locks").unwrap_or_default();
    let lockers = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // 1: FLOCK  ADVISORY  WRITE 22407 fe:00:9994887 0 EOF
        let [_, "FLOCK", _, "WRITE", pid, place, ..] = words.as_slice() else {
            return None;
        };
        let holds = |identity: &Identity| match *identity {
            Identity::Block { .. } => false,
            Identity::File { file_system, inode } => {
                let (major, minor) = (major(file_system), minor(file_system));
                format!("{major:02x}:{minor:02x}:{inode}") == **place
            }
        };
        identities.iter().any(holds).then(|| pid.parse().ok())?
    });
    lockers.collect()
}

/// Who has one of these files or devices open for writing, as far as this user may know.
fn writers(identities: &BTreeSet<Identity>) -> BTreeSet<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let own = std::process::id();
    pids.filter(|&pid| pid != own && writes(pid, identities))
        .collect()
}

fn writes(pid: u32, identities: &BTreeSet<Identity>) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let mut open =
        open.filter_map(|entry| Some((entry.file_name(), entry.path().to_str()?.to_owned())));
    open.any(|(number, path)| {
        identity(&path).is_some_and(|it| identities.contains(&it)) && {
            let number = number.to_string_lossy();
            let about = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}"));
            let about = about.unwrap_or_default();
            let mut lines = about.lines().filter_map(|line| line.strip_prefix("flags:"));
            // In octal; 2 is for reading and writing.
            lines.any(|flags| flags.trim().ends_with(['1', '2']))
        }
    })
}

/// As it was started.
fn command_of(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches('\0').replace('\0', " ");
    let (program, arguments) = text.split_once(' ').unwrap_or((&text, ""));
    let program = program.rsplit('/').next().unwrap_or(program);
    let text = format!("{program} {arguments}");
    let plain = text
        .trim()
        .chars()
        .map(|char| if char.is_control() { '?' } else { char });
    let mut short: String = plain.clone().take(COMMAND_CHARS_MAX).collect();
    if plain.count() > COMMAND_CHARS_MAX {
        short.push('…');
    }
    Some(short).filter(|text| !text.is_empty())
}
