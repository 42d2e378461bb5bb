//! A block device.

use super::opening::{self, Opening};
use super::{Backend, Medium, Opened};
use crate::files;
use crate::identity::{bytes_in, file_below, identity};
use crate::locks::Held;
use crate::physical::{is_write_protected, physical, takes_discards, zeroes_without_moving_bytes};
use crate::shared;
use crate::{BackendFacts, DeviceFacts, OpenError, OpenOptions};
use rustix::fs::{FileType, OFlags, SeekFrom, fstat, ioctl_blkpbszget, ioctl_blksszget};
use rustix::fs::{major, minor, seek, stat};
use rustix::io::Errno;

pub(super) static BACKEND: Backend = Backend {
    facts: BackendFacts {
        name: "device",
        outlives_opening: true,
        whole_sectors_only: true,
        is_path: true,
    },
    syntax: "/dev/NAME",
    summary: "a block device",
    matches: |name| {
        stat(name)
            .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice)
    },
    open,
    at_rest: Some(opening::at_rest),
    fresh: None,
};

fn open(name: &str, options: &OpenOptions) -> Result<Opened, OpenError> {
    // With O_EXCL the kernel refuses a device that is mounted or in one of its own arrays.
    let exclusive = if options.read_only || options.locks.is_locked() {
        OFlags::empty()
    } else {
        OFlags::EXCL
    };
    let Opening {
        file,
        direct,
        direct_reason,
        own,
    } = opening::open(name, options, exclusive)?;
    let status = fstat(&file).map_err(opening::refused(name, "look at"))?;
    let (major, minor) = (major(status.st_rdev), minor(status.st_rdev));
    if !options.read_only && is_write_protected(major, minor) {
        return Err(OpenError::WriteProtected {
            device: name.to_owned(),
        });
    }
    let mut held = opening::hold_above(name, None, options)?;
    held.extend(hold_below(name, status.st_rdev, options)?);
    held.extend(own);
    let bytes =
        seek(&file, SeekFrom::End(0)).map_err(opening::refused(name, "read the size of"))?;
    let sector_bytes =
        ioctl_blksszget(&file).map_err(opening::refused(name, "read the sector size of"))?;
    // A device may end within a sector, which can't be read.
    let bytes = bytes - bytes % u64::from(sector_bytes.max(1));
    let physical = physical(major, minor);
    Ok(Opened {
        part: None,
        held,
        facts: DeviceFacts {
            name: name.to_owned(),
            backend: &BACKEND.facts,
            bytes,
            sector_bytes,
            physical_sector_bytes: ioctl_blkpbszget(&file).unwrap_or(sector_bytes),
            direct,
            direct_reason,
            rotational: physical.rotational,
            physical_device: physical.name,
            zeroes_without_moving_bytes: zeroes_without_moving_bytes(major, minor),
            thin: takes_discards(major, minor),
        },
        medium: Medium::File(file),
    })
}

/// Locks the file below a loop device, so that it can't be opened by its own name meanwhile. Also
/// holds other loop devices on that file; fails if another loop device is in use.
fn hold_below(name: &str, device: u64, options: &OpenOptions) -> Result<Vec<Held>, OpenError> {
    if options.locks.is_locked() {
        return Ok(Vec::new());
    }
    let Some((path, whole)) = file_below(device) else {
        return Ok(Vec::new());
    };
    // A device on one part of the file lies next to slices of the file.
    let bytes = identity(&path).and_then(|file| Some((bytes_in(&file, device)?, file)));
    let part = bytes.filter(|_| !whole && !options.read_only);
    let joined = part.as_ref().map(|(bytes, file)| {
        let join = || shared::join(file, bytes, false);
        opening::retry_while_busy(name, options.busy_timeout, Errno::BUSY, join)
    });
    let joined = joined.transpose().map_err(opening::refused(name, "hold"))?;
    if let Some(claim) = joined.flatten() {
        return Ok(vec![options.locks.hold_part(claim, None)]);
    }
    let locks = options.own_locks();
    let opened = locks.take(&path).map(|kept| Ok(kept.file));
    let opened = opened.unwrap_or_else(|| files::open(&path, OFlags::RDONLY | OFlags::CLOEXEC));
    let file = match opened {
        Ok(file) => file,
        // The helper process that opens files for this process refuses the file.
        Err(error @ (files::REFUSED | files::OPENER_GONE)) => {
            return Err(opening::refused(&path, "open")(error));
        }
        // A deleted file can't be opened by its name.
        Err(_) => return Ok(Vec::new()),
    };
    opening::lock(name, &file, !whole, options)?;
    if let Some((bytes, identity)) = part {
        let claim = shared::begin(identity, bytes, false, Some(file), Box::new(()));
        return Ok(vec![locks.hold_part(claim, None)]);
    }
    let mut held = vec![locks.hold(file)];
    // A device on one part of the file does not affect those on other parts.
    if whole {
        held.extend(opening::hold_above(&path, Some(device), options)?);
    }
    Ok(held)
}
