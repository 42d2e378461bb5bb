//! Opens files and block devices, bypassing the page cache if possible.

use crate::at_rest::{Access, AtRest};
use crate::files;
use crate::holders::server_of;
use crate::identity::{loop_devices_on, share_bytes};
use crate::locks::{Held, Locked};
use crate::shared::duplicate;
use crate::waiting::{self, SILENCE};
use crate::{Direct, OpenError, OpenOptions};
use rustix::fs::{AtFlags, FlockOperation, OFlags, StatxFlags, fcntl_getfl, flock, stat, statx};
use rustix::io::Errno;
use spindles_block::BlockSize;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// An open file, and whether its I/O bypasses the page cache.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) file: OwnedFd,
    pub(super) direct: bool,
    pub(super) direct_reason: Option<String>,
    /// The same file, if its lock may have to be kept.
    pub(super) own: Option<Held>,
}

/// Converts an error of the operating system into ours.
pub(super) fn refused(name: &str, action: &'static str) -> impl Fn(Errno) -> OpenError {
    let device = name.to_owned();
    move |errno| match errno {
        Errno::BUSY => OpenError::Busy {
            device: device.clone(),
            above: None,
            users: waiting::users(&device),
        },
        Errno::ISDIR => OpenError::NotADevice {
            device: device.clone(),
            kind: "a folder",
        },
        files::OPENER_GONE => OpenError::NoOpener,
        files::REFUSED => OpenError::Elsewhere {
            device: device.clone(),
        },
        errno => OpenError::Io {
            device: device.clone(),
            action,
            source: errno.into(),
        },
    }
}

/// Opens with these additional flags, and with direct I/O if requested and possible. Takes over the
/// open file of a device whose lock the array has kept.
pub(super) fn open(name: &str, options: &OpenOptions, flags: OFlags) -> Result<Opening, OpenError> {
    let mut opened = open_unheld(name, options, flags)?;
    let locks = options.own_locks();
    if locks.may_keep() {
        let file = duplicate(&opened.file).map_err(refused(name, "hold"))?;
        opened.own = Some(locks.hold_locked(Locked {
            file,
            direct_reason: opened.direct_reason.clone(),
        }));
    }
    Ok(opened)
}

fn open_unheld(name: &str, options: &OpenOptions, flags: OFlags) -> Result<Opening, OpenError> {
    if let Some(Locked {
        file,
        direct_reason,
    }) = options.own_locks().take(name)
    {
        let flags = fcntl_getfl(&file).map_err(refused(name, "look at"))?;
        return Ok(Opening {
            file,
            direct: flags.contains(OFlags::DIRECT),
            direct_reason,
            own: None,
        });
    }
    let access = if options.read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    let flags = access | flags | OFlags::CLOEXEC;
    let busy_timeout = options.busy_timeout;
    let open = |flags| {
        let open = || files::open(name, flags);
        retry_while_busy(name, busy_timeout, Errno::BUSY, open)
    };
    let reason = match options.direct {
        Direct::Never => "the caller asks for the page cache".to_owned(),
        Direct::Auto | Direct::Always => match open(flags | OFlags::DIRECT) {
            Ok(file) => match too_coarse(&file, options.block_size) {
                None => {
                    return Ok(Opening {
                        file,
                        direct: true,
                        direct_reason: None,
                        own: None,
                    });
                }
                Some(reason) => reason,
            },
            Err(Errno::INVAL) => "the file system has no direct I/O".to_owned(),
            Err(errno) => return Err(refused(name, "open")(errno)),
        },
    };
    if options.direct == Direct::Always {
        return Err(OpenError::NoDirect {
            device: name.to_owned(),
            reason,
        });
    }
    Ok(Opening {
        file: open(flags).map_err(refused(name, "open"))?,
        direct: false,
        direct_reason: Some(reason),
        own: None,
    })
}

/// Opens a device through the page cache, for access at any alignment.
pub(super) fn at_rest(name: &str, access: Access) -> io::Result<Box<dyn AtRest>> {
    let access = match access {
        Access::Read => OFlags::RDONLY,
        Access::Write => OFlags::RDWR,
    };
    let file = files::open(name, access | OFlags::CLOEXEC)?;
    Ok(Box::new(File::from(file)))
}

