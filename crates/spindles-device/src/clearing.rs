//! Clears data on devices. The caller must have the device open, so that no other program writes to
//! it.

use crate::at_rest::{Access, AtRest};
use crate::backends;
use crate::probe::Probe;
use crate::signatures::Sighting;
use spindles_format::{AreaKind, BITMAPS, DeviceRecord, SLOT_BYTES, SUPERBLOCK_BYTES};
use std::io;

/// A device with this many zeros at both ends counts as new: the superblock slots lie within them.
pub const ENDS_BYTES: u64 = 64 << 10;

/// Clears a held device that is about to become a member: all known signatures, the superblock
/// slots and all metadata areas.
pub fn clear(device: &str, record: &DeviceRecord) -> io::Result<()> {
    forget(device)?;
    clear_areas(backends::at_rest(device, Access::Write)?.as_ref(), record)
}

/// Clears a held spare that is about to become a member, except for its spare label.
pub fn clear_spare(device: &str, record: &DeviceRecord) -> io::Result<()> {
    let device = backends::at_rest(device, Access::Write)?;
    device.write(&[0; SUPERBLOCK_BYTES], SLOT_BYTES[1])?;
    clear_areas(device.as_ref(), record)
}

/// Zeroes all known signatures on a held device, including the superblock slots.
pub fn forget(device: &str) -> io::Result<()> {
    let sightings = Probe::held(device)?.sightings();
    wipe(device, &sightings.map_err(io::Error::other)?)
}

/// Empties a device that held only Spindles data. A file or its slice is zeroed; a block device
/// gets zeros at both ends and loses all known signatures.
pub fn empty(device: &str) -> io::Result<()> {
    forget(device)?;
    let device = backends::at_rest(device, Access::Write)?;
    let bytes = device.bytes()?;
    if device.in_file().is_some() {
        device.make_zeros(0, bytes)?;
    } else {
        let length = bytes.min(ENDS_BYTES);
        let zeros = vec![0; usize::try_from(length).expect("64 KiB")];
        device.write(&zeros, 0)?;
        device.write(&zeros, bytes - length)?;
    }
    device.sync()
}

fn clear_areas(device: &dyn AtRest, record: &DeviceRecord) -> io::Result<()> {
    for kind in BITMAPS {
        let area = record.area(kind).expect("a member has all areas");
        let zeros = vec![0; usize::try_from(area.length_bytes).expect("at most 128 KiB")];
        device.write(&zeros, area.offset_bytes)?;
    }
    let area = record
        .area(AreaKind::CHECKSUMS)
        .expect("a member has all areas");
    device.make_zeros(area.offset_bytes, area.length_bytes)?;
    device.sync()
}

/// Zeroes the given signatures, and everything up to the end of the superblock slots.
pub fn wipe(device: &str, sightings: &[Sighting]) -> io::Result<()> {
    let device = backends::at_rest(device, Access::Write)?;
    let superblock = u64::try_from(SUPERBLOCK_BYTES).expect("4096");
    let start = (0, SLOT_BYTES[1] + superblock);
    let magics = sightings
        .iter()
        .map(|sighting| (sighting.offset_bytes, sighting.length_bytes));
    for (offset, length) in magics.chain([start]) {
        let zeros = vec![0; usize::try_from(length).expect("some KiB")];
        device.write(&zeros, offset)?;
    }
    device.sync()
}
