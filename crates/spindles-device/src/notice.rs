//! Publishes the work of a command on arrays to other processes. Each notice is a small file that
//! belongs to the command's user, is locked while the command lives, and is removed with it. The
//! lock proves that the command is alive, whereas a process ID may be reused.

use crate::sockets::{connect_to, listens};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;
use spindles_format::Uuid;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The first word of each notice; it names the format.
const MAGIC: &str = "spindles-notice-1";
/// Maximum length of a notice.
const BYTES_MAX: usize = 4096;
/// Maximum number of notices read in one folder.
const NOTICES_MAX: usize = 1024;
/// Minimum time between two updates of a notice.
const INTERVAL: Duration = Duration::from_millis(500);

/// The work of a program on an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJob {
    /// The process ID.
    pub pid: u32,
    /// The kind of work: `rebuild`, `scrub`.
    pub what: String,
    /// Completed bytes.
    pub done_bytes: u64,
    /// Total bytes.
    pub total_bytes: u64,
    /// Estimated seconds left at the average speed so far; `None` if not known yet.
    pub left_s: Option<u64>,
}

impl RunningJob {
    /// Returns the share done, in percent.
    #[must_use]
    pub fn percent(&self) -> u64 {
        percent(self.done_bytes, self.total_bytes)
    }
}

/// Returns `part` as a percentage of `whole`; 100 if `whole` is 0.
#[must_use]
pub fn percent(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part.min(whole)) * 100;
    percent
        .checked_div(u128::from(whole))
        .map_or(100, |percent| u64::try_from(percent).unwrap_or(100))
}

/// A notice of this process; removed when dropped.
#[derive(Debug)]
pub struct Notice {
    file: File,
    path: PathBuf,
    what: String,
    arrays: String,
    started: Instant,
    /// Bytes done at the first update.
    first_bytes: Option<u64>,
    updated: Option<Instant>,
}

impl Notice {
    /// Creates a notice. `None` if that fails; notices are not essential.
    #[must_use]
    pub fn put(what: &str, arrays: &[Uuid]) -> Option<Self> {
        let folder = own_folder()?;
        clear(&folder);
        let pid = std::process::id();
        let path = (0..16).map(|number| folder.join(format!("{pid}-{number}")));
        let (file, path) = path.into_iter().find_map(|path| {
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o644)
                .open(&path)
                .ok()?;
            Some((file, path))
        })?;
        let arrays: Vec<String> = arrays.iter().map(Uuid::to_string).collect();
        let notice = Self {
            file,
            path,
            what: what.replace(char::is_whitespace, "-"),
            arrays: arrays.join(" "),
            started: Instant::now(),
            first_bytes: None,
            updated: None,
        };
        flock(&notice.file, FlockOperation::LockExclusive).ok()?;
        Some(notice)
    }

    /// Reports progress. Cheap enough for frequent calls.
    pub fn update(&mut self, done_bytes: u64, total_bytes: u64) {
        let first = *self.first_bytes.get_or_insert(done_bytes);
        if self
            .updated
            .is_some_and(|updated| updated.elapsed() < INTERVAL)
        {
            return;
        }
        self.updated = Some(Instant::now());
        let elapsed_ms = self.started.elapsed().as_millis();
        let left = u128::from(total_bytes.saturating_sub(done_bytes)) * elapsed_ms;
        let left = left.checked_div(u128::from(done_bytes.saturating_sub(first)) * 1000);
        let left = left.map_or_else(|| "-".to_owned(), |left_s| left_s.to_string());
        let (pid, what, arrays) = (std::process::id(), &self.what, &self.arrays);
        let mut text =
            format!("{MAGIC} {pid} {what} {done_bytes} {total_bytes} {left} {arrays} end");
        // Pad to the longest text of this notice, so that no remainder of an earlier text follows.
        let room = MAGIC.len() + what.len() + arrays.len() + 100;
        text = format!("{text:room$}");
        // A notice that can't be written is merely not read.
        drop(self.file.write_all_at(text.as_bytes(), 0));
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.path));
    }
}

