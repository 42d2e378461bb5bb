//! A small process that unmounts when the server is gone, however it went: a mount that nobody answers for keeps
//! everybody waiting, or fails in everybody's face, until somebody takes it away.
//!
//! It reads from a pipe whose other end the server has. The server writes a line when it has mounted; when it is gone
//! the pipe ends.

use super::mount::unmount;
use super::mounts::mounted_on;
use super::place::Place;
use std::ffi::OsString;
use std::io::{self, BufRead, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How the process is started: a program that calls [`watch`], and its first arguments. Those that follow say what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatcherCommand {
    /// The program.
    pub program: PathBuf,
    /// What comes first.
    pub arguments: Vec<OsString>,
}

/// Given to the process where the file was made for the mount.
const MADE: &str = "made";
/// And where it was not.
const FOUND: &str = "found";

/// The server's side. Dropped, it waits for the process to end.
#[derive(Debug)]
pub(crate) struct Watcher {
    process: Child,
}

impl Watcher {
    pub(crate) fn start(command: &WatcherCommand, place: &Place) -> io::Result<Self> {
        let made = if place.is_made() { MADE } else { FOUND };
        let mut process = Command::new(&command.program);
        let process = process.args(&command.arguments).arg(made).arg(place.path());
        // It must keep nothing that others wait for: no folder, no output.
        let process = process.current_dir("/").stdin(Stdio::piped());
        let process = process
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { process })
    }

    /// It is mounted, with a device of that number.
    pub(crate) fn mounted(&mut self, device: &str) -> io::Result<()> {
        let pipe = self.process.stdin.as_mut().expect("it is piped");
        writeln!(pipe, "{device}")
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // Somebody may have killed it.
        drop(self.process.wait());
    }
}

/// The process's side: waits until the server is gone, and unmounts what it left. `arguments` are those that follow
/// [`WatcherCommand::arguments`].
///
/// # Errors
///
/// The arguments are none that a server gives, or something could not be unmounted.
pub fn watch(arguments: &[OsString]) -> io::Result<()> {
    let [made, path] = arguments else {
        return Err(io::Error::other("only a server starts this"));
    };
    // What ends the server, such as Ctrl-C in its terminal, must not end this.
    rustix::process::setsid().ok();
    let place = Place::of_another(path.into(), made == MADE);
    match device(io::stdin().lock())? {
        Some(device) if is_left(place.path(), &device)? => unmount(place.path(), true),
        Some(_) => {
            // The server has unmounted it, and what is there now may be another's.
            std::mem::forget(place);
            Ok(())
        }
        None => Ok(()),
    }
}

/// What the server has mounted, once it is gone.
fn device(mut pipe: impl BufRead) -> io::Result<Option<String>> {
    let mut told = String::new();
    pipe.read_to_string(&mut told)?;
    let line = told.strip_suffix('\n');
    Ok(line.map(str::to_owned))
}

fn is_left(path: &Path, device: &str) -> io::Result<bool> {
    let mounted = mounted_on(path)?;
    Ok(mounted.is_some_and(|mounted| mounted.device == device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipe_tells_what_is_mounted() {
        for (told, expected) in [("0:55\n", Some("0:55")), ("", None), ("0:5", None)] {
            let device = device(told.as_bytes()).unwrap();
            assert_eq!(device.as_deref(), expected, "{told:?}");
        }
    }

    /// Nothing else that is mounted there by now is touched.
    #[test]
    fn only_its_own_mount_is_left() {
        assert!(is_left(Path::new("/proc"), "0:0").is_ok_and(|left| !left));
    }
}
