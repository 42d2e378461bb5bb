//! The helper process: stays outside the sandbox, and does what the server no longer can. It trusts
//! no request, and checks each against the rules it was started with. Every request runs in a
//! separate thread: opening a device on a served array may block until that server answers.
//!
//! ```text
//!  server ──▶ open PATH, FLAGS ──▶ helper: a device of the array's kind? ──▶ its descriptor
//!         ──▶ run for an alarm ──▶ helper: the hook                      ──▶ it will run
//! ```

use crate::alarms::Alarm;
use crate::hook::{self, Hook, Words};
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown,
    socketpair,
};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::set_name;
use spindles_device::{OPENER_GONE, Opener, REFUSED};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Most requests in progress.
const ASKS_MAX: usize = 64;
/// How long to wait for the answer to a request before the helper is asked whether it answers at
/// all. A request itself may take longer: a disk may have to spin up.
const UNANSWERED: Timespec = Timespec {
    tv_sec: 3,
    tv_nsec: 0,
};
/// How long a helper that answers takes at most to say so, even on a busy machine.
const ECHO: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 0,
};
/// The same for a helper that did not answer the last time.
const LAST_ECHO: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// A file that begins with this many zeros holds no data yet.
const BLANK_BYTES: usize = 64 << 10;
/// Permitted flags. No file is created, truncated or appended to.
const FLAGS: OFlags = OFlags::RDWR
    .union(OFlags::WRONLY)
    .union(OFlags::DIRECT)
    .union(OFlags::EXCL)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// The permissions of a helper, as given on its command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Folders in which files may be opened.
    pub folders: Vec<PathBuf>,
    /// The only program that may be run.
    pub hook: Option<PathBuf>,
}

/// A request.
#[derive(Debug, PartialEq, Eq)]
enum Ask {
    Open {
        path: PathBuf,
        flags: OFlags,
    },
    Run {
        words: Words,
    },
    /// Asks for nothing but an answer.
    Echo,
}

impl Ask {
    /// Encodes a letter, flags, and words terminated by zero bytes.
    fn encode(&self) -> Vec<u8> {
        let (letter, flags, words): (u8, OFlags, Vec<&OsStr>) = match self {
            Self::Open { path, flags } => (b'o', *flags, vec![path.as_os_str()]),
            Self::Run { words } => {
                let words = words.iter().map(OsString::as_os_str);
                (b'r', OFlags::empty(), words.collect())
            }
            Self::Echo => (b'e', OFlags::empty(), Vec::new()),
        };
        let mut message = vec![letter];
        message.extend(flags.bits().to_le_bytes());
        for word in words {
            message.extend(word.as_bytes());
            message.push(0);
        }
        message
    }

    fn decode(message: &[u8]) -> Option<Self> {
        let (letter, rest) = message.split_first()?;
        let (flags, rest) = rest.split_first_chunk()?;
        let flags = OFlags::from_bits_retain(u32::from_le_bytes(*flags));
        let words = rest.split_inclusive(|byte| *byte == 0);
        let words = words.map(|word| word.strip_suffix(&[0]).map(<[u8]>::to_vec));
        let words: Vec<Vec<u8>> = words.collect::<Option<_>>()?;
        let mut words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
        match letter {
            b'o' if words.len() == 1 => {
                let path = words.pop()?.into();
                Some(Self::Open { path, flags })
            }
            b'r' => Some(Self::Run {
                words: hook::received(words)?,
            }),
            b'e' if words.is_empty() => Some(Self::Echo),
            _ => None,
        }
    }
}

/// The server's end of the socket. Several threads may use it at once.
#[derive(Debug)]
pub struct Helper {
    socket: OwnedFd,
    /// `None` if the helper is not a child process.
    process: Option<Pid>,
    /// True if it did not answer when it was asked last.
    silent: AtomicBool,
}

/// Creates a socket pair that preserves message boundaries.
fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    socketpair(AddressFamily::UNIX, kind, flags, None)
}

