//! Common code of the commands that change the devices of an array: rebuild, replace, grow and
//! spares.

use crate::assemble::{self, ArrayReport, AssembleError, JournalReport, MemberReport};
use crate::create;
pub use crate::errors::{ChangeError, OwnRole};
use spindles_array::Managed;
use spindles_block::MemberIndex;
use spindles_device::probe::glance;
use spindles_device::seen::Examined;
use spindles_device::{OpenOptions, identity};
use spindles_engine::Event;
use spindles_format::{Found, SpareRecord, Uuid};

/// The use of new devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Each takes a place; spares of the array are allowed.
    Place,
    /// The same, but an earlier rebuild may already have begun to fill the device.
    Rebuild,
    /// They become spares; existing spares stay spares.
    Spare,
    /// One gets the journal.
    Journal,
}

/// Checks new devices for an array on `devices`. Each must exist, be a different device, support
/// the array's block size, and hold no data that the array needs. A member that is out but may
/// return counts as new only with `overwrite`, which skips no other check. Returns the observed
/// state of every device.
pub(crate) fn look_at_new(
    devices: &[&str],
    new: &[&str],
    to: Use,
    overwrite: bool,
    open: &OpenOptions,
) -> Result<Vec<Examined>, ChangeError> {
    let seen = new.iter().map(|device| Examined::now(device)).collect();
    are_others(devices, new)?;
    // Check this first: if the array's server has a device open, no other check can read it.
    refuse_own(devices, new, to, overwrite)?;
    let block_size_of = |device: &&str| Some(glance(device)?.array()?.block_size);
    let block_size = devices.iter().find_map(block_size_of);
    for device in new {
        let probe = create::look(device, open)?;
        block_size.map_or(Ok(()), |block_size| probe.check_blocks(block_size))?;
    }
    Ok(seen)
}

/// Refuses new devices that the array on `devices`, or one inside it, counts on: active members,
/// its journal, and its spares if they are for another use. A member that can return gets an error
/// that says so.
fn refuse_own(devices: &[&str], new: &[&str], to: Use, overwrite: bool) -> Result<(), ChangeError> {
    let said = |device: &&str| {
        let found = glance(device)?;
        let of_member = found.array().map(|array| vec![array.uuid, array.parent]);
        let of_journal = || Some(vec![found.journal_device()?.array]);
        let of_spare = || Some(found.spare()?.arrays.clone());
        of_member.or_else(of_journal).or_else(of_spare)
    };
    let labelled: Vec<&str> = (new.iter().copied())
        .filter(|device| said(device).is_some())
        .collect();
    // A former member may be a plain device now.
    let devices: Vec<&str> = (devices.iter().copied())
        .filter(|device| said(device).is_some())
        .collect();
    if devices.is_empty() || labelled.is_empty() {
        return Ok(());
    }
    let known: Vec<Uuid> = devices.iter().filter_map(said).flatten().collect();
    let is_related = |device: &&str| {
        let mut of = said(device).into_iter().flatten();
        of.any(|uuid| uuid != Uuid::NIL && known.contains(&uuid))
    };
    let related: Vec<&str> = labelled.iter().copied().filter(is_related).collect();
    // Devices of other arrays do not assemble with these. Devices of a deeply nested inner array
    // name only arrays that are still unknown.
    let mut looked = None;
    for new in [labelled, related] {
        let all = [devices.as_slice(), &new].concat();
        looked = describe(&all)?;
        if looked.is_some() {
            break;
        }
    }
    let before = describe(&devices)?.unwrap_or_default();
    let arrays = looked.iter().flatten().flat_map(|outermost| {
        let arrays = outermost.arrays().into_iter();
        arrays.map(|array| (outermost.name.as_str(), array))
    });
    for (outermost, array) in arrays {
        let same = |other: &&ArrayReport| other.uuid == array.uuid;
        let before = before.iter().flat_map(ArrayReport::arrays).find(same);
        for device in new {
            let Some(role) = role_in(array, before, device, to) else {
                if comes_back(array, device, to) && !overwrite {
                    let (array, device) = (outermost.to_owned(), (*device).to_owned());
                    return Err(ChangeError::ComesBack { array, device });
                }
                continue;
            };
            let (array, device) = (array.name.clone(), (*device).to_owned());
            return Err(match (role, to) {
                // The same command was killed after it had finished its work.
                (OwnRole::Journal, Use::Journal) => ChangeError::HasJournal { array, device },
                _ => ChangeError::Own {
                    array,
                    device,
                    role,
                },
            });
        }
    }
    Ok(())
}

/// Describes the arrays on these devices; `None` if they do not assemble.
fn describe(devices: &[&str]) -> Result<Option<Vec<ArrayReport>>, ChangeError> {
    match assemble::describe(devices, &OpenOptions::looking()) {
        Ok(arrays) => Ok(Some(arrays)),
        // Another command changes the array, and the devices may still be its members.
        Err(changed @ AssembleError::Changed) => Err(changed.into()),
        Err(_) => Ok(None),
    }
}

