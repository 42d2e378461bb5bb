//! Devices of which this process has open several parts: slices, and loop devices on parts of a
//! file. The first part locks the whole device against other programs, and the last one unlocks it.

use crate::identity::Identity;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::fmt::Debug;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

static SHARED: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// More that is held as long as a device is open.
pub(crate) trait Holding: Debug + Send + Sync {}

impl<T: Debug + Send + Sync> Holding for T {}

/// A device that is open in parts.
#[derive(Debug)]
struct Shared {
    device: Identity,
    /// The open file with the lock; `None` for an export, whose lock is in `_held`.
    file: Option<OwnedFd>,
    _held: Box<dyn Holding>,
    parts: Mutex<Parts>,
}

#[derive(Debug)]
struct Parts {
    /// True if the lock excludes all other programs.
    is_exclusive: bool,
    claimed: Vec<Range<u64>>,
}

/// A part that is in use. Dropping it frees the part.
#[derive(Debug)]
pub(crate) struct Claim {
    shared: Arc<Shared>,
    bytes: Range<u64>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Claims a part of a device of which this process has other parts open; `None` if it has none
/// open. `exclusive` upgrades the lock.
///
/// # Errors
///
/// `BUSY` if the part overlaps a claimed one, or another program has part of the device.
pub(crate) fn join(
    device: &Identity,
    bytes: &Range<u64>,
    exclusive: bool,
) -> Result<Option<Claim>, Errno> {
    let open = locked(&SHARED).iter().find_map(|shared| {
        let shared = shared.upgrade()?;
        (shared.device == *device).then_some(shared)
    });
    let Some(shared) = open else {
        return Ok(None);
    };
    shared.claim(bytes, exclusive)?;
    let bytes = bytes.clone();
    Ok(Some(Claim { shared, bytes }))
}

/// Claims the first part of a device, whose locks are taken.
pub(crate) fn begin(
    device: Identity,
    bytes: Range<u64>,
    is_exclusive: bool,
    file: Option<OwnedFd>,
    held: Box<dyn Holding>,
) -> Claim {
    let shared = Arc::new(Shared {
        device,
        file,
        _held: held,
        parts: Mutex::new(Parts {
            is_exclusive,
            claimed: vec![bytes.clone()],
        }),
    });
    let mut all = locked(&SHARED);
    all.retain(|other| other.strong_count() > 0);
    all.push(Arc::downgrade(&shared));
    Claim { shared, bytes }
}

impl Shared {
    fn claim(&self, bytes: &Range<u64>, exclusive: bool) -> Result<(), Errno> {
        let mut parts = locked(&self.parts);
        let overlaps = |other: &Range<u64>| other.start < bytes.end && bytes.start < other.end;
        if parts.claimed.iter().any(overlaps) {
            return Err(Errno::BUSY);
        }
        if let Some(file) = self
            .file
            .as_ref()
            .filter(|_| exclusive && !parts.is_exclusive)
        {
            if flock(file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
                // The failed call may have given up the lock.
                flock(file, FlockOperation::NonBlockingLockShared)?;
                return Err(Errno::BUSY);
            }
            parts.is_exclusive = true;
        }
        parts.claimed.push(bytes.clone());
        Ok(())
    }
}

impl Claim {
    /// Returns true if both are parts of one device.
    pub(crate) fn is_same_device(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Duplicates the open file with the lock of the device, if it has one.
    pub(crate) fn lock(&self) -> Option<OwnedFd> {
        duplicate(self.shared.file.as_ref()?).ok()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let claimed = &mut locked(&self.shared.parts).claimed;
        if let Some(at) = claimed.iter().position(|other| *other == self.bytes) {
            claimed.swap_remove(at);
        }
    }
}

/// Duplicates a descriptor, which shares its lock with the original.
pub(crate) fn duplicate(file: &impl AsFd) -> Result<OwnedFd, Errno> {
    fcntl_dupfd_cloexec(file, 0)
}
