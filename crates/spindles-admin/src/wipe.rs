//! Removes Spindles superblocks from devices, so that they no longer count as members, spares or
//! journals. Describes what their arrays lose.

use crate::attach::{self, ChangeError};
use crate::occupants::{known_kind, occupant};
use crate::scan;
use spindles_block::{MemberIndex, MemberSet};
use spindles_device::at_rest::Access;
use spindles_device::errors::failed;
use spindles_device::identity::share_bytes;
use spindles_device::probe::Probe;
use spindles_device::{OpenOptions, backends, clearing, waiting};
use spindles_engine::geometry_of;
use spindles_format::{
    ArrayRecord, Found, JournalDevice, SLOT_BYTES, SUPERBLOCK_BYTES, Uuid, newest,
};
use std::collections::BTreeSet;
use std::io;

/// A device that has or had Spindles superblocks, or another known signature.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// The device.
    pub device: String,
    /// The role or the kind of data that they identify, with an article.
    pub holds: String,
    /// The loss of each array.
    pub losses: Vec<Loss>,
    /// Before the wipe: the programs that have it open or locked.
    pub users: Option<String>,
    /// True if all other data on it is removed too, if it is a file: no array counts on it.
    pub is_emptied: bool,
}

/// What an array loses with a device.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The name of the array, if its superblocks were found.
    pub name: Option<String>,
    /// Its identity.
    pub array: Uuid,
    /// What it loses.
    pub what: LossKind,
}

/// What an array loses with a device.
#[derive(Clone, Debug)]
pub enum LossKind {
    /// A spare.
    Spare,
    /// A member, which it goes on without already.
    MemberOut(MemberIndex),
    /// A member that it counts on.
    Member(MemberIndex, Without),
    /// Nothing: another device has the journal.
    OldJournal,
    /// One of two devices with the same journal; the name of the other one.
    JournalCopy(String),
    /// The device of its journal.
    Journal,
}

/// The state of an array without a member.
#[derive(Clone, Debug)]
pub enum Without {
    /// It is degraded, and survives the loss of as many more members.
    Degraded(u8),
    /// It can't be read, unless these members, which were not found, exist.
    Needs(MemberSet),
    /// No member is left.
    Gone,
    /// Too many members are lost to read it.
    Unreadable {
        /// True if more members than this one are lost.
        others: bool,
        /// The array around it, which loses a member.
        around: Option<String>,
    },
}

/// Describes what a wipe would remove. Writes nothing. Refuses devices without superblocks.
pub fn look(devices: &[&str]) -> Result<Vec<Labelled>, ChangeError> {
    look_at(devices, true)
}

fn look_at(devices: &[&str], with_users: bool) -> Result<Vec<Labelled>, ChangeError> {
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
    // The records of the other members may be newer.
    let known = [all.clone(), scan::all()].concat();
    let labelled = found.into_iter().map(|(found, holds)| Labelled {
        users: waiting::users(&found.name).filter(|_| with_users),
        ..Labelled::of(found, holds, &all, &known)
    });
    Ok(labelled.collect())
}

/// Describes data of a known kind on a device that is about to be overwritten. `None` if
/// it has no such data, or can't be read.
#[must_use]
pub fn overwritten(device: &str) -> Option<Labelled> {
    let probe = Probe::glance(device)?;
    let (found, holds) = occupant(&probe, known_kind)?;
    let all = [found.clone()];
    let known = [all.to_vec(), scan::all()].concat();
    Some(Labelled::of(found, holds, &all, &known))
}

impl Labelled {
    /// Describes a device that is wiped together with `all`, by the records in `known`.
    fn of(found: Found, holds: String, all: &[Found], known: &[Found]) -> Self {
        let is_needed = found.array().map_or(!found.is_labelled(), |own| {
            is_counted_on(&found, newest(known, own.uuid).unwrap_or(own))
        });
        Self {
            losses: losses(&found, all, known),
            device: found.name,
            holds,
            users: None,
            is_emptied: !is_needed,
        }
    }
}

/// Removes the superblocks from devices, durably. Members that their array counts on keep their
/// other data. All other devices are empty afterwards; for block devices, as far as signatures are
/// known. Errors come before the first write, unless the operating system refused a write.
pub fn wipe(devices: &[&str]) -> Result<Vec<Labelled>, ChangeError> {
    wipe_with(devices, &OpenOptions::default())
}

/// Does the same with these options for opening the devices.
pub(crate) fn wipe_with(
    devices: &[&str],
    open: &OpenOptions,
) -> Result<Vec<Labelled>, ChangeError> {
    attach::are_others(&[], devices)?;
    let mut held = Vec::new();
    for device in devices {
        held.push(backends::open(device, open)?);
    }
    // No other program writes to them from here on.
    let labelled = look_at(devices, false)?;
    for Labelled {
        device, is_emptied, ..
    } in &labelled
    {
        let wiped = if *is_emptied {
            clearing::empty(device)
        } else {
            clear(device)
        };
        wiped.map_err(|source| failed(device, "clear", source))?;
    }
    Ok(labelled)
}

