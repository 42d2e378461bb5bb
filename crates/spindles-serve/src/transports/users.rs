//! Who has a file or a block device open.

use rustix::process::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// So many are named.
const NAMED_MAX: usize = 5;

/// File systems, devices and processes that have it open, but for the server, as far as this user may know. None of
/// them is asked, and the file is not either.
pub(crate) fn users(path: &Path, server: Option<Pid>) -> Vec<String> {
    let mut users = loop_devices(path);
    users.extend(mounts(path));
    users.extend(devices_on(path));
    users.extend(processes(path, server));
    users.into_iter().collect()
}

/// As a part of a sentence.
pub(crate) fn sentence(users: &[String]) -> String {
    let named = users.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>();
    let others = users.len() - named.len();
    match (named.is_empty(), others) {
        (true, _) => "by whom can't be seen".to_owned(),
        (false, 0) => format!("by {}", named.join(", ")),
        (false, _) => format!("by {} and {others} more", named.join(", ")),
    }
}

fn loop_devices(path: &Path) -> BTreeSet<String> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let on_it = devices.filter(|device| {
        let backing = fs::read(device.path().join("loop/backing_file"));
        backing.is_ok_and(|backing| backing.trim_ascii_end() == path.as_os_str().as_bytes())
    });
    let names = on_it.map(|device| format!("/dev/{}", device.file_name().display()));
    names.collect()
}

/// Where file systems on a block device, or on a partition of it, are mounted.
fn mounts(path: &Path) -> BTreeSet<String> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts_in(&table, &path.to_string_lossy())
}

fn mounts_in(table: &str, device: &str) -> BTreeSet<String> {
    let is_on_it = |source: &str| {
        let rest = source.strip_prefix(device);
        let partition = rest.and_then(|rest| rest.strip_prefix('p'));
        rest == Some("") || partition.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let places = table.lines().filter_map(|line| {
        let mut words = line.split(' ');
        words.next().filter(|source| is_on_it(source))?;
        words.next()
    });
    let named = places.map(|place| format!("the file system on {place}"));
    named.collect()
}

/// Devices that are made of a block device: of the device mapper, or md.
fn devices_on(path: &Path) -> BTreeSet<String> {
    let Some(name) = path.strip_prefix("/dev").ok().and_then(Path::to_str) else {
        return BTreeSet::new();
    };
    let holders = fs::read_dir(format!("/sys/class/block/{name}/holders"));
    let holders = holders.into_iter().flatten().flatten();
    let names = holders.map(|holder| format!("/dev/{}", holder.file_name().display()));
    names.collect()
}

fn processes(path: &Path, server: Option<Pid>) -> BTreeSet<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let others = pids.filter(|pid| server.is_none_or(|server| server.as_raw_pid() != *pid));
    let with_it = others.filter(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd"));
        let mut open = open.into_iter().flatten().flatten();
        open.any(|open| fs::read_link(open.path()).is_ok_and(|target| target == path))
    });
    let named = with_it.map(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{} (process {pid})", name.trim_end())
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_what_it_opened() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().canonicalize().unwrap();
        let found = users(&path, None);
        let process = format!("(process {})", std::process::id());
        assert!(
            found.len() == 1 && found[0].ends_with(&process),
            "{found:?}"
        );
        assert!(users(&path, Some(rustix::process::getpid())).is_empty());
        assert!(users(Path::new("/nothing/here"), None).is_empty());
    }

    #[test]
    fn file_systems_on_a_device_and_on_its_partitions_are_found() {
        let table = "/dev/ublkb1 /srv ext4 rw 0 0\n/dev/ublkb1p2 /home xfs rw 0 0\n\
                     /dev/ublkb12 /no ext4 rw 0 0\n/dev/ublkb /nor ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n";
        let found: Vec<_> = mounts_in(table, "/dev/ublkb1").into_iter().collect();
        assert_eq!(
            found,
            ["the file system on /home", "the file system on /srv"]
        );
    }

    #[test]
    fn not_all_are_named() {
        let users: Vec<String> = (0..7).map(|number| format!("p{number}")).collect();
        assert_eq!(sentence(&users), "by p0, p1, p2, p3, p4 and 2 more");
        assert_eq!(sentence(&users[..1]), "by p0");
        assert_eq!(sentence(&[]), "by whom can't be seen");
    }
}
