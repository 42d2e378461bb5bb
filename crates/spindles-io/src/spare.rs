//! Spares: devices that are set aside for arrays, and take the place of a member that is lost.

use crate::assemble::{AssembleOptions, SpareReport, assemble};
use crate::attach::{self, ChangeError};
use crate::create;
use crate::probe::{self, Probe};
use crate::{OpenError, OpenOptions, TooSmall, backends, positioned};
use spindles_block::{BlockSize, MemberIndex};
use spindles_format::{DeviceRecord, SLOT_BYTES, SUPERBLOCK_BYTES, SpareRecord, Uuid, areas_for};
use std::fs::File;
use std::{fmt, io};

/// Whose spares devices become.
#[derive(Clone, Copy, Debug)]
pub enum For<'a> {
    /// Any array's.
    All,
    /// The array's that these devices are.
    Array(&'a [&'a str]),
}

/// Spares that there are now.
#[derive(Clone, Debug)]
pub struct Added {
    /// The name and identity of the array whose they are to be; `None` for shared ones.
    pub array: Option<(String, Uuid)>,
    /// What is not as it should be with that array, and with the devices given for it.
    pub warnings: Vec<String>,
    /// What they are now: one that was shared before still is.
    pub spares: Vec<SpareReport>,
    /// What was overwritten: device and what it was.
    pub wiped: Vec<(String, String)>,
}

/// A device that is a spare.
#[derive(Clone, Debug)]
pub(crate) struct Spare {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) record: SpareRecord,
}

/// A spare that an array took, or tried to.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The array.
    pub array: String,
    /// The position.
    pub member: MemberIndex,
    /// The spare.
    pub device: String,
    /// Why it did not get the place; then the next spare was tried.
    pub error: Option<String>,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            array,
            member,
            device,
            error,
        } = self;
        match error {
            None => write!(
                f,
                "array '{array}': spare {device} takes the place of member {member}"
            ),
            Some(error) => write!(
                f,
                "array '{array}': spare {device} can't take the place of member {member}: {error}"
            ),
        }
    }
}

/// Makes spares of devices. One that is a spare already serves the array as well as those before.
///
/// # Errors
///
/// Nothing was written to any, unless the operating system refuses that.
pub fn add(devices: &[&str], whose: For<'_>, overwrite: bool) -> Result<Added, ChangeError> {
    let members = match whose {
        For::All => &[][..],
        For::Array(members) => members,
    };
    attach::are_others(members, devices)?;
    let array = match whose {
        For::All => None,
        For::Array(members) => {
            let mut looking = AssembleOptions {
                force: true,
                ..AssembleOptions::default()
            };
            looking.open.read_only = true;
            Some(assemble(members, &looking)?)
        }
    };
    let mut wiped = Vec::new();
    let mut warnings = array.as_ref().map(|array| array.report.warnings());
    let mut planned = Vec::new();
    let mut probes = Vec::new();
    for device in devices {
        let probe = create::look(device)?;
        if let Some(array) = &array {
            let unfit = array.target.may_be_spare(device)?;
            let unfit = unfit.iter().map(ToString::to_string);
            warnings.get_or_insert_default().extend(unfit);
        } else {
            // As large as the smallest member there can be.
            let areas = areas_for(probe.bytes, BlockSize::B512, MemberIndex(0));
            areas.map_err(TooSmall::of(device))?;
        }
        probes.push(probe);
    }
    for (device, probe) in devices.iter().zip(probes) {
        let uuid = array.as_ref().map(|array| array.report.uuid);
        let known = probe.found().spare().cloned();
        let mut record = match (&known, uuid) {
            (Some(known), None) => known.serving_all(),
            (Some(known), Some(uuid)) => {
                let too_many = || ChangeError::TooManyArrays {
                    device: (*device).to_owned(),
                };
                known.serving(uuid).ok_or_else(too_many)?
            }
            (None, uuid) => {
                wiped.extend(create::may_overwrite(device, overwrite)?);
                SpareRecord {
                    device_uuid: create::new_uuid()?,
                    device_bytes: 0,
                    arrays: uuid.into_iter().collect(),
                }
            }
        };
        record.device_bytes = probe.bytes;
        planned.push((device, known.is_some(), record));
    }
    for device in devices {
        may_write(device)?;
    }
    let mut spares = Vec::new();
    for (device, is_spare, record) in planned {
        make(device, is_spare, &record.encode())?;
        spares.push(SpareReport {
            name: (*device).to_owned(),
            bytes: record.device_bytes,
            shared: record.is_shared(),
        });
    }
    let array = array.map(|array| (array.report.name, array.report.uuid));
    Ok(Added {
        array,
        warnings: warnings.unwrap_or_default(),
        spares,
        wiped,
    })
}

