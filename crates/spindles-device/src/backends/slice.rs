//! `slice(DEV,START)` and `slice(DEV,START,LENGTH)`: a range of bytes of
//! another device.
//!
//! The device is opened as such; its part begins at an offset that is added to every offset of I/O.
//! Several parts of a device may be open in one process, see `shared.rs`. Other programs are kept
//! out of the whole device, even if they want another part of it.

use super::{Backend, Medium, Opened, opening};
use crate::at_rest::{Access, AtRest, SliceAtRest};
use crate::files;
use crate::identity::{identity, range};
use crate::locks::Held;
use crate::shared::{self, Claim, duplicate};
use crate::slices;
use crate::{BackendFacts, DeviceFacts, Direct, Locks, OpenError, OpenOptions};
use rustix::fs::{AtFlags, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use spindles_layout::Slice;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

pub(super) static BACKEND: Backend = Backend {
    facts: BackendFacts {
        name: "slice",
        outlives_opening: true,
        whole_sectors_only: false,
        is_path: false,
    },
    syntax: "slice(DEV,START[,LENGTH])",
    summary: "part of another device, with sizes such as 64s (sectors of 512 bytes) or 1000M",
    matches: Slice::is_text,
    open,
    at_rest: Some(at_rest),
    fresh: None,
};

fn open(name: &str, options: &OpenOptions) -> Result<Opened, OpenError> {
    let slice = Slice::parse(name).map_err(OpenError::Slice)?;
    refuse_paced(&slice)?;
    let joined = join(&slice, options)?;
    let of_device = OpenOptions {
        locks: options.locks.for_slice(name, joined.is_some()),
        ..options.clone()
    };
    let mut opened = super::open(&slice.device, &of_device)?;
    let part = part(&slice, &opened.facts)?;
    if !options.read_only {
        hold(&slice, joined, &mut opened, options)?;
    }
    through_page_cache_if_needed(&mut opened, &slice, part.start, options)?;
    if let Medium::Later(later) = &mut opened.medium {
        later.cut(part.start);
    }
    let facts = &mut opened.facts;
    name.clone_into(&mut facts.name);
    facts.bytes = part.end - part.start;
    // A block may begin within a unit of the medium.
    let aligned_bytes = 1 << part.start.trailing_zeros().min(u32::BITS - 1);
    facts.physical_sector_bytes = facts.physical_sector_bytes.min(aligned_bytes);
    opened.part = Some(part);
    Ok(opened)
}

/// The pace belongs to the part: a whole device that is paced has no parts.
fn refuse_paced(slice: &Slice) -> Result<(), OpenError> {
    let Some((model, device)) = slices::paced(&slice.device) else {
        return Ok(());
    };
    let part = Slice {
        device: device.to_owned(),
        ..slice.clone()
    };
    Err(OpenError::Paced {
        device: slice.to_string(),
        why: format!(
            "give the part a pace: {}",
            slices::paced_name(model, &part.to_string())
        ),
    })
}

/// Claims the slice if this process has other parts of the device open. A slice for reading only is
/// claimed just for a moment.
fn join(slice: &Slice, options: &OpenOptions) -> Result<Option<Claim>, OpenError> {
    let Some(device) = identity(&slice.device) else {
        return Ok(None);
    };
    let bytes = range(slice.start_bytes, slice.length_bytes);
    let join = || shared::join(&device, &bytes, !options.read_only);
    if options.read_only {
        // The lock on the device refuses an overlap.
        return Ok(join().unwrap_or(None));
    }
    opening::retry_while_busy(&slice.device, options.busy_timeout, Errno::BUSY, join)
        .map_err(opening::refused(&slice.device, "claim"))
}

/// Holds the slice. The first slice of a device passes on the locks of the device.
fn hold(
    slice: &Slice,
    joined: Option<Claim>,
    opened: &mut Opened,
    options: &OpenOptions,
) -> Result<(), OpenError> {
    let Some(device) = identity(&slice.device) else {
        return Ok(());
    };
    let claim = match (joined, &opened.medium) {
        (Some(claim), _) => claim,
        (None, medium) => {
            let file = match medium {
                Medium::File(file) => Some(duplicate(file)),
                Medium::Inline(_) | Medium::Later(_) | Medium::Modelled(_) => None,
            };
            let file = file.transpose();
            let file = file.map_err(opening::refused(&slice.device, "hold"))?;
            let bytes = range(slice.start_bytes, slice.length_bytes);
            let held = std::mem::take(&mut opened.held);
            shared::begin(device, bytes, true, file, Box::new(held))
        }
    };
    let reason = opened.facts.direct_reason.clone();
    opened.held.push(options.locks.hold_part(claim, reason));
    Ok(())
}

/// Opens the device again through the page cache, if direct I/O can't begin at the slice's start.
fn through_page_cache_if_needed(
    opened: &mut Opened,
    slice: &Slice,
    start_bytes: u64,
    options: &OpenOptions,
) -> Result<(), OpenError> {
    let Medium::File(file) = &mut opened.medium else {
        return Ok(());
    };
    let sector_bytes = opened.facts.sector_bytes;
    let unit = direct_unit(file).unwrap_or(sector_bytes).max(1);
    if !opened.facts.direct || start_bytes.is_multiple_of(unit.into()) {
        return Ok(());
    }
    let reason = format!("direct I/O here needs multiples of {unit} bytes");
    let device = &slice.device;
    if options.direct == Direct::Always {
        let device = device.clone();
        return Err(OpenError::NoDirect { device, reason });
    }
    let access = if options.read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    let cached = files::open(device, access | OFlags::CLOEXEC);
    let cached = cached.map_err(opening::refused(device, "open"))?;
    let locked: Held = Locks::default().hold(std::mem::replace(file, cached));
    opened.held.push(locked);
    opened.facts.direct = false;
    opened.facts.direct_reason = Some(reason);
    Ok(())
}

/// Returns the alignment of direct I/O, if the kernel reports it.
fn direct_unit(file: &OwnedFd) -> Option<u32> {
    let status = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let is_known = status.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    is_known.then_some(status.stx_dio_offset_align)
}

/// Checks the slice against its device, and returns its bytes.
fn part(slice: &Slice, device: &DeviceFacts) -> Result<Range<u64>, OpenError> {
    let part = within(slice, device.bytes).ok_or_else(|| OpenError::BeyondEnd {
        slice: slice.to_string(),
        device: slice.device.clone(),
        bytes: device.bytes,
    })?;
    let is_whole = |bytes: u64| bytes.is_multiple_of(device.sector_bytes.max(1).into());
    if device.backend.whole_sectors_only && !(is_whole(part.start) && is_whole(part.end)) {
        return Err(OpenError::CutsSector {
            slice: slice.to_string(),
            device: slice.device.clone(),
            sector_bytes: device.sector_bytes,
        });
    }
    Ok(part)
}

/// Returns the bytes of a slice; `None` if the device is too short.
fn within(slice: &Slice, device_bytes: u64) -> Option<Range<u64>> {
    let end = match slice.length_bytes {
        None => device_bytes,
        Some(length) => slice.start_bytes.checked_add(length)?,
    };
    (slice.start_bytes < end && end <= device_bytes).then_some(slice.start_bytes..end)
}

/// Returns part of a device at rest.
pub(crate) fn cut(whole: Box<dyn AtRest>, slice: &Slice) -> io::Result<Box<dyn AtRest>> {
    let bytes = within(slice, whole.bytes()?).ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(Box::new(SliceAtRest { whole, bytes }))
}

fn at_rest(name: &str, access: Access) -> io::Result<Box<dyn AtRest>> {
    let slice = Slice::parse(name).map_err(io::Error::other)?;
    cut(super::at_rest(&slice.device, access)?, &slice)
}