/// Locks a file against other programs while it is open, because two writers would ruin an array.
/// Readers may share the lock, and so may writers of different parts of the file.
pub(super) fn lock(
    name: &str,
    file: &impl AsFd,
    shared: bool,
    options: &OpenOptions,
) -> Result<(), OpenError> {
    let is_kept = || options.read_only && (options.unlocked || options.locks.keeps(file));
    if options.locks.is_locked() || is_kept() {
        return Ok(());
    }
    let lock = if shared || options.read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    // Some network file systems have no locks, so ignore any other error.
    let attempt = || flock(file, lock);
    let locked = retry_while_busy(name, options.busy_timeout, Errno::WOULDBLOCK, attempt);
    match locked {
        Err(Errno::WOULDBLOCK) => Err(OpenError::Busy {
            device: name.to_owned(),
            above: None,
            users: waiting::users(name),
        }),
        _ => Ok(()),
    }
}

/// Holds the loop devices on a file or device opened for writing, so that they can't be mounted
/// meanwhile. Fails if one is in use, or if this user can't find out. Skips the device `own`, which
/// is held already, and for a slice the loop devices on other parts.
pub(super) fn hold_above(
    name: &str,
    own: Option<u64>,
    options: &OpenOptions,
) -> Result<Vec<Held>, OpenError> {
    let mut held = Vec::new();
    if options.read_only {
        return Ok(held);
    }
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let is_own = |device: &String| {
        own.is_some() && stat(&**device).is_ok_and(|status| Some(status.st_rdev) == own)
    };
    for device in loop_devices_on(name) {
        let is_elsewhere = |slice: &str| !share_bytes(slice, &device);
        if is_own(&device) || options.locks.slice().is_some_and(is_elsewhere) {
            continue;
        }
        if let Some(kept) = options.locks.take(&device) {
            held.push(options.locks.hold_locked(kept));
            continue;
        }
        let open = || files::open(&device, flags);
        match retry_while_busy(&device, options.busy_timeout, Errno::BUSY, open) {
            Ok(file) => held.push(options.locks.hold(file)),
            // The device is gone, or not available here.
            Err(Errno::NOENT | Errno::NXIO) => {}
            Err(_) => {
                return Err(OpenError::Busy {
                    device: name.to_owned(),
                    above: Some(device),
                    users: None,
                });
            }
        }
    }
    Ok(held)
}

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Repeats `attempt` while it fails with `busy`, for up to `busy_timeout`. Shows a long wait to the
/// user.
pub(super) fn retry_while_busy<T>(
    name: &str,
    busy_timeout: Duration,
    busy: Errno,
    mut attempt: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let started = Instant::now();
    let mut is_shown = false;
    let mut is_anothers = None;
    let look = || server_of(&[name]).is_some_and(|server| server.another.is_some());
    loop {
        match attempt() {
            Err(errno) if errno == busy && started.elapsed() < busy_timeout => {
                if *is_anothers.get_or_insert_with(look) {
                    return Err(errno); // Another user's server keeps the file.
                }
                if !is_shown && started.elapsed() > SILENCE {
                    is_shown = true;
                    waiting::show(name, busy_timeout);
                }
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

/// Returns why direct I/O can't serve blocks of this size; `None` if it can. Also `None` if the
/// kernel does not report the alignment: it rejects each misaligned access.
fn too_coarse(file: &OwnedFd, block_size: Option<BlockSize>) -> Option<String> {
    let block_bytes = block_size.unwrap_or(BlockSize::B4096).bytes();
    let status = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    if status.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return None;
    }
    match (status.stx_dio_offset_align, status.stx_dio_mem_align) {
        (0, _) => Some("the file system has no direct I/O for this file".to_owned()),
        (offset, memory) if offset > block_bytes || memory > block_bytes => Some(format!(
            "direct I/O here needs multiples of {} bytes",
            offset.max(memory)
        )),
        _ => None,
    }
}
