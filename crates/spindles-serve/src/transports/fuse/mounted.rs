//! The watcher's view of a mount: the server can't unmount from inside its sandbox.

use super::mount::unmount;
use super::mounts::{FILE_SYSTEM, Mounted, mounted_on};
use super::place::MountPoint;
use crate::transports::users::{by_users, lasting_users, users, users_of_unmounted};
use crate::transports::watcher::{Watched, reply, unknown};
use rustix::process::{Pid, getppid};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io;
use std::thread;
use std::time::Duration;

/// Retries while programs are about to close the file, such as those that probe a vanishing loop
/// device.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(50);

/// Argument: the file was created for the mount.
const MADE: &str = "made";
/// Argument: the file existed before.
const FOUND: &str = "found";

/// Request: the file is mounted now.
pub(super) const MOUNTED: &str = "mounted";
/// Request: unmount the file. The reply may carry a warning.
pub(super) const UNMOUNT: &str = "unmount";

/// Request: list the users of the file, if any use it for longer than a moment.
pub(super) const USERS: &str = "users";

/// Request: list the programs with the file open, wherever it is mounted, or after an unmount.
pub(super) const OPENERS: &str = "openers";

/// Request: return the path of the mount; `None` if it is not mounted.
pub(super) const WHERE: &str = "where";

/// Returns the arguments of the process.
pub(super) fn arguments(place: &MountPoint) -> [&OsStr; 2] {
    let made = if place.is_made() { MADE } else { FOUND };
    [made.as_ref(), place.path().as_os_str()]
}

pub(super) fn find(arguments: &[OsString]) -> io::Result<Box<dyn Watched>> {
    let [made, path] = arguments else {
        return Err(io::Error::other("a mount is a word and a path"));
    };
    Ok(Box::new(Mount {
        place: Some(MountPoint::of_another(path.into(), made == MADE)),
        mounted: None,
        server: getppid(),
    }))
}

struct Mount {
    /// `None` once it is unmounted.
    place: Option<MountPoint>,
    /// The server's mount, once it exists. Other mounts are never touched.
    mounted: Option<Mounted>,
    server: Option<Pid>,
}

impl Watched for Mount {
    fn asked(&mut self, word: &str) -> io::Result<Value> {
        match (word, &mut self.place, &self.mounted) {
            (MOUNTED, Some(place), None) => {
                let mounted = mounted_on(place.path())?;
                let mounted = mounted.filter(|mounted| mounted.file_system == FILE_SYSTEM);
                let not_there = || io::Error::other("it is not there");
                self.mounted = Some(mounted.ok_or_else(not_there)?);
                reply(())
            }
            (USERS, Some(place), Some(mounted)) => {
                let is_there = place.follow(mounted);
                let users = || lasting_users(place.path(), self.server);
                reply(is_there.then(users).flatten())
            }
            (OPENERS, Some(_), Some(mounted)) => {
                reply(users_of_unmounted(&mounted.device, self.server))
            }
            (WHERE, Some(place), Some(mounted)) => {
                let is_there = place.follow(mounted);
                reply(is_there.then(|| place.path()))
            }
            (UNMOUNT, Some(_), Some(mounted)) => {
                let place = self.place.take().expect("it is there");
                reply(leave(place, mounted, self.server))
            }
            _ => Err(unknown(word)),
        }
    }

    /// Unmounts what is still mounted, and removes a file created for the mount.
    fn left(self: Box<Self>) -> io::Result<()> {
        let (Some(mut place), Some(mounted)) = (self.place, self.mounted) else {
            return Ok(());
        };
        if place.follow(&mounted) {
            return unmount(place.path(), true);
        }
        // Another process unmounted it; the file may belong to others now.
        std::mem::forget(place);
        Ok(())
    }
}

/// Unmounts. Returns a warning if there is one.
fn leave(mut place: MountPoint, mounted: &Mounted, server: Option<Pid>) -> Option<String> {
    for _ in 0..TRIES {
        if !place.follow(mounted) || unmount(place.path(), false).is_ok() {
            return None;
        }
        thread::sleep(BETWEEN);
    }
    // Ignore the server, which has the file below the mount open.
    let users = users(place.path(), server);
    let unmounted = unmount(place.path(), true);
    let path = place.path().display();
    let warning = match &unmounted {
        Ok(()) => format!(
            "{path} was still open, {}: they get errors from now on. Unmount what is on it and \
             detach its loop devices before the server is stopped",
            by_users(&users)
        ),
        Err(error) => format!("{path} could not be unmounted: {error}"),
    };
    if unmounted.is_err() {
        // The path still leads to the array.
        std::mem::forget(place);
    }
    Some(warning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn watched(made: &str, path: &Path) -> Box<dyn Watched> {
        let arguments = [made.into(), path.as_os_str().to_owned()];
        find(&arguments).expect("these are arguments")
    }

    /// No request unmounts anything but the server's mount on its own path.
    #[test]
    fn only_the_servers_own_mount_is_unmounted() {
        let proc = Path::new("/proc");
        assert!(mounted_on(proc).is_ok_and(|found| found.is_some()));
        let mut watched = watched(FOUND, proc);
        for word in [
            MOUNTED,
            UNMOUNT,
            OPENERS,
            WHERE,
            "unmount /proc",
            "",
            "mounted 0:1",
        ] {
            watched.asked(word).expect_err("it is no mount of ours");
        }
        watched.left().expect("nothing is left");
        assert!(mounted_on(proc).is_ok_and(|found| found.is_some()));
    }

    /// A file created for a server that never mounted it is removed, and nothing else.
    #[test]
    fn created_mount_points_are_removed() {
        for (made, stays) in [(MADE, false), (FOUND, true)] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("file");
            MountPoint::prepare(&path)
                .expect("it is free")
                .leave_to_another();
            watched(made, &path).left().expect("nothing is left");
            assert_eq!(path.exists(), stays, "{made}");
        }
    }
}
