//! Clients: fio, which verifies its writes, and a memory hog.

use crate::torture::memory::group::Group;
use crate::world::Running;
use std::fmt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Fields of fio's terse output: KiB read and written.
const READ_FIELD: usize = 5;
const WRITTEN_FIELD: usize = 46;

/// How a client reaches the array.
pub(crate) enum Engine {
    /// A separate NBD connection, to the data from this offset on.
    Nbd { uri: String, offset: u64 },
    /// A file on a file system on the array, written through the page cache.
    Buffered(PathBuf),
    /// Such a file, mapped into memory.
    Mapped(PathBuf),
}

impl Engine {
    fn arguments(&self) -> Vec<String> {
        match self {
            Self::Nbd { uri, offset } => vec![
                "--ioengine=nbd".to_owned(),
                format!("--uri={uri}"),
                format!("--offset={offset}"),
                "--iodepth=16".to_owned(),
            ],
            Self::Buffered(file) => vec![
                "--ioengine=psync".to_owned(),
                format!("--filename={}", file.display()),
                "--fsync=256".to_owned(),
            ],
            Self::Mapped(file) => vec![
                "--ioengine=mmap".to_owned(),
                format!("--filename={}", file.display()),
            ],
        }
    }
}

/// fio, and its progress at the last look.
pub(crate) struct Client {
    name: String,
    process: Running,
    /// Where it runs.
    _folder: TempDir,
    done_kib: (u64, u64),
    since: Instant,
    stood_still_max: Duration,
}

impl Client {
    /// Starts it. It writes this many bytes at random, again and again for `seconds`, and verifies
    /// its writes meanwhile; without `seconds` it writes once, and then verifies everything.
    pub(crate) fn begin(
        name: &str,
        engine: &Engine,
        bytes: u64,
        seconds: Option<u64>,
        group: &Group,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("fio");
        command.args([
            "--name=client",
            "--rw=randwrite",
            "--bssplit=4k/60:16k/30:128k/10",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
            "--thread",
            "--status-interval=1",
            "--output-format=terse",
            "--terse-version=3",
            &format!("--size={bytes}"),
        ]);
        if let Some(seconds) = seconds {
            // Without the backlog it would write all of the time.
            let runtime = format!("--runtime={seconds}");
            command.args(["--time_based", &runtime, "--verify_backlog=128"]);
        }
        command.args(engine.arguments()).current_dir(folder.path());
        Self {
            name: name.to_owned(),
            process: Running::begin(group.enter(&command)),
            _folder: folder,
            done_kib: (0, 0),
            since: Instant::now(),
            stood_still_max: Duration::ZERO,
        }
    }

    /// Checks its progress. Returns true if it has ended.
    ///
    /// # Errors
    ///
    /// It failed, or has made no progress for that long.
    pub(crate) fn look(&mut self, standstill_max: Duration) -> Result<bool, String> {
        let lines = self.process.output();
        let complete = lines.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let fields: Vec<&str> = complete.lines().last().unwrap_or("").split(';').collect();
        let number = |at: usize| {
            fields
                .get(at)
                .and_then(|field| field.parse().ok())
                .unwrap_or(0)
        };
        let done_kib = (number(READ_FIELD), number(WRITTEN_FIELD));
        let still = self.since.elapsed();
        self.stood_still_max = self.stood_still_max.max(still);
        if done_kib != self.done_kib {
            (self.done_kib, self.since) = (done_kib, Instant::now());
        }
        match self.process.status() {
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(format!("{self}: {status}: {}", self.process.said())),
            None if still < standstill_max => Ok(false),
            None => Err(format!("{self}: it hangs")),
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (read_kib, written_kib) = self.done_kib;
        write!(
            f,
            "{}: {} MiB written, {} MiB read back, stood still for {:.1} s at most",
            self.name,
            written_kib >> 10,
            read_kib >> 10,
            self.stood_still_max.as_secs_f64()
        )
    }
}

/// Allocates and frees memory in waves, as there may be no swap.
pub(crate) struct Hog(Child);

impl Hog {
    pub(crate) fn begin(bytes: u64, group: &Group) -> Self {
        // It runs until its output is closed. If memory runs out, it is the one to be killed.
        let waves = r#"echo 1000 >/proc/self/oom_score_adj
while echo; do head -c "$0" /dev/zero | tail -c "$0" | { sleep 0.3; cat >/dev/null; }; done"#;
        let mut command = Command::new("sh");
        command.args(["-c", waves, &bytes.to_string()]);
        let mut command = group.enter(&command);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        Self(command.stderr(Stdio::null()).spawn().expect("it runs"))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        drop(self.0.stdout.take());
        drop(self.0.wait());
    }
}
