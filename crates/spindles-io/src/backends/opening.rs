//! Opening what lies in the file system, past the page cache where that works.

use crate::at_rest::{Access, AtRest};
use crate::files;
use crate::holders::{Server, is_server, server_of};
use crate::identity::loop_devices_on;
use crate::waiting::{self, SILENCE};
use crate::{Direct, OpenError, OpenOptions};
use rustix::fs::{AtFlags, FlockOperation, OFlags, StatxFlags, flock, stat, statx};
use rustix::io::Errno;
use spindles_block::BlockSize;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// An open file, and whether its I/O goes past the page cache.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) file: OwnedFd,
    pub(super) direct: bool,
    pub(super) direct_reason: Option<String>,
}

/// Turns the operating system's refusal into ours.
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

/// Opens with these flags more, directly where that is asked for and works.
pub(super) fn open(name: &str, options: &OpenOptions, flags: OFlags) -> Result<Opening, OpenError> {
    let access = if options.read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    let flags = access | flags | OFlags::CLOEXEC;
    let busy_timeout = options.busy_timeout;
    let open = |flags| {
        let open = || files::open(name, flags);
        retry_while_busy(name, busy_timeout, Errno::BUSY, open, |_| Ok(()))
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
    })
}

/// Through the page cache, at any alignment.
pub(super) fn at_rest(name: &str, access: Access) -> io::Result<Box<dyn AtRest>> {
    let access = match access {
        Access::Read => OFlags::RDONLY,
        Access::Write => OFlags::RDWR,
    };
    let file = files::open(name, access | OFlags::CLOEXEC)?;
    Ok(Box::new(File::from(file)))
}

/// Locks a file against other programs, as long as it is open: two that write one array would ruin it;
/// readers may share, and so may those who write different parts of it.
pub(super) fn lock(
    name: &str,
    file: &impl AsFd,
    shared: bool,
    options: &OpenOptions,
) -> Result<(), OpenError> {
    if options.read_only && options.unlocked {
        return Ok(());
    }
    let lock = if shared || options.read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    // Some network file systems have no locks: any other refusal says nothing.
    let locked = retry_while_busy(
        name,
        options.busy_timeout,
        Errno::WOULDBLOCK,
        || flock(file, lock),
        |()| flock(file, FlockOperation::NonBlockingUnlock),
    );
    match locked {
        Err(Errno::WOULDBLOCK) => Err(OpenError::Busy {
            device: name.to_owned(),
            above: None,
            users: waiting::users(name),
        }),
        _ => Ok(()),
    }
}

/// Holds the loop devices on what is opened for writing, so that nobody mounts them meanwhile. Refused
/// where somebody has done so, or where this user can't know. The device `own` is held already.
pub(super) fn hold_above(
    name: &str,
    own: Option<u64>,
    options: &OpenOptions,
) -> Result<Vec<OwnedFd>, OpenError> {
    let mut held = Vec::new();
    if options.read_only {
        return Ok(held);
    }
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let is_own = |device: &String| {
        own.is_some() && stat(&**device).is_ok_and(|status| Some(status.st_rdev) == own)
    };
    for device in loop_devices_on(name) {
        if is_own(&device) {
            continue;
        }
        let open = || files::open(&device, flags);
        let opened = retry_while_busy(&device, options.busy_timeout, Errno::BUSY, open, |_| Ok(()));
        match opened {
            Ok(file) => held.push(file),
            // It is gone by now, or not to be had here.
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

/// So long it is waited between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Tries again while the answer is `busy`, at most for `busy_timeout`; a wait that is not short is shown.
/// Some commands make a server close its devices for a moment: while the server that had the device
/// lives, it is busy, and `release` gives it back.
fn retry_while_busy<T>(
    name: &str,
    busy_timeout: Duration,
    busy: Errno,
    mut attempt: impl FnMut() -> Result<T, Errno>,
    release: impl Fn(T) -> Result<(), Errno>,
) -> Result<T, Errno> {
    let started = Instant::now();
    let (mut is_shown, mut server) = (false, None);
    let look = || server_of(&[name]).filter(|server| server.pid != std::process::id());
    loop {
        let lives = || server.iter().flatten().any(|it: &Server| is_server(it.pid));
        let result = match attempt() {
            Ok(taken) if lives() => release(taken).and(Err(busy)),
            result => result,
        };
        match result {
            Err(errno) if errno == busy && started.elapsed() < busy_timeout => {
                let server = server.get_or_insert_with(look);
                if server.as_ref().is_some_and(|it| it.another.is_some()) {
                    return Err(errno); // Another user's server keeps it.
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

/// Why direct I/O can't serve blocks of that size, if so. A kernel that does not say is trusted
/// to: it answers each misplaced access with an error.
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
