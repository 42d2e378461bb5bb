//! Finds the users of a file or block device.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, open, statx};
use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use spindles_device::file_system_of_loop;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Most users named in a message.
const NAMED_MAX: usize = 5;
/// Retries while programs are about to close the file, such as those that probe a new device.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(50);

/// A user of a file or block device, in the order in which users must be released.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum User {
    /// A mounted file system.
    FileSystem(String),
    /// A device built on it by the device mapper or md.
    Device(String),
    /// A loop device.
    Loop(String),
    /// A process ID and its program.
    Process(u32, String),
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileSystem(place) => write!(f, "the file system on {place}"),
            Self::Device(device) | Self::Loop(device) => f.write_str(device),
            Self::Process(pid, program) => write!(f, "{program} (process {pid})"),
        }
    }
}

impl User {
    /// Returns an instruction for people that releases it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::FileSystem(place) => format!("umount {place}"),
            Self::Device(device) => format!("remove {device}"),
            Self::Loop(device) => format!("losetup --detach {device}"),
            Self::Process(pid, program) => format!("end {program} (process {pid})"),
        }
    }
}

/// Returns the users other than the server; `None` if there are none, or all are gone within a
/// second.
pub(crate) fn lasting_users(path: &Path, server: Option<Pid>) -> Option<Vec<User>> {
    lasts(|| is_used(path, server)).then(|| users(path, server))
}

/// Returns true if the condition holds for a second.
pub fn lasts(mut is_so: impl FnMut() -> bool) -> bool {
    (0..TRIES).all(|_| {
        let still = is_so();
        if still {
            thread::sleep(BETWEEN);
        }
        still
    })
}

/// Returns true if anything uses it. The kernel reports exclusive users of a block device, such as
/// file systems; other users have it open.
fn is_used(path: &Path, server: Option<Pid>) -> bool {
    let is_claimed = || {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        open(path, flags, Mode::empty()).err() == Some(Errno::BUSY)
    };
    block_device(path).is_some() && is_claimed() || !users(path, server).is_empty()
}

/// Returns the file systems, devices and processes that use it, except the server, and the users of
/// those devices. Limited to what this user may see. Accesses neither the file nor any of its
/// users.
pub(crate) fn users(path: &Path, server: Option<Pid>) -> Vec<User> {
    let mut users = on_loops(&loop_devices(path), server);
    users.extend(mounts(path));
    users.extend(devices_on(path));
    let has_it = |open: &Path| fs::read_link(open).is_ok_and(|target| target == path);
    users.extend(processes(server, has_it));
    users.into_iter().collect()
}

/// Finds the users of an unmounted file by the device number of its file system: after `umount
/// --lazy` the file has no path.
pub(crate) fn users_of_unmounted(file_system: &str, server: Option<Pid>) -> Vec<User> {
    // The kernel shows the path of a detached mount as `/`.
    let mut loops = loop_devices(Path::new("/"));
    loops.retain(|device| {
        file_system_of_loop(device).is_ok_and(|file_system_there| file_system_there == file_system)
    });
    let mut users = on_loops(&loops, server);
    let has_it = |open: &Path| {
        // No request to the server, which waits for this.
        let status = statx(CWD, open, AtFlags::STATX_DONT_SYNC, StatxFlags::empty());
        status.is_ok_and(|stat| {
            format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor) == file_system
        })
    };
    users.extend(processes(server, has_it));
    users.into_iter().collect()
}

/// Returns loop devices and their users.
fn on_loops(loops: &[PathBuf], server: Option<Pid>) -> BTreeSet<User> {
    let above = loops.iter().flat_map(|device| users(device, server));
    let named = loops.iter().map(|device| device.display().to_string());
    above.chain(named.map(User::Loop)).collect()
}

/// Names the users, as part of a sentence.
#[must_use]
pub fn by_users(users: &[User]) -> String {
    let named = users.iter().take(NAMED_MAX).map(ToString::to_string);
    let named: Vec<String> = named.collect();
    let others = users.len() - named.len();
    match (named.is_empty(), others) {
        (true, _) => "by unknown users".to_owned(),
        (false, 0) => format!("by {}", named.join(", ")),
        (false, _) => format!("by {} and {others} more", named.join(", ")),
    }
}

