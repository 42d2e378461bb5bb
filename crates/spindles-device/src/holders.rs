//! Finds the programs that have files and devices open.

use crate::identity::{Identity, identity};
use crate::notice::RunningJob;
use crate::slices::device_of;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, major, minor, open};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// Longest part of a command line that is shown.
const COMMAND_CHARS_MAX: usize = 120;

/// Returns true if this is the command line of a server.
pub(crate) fn is_server(command: &str) -> bool {
    let mut words = command.split(' ');
    [words.next(), words.next()] == [Some("spindles"), Some("serve")]
}

/// A program that has devices of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The process ID, if known.
    pub pid: Option<u32>,
    /// Its command line, if known.
    pub command: Option<String>,
    /// Its work on the array, if it published any.
    pub work: Option<RunningJob>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The process ID.
    pub pid: u32,
    /// Its user, for messages: `root`, `user backup`; `None` for the caller's own. Servers of other
    /// users refuse the caller's commands.
    pub another: Option<String>,
}

/// Finds the server that has locked one of these devices or has one open for writing, if the caller
/// may see that server.
#[must_use]
pub fn server_of(devices: &[&str]) -> Option<Server> {
    holders(devices).into_iter().find_map(|user| {
        let pid = user
            .pid
            .filter(|_| user.command.as_deref().is_some_and(is_server))?;
        let another = another_owner(pid);
        Some(Server { pid, another })
    })
}

/// Finds the servers with that word on their command line, for example an address of memory that
/// they serve.
#[must_use]
pub fn servers_given(word: &str) -> Vec<Server> {
    let is_given = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).skip(2);
        words.any(|argument| argument == word.as_bytes())
            && command_of(*pid).as_deref().is_some_and(is_server)
    };
    let servers = pids().filter(is_given);
    let servers = servers.map(|pid| Server {
        pid,
        another: another_owner(pid),
    });
    servers.collect()
}

/// Names the user of a process, for messages; `None` if it is the caller.
#[must_use]
pub fn another_owner(pid: u32) -> Option<String> {
    let owner = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    (owner != geteuid().as_raw()).then(|| {
        let table = fs::read_to_string("/etc/passwd").unwrap_or_default();
        match (owner, name_of(owner, &table)) {
            (0, _) => "root".to_owned(),
            (_, Some(name)) => format!("user {name}"),
            (_, None) => format!("user {owner}"),
        }
    })
}

/// Looks up the name of a user in the text of `/etc/passwd`.
fn name_of(user: u32, table: &str) -> Option<&str> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(user)).then_some(name)
    })
}

impl User {
    /// A program that published this work.
    #[must_use]
    pub fn working(work: RunningJob) -> Self {
        Self {
            pid: Some(work.pid),
            command: command_of(work.pid),
            work: Some(work),
        }
    }

    /// An unknown program.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            pid: None,
            command: None,
            work: None,
        }
    }

    /// A program without published work.
    pub fn silent(pid: u32) -> Self {
        Self {
            pid: Some(pid),
            command: command_of(pid),
            work: None,
        }
    }
}

/// Returns true if another program holds a device exclusively.
#[must_use]
pub fn is_busy(device: &str) -> bool {
    let device = &*device_of(device);
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

/// Finds the programs that have locked these devices or have them open for writing. Omits programs
/// that the caller may not see.
pub fn holders(devices: &[&str]) -> Vec<User> {
    let identities = devices
        .iter()
        .filter_map(|name| Some(identity(name)?.whole()))
        .collect();
    let pids = lockers(&identities).into_iter().chain(writers(&identities));
    let pids: BTreeSet<u32> = pids.collect();
    pids.into_iter().map(User::silent).collect()
}

/// Finds the processes that have locked one of these files, from the kernel's table.
fn lockers(identities: &BTreeSet<Identity>) -> BTreeSet<u32> {
    let table = fs::read_to_string("/proc/locks").unwrap_or_default();
    let lockers = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // 1: FLOCK  ADVISORY  WRITE 22407 fe:00:9994887 0 EOF
        let [_, "FLOCK", _, "WRITE", pid, place, ..] = words.as_slice() else {
            return None;
        };
        let holds = |identity: &Identity| match *identity {
            Identity::Block { .. } | Identity::Export { .. } | Identity::Part { .. } => false,
            Identity::File { file_system, inode } => {
                let (major, minor) = (major(file_system), minor(file_system));
                format!("{major:02x}:{minor:02x}:{inode}") == **place
            }
        };
        identities.iter().any(holds).then(|| pid.parse().ok())?
    });
    lockers.collect()
}

/// Finds the processes with one of these files or devices open for writing, as far as this user may
/// know.
fn writers(identities: &BTreeSet<Identity>) -> BTreeSet<u32> {
    let own = std::process::id();
    pids()
        .filter(|&pid| pid != own && writes(pid, identities))
        .collect()
}

/// Returns all processes visible to this user.
fn pids() -> impl Iterator<Item = u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
}

fn writes(pid: u32, identities: &BTreeSet<Identity>) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let mut open =
        open.filter_map(|entry| Some((entry.file_name(), entry.path().to_str()?.to_owned())));
    open.any(|(number, path)| {
        identity(&path).is_some_and(|identity| identities.contains(&identity)) && {
            let number = number.to_string_lossy();
            let about = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}"));
            let about = about.unwrap_or_default();
            let mut lines = about.lines().filter_map(|line| line.strip_prefix("flags:"));
            // Octal; 1 is write-only and 2 is read-write.
            lines.any(|flags| flags.trim().ends_with(['1', '2']))
        }
    })
}

/// Returns the command line of a process.
pub fn command_of(pid: u32) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_of_a_file_are_named() {
        let table = "root:x:0:0:root:/root:/bin/sh\n+::::::\nbroken\nnobody:x:65534:65534::/:\n";
        assert_eq!(name_of(65534, table), Some("nobody"));
        assert_eq!(name_of(7, table), None);
    }
}
