//! Runs the administrator's program for alarms. The helper runs it outside the server's sandbox,
//! one run at a time, on its own thread, so that the server never waits for it.

use crate::alarms::{Alarm, AlarmKind};
use crate::guard::ends_within;
use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process_group};
use spindles_block::counted;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Most alarms that wait for the program. Further ones are dropped, counted and reported.
const WAITING_MAX: usize = 256;
/// Longest run of the program. Once serving has ended, all waiting alarms together have this long;
/// the rest is dropped and reported.
const RUN_MAX: Duration = Duration::from_secs(30);

/// Environment variables of the program.
const VARIABLES: [&str; 6] = [
    "SPINDLES_EVENT",
    "SPINDLES_ARRAY",
    "SPINDLES_DEVICE",
    "SPINDLES_MEMBER",
    "SPINDLES_STATE",
    "SPINDLES_MESSAGE",
];

/// The values of the variables.
pub(crate) type Words = [OsString; VARIABLES.len()];

/// Returns the values for an alarm of this kind; absent ones are empty.
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

/// Checks the number of received values; `None` if it is wrong.
pub(crate) fn received(words: Vec<OsString>) -> Option<Words> {
    words.try_into().ok()
}

/// Returns true if this user may execute the file.
#[must_use]
pub fn may_execute(program: &Path) -> bool {
    access(program, Access::EXEC_OK).is_ok()
}

/// The kinds of alarms for which the program was not run to its end, in order of their first, and
/// how many there were.
#[derive(Debug, Default)]
struct Dropped(Vec<(OsString, u64)>);

impl Dropped {
    fn add(&mut self, words: &Words) {
        match self.0.iter_mut().find(|(kind, _)| *kind == words[0]) {
            Some((_, count)) => *count += 1,
            None => self.0.push((words[0].clone(), 1)),
        }
    }

    /// Takes the dropped alarms as text, such as `3 events: Fail, 2 RotFound`. `None` without any.
    fn take(&mut self) -> Option<String> {
        let dropped = std::mem::take(&mut self.0);
        let of_kind = |(kind, count): &(OsString, u64)| match count {
            1 => kind.display().to_string(),
            count => format!("{count} {}", kind.display()),
        };
        let kinds: Vec<String> = dropped.iter().map(of_kind).collect();
        let count: u64 = dropped.iter().map(|(_, count)| count).sum();
        (count > 0).then(|| format!("{}: {}", counted(count, "event"), kinds.join(", ")))
    }
}

/// A program that is run for each alarm.
pub(crate) struct Hook {
    /// Its name, for messages.
    program: String,
    waiting: SyncSender<Words>,
    thread: JoinHandle<()>,
    ends: Arc<OnceLock<Instant>>,
    complain: Arc<dyn Fn(&str) + Send + Sync>,
    /// Alarms dropped since the queue became full.
    dropped: Dropped,
}

impl Hook {
    /// Starts the thread that runs `program` for each alarm. Calls `complain` on the first of
    /// consecutive failures, and for dropped alarms.
    ///
    /// # Errors
    ///
    /// The thread can't be started.
    pub(crate) fn begin(
        program: OsString,
        complain: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let complain: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(complain);
        let name = program.to_string_lossy().into_owned();
        let (waiting, alarms) = sync_channel(WAITING_MAX);
        let ends: Arc<OnceLock<Instant>> = Arc::default();
        let limits = Limits {
            run_max: RUN_MAX,
            ends: Arc::clone(&ends),
        };
        let thread = thread::Builder::new().name("spindles-hook".to_owned());
        let tell = Arc::clone(&complain);
        let thread = thread.spawn(move || work(&program, &alarms, &limits, &*tell))?;
        Ok(Self {
            program: name,
            waiting,
            thread,
            ends,
            complain,
            dropped: Dropped::default(),
        })
    }

