//! The watcher: a small process outside the sandbox that removes the kernel objects of a transport.
//! It does so when the server asks for it, or has ended in any way. A mount without a server would
//! block its users, or fail all their requests, until it is unmounted.
//!
//! ```text
//!  server ──▶ a word  ──▶ watcher: is it for what it watches? ──▶ what came of it
//!         ──▶ nothing more, since it is gone ──▶ watcher: takes away what is left
//! ```
//!
//! Its command line names the mount or device, and is fixed before the first client connects.

use super::TRANSPORTS;
use crate::guard::Guard;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Command that starts the watcher: a program that calls [`watch`], and its first arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatcherCommand {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments, before those that select the mount or device.
    pub arguments: Vec<OsString>,
}

/// All requests together are shorter than this; a longer input does not come from a server.
const WORDS_BYTES_MAX: u64 = 4096;

/// How long a server waits for a reply. An unmount may wait for I/O of other programs.
const REPLY_MAX: Duration = Duration::from_secs(30);

/// A mount or device that a watcher looks after.
pub(super) trait Watched {
    /// Executes a request; returns the reply. The request may be anything, if the server was taken
    /// over.
    fn asked(&mut self, word: &str) -> io::Result<Value>;

    /// Called when the server has ended.
    fn left(self: Box<Self>) -> io::Result<()>;
}

/// Finds the mount or device for these arguments.
pub(super) type Find = fn(&[OsString]) -> io::Result<Box<dyn Watched>>;

/// The server's side. Dropping it waits for the process to end, unless the process stopped
/// replying.
#[derive(Debug)]
pub(super) struct Watcher {
    process: Child,
    /// `None` once it is dropped, or the process does not reply.
    socket: Option<BufReader<UnixStream>>,
    /// True if the process did not reply in time, and may never end.
    is_stuck: bool,
}

impl Watcher {
    /// Starts a watcher for a listener of this transport.
    pub(super) fn start(
        command: &WatcherCommand,
        transport: &str,
        arguments: &[&OsStr],
    ) -> io::Result<Self> {
        let mut process = Command::new(&command.program);
        let process = process.args(&command.arguments);
        let process = process.arg(transport).args(arguments);
        // Keep no folder and no output that other programs wait for.
        let process = process.current_dir("/").stderr(Stdio::null());
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(REPLY_MAX))?;
        let process = process.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        Ok(Self {
            process: process.spawn()?,
            socket: Some(BufReader::new(ours)),
            is_stuck: false,
        })
    }

    /// Returns a guard that reports `loss` when the process ends. `None` before Linux 5.3.
    pub(super) fn guard(&self, loss: String) -> Option<Guard> {
        Guard::new(&self.process, loss).ok()
    }

    /// Sends a request and waits for its reply.
    pub(super) fn ask<T: DeserializeOwned>(&mut self, word: &str) -> io::Result<T> {
        let has_ended = || io::Error::other("the process that does it has ended");
        let socket = self.socket.as_mut().ok_or_else(has_ended)?;
        let asked = writeln!(socket.get_mut(), "{word}");
        let mut reply = String::new();
        let replied = asked.and_then(|()| socket.read_line(&mut reply));
        if replied
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        {
            // A late reply would be taken for the reply to another request.
            (self.socket, self.is_stuck) = (None, true);
            return Err(io::Error::other("the process that does it does not reply"));
        }
        // Every request has a reply.
        if replied.is_err() || reply.is_empty() {
            return Err(has_ended());
        }
        let reply: Result<T, String> = serde_json::from_str(&reply)?;
        reply.map_err(io::Error::other)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.socket = None;
        if !self.is_stuck {
            // Ignore the exit status: another process may have killed the watcher.
            drop(self.process.wait());
        }
    }
}

/// The process's side: executes the server's requests from standard input, a socket, until it
/// closes, then cleans up. `arguments` are those after [`WatcherCommand::arguments`].
///
/// # Errors
///
/// The arguments are invalid, or the clean-up failed.
pub fn watch(arguments: &[OsString]) -> io::Result<()> {
    let foreign = || io::Error::other("only a server starts this");
    let (transport, arguments) = arguments.split_first().ok_or_else(foreign)?;
    let row = TRANSPORTS.iter().find(|row| row.name == transport);
    let find = row.and_then(|row| row.watched).ok_or_else(foreign)?;
    // Signals that end the server, such as Ctrl-C in its terminal, must not end the watcher.
    rustix::process::setsid().ok();
    let socket = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let words = BufReader::new((&socket).take(WORDS_BYTES_MAX));
    follow(find(arguments)?, words, &socket)
}

fn follow(
    mut watched: Box<dyn Watched>,
    words: impl BufRead,
    mut replies: impl Write,
) -> io::Result<()> {
    for word in words.lines() {
        let Ok(word) = word else {
            break; // Not UTF-8: ignore the rest.
        };
        let done = watched.asked(&word).map_err(|error| error.to_string());
        if writeln!(replies, "{}", serde_json::to_string(&done)?).is_err() {
            break;
        }
    }
    watched.left()
}

/// The error for a request that is unknown, or no longer possible.
pub(super) fn unknown(word: &str) -> io::Error {
    io::Error::other(format!("'{word}' is not done"))
}

/// Serializes a reply.
pub(super) fn reply(said: impl Serialize) -> io::Result<Value> {
    Ok(serde_json::to_value(said)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    struct Bell(Sender<String>);

    impl Watched for Bell {
        fn asked(&mut self, word: &str) -> io::Result<Value> {
            self.0.send(word.to_owned()).expect("the test listens");
            match word {
                "ring" => reply(Some("it rang\ntwice")),
                _ => Err(unknown(word)),
            }
        }

        fn left(self: Box<Self>) -> io::Result<()> {
            self.0.send("left".to_owned()).expect("the test listens");
            Ok(())
        }
    }

    /// A process that does not reply gets no more requests, and is not waited for at the end.
    #[test]
    fn a_hanging_process_delays_no_reply() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let limit = Duration::from_millis(20);
        ours.set_read_timeout(Some(limit)).expect("a limit");
        let mut sleep = Command::new("sleep");
        let process = sleep.arg("600").spawn().expect("it starts");
        let pid = rustix::process::Pid::from_child(&process);
        let mut watcher = Watcher {
            process,
            socket: Some(BufReader::new(ours)),
            is_stuck: false,
        };
        for why in ["does not reply", "has ended"] {
            let error = watcher.ask::<()>("unmount").expect_err("no reply");
            assert!(error.to_string().ends_with(why), "{error}");
        }
        drop(watcher);
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs still");
        drop(theirs);
    }

    #[test]
    fn each_command_gets_a_reply_and_the_end_is_detected() {
        for (words, expected) in [
            (&b""[..], ""),
            (
                b"ring\nfly\n",
                "{\"Ok\":\"it rang\\ntwice\"}\n{\"Err\":\"'fly' is not done\"}\n",
            ),
            (b"\xff\nring\n", ""),
        ] {
            let (bell, heard) = channel();
            let mut replies = Vec::new();
            follow(Box::new(Bell(bell)), words, &mut replies).expect("it ends");
            assert_eq!(String::from_utf8(replies).as_deref(), Ok(expected));
            assert_eq!(heard.iter().last().as_deref(), Some("left"));
        }
    }
}
