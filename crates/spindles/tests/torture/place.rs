//! A folder with devices, and the commands and servers that work on them: started, killed, and
//! left without some devices.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest time for a command on the slowest machine. A longer one hangs.
const TIME_MAX: Duration = Duration::from_mins(3);
const AWAY: &str = ".away";

pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a folder"));
        fs::create_dir(place.path(AWAY)).expect("a folder");
        place
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Makes a device: a sparse file.
    pub(crate) fn make(&self, name: &str, bytes: u64) {
        let file = File::create_new(self.path(name)).expect("a new file");
        file.set_len(bytes).expect("its length");
    }

    /// Takes a device away, or brings it back.
    pub(crate) fn carry(&self, name: &str, here: bool) {
        let (place, away) = (self.path(name), self.path(AWAY).join(name));
        let (from, to) = if here { (away, place) } else { (place, away) };
        fs::rename(from, to).expect("it is where it was put");
    }

    pub(crate) fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = crate::program_in(self.folder());
        command.args(arguments);
        command
    }

    pub(crate) fn begin(&self, line: &str) -> Running {
        let words: Vec<&str> = line.split(' ').collect();
        Running::begin(self.command(&words))
    }

    pub(crate) fn run(&self, line: &str) -> Run {
        self.begin(line).end(None)
    }

    /// Runs a command that must succeed. Returns its output.
    pub(crate) fn does(&self, line: &str) -> Result<String, String> {
        let run = self.run(line);
        match run.status {
            Some(0) => Ok(run.out),
            status => Err(format!("{line}: exit status {status:?}: {}", run.error)),
        }
    }
}

/// The result of a command.
pub(crate) struct Run {
    /// The exit status; `None` for a command that was killed.
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) error: String,
}

impl Run {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_default()
    }
}

/// A process, killed when dropped.
pub(crate) struct Running {
    child: Child,
    // Files, because pipes without a reader could fill up.
    outputs: [File; 2],
}

impl Running {
    pub(crate) fn begin(mut command: Command) -> Self {
        let outputs = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
        let [out, error] = [&outputs[0], &outputs[1]].map(|file| file.try_clone().expect("a file"));
        let command = command.stdin(Stdio::null()).stdout(out).stderr(error);
        Self {
            child: command.spawn().expect("it runs"),
            outputs,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.status().is_some()
    }

    /// Its exit status; `None` if it has not ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is ours")
    }

    fn text(file: &File) -> String {
        let bytes = file.metadata().expect("it is open").len();
        let mut text = vec![0; usize::try_from(bytes).expect("64 bits")];
        // The offset of the process must stay.
        file.read_exact_at(&mut text, 0).expect("it is there");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Its standard output so far.
    pub(crate) fn output(&self) -> String {
        Self::text(&self.outputs[0])
    }

    /// Its standard error so far.
    pub(crate) fn said(&self) -> String {
        Self::text(&self.outputs[1])
    }

    /// Waits for a server until it serves. An error is the output of a server that does not.
    pub(crate) fn ready(&mut self) -> Result<(), String> {
        let began = Instant::now();
        while !self.said().contains("' is served") {
            if self.has_ended() || began.elapsed() > TIME_MAX {
                return Err(format!("it is not served: {}", self.said()));
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    pub(crate) fn kill(&mut self) {
        drop(self.child.kill());
        self.child.wait().expect("it ended");
    }

    /// Waits until it has ended; kills it after `kill_after`.
    pub(crate) fn end(mut self, kill_after: Option<Duration>) -> Run {
        let (began, after) = (Instant::now(), kill_after.unwrap_or(TIME_MAX));
        let mut hangs = "";
        while !self.has_ended() {
            if began.elapsed() >= after {
                hangs = kill_after.map_or("it hangs", |_| "");
                self.kill();
            }
            sleep(Duration::from_micros(500));
        }
        Run {
            status: self.child.wait().expect("it ended").code(),
            out: self.output(),
            error: self.said() + hangs,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
