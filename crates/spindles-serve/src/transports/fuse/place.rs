//! The file that an array is mounted on.

use super::mount::unmount;
use super::mounts::{FILE_SYSTEM, Mounted, mounted_on, place_of};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The sticky bit, which has no meaning for files. Files created for a mount have it, so that the
/// next server recognizes one left behind.
const STICKY: u32 = 0o1000;

/// An array can't be mounted on a file.
#[derive(Debug, Error)]
pub(super) enum PlaceError {
    /// A system call failed.
    #[error("{}: {source}{}", .path.display(), match source.kind() {
        io::ErrorKind::NotFound => ": there is no such folder; make it, or give another path",
        _ => "",
    })]
    Io {
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The path is no regular file.
    #[error(
        "{} is not a regular file: give a path where there is nothing, or an empty file",
        .0.display()
    )]
    NoFile(PathBuf),
    /// The file has contents, which a mount would hide.
    #[error(
        "{} is not empty, and an array on it would hide what it holds: give a path where there is \
         nothing, or an empty file", .0.display()
    )]
    NotEmpty(PathBuf),
    /// A server has mounted it.
    #[error("{} is mounted already: stop the server that has it, or give another \
        path", .0.display())]
    Mounted(PathBuf),
    /// An array is about to be mounted on it.
    #[error("{} is given for two arrays: give each a path of its own", .0.display())]
    Taken(PathBuf),
}

/// An empty file to mount on. Dropping this removes a file that a server created for the mount.
#[derive(Debug)]
pub(crate) struct MountPoint {
    path: PathBuf,
    made: bool,
    /// The file, locked so that no other server mounts on it.
    _lock: Option<File>,
}

impl MountPoint {
    /// Prepares a file: creates a missing one, and unmounts a dead server's mount.
    pub(crate) fn prepare(asked: &Path) -> Result<Self, PlaceError> {
        let failed = |source| PlaceError::Io {
            path: asked.to_owned(),
            source,
        };
        let path = absolute(asked).map_err(failed)?;
        if let Some(mounted) = mounted_on(&path).map_err(failed)? {
            let is_ours = mounted.file_system == FILE_SYSTEM;
            if !is_ours || !is_dead(&path) {
                return Err(PlaceError::Mounted(asked.to_owned()));
            }
            unmount(&path, true).map_err(failed)?;
        }
        match path.symlink_metadata() {
            Ok(found) => is_free(&found, asked)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut new = File::options();
                let new = new.write(true).create_new(true).mode(0o600 | STICKY);
                new.open(&path).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        let file = File::open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Err(PlaceError::Taken(asked.to_owned())),
            Err(errno) => return Err(failed(errno.into())),
        }
        let mode = file.metadata().map_err(failed)?.mode();
        Ok(Self {
            path,
            made: mode & STICKY != 0,
            _lock: Some(file),
        })
    }

    /// Describes a file that another process prepared.
    pub(crate) fn of_another(path: PathBuf, made: bool) -> Self {
        Self {
            path,
            made,
            _lock: None,
        }
    }

    /// Leaves the removal of the file to the watcher alone.
    pub(crate) fn leave_to_another(&mut self) {
        self.made = false;
    }

    /// Updates the path if its folder was moved. Returns false if nothing is mounted.
    pub(crate) fn follow(&mut self, mounted: &Mounted) -> bool {
        let Ok(Some(path)) = place_of(mounted, &self.path) else {
            return false;
        };
        self.path = path;
        true
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if a server created the file for the mount.
    pub(crate) fn is_made(&self) -> bool {
        self.made
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        // The path may hold another file by now.
        let is_it =
            |found: Metadata| found.is_file() && found.len() == 0 && found.mode() & STICKY != 0;
        if self.made && self.path.symlink_metadata().is_ok_and(is_it) {
            // The file may be removed already.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Returns the path as in the kernel's mount table. Does not access the file itself, since a dead
/// mount returns errors.
fn absolute(asked: &Path) -> io::Result<PathBuf> {
    let name = asked.file_name();
    let name = name.ok_or_else(|| io::Error::other("this is not the path of a file"))?;
    let folder = asked.parent().filter(|path| !path.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
    Ok(folder.join(name))
}

/// Returns true if the server behind the mount is gone.
fn is_dead(path: &Path) -> bool {
    let dead = Some(Errno::NOTCONN.raw_os_error());
    let looked = path.symlink_metadata();
    looked.is_err_and(|error| error.raw_os_error() == dead)
}

fn is_free(found: &Metadata, asked: &Path) -> Result<(), PlaceError> {
    if !found.is_file() {
        return Err(PlaceError::NoFile(asked.to_owned()));
    }
    if found.len() > 0 {
        return Err(PlaceError::NotEmpty(asked.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_file_is_created_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let place = MountPoint::prepare(&path).unwrap();
        assert!(place.is_made() && path.metadata().unwrap().len() == 0);
        drop(place);
        assert!(!path.exists());
    }

    #[test]
    fn two_arrays_are_not_mounted_on_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let place = MountPoint::prepare(&path).unwrap();
        assert!(place.is_made());
        let again = MountPoint::prepare(&path).unwrap_err();
        assert!(matches!(again, PlaceError::Taken(_)), "{again}");
        assert!(path.exists(), "it is not removed by who did not make it");
        drop(place);
        MountPoint::prepare(&path).unwrap();
    }

    /// The next server removes a file left behind by a killed server and its killed watcher.
    #[test]
    fn leftover_mount_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let mut place = MountPoint::prepare(&path).unwrap();
        place.leave_to_another();
        drop(place);
        assert!(path.exists());
        let place = MountPoint::prepare(&path).unwrap();
        assert!(place.is_made());
        drop(place);
        assert!(!path.exists());
    }

    #[test]
    fn existing_mount_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        fs::write(&path, "").unwrap();
        let place = MountPoint::prepare(&path).unwrap();
        assert!(!place.is_made());
        drop(place);
        assert!(path.exists());
        // Another program replaced the file meanwhile.
        for another in ["", "mine"] {
            fs::write(&path, another).unwrap();
            drop(MountPoint::of_another(path.clone(), true));
            assert!(path.exists(), "{another}");
        }
    }

    #[test]
    fn mounting_over_file_contents_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        fs::write(&path, "mine").unwrap();
        let refused = |path: &Path| MountPoint::prepare(path).unwrap_err();
        assert!(matches!(refused(&path), PlaceError::NotEmpty(_)));
        assert!(matches!(refused(folder.path()), PlaceError::NoFile(_)));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("pool", &link).unwrap();
        assert!(matches!(refused(&link), PlaceError::NoFile(_)));
        let nowhere = folder.path().join("none/pool");
        assert!(matches!(refused(&nowhere), PlaceError::Io { .. }));
        assert!(matches!(refused(Path::new("/")), PlaceError::Io { .. }));
    }
}
