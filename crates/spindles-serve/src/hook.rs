//! The program of the administrator that is run when something must be known: by the helper, outside of the server's
//! sandbox, one at a time, on a thread of its own, so that nobody waits for it.

use crate::alarms::{Alarm, AlarmKind};
use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The most alarms that wait for the program. Further ones are dropped, and a remark says so.
const WAITING_MAX: usize = 256;
/// So long it may take. When serving has ended, so long all that wait have together.
const RUN_MAX: Duration = Duration::from_secs(30);
/// Between two looks whether it has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// What the program finds in its environment.
const VARIABLES: [&str; 6] = [
    "SPINDLES_EVENT",
    "SPINDLES_ARRAY",
    "SPINDLES_DEVICE",
    "SPINDLES_MEMBER",
    "SPINDLES_STATE",
    "SPINDLES_MESSAGE",
];

/// What it finds there: the values.
pub(crate) type Words = [OsString; VARIABLES.len()];

/// An alarm of that kind for the program. What there is not is empty.
pub(crate) fn words(kind: &AlarmKind, alarm: &Alarm) -> Words {
    let member = alarm.member.map(|member| member.to_string());
    let values = [
        kind.name,
        &alarm.array,
        alarm.device.as_deref().unwrap_or_default(),
        member.as_deref().unwrap_or_default(),
        alarm.state,
        &alarm.message,
    ];
    values.map(OsString::from)
}

/// The words that somebody sent, if they are that.
pub(crate) fn received(words: Vec<OsString>) -> Option<Words> {
    words.try_into().ok()
}

/// Whether this user may execute a file.
#[must_use]
pub fn may_execute(program: &Path) -> bool {
    access(program, Access::EXEC_OK).is_ok()
}

/// A program that is run for each alarm.
#[derive(Debug)]
pub(crate) struct Hook {
    waiting: SyncSender<Words>,
    thread: JoinHandle<()>,
    ends: Arc<OnceLock<Instant>>,
    /// Alarms that were dropped.
    dropped: u64,
}

impl Hook {
    /// Has that program run for alarms from now on. `complain` gets what is wrong with it, when it begins to be.
    ///
    /// # Errors
    ///
    /// There can be no thread for it.
    pub(crate) fn begin(
        program: OsString,
        complain: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let (waiting, alarms) = sync_channel(WAITING_MAX);
        let ends: Arc<OnceLock<Instant>> = Arc::default();
        let limits = Limits {
            run_max: RUN_MAX,
            ends: Arc::clone(&ends),
        };
        let thread = thread::Builder::new().name("spindles-hook".to_owned());
        let thread = thread.spawn(move || work(&program, &alarms, &limits, &complain))?;
        Ok(Self {
            waiting,
            thread,
            ends,
            dropped: 0,
        })
    }

    /// Has it run for that, soon. Does not wait.
    pub(crate) fn raise(&mut self, words: Words) {
        if self.waiting.try_send(words).is_err() {
            self.dropped += 1;
        }
    }

    /// Lets it run for what waits, for a while. For so many alarms it was not run, because too many waited.
    pub(crate) fn close(self) -> u64 {
        // Nobody else sets it.
        self.ends.set(Instant::now() + RUN_MAX).ok();
        drop(self.waiting);
        drop(self.thread.join());
        self.dropped
    }
}

/// How long the program may take.
#[derive(Debug)]
struct Limits {
    run_max: Duration,
    /// When it all ends, once that is known.
    ends: Arc<OnceLock<Instant>>,
}

impl Limits {
    fn is_over(&self, begun: Instant) -> bool {
        let ends = self.ends.get();
        begun.elapsed() > self.run_max || ends.is_some_and(|ends| Instant::now() > *ends)
    }
}

