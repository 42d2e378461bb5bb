//! Temporary folders that are removed however the program ends: on drop, or by [`remove_all`] from
//! a panic hook or a signal handler. After SIGKILL, the next run with a folder in the same place
//! removes them and takes down their users.
//!
//! Only certain leftovers are removed: a folder of our name and user, whose lock file is ours and
//! unlocked, and which contains only files that the lab creates.

use crate::systems::mounts;
use rustix::fs::SeekFrom;
use rustix::process::geteuid;
use rustix::rand::GetRandomFlags;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Prefix of the folders' names; a process id, a counter and a random number follow.
const PREFIX: &str = spindles_measure::TEMPORARY_PREFIX;
/// Locked by the process that owns the folder.
const LOCK: &str = "spindles-lab.lock";
/// Contents of the lock file, written once it is locked.
const LOCK_TEXT: &[u8] =
    b"A run of the lab or a benchmark keeps its files here and removes them at its end.\n";
/// Suffix of the names of other files in the folders.
const IMAGE: &str = ".img";
/// A subfolder with any contents.
const FOLDER: &str = "files";

fn folders() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all temporary folders, when a panic or a second Ctrl-C ends the program. Otherwise they
/// are removed on drop.
pub fn remove_all() {
    crate::systems::undo::undo_all();
    for folder in folders().drain(..) {
        drop(mounts::remove_dir_all(&folder));
    }
}

/// A temporary folder.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// Held while the folder is in use.
    _lock: File,
}

impl Scratch {
    /// Creates an empty folder in `parent`. Removes the leftovers of killed runs there.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        remove_servers_left_over();
        remove_left_over(parent);
        let mut all = folders();
        let path = new_folder(parent, &random)?;
        all.push(path.clone());
        drop(all);
        let mut lock = File::create_new(path.join(LOCK))?;
        lock.lock()?;
        lock.write_all(LOCK_TEXT)?;
        Ok(Self { path, _lock: lock })
    }

    /// Creates an empty folder with any contents in `parent`. The `Scratch` removes it.
    pub(crate) fn with_folder(parent: &Path) -> Result<(PathBuf, Self), String> {
        let made = Self::new(parent).and_then(|scratch| Ok((scratch.folder()?, scratch)));
        made.map_err(|error| format!("{}: can't make a folder there: {error}", parent.display()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the subfolder, empty.
    pub(crate) fn folder(&self) -> io::Result<PathBuf> {
        let path = self.path.join(FOLDER);
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Notes that a file of the user's is attached to a loop device, so that the next run detaches
    /// it if this one is killed.
    pub(crate) fn note_attached(&self, device: &str, file: &str) -> io::Result<()> {
        let name = Path::new(device).file_name().unwrap_or_default();
        let note = format!("{}{IMAGE}", name.to_string_lossy());
        std::os::unix::fs::symlink(fs::canonicalize(file)?, self.path.join(note))
    }

    /// Creates a file of zeros without allocated blocks.
    pub(crate) fn sparse(&self, name: &str, bytes: u64) -> io::Result<PathBuf> {
        let path = self.path.join(format!("{name}{IMAGE}"));
        File::create_new(&path)?.set_len(bytes)?;
        Ok(path)
    }
}

/// Returns the default folder for temporary files, preferably not in memory.
pub(crate) fn temporary_folder() -> PathBuf {
    let standard = std::env::temp_dir();
    let on_disk = Path::new("/var/tmp");
    if std::env::var_os("TMPDIR").is_none() && is_memory(&standard) && !is_memory(on_disk) {
        return on_disk.to_owned();
    }
    standard
}

/// Creates a folder there, for `what`. The `Scratch` removes it.
pub(crate) fn own_folder(what: &str) -> Result<(PathBuf, Scratch), String> {
    let place = temporary_folder();
    let made = Scratch::new(&place).and_then(|scratch| Ok((scratch.folder()?, scratch)));
    made.map_err(|error| {
        format!(
            "can't make a folder for {what} in {}: {error}; set TMPDIR to another place",
            place.display()
        )
    })
}

fn is_memory(folder: &Path) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    rustix::fs::statfs(folder).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(TMPFS_MAGIC))
}

/// Creates a folder that only this user may enter. Retries if the name is taken, since other users
/// may create folders in `parent`.
fn new_folder(parent: &Path, random: &dyn Fn() -> io::Result<u32>) -> io::Result<PathBuf> {
    const TRIES: u32 = 100;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let mut last = None;
    for _ in 0..TRIES {
        let path = parent.join(format!("{PREFIX}{process}-{number}-{:08x}", random()?));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.expect("it was tried"))
}

/// Returns an unpredictable number.
fn random() -> io::Result<u32> {
    let mut bytes = [0; 4];
    // This few bytes are never returned partially.
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u32::from_le_bytes(bytes))
}

/// Takes down servers and mounts of killed runs, once per process. They can block devices that this
/// run needs.
pub(crate) fn remove_servers_left_over() {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| remove_left_over(&temporary_folder()));
}

/// Removes the folders of killed runs in `parent`, with their mounts and servers. Ignores folders
/// that can't be read or removed, since this only tidies up.
fn remove_left_over(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    let named_so = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(PREFIX)
    });
    // Hold the locks of the folders until their removal.
    let left_over: Vec<(PathBuf, File)> = named_so
        .filter_map(|entry| Some((entry.path(), left_over(&entry.path()).ok()??)))
        .collect();
    if left_over.is_empty() {
        return;
    }
    let folders: Vec<PathBuf> = left_over.iter().map(|(folder, _)| folder.clone()).collect();
    crate::systems::left_over::take_down(&folders);
    for folder in folders {
        if !crate::systems::left_over::is_used(&folder) {
            drop(mounts::remove_dir_all(&folder));
        }
    }
}