fn loop_devices(path: &Path) -> Vec<PathBuf> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let on_it = devices.filter(|device| {
        let backing = fs::read(device.path().join("loop/backing_file"));
        backing.is_ok_and(|backing| backing.trim_ascii_end() == path.as_os_str().as_bytes())
    });
    let paths = on_it.map(|device| Path::new("/dev").join(device.file_name()));
    paths.collect()
}

/// Returns the mount points of file systems on a block device or its partitions.
fn mounts(path: &Path) -> Vec<User> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts_in(&table, &path.to_string_lossy())
}

fn mounts_in(table: &str, device: &str) -> Vec<User> {
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
    let named = places.map(|place| User::FileSystem(place.to_owned()));
    named.collect()
}

/// Returns the sysfs folder of a block device.
fn block_device(path: &Path) -> Option<PathBuf> {
    let name = path.strip_prefix("/dev").ok()?;
    let known = Path::new("/sys/class/block").join(name);
    known.exists().then_some(known)
}

/// Returns the devices built on a block device by the device mapper or md.
fn devices_on(path: &Path) -> Vec<User> {
    let holders = block_device(path).map(|known| fs::read_dir(known.join("holders")));
    let holders = holders.into_iter().flatten().flatten().flatten();
    let names = holders.map(|holder| format!("/dev/{}", holder.file_name().display()));
    names.map(User::Device).collect()
}

/// Returns the processes with a matching entry in `/proc/PID/fd`.
fn processes(server: Option<Pid>, has_it: impl Fn(&Path) -> bool) -> Vec<User> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // The server holds the file below the mount open.
    let server = server.map(|server| server.as_raw_pid().unsigned_abs());
    let others = pids.filter(|pid| Some(*pid) != server);
    let with_it = others.filter(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd"));
        let mut open = open.into_iter().flatten().flatten();
        open.any(|open| has_it(&open.path()))
    });
    let named = with_it.map(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        User::Process(pid, name.trim_end().to_owned())
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getpid;

    #[test]
    fn a_process_uses_the_devices_it_opened() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().canonicalize().unwrap();
        assert_eq!(
            lasting_users(&path, Some(getpid())),
            None,
            "this process is none"
        );
        let mut sleeps = std::process::Command::new("sleep");
        let sleeps = sleeps.arg("60").stdin(file.reopen().unwrap());
        let mut process = sleeps.spawn().unwrap();
        let pid = process.id();
        let found = lasting_users(&path, Some(getpid())).unwrap();
        assert!(
            matches!(&found[..], [User::Process(of, _)] if *of == pid),
            "{found:?}"
        );
        let named = format!("(process {pid})");
        assert!(by_users(&found).ends_with(&named) && found[0].remedy().ends_with(&named));
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(lasting_users(&path, Some(getpid())), None);
    }

    /// As after `umount --lazy`: does not use the path.
    #[test]
    fn a_process_uses_devices_through_a_file_system() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let status = statx(CWD, file.path(), AtFlags::empty(), StatxFlags::empty()).unwrap();
        let (major, minor) = (status.stx_dev_major, status.stx_dev_minor);
        let own = std::process::id();
        let has_it = |users: &[User]| {
            users
                .iter()
                .any(|user| matches!(user, User::Process(pid, _) if *pid == own))
        };
        assert!(has_it(&users_of_unmounted(
            &format!("{major}:{minor}"),
            None
        )));
        assert!(!has_it(&users_of_unmounted("4095:7", None)));
    }

    #[test]
    fn file_systems_on_a_device_and_on_its_partitions_are_found() {
        let table = "/dev/ublkb1 /srv ext4 rw 0 0\n/dev/ublkb1p2 /home xfs rw 0 0\n\
                     /dev/ublkb12 /no ext4 rw 0 0\n/dev/ublkb /nor ext4 rw 0 0\n\
                     tmpfs /tmp tmpfs rw 0 0\n";
        let found = mounts_in(table, "/dev/ublkb1");
        let remedies: Vec<_> = found.iter().map(User::remedy).collect();
        assert_eq!(remedies, ["umount /srv", "umount /home"]);
        assert_eq!(
            by_users(&found),
            "by the file system on /srv, the file system on /home"
        );
    }

    #[test]
    fn a_long_list_of_users_is_cut_short() {
        let users: Vec<User> = (0..7)
            .map(|number| User::Loop(format!("p{number}")))
            .collect();
        assert_eq!(by_users(&users), "by p0, p1, p2, p3, p4 and 2 more");
        assert_eq!(by_users(&users[..1]), "by p0");
        assert_eq!(by_users(&[]), "by unknown users");
    }
}