fn work(program: &OsString, alarms: &Receiver<Words>, limits: &Limits, complain: &dyn Fn(&str)) {
    let mut fails = false;
    while let Ok(words) = alarms.recv() {
        let result = run(program, &words, limits);
        if let (Err(why), false) = (&result, fails) {
            let program = program.to_string_lossy();
            complain(&format!(
                "{program}, which is run for events, {why}; it is tried for others, and not told again before \
                 it has worked"
            ));
        }
        fails = result.is_err();
    }
}

/// Runs it once, and waits until it has ended.
fn run(program: &OsString, words: &Words, limits: &Limits) -> Result<(), String> {
    let begun = Instant::now();
    let said = io::stderr().as_fd().try_clone_to_owned();
    let said = said.map_err(|error| format!("can't be run: {error}"))?;
    let [event, array, device, ..] = words;
    let mut command = Command::new(program);
    command
        .args([event, array])
        .args(Some(device).filter(|device| !device.is_empty()))
        .envs(VARIABLES.iter().zip(words))
        // What the server tells systemd is its own.
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stdout(said)
        // Whoever presses Ctrl-C means the server; and what it begins ends with it.
        .process_group(0);
    let mut child = command
        .spawn()
        .map_err(|error| format!("can't be run: {error}"))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("failed for {}: {status}", event.display())),
            Ok(None) if limits.is_over(begun) => break,
            Ok(None) => thread::sleep(LOOK_INTERVAL),
            Err(error) => return Err(format!("is lost: {error}")),
        }
    }
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // It may have ended just now.
    group.map(|group| kill_process_group(group, Signal::KILL).ok());
    drop(child.wait());
    let seconds = begun.elapsed().as_secs();
    Err(format!(
        "had not ended after {seconds} s for {}, and was killed",
        event.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarms::Watch;
    use std::sync::Mutex;

    /// What a hook complained about that was run for so many alarms.
    fn complaints(program: &str, run_max: Duration, count: usize) -> Vec<String> {
        let limits = Limits {
            run_max,
            ends: Arc::default(),
        };
        let (waiting, alarms) = sync_channel(count);
        for _ in 0..count {
            let alarm = Watch::unclean("pool", "it is a test");
            waiting
                .send(words(alarm.kinds[0], &alarm))
                .expect("there is room");
        }
        drop(waiting);
        let complaints = Mutex::new(Vec::new());
        let complain = |text: &str| complaints.lock().expect("one thread").push(text.to_owned());
        work(&program.into(), &alarms, &limits, &complain);
        complaints.into_inner().expect("one thread")
    }

    #[test]
    fn what_fails_is_told_once() {
        let told = complaints("/bin/false", RUN_MAX, 3);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("failed for ClosedUnclean: exit status: 1"),
            "{told:?}"
        );
        let told = complaints("/there/is/none", RUN_MAX, 2);
        assert!(
            told.len() == 1 && told[0].contains("can't be run"),
            "{told:?}"
        );
        assert!(complaints("/bin/true", RUN_MAX, 2).is_empty());
    }

    #[test]
    fn what_hangs_is_killed_with_all_that_it_began() {
        let folder = tempfile::tempdir().expect("a folder");
        let (script, pid) = (folder.path().join("hook"), folder.path().join("pid"));
        let text = format!("#!/bin/sh\nsleep 60 &\necho $! > {}\nwait\n", pid.display());
        std::fs::write(&script, text).expect("it is written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).expect("it may be run");
        let script = script.to_str().expect("UTF-8");
        let told = complaints(script, Duration::from_millis(300), 1);
        assert!(
            told.len() == 1 && told[0].contains("was killed"),
            "{told:?}"
        );
        let pid = std::fs::read_to_string(pid).expect("it began");
        // Gone, or nobody has asked yet how it ended. A process that is killed takes a moment to go.
        let is_gone = |_: &usize| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            std::thread::sleep(Duration::from_millis(10));
            stat.map_or(true, |stat| stat.contains(" Z "))
        };
        assert!((0..1000).find(is_gone).is_some(), "it goes on");
    }
}