/// Returns the work on these arrays, as far as this user may know. Trusts only notices of the same
/// user and of root.
#[must_use]
pub fn work_on(arrays: &[Uuid]) -> Vec<RunningJob> {
    let arrays: Vec<String> = arrays.iter().map(Uuid::to_string).collect();
    let mut all = Vec::new();
    for folder in folders() {
        let Some(owner) = trusted(&folder) else {
            continue;
        };
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.take(NOTICES_MAX) {
            all.extend(read(&entry.path(), owner, &arrays));
        }
    }
    all
}

fn read(path: &Path, owner: u32, arrays: &[String]) -> Option<RunningJob> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.uid() != owner {
        return None;
    }
    // No process holds the lock: the command died without removing its notice.
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let mut text = String::new();
    let most = u64::try_from(BYTES_MAX).expect("4096");
    file.take(most).read_to_string(&mut text).ok()?;
    parse(&text, arrays)
}

fn parse(text: &str, arrays: &[String]) -> Option<RunningJob> {
    let mut words = text.strip_prefix(MAGIC)?.split_whitespace();
    let pid = words.next()?.parse().ok()?;
    let what = words.next()?;
    let is_plain = |what: &str| {
        what.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    let work = RunningJob {
        pid,
        what: is_plain(what).then(|| what.to_owned())?,
        done_bytes: words.next()?.parse().ok()?,
        total_bytes: words.next()?.parse().ok()?,
        left_s: match words.next()? {
            "-" => None,
            left => Some(left.parse().ok()?),
        },
    };
    let of: Vec<&str> = words.collect();
    let (&end, of) = of.split_last()?;
    (end == "end"
        && of
            .iter()
            .any(|uuid| arrays.iter().any(|array| array == uuid)))
    .then_some(work)
}

/// Returns the path of the control socket of a served array. `None` if there is no folder for it.
#[must_use]
pub fn own_socket(array: Uuid) -> Option<PathBuf> {
    own_folder().map(|folder| folder.join(socket(array)))
}

/// Returns the existing control sockets of an array in folders that this user trusts.
#[must_use]
pub fn sockets_of(array: Uuid) -> Vec<PathBuf> {
    let folders = folders().into_iter();
    let folders = folders.filter(|folder| trusted(folder).is_some());
    let sockets = folders.map(|folder| folder.join(socket(array)));
    sockets.filter(|path| path.exists()).collect()
}

/// Returns all control sockets, each with the UUID of its array.
#[must_use]
pub fn sockets() -> Vec<(String, PathBuf)> {
    let of_array = |path: PathBuf| Some((uuid_of_socket(&path)?.to_owned(), path));
    let folders = folders().into_iter();
    let folders = folders.filter(|folder| trusted(folder).is_some());
    let entries = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let paths = entries.take(NOTICES_MAX).map(|entry| entry.path());
    paths.filter_map(of_array).collect()
}

/// Returns the control sockets of arrays with that name or UUID. Finds arrays whose devices are out
/// of the caller's reach.
#[must_use]
pub fn sockets_named(name: &str) -> Vec<(String, PathBuf)> {
    let mut sockets = sockets();
    sockets.retain(|(uuid, path)| {
        let names = names_at(path);
        uuid == name || names.lines().next() == Some(name)
    });
    sockets
}

/// Returns the current name of a served array that had this name when serving began, or since then.
#[must_use]
pub fn renamed(name: &str) -> Option<String> {
    sockets().into_iter().find_map(|(_, path)| {
        let names = names_at(&path);
        let mut names = names.lines();
        let now = names.next()?.to_owned();
        (names.any(|before| before == name) && listens(&path)).then_some(now)
    })
}

/// Returns the array's name for a control socket, if a server of this user or of root noted it.
#[must_use]
pub fn name_at(socket: &Path) -> Option<String> {
    names_at(socket).lines().next().map(str::to_owned)
}

/// Returns the names of a served array, one per line: the current one first, then the earlier ones.
fn names_at(socket: &Path) -> String {
    fs::read_to_string(socket.with_extension(NAME)).unwrap_or_default()
}

/// A younger socket may not be listening yet.
const SOCKET_AGE: Duration = Duration::from_secs(10);
/// The extension of the file with the names of a served array; its stem is that of the socket.
const NAME: &str = "name";

/// The file with the names of a served array, next to its socket. Removed when dropped.
#[derive(Debug)]
pub struct Named(PathBuf);

impl Named {
    /// Creates the file. `None` if that fails; the array is then found only by its devices.
    #[must_use]
    pub fn put(array: Uuid, name: &str) -> Option<Self> {
        let path = own_socket(array)?.with_extension(NAME);
        sweep_sockets(path.parent()?, SOCKET_AGE);
        fs::write(&path, name).ok()?;
        Some(Self(path))
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        // Another process may have removed the file already.
        drop(fs::remove_file(&self.0));
    }
}

/// Removes the sockets of killed servers, and the files with the names of their arrays.
fn sweep_sockets(folder: &Path, older_than: Duration) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let path = entry.path();
        let is_old = |meta: fs::Metadata| {
            let age = meta.modified().ok().and_then(|at| at.elapsed().ok());
            age.is_some_and(|age| age > older_than)
        };
        let socket = path.with_extension("sock");
        let is_named = path == socket || path == socket.with_extension(NAME);
        let is_left = is_named
            && uuid_of_socket(&socket).is_some()
            && entry.metadata().is_ok_and(is_old)
            && connect_to(&socket).is_err_and(|error| {
                use io::ErrorKind::{ConnectionRefused, NotFound};
                matches!(error.kind(), ConnectionRefused | NotFound)
            });
        if is_left {
            drop(fs::remove_file(socket.with_extension(NAME)));
            drop(fs::remove_file(socket));
        }
    }
}

