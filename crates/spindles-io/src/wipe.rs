//! Takes our superblocks off devices, so that nothing takes them for members, spares or journals.

use crate::attach::{self, ChangeError};
use crate::probe::{self, Probe};
use crate::report::survives_more;
use crate::{OpenOptions, backends, positioned};
use spindles_block::MemberSet;
use spindles_engine::geometry_of;
use spindles_format::{Found, SLOT_BYTES, SUPERBLOCK_BYTES};
use std::fs::File;
use std::io;

/// A device that has our superblocks, or had them.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// The device.
    pub device: String,
    /// What it is by its superblocks, with its article.
    pub holds: String,
    /// The arrays that lack it then, and what that means for them.
    pub lacking: Vec<String>,
}

/// What would be wiped. Nothing is written.
///
/// # Errors
///
/// A device has nothing of ours, is given twice or can't be read.
pub fn look(devices: &[&str]) -> Result<Vec<Labelled>, ChangeError> {
    attach::are_others(&[], devices)?;
    let mut found = Vec::new();
    for device in devices {
        let probe = Probe::peek(device)?;
        let holds = probe.holds(&[]).ok_or_else(|| ChangeError::NotLabelled {
            device: (*device).to_owned(),
        })?;
        found.push((probe.found(), holds));
    }
    let all: Vec<Found> = found.iter().map(|(found, _)| found.clone()).collect();
    let labelled = found.into_iter().map(|(found, holds)| Labelled {
        lacking: lacking(&found, &all),
        device: found.name,
        holds,
    });
    Ok(labelled.collect())
}

/// Takes the superblocks off devices, durably. What else is on them stays.
///
/// # Errors
///
/// As `look`, or a device is in use. Nothing was written to any, unless the operating system refuses
/// that.
pub fn wipe(devices: &[&str]) -> Result<Vec<Labelled>, ChangeError> {
    attach::are_others(&[], devices)?;
    let mut held = Vec::new();
    for device in devices {
        held.push(backends::open(device, &OpenOptions::default())?);
    }
    // Nobody else writes to them from here on.
    let labelled = look(devices)?;
    for device in devices {
        clear(device).map_err(|source| probe::failed(device, "clear", source))?;
    }
    Ok(labelled)
}

/// Writes zeros over the superblocks of a device, durably.
pub(crate) fn clear(device: &str) -> io::Result<()> {
    let bytes = Probe::held(device)?.bytes;
    let file = File::options().write(true).open(device)?;
    for offset in SLOT_BYTES {
        let there = usize::try_from(bytes.saturating_sub(offset)).unwrap_or(SUPERBLOCK_BYTES);
        let zeros = [0; SUPERBLOCK_BYTES];
        positioned::write_all_at(&file, &zeros[..there.min(SUPERBLOCK_BYTES)], offset)?;
    }
    file.sync_all()
}

/// What the arrays of a device are without it, and without the others that go with it.
fn lacking(found: &Found, all: &[Found]) -> Vec<String> {
    if let Some(spare) = found.spare() {
        let arrays = spare.arrays.iter();
        return arrays
            .map(|uuid| format!("array {uuid} loses a spare"))
            .collect();
    }
    if let Some(journal) = found.journal_device() {
        let uuid = journal.array;
        return vec![format!(
            "array {uuid} loses the device of its journal: `spindles journal remove` takes it away in \
             order"
        )];
    }
    let Ok((array, device)) = found.record() else {
        return Vec::new();
    };
    let of_array = all.iter().filter_map(|other| other.record().ok());
    let going: MemberSet = of_array
        .filter(|(other, _)| other.uuid == array.uuid)
        .map(|(_, device)| device.member)
        .collect();
    let geometry = geometry_of(array).ok();
    let left = geometry.and_then(|it| it.survives_more(array.missing().union(going)));
    let fate = if let Some(more) = left {
        format!("; the array is degraded then: {}", survives_more(more))
    } else if going.iter().count() == array.members().len() {
        ", and all others: the array is gone then, with all that it holds".to_owned()
    } else {
        ", and too many others: the array can't be read then".to_owned()
    };
    vec![format!(
        "array '{}' ({}) loses member {}{fate}",
        array.name, array.uuid, device.member
    )]
}