    /// Queues an alarm. Never blocks.
    pub(crate) fn raise(&mut self, words: Words) {
        match self.waiting.try_send(words) {
            Ok(()) => self.tell_dropped(),
            Err(TrySendError::Full(words) | TrySendError::Disconnected(words)) => {
                if self.dropped.0.is_empty() {
                    (self.complain)(&format!(
                        "the event program {} hangs or is slow: {WAITING_MAX} events wait for it, \
                         and it misses further ones, from {} on",
                        self.program,
                        words[0].display()
                    ));
                }
                self.dropped.add(&words);
            }
        }
    }

    /// Reports the alarms dropped since the queue became full.
    fn tell_dropped(&mut self) {
        if let Some(dropped) = self.dropped.take() {
            (self.complain)(&format!(
                "the event program {} missed {dropped}: too many waited",
                self.program
            ));
        }
    }

    /// Runs the program for the waiting alarms, within the time limit. Reports dropped alarms.
    pub(crate) fn close(mut self) {
        self.tell_dropped();
        // Only this function sets it.
        self.ends.set(Instant::now() + RUN_MAX).ok();
        drop(self.waiting);
        drop(self.thread.join());
    }
}

/// Time limits of the program.
#[derive(Debug)]
struct Limits {
    run_max: Duration,
    /// The deadline of all runs, set once serving has ended.
    ends: Arc<OnceLock<Instant>>,
}

impl Limits {
    /// Returns how long a run that begins now may take.
    fn of_run(&self) -> Duration {
        let ends = self.ends.get();
        let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
        left.map_or(self.run_max, |left| left.min(self.run_max))
    }

    /// Returns true if all runs must end, and none may begin.
    fn are_over(&self) -> bool {
        self.ends.get().is_some_and(|ends| Instant::now() > *ends)
    }
}

fn work(program: &OsString, alarms: &Receiver<Words>, limits: &Limits, complain: &dyn Fn(&str)) {
    let mut fails = false;
    let mut dropped = Dropped::default();
    while let Ok(words) = alarms.recv() {
        if limits.are_over() {
            dropped.add(&words);
            continue;
        }
        let result = run(program, &words, limits);
        if result.is_err() && limits.are_over() {
            dropped.add(&words);
            continue;
        }
        if let (Err(why), false) = (&result, fails) {
            let program = program.to_string_lossy();
            complain(&format!(
                "the event program {program} {why}; it runs for later events, and failures are not \
                 reported until it has worked"
            ));
        }
        fails = result.is_err();
    }
    if let Some(dropped) = dropped.take() {
        complain(&format!(
            "the event program {} was killed when its time after the end of serving was over, and \
             missed {dropped}",
            program.to_string_lossy()
        ));
    }
}

