//! Actions to undo however the program ends: mounts, loop devices, servers. Undone on drop, or all
//! at once by [`undo_all`], the last first.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static ALL: Mutex<Vec<(u64, What)>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// How long a server may take to end, and a busy file system to become free.
const END_MAX: Duration = Duration::from_secs(20);

/// An action that can be undone.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A mount, by its folder.
    Mounted(PathBuf),
    /// An attached loop device.
    Attached(String),
    /// A process that was started.
    Started(u32),
    /// A command of the user's that tears a system down, with its environment.
    Up(String, Vec<(String, String)>),
}

/// Undoes its action on drop.
#[derive(Debug)]
pub(crate) struct Undo {
    id: u64,
}

fn all() -> MutexGuard<'static, Vec<(u64, What)>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Undo {
    /// Registers an action to undo.
    pub(crate) fn new(what: What) -> Self {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        all().push((id, what));
        Self { id }
    }

    /// Undoes the action now. Returns an error if that failed.
    pub(crate) fn now(self) -> Result<(), String> {
        self.take().map_or(Ok(()), What::undo)
    }

    /// Drops the action without undoing it, because it ended by itself.
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
        // Our child remains a zombie until it is waited for.
        let options = rustix::process::WaitOptions::NOHANG;
        if !matches!(rustix::process::waitpid(Some(pid), options), Ok(None)) {
            return;
        }
    }
}

/// Runs a command line of the user's. Returns its output.
pub(crate) fn shell(command: &str, environment: &[(String, String)]) -> Result<String, String> {
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", command]);
    shell.envs(environment.iter().map(|(name, value)| (name, value)));
    let output = to_its_end(&mut shell).map_err(|error| format!("sh: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = said(&[output.stdout, output.stderr].concat());
    Err(format!("`{command}` failed ({}): {said}", output.status))
}

/// Runs a program. Returns its output.
pub(crate) fn run(program: &str, arguments: &[String]) -> Result<String, String> {
    let line = [&[program.to_owned()], arguments].concat().join(" ");
    let output = to_its_end(Command::new(program).args(arguments));
    let output = output.map_err(|error| format!("`{line}` can't be run: {error}"))?;
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

/// Runs a command and returns its output up to its end. Does not wait for background processes that
/// inherited its outputs.
fn to_its_end(command: &mut Command) -> io::Result<Output> {
    command.stdin(Stdio::null()).process_group(0);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut pipes = [
        Pipe::new(child.stdout.take().map(OwnedFd::from)),
        Pipe::new(child.stderr.take().map(OwnedFd::from)),
    ];
    let heard = hear(&child, &mut pipes);
    let status = child.wait()?;
    heard?;
    let [stdout, stderr] = pipes.map(Pipe::end);
    Ok(Output {
        status,
        stdout,
        stderr,
    })
}

/// Reads the outputs until the process ends.
fn hear(child: &Child, pipes: &mut [Pipe; 2]) -> io::Result<()> {
    let pid = Pid::from_child(child);
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let mut fds = vec![PollFd::new(&process, PollFlags::IN)];
        let open = pipes.iter().filter_map(|pipe| pipe.file.as_ref());
        fds.extend(open.map(|file| PollFd::new(file, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !fds[0].revents().is_empty() {
            return Ok(());
        }
        drop(fds);
        pipes.iter_mut().for_each(Pipe::read);
    }
}

/// One output of a command.
struct Pipe {
    /// `None` after its end.
    file: Option<File>,
    text: Vec<u8>,
}

impl Pipe {
    /// Bytes read at once: the capacity of a pipe.
    const BYTES: u64 = 64 << 10;

    fn new(pipe: Option<OwnedFd>) -> Self {
        let file = pipe.map(File::from);
        // Without non-blocking mode, reads would wait as long as any process holds the pipe.
        let set = file
            .as_ref()
            .map(|file| rustix::io::ioctl_fionbio(file, true));
        debug_assert!(set.is_none_or(|set| set.is_ok()));
        Self {
            file,
            text: Vec::new(),
        }
    }

    /// Reads the available bytes.
    fn read(&mut self) {
        let Some(file) = &mut self.file else { return };
        let before = self.text.len();
        let read = file.take(Self::BYTES).read_to_end(&mut self.text);
        let is_over = match read {
            Ok(_) => self.text.len() == before,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        if is_over {
            self.file = None;
        }
    }

    /// Returns the whole output, once the command has ended. Keeps draining the pipe for background
    /// processes: a closed pipe would kill them, a full one block them.
    fn end(mut self) -> Vec<u8> {
        self.read();
        if let Some(mut file) = self.file.take()
            && rustix::io::ioctl_fionbio(&file, false).is_ok()
        {
            std::thread::spawn(move || io::copy(&mut file, &mut io::sink()));
        }
        self.text
    }
}

/// Returns the last lines of a program's output.
fn said(output: &[u8]) -> String {
    const LINES: usize = 5;
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let first = lines.len().saturating_sub(LINES);
    match &lines[first..] {
        [] => "it printed nothing".to_owned(),
        lines => lines.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_processes_of_a_command_are_not_waited_for() {
        let began = Instant::now();
        // It keeps writing: its output must still be open.
        let line = "(sleep 1; echo late; echo $? >$DIR/after; sleep 20) & echo pid $!; echo ready";
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().to_str().unwrap().to_owned();
        let output = shell(line, &[("DIR".to_owned(), own)]).unwrap();
        assert!(began.elapsed() < Duration::from_secs(10));
        let (first, second) = output.split_once('\n').unwrap();
        assert_eq!(second, "ready");
        let after = || std::fs::read_to_string(folder.path().join("after"));
        while !after().is_ok_and(|text| text.ends_with('\n')) {
            assert!(began.elapsed() < Duration::from_secs(10), "it was ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(after().unwrap(), "0\n");
        let pid: i32 = first.strip_prefix("pid ").unwrap().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }

    #[test]
    fn all_output_of_a_command_is_captured() {
        let many = shell("seq 100000", &[]).unwrap();
        assert_eq!((many.len(), many.ends_with("100000")), (588_894, true));
        let why = shell("seq 100000 >&2; echo no disk >&2; exit 3", &[]).unwrap_err();
        assert!(
            why.contains("exit status: 3") && why.ends_with("no disk"),
            "{why}"
        );
        let why = shell("echo no disk; exit 3", &[]).unwrap_err();
        assert!(why.ends_with("no disk"), "{why}");
        let why = run("false", &[]).unwrap_err();
        assert!(why.ends_with("it printed nothing"), "{why}");
    }
}
