//! Temporary folders that are gone afterwards, whichever way the program ends short of SIGKILL:
//! on drop, and by [`remove_all`] from a panic hook or a signal handler.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static NEXT: AtomicU32 = AtomicU32::new(0);

fn folders() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all temporary folders there are. For the end of the program by a panic or a second
/// Ctrl-C; otherwise they go when they are dropped.
pub fn remove_all() {
    for folder in folders().drain(..) {
        drop(fs::remove_dir_all(folder));
    }
}

/// A folder of our own.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A new empty folder in `parent`.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("spindles-lab-{}-{number}", std::process::id()));
        let mut all = folders();
        fs::create_dir(&path)?;
        all.push(path.clone());
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file of zeros without a place on the medium.
    pub(crate) fn sparse(&self, name: &str, bytes: u64) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        File::create_new(&path)?.set_len(bytes)?;
        Ok(path)
    }
}

/// Writes zeros over a whole file, so that all its blocks have their place on the medium and
/// writing to it later is not the file system's allocation. `go_on` is asked now and then; its
/// error ends it.
pub(crate) fn lay_out(path: &Path, mut go_on: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    let zeros = vec![0; 1 << 20];
    let mut left = file.metadata()?.len();
    while left > 0 {
        go_on()?;
        let length = zeros.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.write_all(&zeros[..length])?;
        left -= u64::try_from(length).expect("at most a megabyte");
    }
    file.sync_all()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.path));
        folders().retain(|path| *path != self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn folders_go_when_dropped() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path()).unwrap();
        let other = Scratch::new(parent.path()).unwrap();
        let file = scratch.sparse("a", (1 << 20) + 5).unwrap();
        let facts = || fs::metadata(&file).unwrap();
        assert_eq!((facts().len(), facts().blocks()), ((1 << 20) + 5, 0));
        lay_out(&file, || Ok(())).unwrap();
        assert_eq!(facts().len(), (1 << 20) + 5);
        assert!(facts().blocks() * 512 > 1 << 20);
        let error = lay_out(&file, || Err(io::ErrorKind::Interrupted.into()));
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::Interrupted);
        drop(scratch);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
        drop(other);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