/// Runs the program once, and waits until it ends.
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
        // Only the server itself notifies systemd.
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stdout(said)
        // Ctrl-C is meant for the server alone; and a time-out kills the whole group.
        .process_group(0);
    let mut child = command
        .spawn()
        .map_err(|error| format!("can't be run: {error}"))?;
    let ended = ends_within(&child, limits.of_run()).and_then(|_| child.try_wait());
    match ended {
        Ok(Some(status)) if status.success() => return Ok(()),
        Ok(Some(status)) => return Err(format!("failed for {}: {status}", event.display())),
        Ok(None) => {}
        Err(error) => return Err(format!("is lost: {error}")),
    }
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // The program may have just ended.
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

    /// Writes an executable file in a child process. A test that forks at this moment could inherit
    /// a descriptor of ours, and the kernel runs no file that is open for writing.
    fn write_program(path: &Path, text: &str) {
        let source = path.with_extension("text");
        std::fs::write(&source, text).expect("it is written");
        let installed = Command::new("install").arg(source).arg(path).status();
        assert!(installed.expect("install runs").success());
    }

    /// Returns the complaints of a hook that runs for `count` alarms.
    fn complaints(program: &str, run_max: Duration, count: usize) -> Vec<String> {
        complaints_until(program, run_max, None, count)
    }

    /// As `complaints`. Serving has ended, and the time of the hook is over at `ends`.
    fn complaints_until(
        program: &str,
        run_max: Duration,
        ends: Option<Instant>,
        count: usize,
    ) -> Vec<String> {
        let limits = Limits {
            run_max,
            ends: Arc::new(ends.map(OnceLock::from).unwrap_or_default()),
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
    fn a_failing_hook_is_reported_once() {
        let messages = complaints("/bin/false", RUN_MAX, 3);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(
            messages[0].contains("failed for ClosedUnclean: exit status: 1"),
            "{messages:?}"
        );
        let messages = complaints("/there/is/none", RUN_MAX, 2);
        assert!(
            messages.len() == 1 && messages[0].contains("can't be run"),
            "{messages:?}"
        );
        assert!(complaints("/bin/true", RUN_MAX, 2).is_empty());
    }

    /// Once serving has ended and the time is over, no run begins. The log names what is dropped.
    #[test]
    fn dropped_alarms_are_reported_when_serving_has_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let (script, begun) = (folder.path().join("hook"), folder.path().join("begun"));
        let text = format!("#!/bin/sh\necho >> {}\nsleep 60\n", begun.display());
        write_program(&script, &text);
        let script = script.to_str().expect("UTF-8");
        let ends = Instant::now() + Duration::from_millis(500);
        let messages = complaints_until(script, RUN_MAX, Some(ends), 3);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(
            messages[0].ends_with("missed 3 events: 3 ClosedUnclean"),
            "{messages:?}"
        );
        let runs = std::fs::read(begun).expect("it began").len();
        assert_eq!(runs, 1, "it was begun again");
    }

    /// If too many alarms wait, the log says so, and names the dropped ones once there is room.
    #[test]
    fn dropped_alarms_are_reported_when_too_many_wait() {
        let (waiting, alarms) = sync_channel(1);
        let messages: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&messages);
        let mut hook = Hook {
            program: "tell".to_owned(),
            waiting,
            thread: thread::spawn(|| ()),
            ends: Arc::default(),
            complain: Arc::new(move |text| log.lock().expect("one thread").push(text.to_owned())),
            dropped: Dropped::default(),
        };
        let count = || messages.lock().expect("one thread").len();
        for (kind, wanted) in [("Fail", 0), ("Fail", 1), ("RotFound", 1), ("Fail", 1)] {
            hook.raise([kind, "pool", "", "", "", ""].map(OsString::from));
            assert_eq!(count(), wanted, "{kind}");
        }
        drop(alarms.recv());
        hook.raise(["NoSpace", "pool", "", "", "", ""].map(OsString::from));
        hook.raise(["SpaceAgain", "pool", "", "", "", ""].map(OsString::from));
        hook.close();
        let messages = messages.lock().expect("one thread");
        for (message, wanted) in messages.iter().zip([
            "further ones, from Fail on",
            "missed 3 events: 2 Fail, RotFound: too many waited",
            "further ones, from SpaceAgain on",
            "missed 1 event: SpaceAgain: too many waited",
        ]) {
            assert!(message.contains(wanted), "{messages:?}");
        }
        assert_eq!(messages.len(), 4, "{messages:?}");
    }

    #[test]
    fn a_hanging_hook_is_killed_with_its_children() {
        let folder = tempfile::tempdir().expect("a folder");
        let (script, pid) = (folder.path().join("hook"), folder.path().join("pid"));
        let text = format!("#!/bin/sh\nsleep 60 &\necho $! > {}\nwait\n", pid.display());
        write_program(&script, &text);
        let script = script.to_str().expect("UTF-8");
        let messages = complaints(script, Duration::from_millis(300), 1);
        assert!(
            messages.len() == 1 && messages[0].contains("was killed"),
            "{messages:?}"
        );
        let pid = std::fs::read_to_string(pid).expect("it began");
        // Gone, or a zombie. A killed process takes a moment to exit.
        let is_gone = |_: &usize| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            std::thread::sleep(Duration::from_millis(10));
            stat.map_or(true, |stat| stat.contains(" Z "))
        };
        assert!((0..1000).find(is_gone).is_some(), "it goes on");
    }
}