/// Records a new name for an array, if it is served.
pub fn rename(array: Uuid, name: &str) {
    let Some(socket) = own_socket(array) else {
        return;
    };
    let path = socket.with_extension(NAME);
    if path.exists() {
        let before = names_at(&socket);
        let before = before.lines().filter(|before| *before != name);
        let names: Vec<&str> = [name].into_iter().chain(before).collect();
        // If this fails, the array is still found by its devices.
        drop(fs::write(path, names.join("\n")));
    }
}

/// Length of a UUID in text form.
const UUID_CHARS: usize = 36;

/// Returns the UUID in the name of a control socket. `None` for other sockets, which `--control`
/// and `--nbd` may create here.
fn uuid_of_socket(path: &Path) -> Option<&str> {
    let file = path.file_name()?.to_str()?;
    let uuid = file.strip_prefix("array-")?.strip_suffix(".sock")?;
    (uuid.len() == UUID_CHARS).then_some(uuid)
}

fn socket(array: Uuid) -> String {
    format!("array-{array}.sock")
}

/// Returns the folders for notices of this user and of root.
fn folders() -> Vec<PathBuf> {
    let uid = geteuid().as_raw();
    let mut folders = vec![PathBuf::from("/run/spindles")];
    if uid == 0 {
        folders.push(PathBuf::from("/tmp/spindles-0"));
    } else {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let runtime = runtime.filter(|folder| folder.is_absolute());
        folders.extend(runtime.map(|folder| folder.join("spindles")));
        folders.push(PathBuf::from(format!("/tmp/spindles-{uid}")));
    }
    folders
}

/// Returns the first folder that this user owns; creates it if missing.
#[must_use]
pub fn own_folder() -> Option<PathBuf> {
    let uid = geteuid().as_raw();
    folders().into_iter().find(|folder| {
        // Errors, and folders of other users, fail the check below.
        drop(DirBuilder::new().mode(0o755).create(folder));
        trusted(folder) == Some(uid)
    })
}

/// Returns the owner of a folder if the owner is this user or root and no other user may write
/// there.
fn trusted(folder: &Path) -> Option<u32> {
    let metadata = fs::symlink_metadata(folder).ok()?;
    let owner = metadata.uid();
    let is_known = owner == 0 || owner == geteuid().as_raw();
    (metadata.is_dir() && is_known && metadata.mode() & 0o022 == 0).then_some(owner)
}

/// The prefix of files that stand for exports.
pub(crate) const EXPORT: &str = "export-";