/// Takes the lock of a folder and returns it if the folder is certainly left over.
fn left_over(folder: &Path) -> io::Result<Option<File>> {
    let facts = fs::symlink_metadata(folder)?;
    if !facts.is_dir() || facts.uid() != geteuid().as_raw() {
        return Ok(None);
    }
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits();
    let flags = i32::try_from(nofollow).map_err(io::Error::other)?;
    let path = folder.join(LOCK);
    let mut lock = File::options().read(true).custom_flags(flags).open(path)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None), // A running process uses it.
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // The lock file of a folder being created is not locked yet, but still empty.
    let mut text = Vec::new();
    lock.read_to_end(&mut text)?;
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    let is_ours = |name: &str| name == LOCK || name == FOLDER || name.ends_with(IMAGE);
    let all_ours = names.iter().all(|name| name.to_str().is_some_and(is_ours));
    Ok((text == LOCK_TEXT && all_ours).then_some(lock))
}

/// Writes zeros over a file, over its first `bytes_max` at most, so that its blocks are allocated.
/// Later writes then don't measure allocation, and reads don't come from memory. Calls `go_on`
/// regularly; its error ends this.
pub(crate) fn lay_out(
    path: &Path,
    bytes_max: u64,
    mut go_on: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    let zeros = vec![0; 1 << 20];
    let mut left = file.metadata()?.len().min(bytes_max);
    while left > 0 {
        go_on()?;
        let length = zeros.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.write_all(&zeros[..length])?;
        left -= u64::try_from(length).expect("at most a megabyte");
    }
    file.sync_all()
}

/// Returns how many of the first `bytes` of a file are holes, which read as zeros from memory.
pub(crate) fn hole_bytes(path: &Path, bytes: u64) -> u64 {
    let Ok(file) = File::open(path) else {
        return 0;
    };
    let facts = file.metadata();
    let end = facts.map_or(0, |facts| if facts.is_file() { facts.len() } else { 0 });
    let end = end.min(bytes);
    let seek = |to| rustix::fs::seek(&file, to).map_or(end, |at| at.min(end));
    let (mut at, mut holes) = (0, 0);
    while at < end {
        let hole = seek(SeekFrom::Hole(at));
        at = seek(SeekFrom::Data(hole));
        holes += at - hole;
    }
    holes
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(mounts::remove_dir_all(&self.path));
        folders().retain(|path| *path != self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_scratch_folders_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path()).unwrap();
        let other = Scratch::new(parent.path()).unwrap();
        let file = scratch.sparse("a", (1 << 20) + 5).unwrap();
        assert!(file.ends_with("a.img"));
        let facts = || fs::metadata(&file).unwrap();
        assert_eq!((facts().len(), facts().blocks()), ((1 << 20) + 5, 0));
        lay_out(&file, 1 << 16, || Ok(())).unwrap();
        assert_eq!(facts().blocks() * 512, 1 << 16);
        assert_eq!(hole_bytes(&file, 1 << 16), 0);
        assert_eq!(hole_bytes(&file, 1 << 17), 1 << 16);
        lay_out(&file, u64::MAX, || Ok(())).unwrap();
        assert_eq!(hole_bytes(&file, u64::MAX), 0);
        assert_eq!(hole_bytes(parent.path(), u64::MAX), 0);
        assert_eq!(facts().len(), (1 << 20) + 5);
        assert!(facts().blocks() * 512 > 1 << 20);
        let error = lay_out(&file, u64::MAX, || Err(io::ErrorKind::Interrupted.into()));
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::Interrupted);
        drop(scratch);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
        drop(other);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_taken_folder_name_is_skipped() {
        use std::cell::Cell;
        use std::os::unix::fs::PermissionsExt as _;
        let parent = tempfile::tempdir().unwrap();
        let next = Cell::new(0);
        let random = || {
            next.set(next.get() + 1);
            Ok(next.get())
        };
        // Occupy the first candidate name for every counter below 200.
        for number in 0..200 {
            let name = format!("{PREFIX}{}-{number}-00000001", std::process::id());
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        let path = new_folder(parent.path(), &random).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.ends_with("-00000002"), "{name}");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    /// Creates a folder as a killed run leaves it: the lock is gone with the process.
    fn left_over(parent: &Path, name: &str) -> PathBuf {
        let folder = parent.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(LOCK), LOCK_TEXT).unwrap();
        fs::write(folder.join("member0.img"), [0; 100]).unwrap();
        folder
    }

    #[test]
    fn only_leftovers_of_killed_runs_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let in_use = Scratch::new(parent.path()).unwrap();
        let killed = left_over(parent.path(), "spindles-lab-1-0");
        let mut kept = vec![
            left_over(parent.path(), "someone-else"),
            left_over(parent.path(), "spindles-lab-2-0"),
            left_over(parent.path(), "spindles-lab-3-0"),
            left_over(parent.path(), "spindles-lab-4-0"),
        ];
        fs::write(kept[1].join("notes.txt"), "not ours").unwrap();
        fs::write(kept[2].join(LOCK), "").unwrap();
        fs::remove_file(kept[3].join(LOCK)).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        kept.push(left_over(elsewhere.path(), "spindles-lab-5-0"));
        std::os::unix::fs::symlink(&kept[4], at("spindles-lab-5-0")).unwrap();
        let next = Scratch::new(parent.path()).unwrap();
        assert!(!killed.exists());
        for folder in kept
            .iter()
            .map(PathBuf::as_path)
            .chain([in_use.path(), next.path()])
        {
            assert!(folder.is_dir(), "{} is gone", folder.display());
        }
        assert_eq!(fs::read_dir(&kept[4]).unwrap().count(), 2);
    }
}