/// Returns true if a device is a member that is out and can catch up. A rebuild takes such a member
/// back by itself, unless a command took it out.
fn comes_back(array: &ArrayReport, device: &str, to: Use) -> bool {
    let returning = array.returning.iter().filter(|_| to != Use::Rebuild);
    let held_out = array.held_out.iter();
    returning.chain(held_out).any(|(_, out)| out == device)
}

/// Returns the role of a device that an array needs. `before` is the array without it.
fn role_in(
    array: &ArrayReport,
    before: Option<&ArrayReport>,
    device: &str,
    to: Use,
) -> Option<OwnRole> {
    let is_device = |member: &MemberReport| match member {
        MemberReport::Device {
            name, filled_bytes, ..
        } => name == device && (filled_bytes.is_none() || to != Use::Rebuild),
        MemberReport::Array(_) | MemberReport::Missing { .. } => false,
    };
    let is_filled = array.filled_bytes.is_some() && to == Use::Rebuild;
    let place = array.members.iter().position(is_device);
    // A killed command made it a member, but the other members don't know it.
    let is_unknown = |place: &usize| {
        let there = before.and_then(|array| array.members.get(*place));
        there.is_some_and(|member| match member {
            MemberReport::Device { .. } | MemberReport::Array(_) => true,
            MemberReport::Missing { out_since, .. } => out_since.is_some(),
        })
    };
    if let Some(place) = place.filter(|place| !is_filled && !is_unknown(place)) {
        let place = u8::try_from(place).expect("a position");
        return Some(OwnRole::Member(MemberIndex(place)));
    }
    if array.journal == JournalReport::Device(device.to_owned()) {
        return Some(OwnRole::Journal);
    }
    let found = glance(device)?;
    let is_spare = found.spare()?.arrays.contains(&array.uuid);
    (is_spare && to == Use::Journal).then_some(OwnRole::Spare)
}

/// Returns the data on new devices, which is an error unless it may be overwritten. Two kinds of
/// devices need no permission: spares dedicated to one of `arrays`, and members of these arrays
/// that were never filled. `arrays` includes inner arrays. A rebuild accepts any spare that the
/// array would take by itself.
pub(crate) fn may_overwrite(
    new: &[&str],
    overwrite: bool,
    arrays: &[Uuid],
    to: Use,
    open: &OpenOptions,
) -> Result<Vec<(String, String)>, ChangeError> {
    let is_reserved = |device: &&&str| {
        let found = glance(device);
        let spare = found.as_ref().and_then(Found::spare);
        let record = found.as_ref().and_then(|found| found.record().ok());
        let serves = |spare: &SpareRecord| match &spare.arrays[..] {
            [array] => arrays.contains(array),
            _ => to == Use::Rebuild && arrays.iter().any(|array| spare.serves(*array)),
        };
        spare.is_some_and(serves)
            || record.is_some_and(|(array, device)| {
                arrays.contains(&array.uuid) && array.was_never_full(device.member)
            })
    };
    let mut held = Vec::new();
    for device in new.iter().filter(|device| !is_reserved(device)) {
        held.extend(create::may_overwrite(device, overwrite, open)?);
    }
    Ok(held)
}

/// Checks that each new device is distinct and none of `devices`.
pub(crate) fn are_others(devices: &[&str], new: &[&str]) -> Result<(), ChangeError> {
    let all = [devices, new].concat();
    match identity::same_device(&all) {
        // Errors among the others show up when they are assembled.
        Some((first, second)) if second >= devices.len() => Err(ChangeError::SameDevice {
            first: all[first].to_owned(),
            second: all[second].to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Works until no device is being filled or copied onto, or `on_event` returns false.
///
/// `progress` gets the bytes done and the total bytes of the arrays; it returns `false` to stop,
/// which makes this return false. While the job `(array, name)` runs, `progress` gets the bytes of
/// that job instead of those of all fills.
pub(crate) fn work_through(
    target: &mut dyn Managed,
    job: Option<(&str, &str)>,
    on_event: &mut dyn FnMut(String, Event) -> bool,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> bool {
    loop {
        let mut goes_on = true;
        // Read this before the events: all events of a finished job are then in the queue.
        let state = target.rebuild_progress();
        while let Some((array, event)) = target.next_event() {
            goes_on &= on_event(array, event);
        }
        let Some(state) = state.filter(|_| goes_on) else {
            return !target.has_ended();
        };
        let own = job.and_then(|(array, name)| {
            let jobs = target.status_of(array)?.jobs;
            jobs.into_iter().find(|job| job.going && job.name == name)
        });
        let (done_bytes, total_bytes) = match own {
            Some(job) => (job.done_bytes, job.total_bytes),
            None => (state.done_bytes, state.total_bytes),
        };
        if !progress(done_bytes, total_bytes) {
            return false;
        }
        if !target.work() {
            return !target.has_ended();
        }
    }
}
