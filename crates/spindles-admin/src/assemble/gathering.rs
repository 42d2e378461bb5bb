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
pub(super) struct Gathered<'a> {
    /// Members; `found` holds the contents of each.
    pub(super) devices: Vec<&'a str>,
    pub(super) found: Vec<Found>,
    pub(super) spares: Vec<Spare>,
    pub(super) journals: Vec<(String, JournalDevice)>,
    /// Messages about devices that are too small for a superblock and therefore left out.
    pub(super) refused: Vec<String>,
    /// Options for opening the devices, with the block size of their array.
    pub(super) open: OpenOptions,
}

pub(super) fn gather<'a>(
    all: &[&'a str],
    open: &OpenOptions,
) -> Result<Gathered<'a>, AssembleError> {
    let mut found = look(all, open)?;
    let has_room = |found: &Found| found.bytes >= SLOTS_END_BYTES;
    let some_have = found.iter().any(has_room);
    let is_small = |found: &Found| some_have && !has_room(found);
    let small = found.iter().filter(|found| is_small(found)).map(|found| {
        format!(
            "{}: too small: it has {}, less than superblocks take; leave it out",
            found.name,
            SizeBytes(found.bytes)
        )
    });
    let refused: Vec<String> = small.collect();
    let (devices, kept): (Vec<&str>, Vec<Found>) = all
        .iter()
        .copied()
        .zip(found)
        .filter(|(_, found)| !is_small(found))
        .unzip();
    found = kept;
    let devices = devices.as_slice();
    let (members, spares) = set_apart(devices, &mut found, |found| {
        found.spare().map(|record| Spare {
            name: found.name.clone(),
            bytes: found.bytes,
            record: record.clone(),
        })
    });
    let (members, journals) = set_apart(&members, &mut found, |found| {
        let journal = found.journal_device()?;
        Some((found.name.clone(), *journal))
    });
    if members.is_empty() && !all.is_empty() {
        return Err(AssembleError::NoMembers {
            devices: all.join(", "),
        });
    }
    let block_size = found.iter().find_map(Found::array);
    let block_size = block_size.map(|array| array.block_size);
    Ok(Gathered {
        devices: members,
        found,
        spares,
        journals,
        refused,
        open: OpenOptions {
            block_size,
            ..open.clone()
        },
    })
}

/// Takes out the devices whose record `says` recognizes, such as spares or journals.
fn set_apart<'a, T>(
    devices: &[&'a str],
    found: &mut Vec<Found>,
    says: impl Fn(&Found) -> Option<T>,
) -> (Vec<&'a str>, Vec<T>) {
    let mut apart = Vec::new();
    let mut members = devices.to_vec();
    found.retain(|found| {
        let said = says(found);
        if said.is_some() {
            members.retain(|name| *name != found.name);
        }
        let is_member = said.is_none();
        apart.extend(said);
        is_member
    });
    (members, apart)
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