/// Removes unused files that stand for exports. A process that locks such a file must check
/// afterwards that it still exists.
pub(crate) fn sweep(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(EXPORT.as_bytes()) {
            continue;
        }
        // No process locks it while this lock is held.
        let file = File::open(entry.path());
        if file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// Removes the files of killed commands.
fn clear(folder: &Path) {
    sweep(folder);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.take(NOTICES_MAX) {
        let name = entry.file_name().into_string().unwrap_or_default();
        let pid = name
            .split('-')
            .next()
            .and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Removes only sockets without a listener, and only once they are old.
    #[test]
    fn sockets_of_killed_servers_are_removed() {
        use std::os::unix::net::UnixListener;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let [live, killed, gone] = [1, 2, 3].map(|byte| socket(Uuid([byte; 16])));
        let name_of = |socket: &str| socket.replace(".sock", ".name");
        let listener = UnixListener::bind(path(&live)).unwrap();
        // The folder may also hold sockets of other programs.
        for left in [&killed, "array-of-disks.sock", "other.sock"] {
            drop(UnixListener::bind(path(left)).unwrap());
        }
        for name in [&live, &killed, &gone, "other"].map(name_of) {
            fs::write(path(&name), "pool").unwrap();
        }
        let left = || {
            let entries = fs::read_dir(folder.path()).unwrap().flatten();
            let names = entries.map(|entry| entry.file_name().into_string().unwrap());
            names.collect::<std::collections::BTreeSet<_>>()
        };
        sweep_sockets(folder.path(), Duration::from_mins(1));
        assert_eq!(left().len(), 8);
        sweep_sockets(folder.path(), Duration::ZERO);
        let kept = [
            &live,
            &name_of(&live),
            "other",
            "other.sock",
            "array-of-disks.sock",
        ];
        assert_eq!(left(), kept.map(str::to_owned).into());
        drop(listener);
    }

    const ARRAY: Uuid = Uuid([7; 16]);

    #[test]
    fn a_notice_describes_a_command_while_it_runs() {
        let array = Uuid([std::process::id().to_le_bytes()[0]; 16]);
        let Some(mut notice) = Notice::put("rebuild", &[ARRAY, array]) else {
            println!("SKIPPED notices: there is no folder for them here");
            return;
        };
        assert_eq!(work_on(&[array]), []);
        notice.update(100, 400);
        let work = work_on(&[array]).remove(0);
        assert_eq!(
            (work.pid, work.what.as_str()),
            (std::process::id(), "rebuild")
        );
        assert_eq!((work.percent(), work.left_s), (25, None));
        notice.started = Instant::now()
            .checked_sub(Duration::from_secs(50))
            .expect("uptime");
        notice.updated = None;
        notice.update(200, 400);
        assert_eq!(work_on(&[array])[0].left_s, Some(100));
        assert_eq!(work_on(&[Uuid([99; 16])]), []);
        // An unlocked notice has no living owner.
        flock(&notice.file, FlockOperation::Unlock).unwrap();
        // Programs that look for left notices lock each for a moment.
        let end = Instant::now() + Duration::from_mins(1);
        while !work_on(&[array]).is_empty() {
            assert!(Instant::now() < end, "its notice stays");
            std::thread::yield_now();
        }
    }

    #[test]
    fn notices_of_ended_exports_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [used, left, other] =
            ["export-1", "export-2", "7-0"].map(|name| folder.path().join(name));
        let used_file = File::create(&used).unwrap();
        flock(&used_file, FlockOperation::NonBlockingLockShared).unwrap();
        drop(File::create(&left).unwrap());
        drop(File::create(&other).unwrap());
        sweep(folder.path());
        assert!(used.exists() && !left.exists() && other.exists());
        drop(used_file);
        sweep(folder.path());
        assert!(!used.exists());
    }

    #[test]
    fn invalid_notices_are_ignored() {
        let arrays = [ARRAY.to_string()];
        let good = format!("{MAGIC} 7 scrub 5 10 - {} end  ", arrays[0]);
        assert_eq!(parse(&good, &arrays).map(|work| work.percent()), Some(50));
        for cut in 0..good.trim_end().len() {
            assert_eq!(parse(&good[..cut], &arrays), None, "{}", &good[..cut]);
        }
        for (from, to) in [
            ("scrub", "\u{1b}[2J"),
            (" 7 ", " x "),
            ("-notice-1", "-notice-2"),
        ] {
            assert_eq!(parse(&good.replace(from, to), &arrays), None);
        }
    }

    #[test]
    fn percents_never_overflow() {
        for (part, whole, want) in [
            (0, 0, 100),
            (1, 3, 33),
            (u64::MAX, u64::MAX, 100),
            (9, 3, 100),
        ] {
            assert_eq!(percent(part, whole), want);
        }
    }
}
