//! The ssh process that runs a node's agent.

use super::wire::Outlet;
use crate::systems::undo::{Undo, What};
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Options for ssh, after those of the user's command, which thus take precedence: never ask, and
/// notice a dead network.
const OPTIONS: [&str; 9] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
];
/// How often the end of ssh is checked.
const LOOK: Duration = Duration::from_millis(5);
/// How long to wait for the last error message.
const WORDS_TIME: Duration = Duration::from_secs(1);
/// The part of the error messages that is kept, in bytes.
const WORDS_BYTES_MAX: usize = 4096;

/// A running ssh.
#[derive(Debug)]
pub(super) struct Ssh {
    child: Child,
    undo: Option<Undo>,
    /// The end of its standard error.
    words: Arc<Mutex<Vec<u8>>>,
    listener: JoinHandle<()>,
    command: String,
}

impl Ssh {
    /// Starts the agent of a host. Returns the pipes from and to it, too.
    pub(super) fn start(
        ssh: &str,
        agent: &str,
        host: &str,
    ) -> io::Result<(Self, ChildStdout, Outlet)> {
        let mut child = Command::new("sh")
            .args(["-c", &format!("exec {ssh} \"$@\""), "ssh"])
            .args(OPTIONS)
            .args([host, agent])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C at the terminal is for this program, which then ends ssh.
            .process_group(0)
            .spawn()?;
        let undo = Some(Undo::new(What::Started(child.id())));
        let pipe = "the pipe was asked for";
        let from = child.stdout.take().expect(pipe);
        let to = Outlet::new(child.stdin.take().expect(pipe));
        let (complaints, words) = (child.stderr.take().expect(pipe), Arc::default());
        let heard = Arc::clone(&words);
        let ssh = Self {
            child,
            undo,
            words,
            listener: std::thread::spawn(move || listen(complaints, &heard)),
            command: format!("{ssh} {host} {agent}"),
        };
        Ok((ssh, from, to))
    }

    /// Returns the most telling line of its error messages, if any.
    pub(super) fn last_words(&self) -> Option<String> {
        wait_until(Instant::now() + WORDS_TIME, || self.listener.is_finished());
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&words);
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let is_error = |line: &&str| line.starts_with("spindles:") || line.starts_with("error:");
        let line = lines.clone().rfind(is_error).or(lines.next_back());
        line.map(|line| line.trim_end_matches('.').to_owned())
    }

    /// Returns the command, as users would type it.
    pub(super) fn command(&self) -> &str {
        &self.command
    }

    /// Waits for its end, which follows the end of its input; ends it at that time.
    pub(super) fn end(&mut self, at: Instant) {
        let child = &mut self.child;
        let is_over = wait_until(at, || !matches!(child.try_wait(), Ok(None)));
        if let Some(undo) = self.undo.take().filter(|_| is_over) {
            undo.ended();
        }
    }
}

/// Waits until `at` for a condition. Returns true if it came true.
fn wait_until(at: Instant, mut is_true: impl FnMut() -> bool) -> bool {
    while !is_true() {
        if Instant::now() > at {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}

/// Keeps the end of the error messages.
fn listen(mut from: impl Read, words: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 512];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend(&buffer[..read]);
        let old = words.len().saturating_sub(WORDS_BYTES_MAX);
        words.drain(..old);
    }
}
