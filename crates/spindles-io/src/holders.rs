//! Which programs have files and devices.

use crate::identity::{Identity, identity};
use crate::notice::Work;
use rustix::fs::{major, minor};
use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// So much of a command line is shown.
const COMMAND_CHARS_MAX: usize = 120;

/// How the command of a server begins.
const SERVES: &str = "spindles serve ";

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

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The process.
    pub pid: u32,
    /// The user, for people: `root`, `user nobody`; `None` for the one who asks. Another's does not do commands of
    /// this one.
    pub another: Option<String>,
}

/// The one that has one of these devices, as far as that can be known.
#[must_use]
pub fn server_of(devices: &[&str]) -> Option<Server> {
    holders(devices).into_iter().find_map(|user| {
        let is_server = user.command?.starts_with(SERVES);
        let pid = user.pid.filter(|_| is_server)?;
        let another = another_owner(pid);
        Some(Server { pid, another })
    })
}

/// Those that were started with that word on their command line, as for memory that they serve.
#[must_use]
pub fn servers_given(word: &str) -> Vec<Server> {
    let is_given = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).skip(2);
        words.any(|it| it == word.as_bytes())
            && command_of(*pid).is_some_and(|it| it.starts_with(SERVES))
    };
    let servers = pids().filter(is_given);
    let servers = servers.map(|pid| Server {
        pid,
        another: another_owner(pid),
    });
    servers.collect()
}

/// The user whose process that is, where it is another one, for people.
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

/// What a user is called, by the table of users.
fn name_of(user: u32, table: &str) -> Option<&str> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(user)).then_some(name)
    })
}

impl User {
    /// One that does not say what it is doing.
    pub(crate) fn silent(pid: u32) -> Self {
        Self {
            pid: Some(pid),
            command: command_of(pid),
            work: None,
        }
    }
}

/// Who has locked these devices, or has them open for writing, as far as that can be known.
pub(crate) fn holders(devices: &[&str]) -> Vec<User> {
    let identities = devices.iter().filter_map(|name| identity(name)).collect();
    let pids = lockers(&identities).into_iter().chain(writers(&identities));
    let pids: BTreeSet<u32> = pids.collect();
    pids.into_iter().map(User::silent).collect()
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
            Identity::Block { .. } | Identity::Export { .. } => false,
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
    let own = std::process::id();
    pids()
        .filter(|&pid| pid != own && writes(pid, identities))
        .collect()
}

/// All processes that this user may know of.
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
pub(crate) fn command_of(pid: u32) -> Option<String> {
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
    fn users_have_names() {
        let table = "root:x:0:0:root:/root:/bin/sh\n+::::::\nbroken\nnobody:x:65534:65534::/:\n";
        assert_eq!(name_of(65534, table), Some("nobody"));
        assert_eq!(name_of(7, table), None);
    }
}
