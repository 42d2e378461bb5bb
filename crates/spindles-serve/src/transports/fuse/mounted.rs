//! A mount as its [watcher](super::super::watcher) sees it: the server, in its sandbox, can't unmount it.

use super::mount::unmount;
use super::mounts::{FILE_SYSTEM, Mounted, mounted_on};
use super::place::Place;
use crate::transports::users::{by_users, lasting_users, users, users_of_unmounted};
use crate::transports::watcher::{Watched, reply, unknown};
use rustix::process::{Pid, getppid};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io;
use std::thread;
use std::time::Duration;

/// Programs that end just now, such as those that look at a loop device that goes away, are waited for.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(50);

/// Given to the process where the file was made for the mount.
const MADE: &str = "made";
/// And where it was not.
const FOUND: &str = "found";

/// It is mounted.
pub(super) const MOUNTED: &str = "mounted";
/// It is to be unmounted. The reply is what somebody should know of that.
pub(super) const UNMOUNT: &str = "unmount";

/// The reply is who uses the file, where somebody does for longer than a moment.
pub(super) const USERS: &str = "users";

/// The reply is who has the file open, wherever it is mounted, or nowhere any more.
pub(super) const OPENERS: &str = "openers";

/// The reply is where it is mounted, if it still is.
pub(super) const WHERE: &str = "where";

/// What the process is told on its command line.
pub(super) fn arguments(place: &Place) -> [&OsStr; 2] {
    let made = if place.is_made() { MADE } else { FOUND };
    [made.as_ref(), place.path().as_os_str()]
}

pub(super) fn find(arguments: &[OsString]) -> io::Result<Box<dyn Watched>> {
    let [made, path] = arguments else {
        return Err(io::Error::other("a mount is a word and a path"));
    };
    Ok(Box::new(Mount {
        place: Some(Place::of_another(path.into(), made == MADE)),
        mounted: None,
        server: getppid(),
    }))
}

struct Mount {
    /// Until it is unmounted.
    place: Option<Place>,
    /// What the server has mounted, once it has. What is mounted there by others is none of ours.
    mounted: Option<Mounted>,
    server: Option<Pid>,
}

impl Watched for Mount {
    fn asked(&mut self, word: &str) -> io::Result<Value> {
        match (word, &mut self.place, &self.mounted) {
            (MOUNTED, Some(place), None) => {
                let mounted = mounted_on(place.path())?;
                let mounted = mounted.filter(|it| it.file_system == FILE_SYSTEM);
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

    /// A mount that is left is taken away, and a file that was made for one.
    fn left(self: Box<Self>) -> io::Result<()> {
        let (Some(mut place), Some(mounted)) = (self.place, self.mounted) else {
            return Ok(());
        };
        if place.follow(&mounted) {
            return unmount(place.path(), true);
        }
        // Somebody has unmounted it, and what is there now may be another's.
        std::mem::forget(place);
        Ok(())
    }
}

/// Unmounts. What somebody should know of that.
fn leave(mut place: Place, mounted: &Mounted, server: Option<Pid>) -> Option<String> {
    for _ in 0..TRIES {
        if !place.follow(mounted) || unmount(place.path(), false).is_ok() {
            return None;
        }
        thread::sleep(BETWEEN);
    }
    // The server has the file open that is hidden by the mount.
    let users = users(place.path(), server);
    let unmounted = unmount(place.path(), true);
    let path = place.path().display();
    let told = match &unmounted {
        Ok(()) => format!(
            "{path} was still open, {}: they get errors from now on. Unmount what is on it and detach its loop \
             devices before the server is stopped",
            by_users(&users)
        ),
        Err(error) => format!("{path} could not be unmounted: {error}"),
    };
    if unmounted.is_err() {
        // What is there is the array still.
        std::mem::forget(place);
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn watched(made: &str, path: &Path) -> Box<dyn Watched> {
        let arguments = [made.into(), path.as_os_str().to_owned()];
        find(&arguments).expect("these are arguments")
    }

    /// Nothing but what its server mounted on its path is unmounted, whatever it is asked.
    #[test]
    fn only_its_own_mount_is_touched() {
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

    /// A file that was made for a server which never came to mount it is removed, and nothing else.
    #[test]
    fn what_was_made_is_removed() {
        for (made, stays) in [(MADE, false), (FOUND, true)] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("file");
            Place::prepare(&path)
                .expect("it is free")
                .leave_to_another();
            watched(made, &path).left().expect("nothing is left");
            assert_eq!(path.exists(), stays, "{made}");
        }
    }
}
