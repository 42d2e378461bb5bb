//! Removes Spindles superblocks from devices, so that they no longer count as members, spares or
//! journals. Describes what their arrays lose.

use crate::attach::{self, ChangeError};
use crate::left_over::newest;
use crate::report::survives_more;
use crate::scan;
use spindles_array::positions::positions;
use spindles_array::shell::shell_word;
use spindles_block::MemberSet;
use spindles_device::at_rest::Access;
use spindles_device::errors::failed;
use spindles_device::identity::share_bytes;
use spindles_device::probe::Probe;
use spindles_device::{OpenOptions, backends, clearing, waiting};
use spindles_engine::geometry_of;
use spindles_format::{ArrayRecord, Found, JournalDevice, SLOT_BYTES, SUPERBLOCK_BYTES, Uuid};
use std::collections::BTreeSet;
use std::io;

/// A device that has or had Spindles superblocks, or another known signature.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// The device.
    pub device: String,
    /// The role or the kind of data that they identify, with an article.
    pub holds: String,
    /// The arrays that then lack it, each with the consequence.
    pub lacking: Vec<String>,
    /// Before the wipe: the programs that have it open or locked.
    pub users: Option<String>,
    /// True if all other data on it is removed too, if it is a file: no array counts on it.
    pub is_emptied: bool,
}

/// The tense of a message about losses: before or after the wipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tense {
    Future,
    Past,
}

impl Tense {
    const fn loses(self) -> &'static str {
        match self {
            Self::Future => "loses",
            Self::Past => "lost",
        }
    }

    const fn then(self) -> &'static str {
        match self {
            Self::Future => "then",
            Self::Past => "now",
        }
    }
}

/// Describes what a wipe would remove. Writes nothing.
///
/// # Errors
///
/// If a device has no superblock, is given twice or can't be read.
pub fn look(devices: &[&str]) -> Result<Vec<Labelled>, ChangeError> {
    look_at(devices, Tense::Future)
}

fn look_at(devices: &[&str], tense: Tense) -> Result<Vec<Labelled>, ChangeError> {
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
        users: waiting::users(&found.name).filter(|_| tense == Tense::Future),
        ..Labelled::of(found, holds, &all, &known, tense)
    });
    Ok(labelled.collect())
}

/// Describes data of a known kind on a device that is about to be overwritten, in the past tense.
/// `None` if it has no such data, or can't be read.
#[must_use]
pub fn overwritten(device: &str) -> Option<Labelled> {
    let probe = Probe::glance(device)?;
    let holds = probe.holds(&probe.sightings().ok()?)?;
    let found = probe.found();
    let all = [found.clone()];
    let known = [all.to_vec(), scan::all()].concat();
    Some(Labelled::of(found, holds, &all, &known, Tense::Past))
}

impl Labelled {
    /// Describes a device that is wiped together with `all`, by the records in `known`.
    fn of(found: Found, holds: String, all: &[Found], known: &[Found], tense: Tense) -> Self {
        let is_marked = found.spare().is_some() || found.journal_device().is_some();
        let is_needed = found.record().map_or(!is_marked, |(own, _)| {
            is_counted_on(&found, newest(known, own.uuid).unwrap_or(own))
        });
        Self {
            lacking: lacking(&found, all, known, tense),
            device: found.name,
            holds,
            users: None,
            is_emptied: !is_needed,
        }
    }
}

/// Removes the superblocks from devices, durably. Members that their array counts on keep their
/// other data. All other devices are empty afterwards; for block devices, as far as signatures are
/// known.
///
/// # Errors
///
/// As for `look`, or if a device is in use. No device was written, unless the operating system
/// refused a write.
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
    let labelled = look_at(devices, Tense::Past)?;
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