impl Helper {
    /// Starts a helper: `command` must call [`serve`] with its standard input. The helper ends with
    /// this process.
    ///
    /// # Errors
    ///
    /// The helper can't be started.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (ours, theirs) = pair()?;
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null());
        // Signals from the terminal are for the server; the helper ends after it.
        let process = command.process_group(0).spawn()?;
        Ok(Self {
            socket: ours,
            process: Some(Pid::from_child(&process)),
            silent: AtomicBool::new(false),
        })
    }

    /// Opens a device, or a file in a folder of the rules.
    ///
    /// # Errors
    ///
    /// A system call failed; [`REFUSED`] for other files, and EPERM for anything but files and
    /// block devices.
    pub fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = std::path::absolute(path).map_err(|_| Errno::NOENT)?;
        let file = self.ask(&Ask::Open { path, flags })?;
        file.ok_or(Errno::PROTO)
    }

    /// Returns true if the helper answers.
    #[must_use]
    pub fn answers(&self) -> bool {
        let was_silent = self.silent.load(Ordering::Relaxed);
        let within = if was_silent { LAST_ECHO } else { ECHO };
        let echo = |ours: OwnedFd| {
            let mut reply = [0; 4];
            becomes_readable(&ours, within) == Ok(true)
                && receive(ours.as_fd(), &mut reply).is_ok_and(|(count, _)| count == reply.len())
        };
        let answers = self.send(&Ask::Echo).is_ok_and(echo);
        self.silent.store(!answers, Ordering::Relaxed);
        answers
    }

    /// Queues a run of the hook for an alarm, without waiting for it.
    ///
    /// # Errors
    ///
    /// A system call failed; EPERM if no hook is configured.
    pub fn run_hook(&self, alarm: &Alarm) -> Result<(), Errno> {
        for kind in alarm.kinds {
            let words = hook::words(kind, alarm);
            self.ask(&Ask::Run { words })?;
        }
        Ok(())
    }

    /// Ends the helper: sends no more requests, waits a limited time for the queued runs of the
    /// hook, then for the end of the helper. Later requests fail. Dropping the helper closes it
    /// too.
    pub fn close(&self) {
        if shutdown(&self.socket, Shutdown::Write).is_ok() {
            // The helper sends nothing here; this returns when it closes its end.
            drop(receive(self.socket.as_fd(), &mut [0; 1]));
            // Wait for its exit: a service manager kills leftover processes of a service, and logs
            // it.
            if let Some(process) = self.process {
                waitpid(Some(process), WaitOptions::empty()).ok();
            }
        }
    }

    /// Sends a request and waits for its answer, as long as the helper answers at all.
    fn ask(&self, ask: &Ask) -> Result<Option<OwnedFd>, Errno> {
        if self.silent.load(Ordering::Relaxed) && !self.answers() {
            return Err(OPENER_GONE);
        }
        let ours = self.send(ask)?;
        while !becomes_readable(&ours, UNANSWERED)? {
            if !self.answers() {
                return Err(OPENER_GONE);
            }
        }
        let mut reply = [0; 4];
        let (count, file) = receive(ours.as_fd(), &mut reply)?;
        if count != reply.len() {
            return Err(OPENER_GONE);
        }
        match i32::from_le_bytes(reply) {
            0 => Ok(file),
            errno => Err(Errno::from_raw_os_error(errno)),
        }
    }

    /// Sends a request; returns the socket of its answer.
    fn send(&self, ask: &Ask) -> Result<OwnedFd, Errno> {
        let message = ask.encode();
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        // Each reply comes on its own socket.
        let (ours, theirs) = pair()?;
        match send(self.socket.as_fd(), &message, Some(theirs.as_fd())) {
            Ok(()) => Ok(ours),
            // A full queue: it has not read for long.
            Err(Errno::AGAIN | Errno::PIPE | Errno::CONNRESET) => Err(OPENER_GONE),
            Err(errno) => Err(errno),
        }
    }
}

impl Opener for Helper {
    fn open(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        Self::open(self, Path::new(name), flags)
    }

    fn answers(&self) -> bool {
        Self::answers(self)
    }
}

/// Waits until a socket has a message or its end; returns false when the time is over.
fn becomes_readable(socket: &OwnedFd, within: Timespec) -> Result<bool, Errno> {
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    loop {
        match poll(&mut polled, Some(&within)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.close();
    }
}

/// A refused request, and the reason.
#[derive(Debug)]
struct Refused(Errno, &'static str);

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self(errno, "")
    }
}

/// Executes the requests on `socket` until the other side closes it. Reports refusals by the rules
/// to the callback.
///
/// # Errors
///
/// The socket failed.
pub fn serve(
    socket: BorrowedFd<'_>,
    rules: &Rules,
    tell: impl Fn(&str) + Clone + Send + Sync + 'static,
) -> io::Result<()> {
    // Show a readable name in process lists instead of the path it was started by.
    set_name(c"spindles").ok();
    let program = rules.hook.as_ref();
    let hook = program.map(|program| Hook::begin(program.into(), tell.clone()));
    let answers = Arc::new(Answers {
        rules: rules.clone(),
        hook: Mutex::new(hook.transpose()?),
        given: Mutex::default(),
        tell: Box::new(tell),
    });
    let done = receive_all(socket, &answers);
    let hook = lock(&answers.hook).take();
    hook.into_iter().for_each(Hook::close);
    done
}

