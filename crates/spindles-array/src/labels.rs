//! Labels of devices that belong to arrays but are no members: spares and journals.

use spindles_device::at_rest::Access;
use spindles_device::errors::failed;
use spindles_device::seen::Examined;
use spindles_device::{OpenError, OpenOptions, backends, clearing, random};
use spindles_format::{DeviceRecord, SLOT_BYTES, SUPERBLOCK_BYTES, SpareRecord, Uuid};
use std::io;

/// A spare device.
#[derive(Clone, Debug)]
pub struct Spare {
    /// The device.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its label.
    pub record: SpareRecord,
}

/// Checks that a device could be written now. Callers check all devices before the first write.
pub fn may_write(device: &str) -> Result<(), OpenError> {
    backends::open(device, &OpenOptions::default()).map(drop)
}

/// Labels a device that is as it was `seen`, and clears its other contents first.
pub fn make(device: &str, seen: Examined, page: &[u8; SUPERBLOCK_BYTES]) -> Result<(), OpenError> {
    write(device, seen, || {
        clearing::forget(device)?;
        put(device, page)
    })
}

/// Replaces the label of a device that is as it was `seen`, and keeps its other contents.
pub fn replace(
    device: &str,
    seen: Examined,
    page: &[u8; SUPERBLOCK_BYTES],
) -> Result<(), OpenError> {
    write(device, seen, || put(device, page))
}

/// Holds the device during the writes, so that no other program can open it.
fn write(
    device: &str,
    seen: Examined,
    writes: impl FnOnce() -> io::Result<()>,
) -> Result<(), OpenError> {
    let held = backends::open(device, &OpenOptions::default())?;
    seen.is_unchanged(device)?;
    let written = writes();
    drop(held);
    written.map_err(|source| failed(device, "write to", source))
}

/// Labels a held device as a dedicated spare of this array, and clears it for its place there.
pub(crate) fn reserve(device: &str, array: Uuid, areas: &DeviceRecord) -> io::Result<()> {
    clearing::clear(device, areas)?;
    let spare = SpareRecord {
        device_uuid: random::uuid().map_err(io::Error::other)?,
        device_bytes: areas.device_bytes,
        arrays: vec![array],
    };
    put(device, &spare.encode())
}

/// Labels a held spare as this array's alone, durably, and then clears it for its place there.
pub(crate) fn claim(
    device: &str,
    spare: &SpareRecord,
    array: Uuid,
    areas: &DeviceRecord,
) -> io::Result<()> {
    put(device, &spare.claimed_by(array).encode())?;
    clearing::clear_spare(device, areas)
}

/// Rewrites the damaged label of a held spare.
pub fn repair(device: &str, spare: &SpareRecord) -> io::Result<()> {
    put(device, &spare.encode())
}

/// Writes a label, durably.
fn put(device: &str, page: &[u8; SUPERBLOCK_BYTES]) -> io::Result<()> {
    let device = backends::at_rest(device, Access::Write)?;
    device.write(page, SLOT_BYTES[0])?;
    device.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::{BlockSize, MemberIndex};
    use spindles_device::probe::Probe;
    use spindles_format::{AreaKind, areas_for};

    /// No other array takes it, even if it never becomes a member.
    #[test]
    fn a_claimed_spare_belongs_to_one_array_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s").to_str().unwrap().to_owned();
        std::fs::write(&path, vec![0x5a; 1 << 20]).unwrap();
        let [one, other, own] = [1, 2, 3].map(|of| Uuid::from_random([of; 16]));
        for arrays in [Vec::new(), vec![one, other]] {
            let spare = SpareRecord {
                device_uuid: own,
                device_bytes: 1 << 20,
                arrays,
            };
            make(&path, Examined::default(), &spare.encode()).unwrap();
            let found = Probe::open(&path).unwrap().found();
            assert_eq!(found.spare(), Some(&spare));
            let areas = areas_for(1 << 20, BlockSize::B4096, MemberIndex(0)).unwrap();
            claim(&path, &spare, one, &areas).unwrap();
            let found = Probe::open(&path).unwrap().found();
            assert_eq!(found.spare().map(|spare| &spare.arrays), Some(&vec![one]));
            let bytes = std::fs::read(&path).unwrap();
            let checksums = areas.area(AreaKind::CHECKSUMS).unwrap();
            for (from, length) in [
                (SLOT_BYTES[1], 4096),
                (checksums.offset_bytes, checksums.length_bytes),
            ] {
                let range = usize::try_from(from).unwrap()..usize::try_from(from + length).unwrap();
                assert!(bytes[range].iter().all(|byte| *byte == 0));
            }
        }
    }
}
