//! An array that is served in the group, and the commands on it.

use crate::soak::group::Group;
use crate::soak::run;
use crate::soak::sizes::{Series, Sizes};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MEMBER_BYTES: u64 = 96 << 20;
/// Pause between two commands.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest time for a command, in seconds.
const COMMAND_LIMIT: &str = "120";
/// Descriptors and threads of a finished command disappear a moment later.
const SETTLES: Duration = Duration::from_millis(100);

/// A small random number generator with a fixed algorithm.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = u64::try_from(bound).expect("64 bits");
        usize::try_from((word ^ (word >> 31)) % bound).expect("below a length")
    }
}

pub(crate) struct Array<'a> {
    way: &'static str,
    folder: TempDir,
    server: Mutex<Child>,
    group: &'a Group,
}

impl<'a> Array<'a> {
    /// Serves a `raid5` of three files this way, in the group or not, with a fourth file that is
    /// free. An error gives the reason if that is impossible.
    pub(crate) fn serve(
        way: &'static str,
        address: &str,
        group: &'a Group,
        in_group: bool,
    ) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a", "b", "c", "d"] {
            // Allocated in advance, so that they take no memory of the group on any file system.
            let path = folder.path().join(name);
            let path = path.to_str().expect("UTF-8");
            run("fallocate", &["--length", &MEMBER_BYTES.to_string(), path])?;
        }
        let program = env!("CARGO_BIN_EXE_spindles");
        let mut create = Command::new(program);
        let create = create.args(["create", "pool", "raid5(a,b,c)", "--chunk", "64K"]);
        let created = create.current_dir(folder.path()).output();
        assert!(created.expect("it runs").status.success());
        let mut command = if in_group {
            group.command(program)
        } else {
            Command::new(program)
        };
        let command = command.args(["serve", "pool", way, address]);
        let command = command.current_dir(folder.path()).stdin(Stdio::null());
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut server = command.spawn().expect("it runs");
        let mut lines = BufReader::new(server.stderr.take().expect("it is piped"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        let array = Self {
            way,
            folder,
            server: Mutex::new(server),
            group,
        };
        if !line.contains("array 'pool' is served: ") {
            return Err(line);
        }
        // Drains the rest of its output, so that it never blocks on a full pipe.
        std::thread::spawn(move || lines.read_to_string(&mut String::new()));
        Ok(array)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn name(&self) -> &str {
        self.way
    }

    fn process(&self) -> u32 {
        self.server.lock().expect("no thread panicked").id()
    }

    /// # Errors
    ///
    /// The server has ended.
    pub(crate) fn look(&self) -> Result<(), String> {
        let ended = self.server.lock().expect("no thread panicked").try_wait();
        let ended = ended.expect("it is ours");
        ended.map_or(Ok(()), |status| {
            Err(format!("{} has ended: {status}", self.way))
        })
    }

    /// Releases processes that wait for the server, which may hang itself.
    pub(crate) fn abandon(&self) {
        drop(
            Command::new("umount")
                .arg("--force")
                .arg(self.path("file"))
                .status(),
        );
        drop(self.server.lock().expect("no thread panicked").kill());
    }

    /// Runs a command in the group.
    fn does(&self, line: &str) -> String {
        let mut command = self.group.command("timeout");
        let command = command.args([COMMAND_LIMIT, env!("CARGO_BIN_EXE_spindles")]);
        let command = command
            .args(line.split(' '))
            .current_dir(self.folder.path());
        let output = command.output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        let way = self.way;
        assert!(output.status.success(), "{way}: {line}: {out}{error}");
        out
    }

    /// Lets members fail, return, be replaced and be scrubbed, until `end`. Returns the server's
    /// resources after each command.
    pub(crate) fn manage(&self, seed: u64, end: Instant) -> Series {
        let mut random = Random(seed);
        let mut members = ["a", "b", "c"];
        let mut free = "d";
        let mut sizes = Vec::new();
        while sizes.is_empty() || Instant::now() < end {
            let at = random.below(members.len());
            let member = members[at];
            match random.below(6) {
                0 => {
                    self.does(&format!("fail {member} pool"));
                    sleep(PAUSE);
                    // `add` copies the writes that the member missed.
                    self.does(&format!("add {member} pool"));
                }
                1 => {
                    self.does(&format!("fail {member} pool"));
                    self.does(&format!("remove {member} pool"));
                    self.does(&format!("wipe {member} --force"));
                    self.does(&format!("add {member} pool --force"));
                }
                2 => {
                    self.does(&format!("replace {member} --onto {free} pool --force"));
                    members[at] = std::mem::replace(&mut free, member);
                }
                3 => {
                    self.does(&format!("spare add {free} --array pool --force"));
                    self.does(&format!("fail {member} pool"));
                    // The spare has taken its place, and is filled.
                    self.does("rebuild pool");
                    self.does(&format!("wipe {member} --force"));
                    members[at] = std::mem::replace(&mut free, member);
                }
                4 => drop(self.does("resync pool")),
                _ => {
                    let found = self.does("scrub pool");
                    assert_eq!(found.trim(), "array 'pool': nothing is wrong");
                }
            }
            self.does("status pool");
            sleep(SETTLES);
            sizes.push(Sizes::of(self.process()));
            sleep(PAUSE);
        }
        Series::new(sizes)
    }

    /// The kernel stack of each thread of the server.
    pub(crate) fn stacks(&self) -> String {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process()));
        let mut report = format!("the server of {}:", self.way);
        for task in tasks.into_iter().flatten().flatten() {
            let stack = fs::read_to_string(task.path().join("stack"));
            let stack = stack.unwrap_or_else(|error| error.to_string());
            let thread = task.path();
            write!(report, "\n{}:\n{stack}", thread.display()).expect("strings take everything");
        }
        report
    }

    /// Checks that all data is in order, and stops the server cleanly.
    pub(crate) fn stop(self) {
        let found = self.does("scrub pool");
        assert_eq!(found.trim(), "array 'pool': nothing is wrong");
        self.does("stop pool");
        let mut server = self.server.lock().expect("no thread panicked");
        assert!(server.wait().expect("it ends").success());
    }
}

impl Drop for Array<'_> {
    fn drop(&mut self) {
        let server = self.server.get_mut();
        let server = server.unwrap_or_else(std::sync::PoisonError::into_inner);
        drop(server.kill());
        drop(server.wait());
    }
}