/// Whether a device could be written to now: asked of all before the first is.
pub(crate) fn may_write(device: &str) -> Result<(), OpenError> {
    backends::open(device, &OpenOptions::default()).map(drop)
}

/// Makes a device say what this page does, whatever it holds; one that is so already only says it
/// anew.
pub(crate) fn make(
    device: &str,
    already: bool,
    page: &[u8; SUPERBLOCK_BYTES],
) -> Result<(), OpenError> {
    // As long as it is written to, nobody else may have it.
    let held = backends::open(device, &OpenOptions::default())?;
    let forgotten = if already {
        Ok(())
    } else {
        create::forget(device)
    };
    let written = forgotten.and_then(|()| put(device, page));
    drop(held);
    written.map_err(|source| probe::failed(device, "write to", source))
}

/// Makes a device that is held a spare of this array alone, and clears it for its place there.
pub(crate) fn reserve(device: &str, array: Uuid, areas: &DeviceRecord) -> io::Result<()> {
    create::clear(device, areas)?;
    let spare = SpareRecord {
        device_uuid: create::new_uuid().map_err(io::Error::other)?,
        device_bytes: areas.device_bytes,
        arrays: vec![array],
    };
    put(device, &spare.encode())
}

/// Makes a spare that is held this array's alone, durably, and then clears it for its place there.
pub(crate) fn claim(
    device: &str,
    spare: &SpareRecord,
    array: Uuid,
    areas: &DeviceRecord,
) -> io::Result<()> {
    put(device, &spare.claimed_by(array).encode())?;
    create::clear_spare(device, areas)
}

/// Writes what a device that is no member says of itself, durably.
fn put(device: &str, page: &[u8; SUPERBLOCK_BYTES]) -> io::Result<()> {
    let file = File::options().write(true).open(device)?;
    positioned::write_all_at(&file, page, SLOT_BYTES[0])?;
    file.sync_all()
}

/// Makes plain devices of spares.
///
/// # Errors
///
/// Nothing was written to any, unless the operating system refuses that.
pub fn remove(devices: &[&str]) -> Result<(), ChangeError> {
    let mut held = Vec::new();
    for device in devices {
        let probe = Probe::open(device)?;
        if probe.found().spare().is_none() {
            let device = (*device).to_owned();
            return Err(ChangeError::NoSpare { device });
        }
        drop(probe);
        held.push(backends::open(device, &OpenOptions::default())?);
    }
    for device in devices {
        create::forget(device).map_err(|source| probe::failed(device, "clear", source))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_format::AreaKind;

    /// From then on nobody else takes it, whatever happens before it is a member.
    #[test]
    fn a_claimed_spare_is_one_of_that_array_alone() {
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
            make(&path, false, &spare.encode()).unwrap();
            let found = Probe::open(&path).unwrap().found();
            assert_eq!(found.spare(), Some(&spare));
            let areas = areas_for(1 << 20, BlockSize::B4096, MemberIndex(0)).unwrap();
            claim(&path, &spare, one, &areas).unwrap();
            let found = Probe::open(&path).unwrap().found();
            assert_eq!(found.spare().map(|spare| &spare.arrays), Some(&vec![one]));
            let bytes = std::fs::read(&path).unwrap();
            let sums = areas.area(AreaKind::CHECKSUMS).unwrap();
            for (from, length) in [
                (SLOT_BYTES[1], 4096),
                (sums.offset_bytes, sums.length_bytes),
            ] {
                let range = usize::try_from(from).unwrap()..usize::try_from(from + length).unwrap();
                assert!(bytes[range].iter().all(|byte| *byte == 0));
            }
        }
    }
}
