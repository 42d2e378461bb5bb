//! What has to be undone however the program ends: mounts, loop devices, servers. Undone when it is
//! dropped, or all at once by [`undo_all`], the last first.

use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static ALL: Mutex<Vec<(u64, What)>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// How long a server may take to end, and a busy file system to become free.
const END_MAX: Duration = Duration::from_secs(20);

/// What there is to undo.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A mount, by its folder.
    Mounted(PathBuf),
    /// A loop device.
    Attached(String),
    /// A process of ours.
    Started(u32),
    /// A command of the user's, with its environment.
    Up(String, Vec<(String, String)>),
}

/// Undoes it when it is dropped.
#[derive(Debug)]
pub(crate) struct Undo {
    id: u64,
}

fn all() -> MutexGuard<'static, Vec<(u64, What)>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Undo {
    /// From now on it is to be undone.
    pub(crate) fn new(what: What) -> Self {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        all().push((id, what));
        Self { id }
    }

    /// Undoes it now, and says why that failed.
    pub(crate) fn now(self) -> Result<(), String> {
        self.take().map_or(Ok(()), What::undo)
    }

    /// It has ended by itself: nothing is to be undone any more.
    pub(crate) fn ended(self) {
        self.take();
    }

    fn take(&self) -> Option<What> {
        let mut all = all();
        let at = all.iter().position(|(id, _)| *id == self.id)?;
        Some(all.remove(at).1)
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(what) = self.take() {
            drop(what.undo());
        }
    }
}

/// Undoes everything.
pub(crate) fn undo_all() {
    loop {
        let last = all().pop();
        let Some((_, what)) = last else { return };
        drop(what.undo());
    }
}

impl What {
    pub(crate) fn undo(self) -> Result<(), String> {
        match self {
            Self::Mounted(folder) => unmount(&folder),
            Self::Attached(device) => {
                let detached = Command::new("losetup").args(["--detach", &device]).output();
                match detached {
                    Ok(output) if output.status.success() => Ok(()),
                    Ok(output) => Err(said(&output.stderr)),
                    Err(error) => Err(format!("losetup: {error}")),
                }
            }
            Self::Started(process) => {
                end(process);
                Ok(())
            }
            Self::Up(command, environment) => shell(&command, &environment).map(drop),
        }
    }
}

/// Unmounts. A file system that stays busy is detached: the kernel unmounts it after its last user.
fn unmount(folder: &std::path::Path) -> Result<(), String> {
    let began = Instant::now();
    loop {
        match rustix::mount::unmount(folder, UnmountFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::BUSY) if began.elapsed() < END_MAX => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => {
                let detached = rustix::mount::unmount(folder, UnmountFlags::DETACH);
                let what = if detached.is_ok() { "detached" } else { "left" };
                let error = std::io::Error::from(error);
                return Err(format!(
                    "{}: unmounting failed, it was {what}: {error}",
                    folder.display()
                ));
            }
        }
    }
}

/// Asks a process to end, and waits until it has.
pub(crate) fn end(process: u32) {
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else {
        return;
    };
    let began = Instant::now();
    let mut signal = Signal::TERM;
    while kill_process(pid, signal).is_ok() {
        if began.elapsed() > END_MAX {
            signal = Signal::KILL;
        }
        std::thread::sleep(Duration::from_millis(10));
        // Our child: it is there until somebody asks how it ended.
        let options = rustix::process::WaitOptions::NOHANG;
        if !matches!(rustix::process::waitpid(Some(pid), options), Ok(None)) {
            return;
        }
    }
}

/// Runs a command line of the user's: what it printed.
pub(crate) fn shell(command: &str, environment: &[(String, String)]) -> Result<String, String> {
    let output = Command::new("sh")
        .args(["-e", "-c", command])
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .process_group(0)
        .output()
        .map_err(|error| format!("sh: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = said(&output.stderr);
    Err(format!("`{command}` failed ({}): {said}", output.status))
}

/// Runs a program: what it printed.
pub(crate) fn run(program: &str, arguments: &[String]) -> Result<String, String> {
    let line = [&[program.to_owned()], arguments].concat().join(" ");
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .process_group(0)
        .output()
        .map_err(|error| format!("`{line}` can't be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let both = [output.stdout, output.stderr].concat();
    Err(format!(
        "`{line}` failed ({}): {}",
        output.status,
        said(&both)
    ))
}

/// What a program said before it failed: its last lines.
fn said(output: &[u8]) -> String {
    const LINES: usize = 5;
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect();
    let first = lines.len().saturating_sub(LINES);
    match &lines[first..] {
        [] => "it said nothing".to_owned(),
        lines => lines.join("; "),
    }
}
