//! Sorts devices by the records on them: members, spares, journals.

use crate::errors::AssembleError;
use spindles_array::labels::Spare;
use spindles_block::SizeBytes;
use spindles_device::probe::Probe;
use spindles_device::{OpenOptions, identity};
use spindles_format::{DecodeError, Found, JournalDevice, SLOT_BYTES, SUPERBLOCK_BYTES};
use std::cmp::Ordering;

/// The end of the second superblock slot: the least size of a member.
const SLOTS_END_BYTES: u64 = SLOT_BYTES[1] + SUPERBLOCK_BYTES as u64;

/// Devices by the records on them.
pub(super) struct Gathered {
    pub(super) members: Vec<Found>,
    pub(super) spares: Vec<Spare>,
    pub(super) journals: Vec<(String, JournalDevice)>,
    /// Messages about devices that are too small for a superblock and therefore left out.
    pub(super) refused: Vec<String>,
    /// Options for opening the devices, with the block size of their array.
    pub(super) open: OpenOptions,
}

pub(super) fn gather(all: &[&str], open: &OpenOptions) -> Result<Gathered, AssembleError> {
    let mut members = look(all, open)?;
    let has_room = |found: &Found| found.bytes >= SLOTS_END_BYTES;
    let some_have = members.iter().any(has_room);
    let small = members.extract_if(.., |found| some_have && !has_room(found));
    let refused = small.map(|found| {
        format!(
            "{}: too small: it has {}, less than superblocks take; leave it out",
            found.name,
            SizeBytes(found.bytes)
        )
    });
    let refused = refused.collect();
    let spares = members.extract_if(.., |found| found.spare().is_some());
    let spares = spares.filter_map(|found| {
        Some(Spare {
            record: found.spare()?.clone(),
            bytes: found.bytes,
            name: found.name,
        })
    });
    let spares = spares.collect();
    let journals = members.extract_if(.., |found| found.journal_device().is_some());
    let journals = journals.filter_map(|found| {
        let journal = *found.journal_device()?;
        Some((found.name, journal))
    });
    let journals = journals.collect();
    if members.is_empty() && !all.is_empty() {
        return Err(AssembleError::NoMembers {
            devices: all.join(", "),
        });
    }
    let array = members.iter().find_map(Found::array);
    let open = OpenOptions {
        block_size: array.map(|array| array.block_size),
        ..open.clone()
    };
    Ok(Gathered {
        members,
        spares,
        journals,
        refused,
        open,
    })
}

/// Refuses two devices with the same journal, just as two devices with the same member.
pub(super) fn refuse_copies(journals: &[(String, JournalDevice)]) -> Result<(), AssembleError> {
    for (at, (second, device)) in journals.iter().enumerate() {
        let same = |(_, other): &&(String, JournalDevice)| other.device_uuid == device.device_uuid;
        if let Some((first, other)) = journals[..at].iter().find(same) {
            let older = match other.stamps.cmp(&device.stamps) {
                Ordering::Less => Some(first),
                Ordering::Equal => None,
                Ordering::Greater => Some(second),
            };
            return Err(AssembleError::TwoJournals {
                first: first.clone(),
                second: second.clone(),
                older: older.cloned(),
            });
        }
    }
    Ok(())
}

/// Reads the records of the devices. Each must be a different device and hold a record.
fn look(devices: &[&str], open: &OpenOptions) -> Result<Vec<Found>, AssembleError> {
    if let Some((first, second)) = identity::same_device(devices) {
        return Err(AssembleError::SameDevice {
            first: devices[first].to_owned(),
            second: devices[second].to_owned(),
        });
    }
    let look_at = |device: &&str| {
        let probe = Probe::open_with(device, open)?;
        let found = probe.found();
        if found.record() == Err(DecodeError::NotOurs)
            && !found.is_labelled()
            && let Some(sighting) = probe.sightings()?.first()
        {
            return Err(AssembleError::SomethingElse {
                device: (*device).to_owned(),
                what: sighting.what,
            });
        }
        Ok(found)
    };
    devices.iter().map(look_at).collect()
}
