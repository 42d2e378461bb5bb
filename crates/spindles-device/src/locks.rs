//! Locks of devices, which stay while their user closes the devices and opens them again.
//!
//! A lock belongs to an open file: the kernel releases it only when all I/O of that file has ended,
//! also after the process was killed. So the next opening takes over the open file.

use crate::identity::{Identity, identity, identity_of};
use crate::shared::Claim;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Locks to keep between two openings. The default keeps none.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    state: Option<Arc<Mutex<KeptLocks>>>,
    /// The part of the device that is being opened.
    part: Option<LockedSlice>,
}

/// A part of a device.
#[derive(Clone, Debug)]
struct LockedSlice {
    /// The text of its slice.
    slice: String,
    /// True if this process has locked the device already.
    is_locked: bool,
}

#[derive(Debug, Default)]
struct KeptLocks {
    keeps: bool,
    kept: Vec<(Identity, Locked)>,
}

/// An open file whose lock excludes other programs.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) file: OwnedFd,
    /// Why its I/O goes through the page cache, if it does.
    pub(crate) direct_reason: Option<String>,
}

/// A locked file that is held. Dropping it releases the lock, unless such locks are
/// kept.
#[derive(Debug)]
pub struct Held {
    /// `Some` until it is dropped, if it has a lock of its own.
    locked: Option<Locked>,
    locks: Locks,
    claim: Option<Claim>,
}

/// Keeps locks while their devices are closed. Dropping it releases the locks that no
/// device took over.
#[derive(Debug)]
#[must_use]
pub struct Keeping(Locks);

impl Locks {
    /// Returns the locks of devices that may have to be closed and opened again.
    #[must_use]
    pub fn lasting() -> Self {
        Self {
            state: Some(Arc::default()),
            part: None,
        }
    }

    /// Keeps the locks of the devices that are closed from here on.
    pub fn keep(&self) -> Keeping {
        self.with(|state| state.keeps = true);
        Keeping(self.clone())
    }

    /// Returns true if locks may have to be kept.
    pub(crate) fn may_keep(&self) -> bool {
        self.state.is_some()
    }

    /// Returns the locks for opening a slice of a device. `is_locked` is set if this process has
    /// locked the device already.
    pub(crate) fn for_slice(&self, slice: &str, is_locked: bool) -> Self {
        Self {
            state: self.state.clone(),
            part: Some(LockedSlice {
                slice: slice.to_owned(),
                is_locked,
            }),
        }
    }

    /// Returns the text of the slice that is being opened.
    pub(crate) fn slice(&self) -> Option<&str> {
        self.part.as_ref().map(|part| part.slice.as_str())
    }

    /// Returns true if this process has locked the device already, for another slice of it.
    pub(crate) fn is_locked(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.is_locked)
    }

    /// Holds a locked file.
    pub(crate) fn hold(&self, file: OwnedFd) -> Held {
        self.hold_locked(Locked {
            file,
            direct_reason: None,
        })
    }

    pub(crate) fn hold_locked(&self, locked: Locked) -> Held {
        Held {
            locked: Some(locked),
            locks: self.clone(),
            claim: None,
        }
    }

    /// Holds a part of a device, with the lock of the device if that may have to be kept.
    pub(crate) fn hold_part(&self, claim: Claim, direct_reason: Option<String>) -> Held {
        let file = self.may_keep().then(|| claim.lock()).flatten();
        let locked = file.map(|file| Locked {
            file,
            direct_reason,
        });
        Held {
            locked,
            locks: self.clone(),
            claim: Some(claim),
        }
    }

    /// Takes over the kept file of this name.
    pub(crate) fn take(&self, name: &str) -> Option<Locked> {
        self.take_identity(&identity(name)?)
    }

    /// Takes over the kept file with the identity of an open file.
    pub(crate) fn take_same(&self, file: &impl AsFd) -> Option<Locked> {
        self.take_identity(&identity_of(file)?)
    }

    fn take_identity(&self, identity: &Identity) -> Option<Locked> {
        self.with(|state| {
            let at = state.kept.iter().position(|(kept, _)| kept == identity)?;
            Some(state.kept.swap_remove(at).1)
        })?
    }

    /// Returns true if the lock of this file is kept.
    pub(crate) fn keeps(&self, file: &impl AsFd) -> bool {
        let is_kept = |identity: Identity| {
            self.with(|state| state.kept.iter().any(|(kept, _)| *kept == identity))
        };
        self.may_keep() && identity_of(file).and_then(is_kept).unwrap_or(false)
    }

    fn with<T>(&self, work: impl FnOnce(&mut KeptLocks) -> T) -> Option<T> {
        let state = self.state.as_ref()?.lock();
        Some(work(&mut state.unwrap_or_else(PoisonError::into_inner)))
    }
}

impl PartialEq for Locks {
    fn eq(&self, other: &Self) -> bool {
        match (&self.state, &other.state) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }
}

impl Eq for Locks {}

impl Held {
    /// Returns true if both are slices of one open device.
    #[must_use]
    pub fn is_same_device(&self, other: &Self) -> bool {
        match (&self.claim, &other.claim) {
            (Some(own), Some(other)) => own.is_same_device(other),
            _ => false,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(locked) = self.locked.take() else {
            return;
        };
        self.locks.with(|state| {
            if state.keeps
                && let Some(identity) = identity_of(&locked.file)
            {
                state.kept.push((identity, locked));
            }
        });
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.0.with(|state| *state = KeptLocks::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};
    use std::fs::File;
    use std::path::Path;

    fn open(path: &Path) -> OwnedFd {
        File::options()
            .read(true)
            .write(true)
            .open(path)
            .unwrap()
            .into()
    }

    fn is_free(path: &Path) -> bool {
        flock(open(path), FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    #[test]
    fn a_lock_is_kept_between_two_openings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let name = path.to_str().unwrap();
        File::create(&path).unwrap();
        let locks = Locks::lasting();
        let lock = |locks: &Locks| {
            let file = open(&path);
            flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
            locks.hold(file)
        };
        drop(lock(&locks));
        assert!(is_free(&path), "nothing is kept yet");
        let held = lock(&locks);
        let keeping = locks.keep();
        assert!(!locks.keeps(&open(&path)), "it is in use");
        assert!(locks.take(name).is_none(), "it is in use");
        drop(held);
        assert!(!is_free(&path));
        assert!(locks.keeps(&open(&path)));
        assert!(Locks::lasting().take(name).is_none(), "another user's");
        let again = locks.hold_locked(locks.take(name).unwrap());
        assert!(locks.take(name).is_none(), "one has it");
        drop(keeping);
        assert!(!is_free(&path), "taken over in time");
        drop(again);
        assert!(is_free(&path));
        let held = lock(&locks);
        let keeping = locks.keep();
        drop(held);
        drop(keeping);
        assert!(is_free(&path), "the end of the keeping releases it");
    }
}