/// Dispatches requests until the socket closes, then drops the pending requests.
fn receive_all(socket: BorrowedFd<'_>, answers: &Arc<Answers>) -> io::Result<()> {
    let mut message = vec![0; MESSAGE_BYTES_MAX];
    loop {
        let (count, from) = receive(socket, &mut message)?;
        if count == 0 {
            return Ok(());
        }
        let Some(from) = from else {
            continue; // No socket for a reply.
        };
        let asked = Ask::decode(&message[..count]);
        let own = Arc::clone(answers);
        if Arc::strong_count(&own) > ASKS_MAX {
            reply(&from, Err(Refused(Errno::AGAIN, "")));
            continue;
        }
        thread::Builder::new().spawn(move || reply(&from, own.answer(asked.as_ref())))?;
    }
}

/// Replies to the requester, if it still waits.
fn reply(to: &OwnedFd, done: Result<Option<OwnedFd>, Refused>) {
    let (errno, file) = match done {
        Ok(file) => (0, file),
        Err(Refused(errno, _)) => (errno.raw_os_error(), None),
    };
    let file = file.as_ref().map(OwnedFd::as_fd);
    send(to.as_fd(), &errno.to_le_bytes(), file).ok();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State shared by all request threads.
struct Answers {
    rules: Rules,
    hook: Mutex<Option<Hook>>,
    /// Block devices that the server opened exclusively.
    given: Mutex<HashSet<u64>>,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Answers {
    fn answer(&self, asked: Option<&Ask>) -> Result<Option<OwnedFd>, Refused> {
        let done = match asked {
            Some(Ask::Open { path, flags }) => self.open(path, *flags).map(Some),
            Some(Ask::Run { words }) => self.run(words).map(|()| None),
            Some(Ask::Echo) => Ok(None),
            None => Err(Refused(Errno::INVAL, "it is not a request")),
        };
        if let Err(Refused(_, why)) = &done
            && !why.is_empty()
        {
            let what = asked.map(Ask::what).unwrap_or_default();
            (self.tell)(&format!("{what} is refused: {why}"));
        }
        done
    }

    fn run(&self, words: &Words) -> Result<(), Refused> {
        let mut hook = lock(&self.hook);
        let hook = hook.as_mut();
        let hook = hook.ok_or(Refused(Errno::PERM, "no hook is configured"))?;
        hook.raise(words.clone());
        Ok(())
    }

    /// Opens a path if the rules allow it. Inspects the file first, because opening alone may have
    /// side effects.
    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Refused> {
        if !path.is_absolute() {
            return Err(Refused(Errno::INVAL, "the path is not absolute"));
        }
        if !FLAGS.contains(flags) {
            return Err(Refused(Errno::INVAL, "no device is opened with such flags"));
        }
        let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        // This names the same file even if the path changes.
        let found_at = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
        let reopen = |flags| rustix::fs::open(&found_at, flags | OFlags::CLOEXEC, Mode::empty());
        let is_ours = || spindles_device::holds_superblock(found_at.to_str().expect("ASCII"));
        let status = fstat(&found)?;
        let number = status.st_rdev;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => {
                let real = std::fs::read_link(&found_at).unwrap_or_default();
                let folder = real.parent().unwrap_or(Path::new(""));
                let may = self.rules.folders.iter().any(|known| known == folder) || is_ours();
                if !may && !is_blank(reopen(OFlags::RDONLY)?) {
                    return Err(not_ours(flags));
                }
            }
            FileType::BlockDevice => {
                // With O_EXCL the kernel refuses a mounted device.
                let is_unused = || reopen(OFlags::RDONLY | OFlags::EXCL).is_ok();
                let has_it = lock(&self.given).contains(&number);
                if !flags.contains(OFlags::EXCL) && !has_it && !is_ours() && !is_unused() {
                    return Err(Refused(Errno::BUSY, ""));
                }
            }
            _ => {
                let why = "it is neither a block device nor a file";
                return Err(Refused(Errno::PERM, why));
            }
        }
        let opened = reopen(flags)?;
        if flags.contains(OFlags::EXCL) {
            lock(&self.given).insert(number);
        }
        Ok(opened)
    }
}

impl Ask {
    /// Describes the request in messages.
    fn what(&self) -> String {
        match self {
            Self::Open { path, .. } => format!("to open {}", path.display()),
            Self::Run { .. } => "to run a hook".to_owned(),
            Self::Echo => "to answer".to_owned(),
        }
    }
}

/// Returns true if a file begins with `BLANK_BYTES` zeros, as new ones do. Any device of an array
/// is at least that long.
fn is_blank(file: OwnedFd) -> bool {
    let mut begin = vec![0; BLANK_BYTES];
    let read = File::from(file).read_exact(&mut begin);
    read.is_ok() && begin.iter().all(|byte| *byte == 0)
}

/// Refuses a file that cannot be a device. Gives a reason only for a write: a scan reads every file
/// in a folder, and needs no reasons.
fn not_ours(flags: OFlags) -> Refused {
    let why = if flags.intersects(OFlags::RDWR | OFlags::WRONLY) {
        "a server opens only files that have a superblock, begin with zeros, or lie in the folder \
         of a device"
    } else {
        ""
    };
    Refused(REFUSED, why)
}

fn send(socket: BorrowedFd<'_>, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = file.as_slice();
    if !files.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(files));
        assert!(fits, "there is room for one");
    }
    loop {
        let bytes = [IoSlice::new(bytes)];
        match sendmsg(
            socket,
            &bytes,
            &mut control,
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        ) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Receives a message and the descriptor that comes with it. Zero bytes mean the end of the stream.
fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let count = loop {
        let mut bytes = [IoSliceMut::new(bytes)];
        match recvmsg(socket, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => break message.bytes,
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => break 0,
            Err(errno) => return Err(errno),
        }
    };
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok((count, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarms::Watch;
    use std::fs;
    use std::time::Duration;

    /// Runs a helper in a thread; returns it with the folder of its rules.
    fn helper(hook: Option<&str>) -> (Helper, tempfile::TempDir) {
        let (socket, theirs) = pair().expect("a pair");
        let folder = tempfile::tempdir().expect("a folder");
        let rules = Rules {
            folders: vec![folder.path().canonicalize().expect("it is there")],
            hook: hook.map(PathBuf::from),
        };
        std::thread::spawn(move || serve(theirs.as_fd(), &rules, |_| ()));
        let helper = Helper {
            socket,
            process: None,
            silent: AtomicBool::new(false),
        };
        (helper, folder)
    }

    #[test]
    fn the_helper_opens_only_devices() {
        let (helper, folder) = helper(None);
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "").expect("it is written");
        fs::create_dir(path("folder")).expect("a folder");
        fs::write(path("folder/file"), vec![1; BLANK_BYTES]).expect("it is written");
        fs::write(path("folder/blank"), vec![0; BLANK_BYTES]).expect("it is written");
        std::os::unix::fs::symlink("/etc/passwd", path("link")).expect("a link");
        std::os::unix::fs::symlink("file", path("near")).expect("a link");
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), FileType::Fifo, Mode::RUSR, 0)
            .expect("a pipe");
        let open = |path: &Path, flags| helper.open(path, flags).err();
        let read = OFlags::RDONLY;
        for (name, flags, expected) in [
            ("file", read, None),
            ("file", OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC, None),
            ("near", OFlags::RDWR, None),
            ("file", OFlags::WRONLY, None),
            ("file", OFlags::WRONLY | OFlags::APPEND, Some(Errno::INVAL)),
            ("file", OFlags::RDWR | OFlags::TRUNC, Some(Errno::INVAL)),
            ("new", OFlags::RDWR | OFlags::CREATE, Some(Errno::INVAL)),
            ("none", read, Some(Errno::NOENT)),
            ("folder", read, Some(Errno::PERM)),
            ("folder/file", read, Some(REFUSED)),
            ("folder/file", OFlags::RDWR, Some(REFUSED)),
            ("folder/blank", OFlags::RDWR, None),
            ("folder/../link", read, Some(REFUSED)),
            ("pipe", read, Some(Errno::PERM)),
        ] {
            assert_eq!(open(&path(name), flags), expected, "{name} {flags:?}");
        }
        assert_eq!(open(Path::new("/etc/passwd"), read), Some(REFUSED));
        for name in ["/dev/null", "/dev/zero", "/"] {
            assert_eq!(open(Path::new(name), read), Some(Errno::PERM), "{name}");
        }
        let relative = Ask::Open {
            path: "file".into(),
            flags: read,
        };
        assert_eq!(helper.ask(&relative).err(), Some(Errno::INVAL));
        let long = "x".repeat(MESSAGE_BYTES_MAX);
        assert_eq!(open(Path::new(&long), read), Some(Errno::NAMETOOLONG));
    }

    #[test]
    fn a_helper_that_does_not_answer_is_not_waited_for() {
        let (socket, theirs) = pair().expect("a pair");
        let helper = Helper {
            socket,
            process: None,
            silent: AtomicBool::new(false),
        };
        let open = || helper.open(Path::new("/dev/null"), OFlags::RDONLY).err();
        assert_eq!(open(), Some(OPENER_GONE));
        assert!(!helper.answers());
        drop(theirs);
        assert_eq!(open(), Some(OPENER_GONE));
    }

    /// A device on a served array opens only when that server answers, which may need another
    /// device first.
    #[test]
    fn waiting_for_one_device_does_not_delay_another() {
        // Opening a file with a lease blocks until the lease is released.
        let lease = "import fcntl, signal, sys\n\
                     signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
                     file = open(sys.argv[1], 'r+')\n\
                     fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
                     print('held', flush=True)\n\
                     sys.stdin.read()";
        let (helper, folder) = helper(None);
        let path = |name: &str| folder.path().join(name);
        for name in ["held", "file"] {
            fs::write(path(name), "").expect("it is written");
        }
        let mut holder = Command::new("python3");
        let holder = holder.args(["-c", lease]).arg(path("held"));
        let Ok(mut holder) = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            return println!("SKIPPED waiting_for_one_device_does_not_delay_another: no python3");
        };
        let mut held = [0; 5];
        let output = holder.stdout.as_mut().expect("it is piped");
        output.read_exact(&mut held).expect("it has it");
        let open = |name: &str| helper.open(&path(name), OFlags::RDONLY).err();
        thread::scope(|scope| {
            let waits = scope.spawn(|| open("held"));
            thread::sleep(Duration::from_millis(50));
            assert_eq!(open("file"), None);
            assert!(!waits.is_finished(), "it was not waited for");
            drop(holder.stdin.take());
            assert_eq!(waits.join().expect("it ends"), None);
        });
        holder.wait().expect("it ends");
    }

    #[test]
    fn the_helper_runs_only_the_hook() {
        let alarm = Watch::unclean("pool", "it is a test");
        let (without, _folder) = helper(None);
        assert_eq!(without.run_hook(&alarm), Err(Errno::PERM));
        let folder = tempfile::tempdir().expect("a folder");
        let (script, ran) = (folder.path().join("hook"), folder.path().join("ran"));
        let text = format!("#!/bin/sh\nsleep 0.2\necho \"$*\" >> {}\n", ran.display());
        fs::write(&script, text).expect("it is written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&script, mode).expect("it may be run");
        let (with, _folder) = helper(script.to_str());
        for _ in 0..3 {
            assert_eq!(with.run_hook(&alarm), Ok(()));
        }
        assert!(!ran.exists(), "it was waited for");
        with.close();
        let ran = fs::read_to_string(ran).expect("it ran");
        assert_eq!(ran, "ClosedUnclean pool\n".repeat(3));
    }

    #[test]
    fn helper_requests_have_one_valid_form() {
        let open = Ask::Open {
            path: "/dev/sda".into(),
            flags: OFlags::RDWR,
        };
        let run = Ask::Run {
            words: ["Fail", "a b", "", "", "", "c"].map(OsString::from),
        };
        for ask in [open, run] {
            let message = ask.encode();
            assert_eq!(Ask::decode(&message), Some(ask));
            // A truncated message is not decoded as a shorter message.
            for end in 0..5 {
                assert_eq!(Ask::decode(&message[..end]), None);
            }
            assert_eq!(Ask::decode(&message[..message.len() - 1]), None);
        }
        assert_eq!(Ask::decode(b"x\0\0\0\0/\0"), None);
        let (helper, _folder) = helper(None);
        let (ours, theirs) = pair().expect("a pair");
        send(helper.socket.as_fd(), b"o", Some(theirs.as_fd())).expect("it is there");
        let mut reply = [0; 4];
        receive(ours.as_fd(), &mut reply).expect("it answers");
        let errno = Errno::from_raw_os_error(i32::from_le_bytes(reply));
        assert_eq!(errno, Errno::INVAL);
    }
}