/// Zeroes the superblocks of a device, durably, and other metadata of a member at its beginning.
pub(crate) fn clear(device: &str) -> io::Result<()> {
    let probe = Probe::held(device)?;
    let found = probe.found();
    let bytes = probe.bytes;
    let device = backends::at_rest(device, Access::Write)?;
    if let Ok((array, record)) = found.record() {
        let data_start = record.data_start().0 * u64::from(array.block_size.bytes());
        let begin = data_start.min(clearing::ENDS_BYTES).min(bytes);
        device.write(&vec![0; usize::try_from(begin).expect("64 KiB")], 0)?;
    }
    for offset in SLOT_BYTES {
        let there = usize::try_from(bytes.saturating_sub(offset)).unwrap_or(SUPERBLOCK_BYTES);
        let zeros = [0; SUPERBLOCK_BYTES];
        device.write(&zeros[..there.min(SUPERBLOCK_BYTES)], offset)?;
    }
    device.sync()
}

/// Returns the losses of the arrays of a device if it and the others in `all` are wiped, as far as
/// `known` shows.
fn losses(found: &Found, all: &[Found], known: &[Found]) -> Vec<Loss> {
    if let Some(spare) = found.spare() {
        let lost = |array: &Uuid| Loss {
            name: None,
            array: *array,
            what: LossKind::Spare,
        };
        return spare.arrays.iter().map(lost).collect();
    }
    if let Some(journal) = found.journal_device() {
        let array = newest(known, journal.array);
        return vec![Loss {
            name: array.map(|array| array.name.to_string()),
            array: journal.array,
            what: loss_of_journal(&found.name, journal, array, known),
        }];
    }
    let Ok((own, device)) = found.record() else {
        return Vec::new();
    };
    let array = newest(known, own.uuid).unwrap_or(own);
    vec![Loss {
        name: Some(array.name.to_string()),
        array: array.uuid,
        what: if is_counted_on(found, array) {
            LossKind::Member(device.member, without(array, all, known))
        } else {
            LossKind::MemberOut(device.member)
        },
    }]
}

/// Returns the state of an array without its members in `all`.
fn without(array: &ArrayRecord, all: &[Found], known: &[Found]) -> Without {
    let members_in = |devices: &[Found]| -> MemberSet {
        let of_array = devices.iter().filter(|other| is_counted_on(other, array));
        let members = of_array.filter_map(|other| Some(other.identity()?.1));
        members.collect()
    };
    let (going, here) = (members_in(all), members_in(known));
    let geometry = geometry_of(array).ok();
    let survives = |lost| {
        geometry
            .as_ref()
            .and_then(|geometry| geometry.survives_more(lost))
    };
    let lost = array.missing().union(going);
    let elsewhere = MemberSet::all(array.members).difference(here.union(lost));
    let inner = known.iter().filter_map(|other| {
        let inner = other.array()?;
        (inner.parent == array.uuid).then_some(inner.uuid)
    });
    let inner: BTreeSet<Uuid> = inner.collect();
    // An inner array's devices do not record which member it is. If no other member is visible, the
    // rest of the array is assumed to lie in another folder.
    let is_seen = elsewhere.iter().count() <= inner.len() || here.difference(going).is_empty();
    if let Some(more) = survives(lost) {
        if is_seen || survives(lost.union(elsewhere)).is_some() {
            Without::Degraded(more)
        } else {
            Without::Needs(elsewhere)
        }
    } else if going.iter().count() == array.members().len() {
        Without::Gone
    } else {
        Without::Unreadable {
            others: lost.iter().count() != 1,
            around: newest(known, array.parent).map(|around| around.name.to_string()),
        }
    }
}

/// Returns what an array loses with a device that holds or held its journal.
fn loss_of_journal(
    device: &str,
    journal: &JournalDevice,
    array: Option<&ArrayRecord>,
    known: &[Found],
) -> LossKind {
    if array.is_some_and(|array| array.journal.device != journal.device_uuid) {
        return LossKind::OldJournal;
    }
    let is_same = |other: &&Found| {
        let its = other.journal_device();
        its.is_some_and(|its| its.device_uuid == journal.device_uuid)
            && !share_bytes(&other.name, device)
    };
    match known.iter().find(is_same) {
        Some(other) => LossKind::JournalCopy(other.name.clone()),
        None => LossKind::Journal,
    }
}

/// Returns true if the array has that device as a member that is not out.
fn is_counted_on(found: &Found, array: &ArrayRecord) -> bool {
    found.identity().is_some_and(|(uuid, member, own)| {
        let counted = array.members().get(usize::from(member.0));
        uuid == array.uuid
            && counted.is_some_and(|counted| counted.device_uuid == own)
            && !array.missing().contains(member)
    })
}
