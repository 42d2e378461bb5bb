//! An array that is served in the group, and the commands on it.

use crate::torture::memory::group::Group;
use crate::torture::memory::run;
use crate::torture::memory::sizes::{Series, Sizes};
use crate::torture::random::Random;
use crate::world::{Running, World};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

const MEMBER_BYTES: u64 = 96 << 20;
/// Pause between two commands.
const PAUSE: Duration = Duration::from_millis(200);
/// Descriptors and threads of a finished command disappear a moment later.
const SETTLES: Duration = Duration::from_millis(100);

pub(crate) struct Array<'a> {
    way: &'static str,
    place: World,
    server: Mutex<Running>,
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
        let place = World::new("", 0);
        for name in ["a", "b", "c", "d"] {
            // Allocated in advance, so that they take no memory of the group on any file system.
            let path = place.path(name);
            let path = path.to_str().expect("UTF-8");
            run("fallocate", &["--length", &MEMBER_BYTES.to_string(), path])?;
        }
        place
            .tries("create pool raid5(a,b,c) --chunk 64K")
            .expect("an array");
        let serve = place.command_of(&["serve", "pool", way, address]);
        let serve = if in_group { group.enter(&serve) } else { serve };
        let mut server = Running::begin(serve);
        server.ready()?;
        Ok(Self {
            way,
            place,
            server: Mutex::new(server),
            group,
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    /// The address of the array's NBD export.
    pub(crate) fn uri(&self) -> String {
        self.place.uri()
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
        let mut server = self.server.lock().expect("no thread panicked");
        if server.has_ended() {
            return Err(format!("{} has ended: {}", self.way, server.said()));
        }
        Ok(())
    }

    /// Releases processes that wait for the server, which may hang itself.
    pub(crate) fn abandon(&self) {
        let file = self.path("file");
        drop(Command::new("umount").arg("--force").arg(file).status());
        self.server.lock().expect("no thread panicked").kill();
    }

    /// Runs a command in the group.
    fn does(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let command = self.group.enter(&self.place.command_of(&words));
        let run = Running::begin(command).end(None);
        let done = run.status == 0;
        assert!(done, "{}: {line}: {}{}", self.way, run.out, run.error);
        self.place.plain(&run.out)
    }

    /// Lets members fail, return, be replaced and be scrubbed, until `end`. Returns the server's
    /// resources after each command.
    pub(crate) fn manage(&self, seed: u64, end: Instant) -> Series {
        let mut random = Random::new(seed);
        let mut members = ["a", "b", "c"];
        let mut free = "d";
        let mut sizes = Vec::new();
        while sizes.is_empty() || Instant::now() < end {
            let at = random.index(members.len());
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
        let server = self.server.into_inner().expect("no thread panicked");
        server.end(None).ends(0);
    }
}