/// Describes the arrays of a device without it, and without the others in `all`, as far as `known`
/// shows.
fn lacking(found: &Found, all: &[Found], known: &[Found], tense: Tense) -> Vec<String> {
    let (loses, then) = (tense.loses(), tense.then());
    if let Some(spare) = found.spare() {
        let arrays = spare.arrays.iter();
        return arrays
            .map(|uuid| format!("array {uuid} {loses} a spare"))
            .collect();
    }
    if let Some(journal) = found.journal_device() {
        return vec![without_journal(&found.name, journal, known, tense)];
    }
    let Ok((own, device)) = found.record() else {
        return Vec::new();
    };
    let array = newest(known, own.uuid).unwrap_or(own);
    let name = format!("array '{}' ({})", array.name, array.uuid);
    let member = device.member;
    if !is_counted_on(found, array) {
        return vec![format!(
            "{name} goes on without it as member {member} already, and {loses} nothing"
        )];
    }
    let of_array = all.iter().filter(|other| is_counted_on(other, array));
    let going: MemberSet = of_array
        .filter_map(|other| Some(other.record().ok()?.1.member))
        .collect();
    let here = known.iter().filter(|other| is_counted_on(other, array));
    let here: MemberSet = here
        .filter_map(|other| Some(other.record().ok()?.1.member))
        .collect();
    let geometry = geometry_of(array).ok();
    let survives = |lost| geometry.as_ref().and_then(|it| it.survives_more(lost));
    let lost = array.missing().union(going);
    let elsewhere = MemberSet::all(array.members).difference(here.union(lost));
    let inner = known.iter().filter_map(|other| {
        let (inner, _) = other.record().ok()?;
        (inner.parent == array.uuid).then_some(inner.uuid)
    });
    let inner: BTreeSet<Uuid> = inner.collect();
    // An inner array's devices do not record which member it is. If no other member is visible, the
    // rest of the array is assumed to lie in another folder.
    let is_seen = elsewhere.iter().count() <= inner.len() || here.difference(going).is_empty();
    let fate = if let Some(more) = survives(lost) {
        if is_seen || survives(lost.union(elsewhere)).is_some() {
            format!("; the array is degraded {then}: {}", survives_more(more))
        } else {
            let others = positions(elsewhere);
            format!("; the array can't be read {then} unless {others} can be found")
        }
    } else if going.iter().count() == array.members().len() {
        format!(", and all others: the array is gone {then}, with all that it holds")
    } else {
        let others = if lost.iter().count() == 1 {
            ""
        } else {
            ", and too many others"
        };
        let around = newest(known, array.parent).map_or_else(String::new, |around| {
            format!(", and array '{}' around it {loses} a member", around.name)
        });
        format!("{others}: the array can't be read {then}{around}")
    };
    vec![format!("{name} {loses} member {member}{fate}")]
}

/// Describes an array without a device that holds or held its journal.
fn without_journal(device: &str, journal: &JournalDevice, known: &[Found], tense: Tense) -> String {
    let (uuid, loses) = (journal.array, tense.loses());
    let array = newest(known, uuid);
    let name = array.map_or_else(
        || format!("array {uuid}"),
        |array| format!("array '{}' ({uuid})", array.name),
    );
    if array.is_some_and(|array| array.journal.device != journal.device_uuid) {
        return format!("{name} has no journal there any more, and {loses} nothing");
    }
    let is_same = |other: &&Found| {
        let its = other.journal_device();
        its.is_some_and(|its| its.device_uuid == journal.device_uuid)
            && !share_bytes(&other.name, device)
    };
    if let Some(other) = known.iter().find(is_same) {
        return format!(
            "{} has the same journal of {name}: one is a copy of the other, and the array goes on \
             with the one that is left",
            other.name
        );
    }
    let in_order = match (tense, array) {
        (Tense::Past, _) => String::new(),
        (Tense::Future, Some(array)) => format!(
            ": `spindles journal remove --array {}` takes it away in order",
            shell_word(&array.name.to_string())
        ),
        (Tense::Future, None) => {
            ": `spindles journal remove --array ARRAY` takes it away in order, with the name or \
             the devices of that array"
                .to_owned()
        }
    };
    format!("{name} {loses} the device of its journal{in_order}")
}

/// Returns true if the array has that device as a member that is not out.
fn is_counted_on(found: &Found, array: &ArrayRecord) -> bool {
    found.record().is_ok_and(|(own, device)| {
        let place = usize::from(device.member.0);
        let counted = array.members().get(place);
        own.uuid == array.uuid
            && counted.is_some_and(|it| it.device_uuid == own.member[place].device_uuid)
            && !array.missing().contains(device.member)
    })
}
