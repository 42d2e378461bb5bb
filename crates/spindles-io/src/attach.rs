//! What all have in common that change which devices an array has: rebuild, replace, grow and
//! spares.

use crate::assemble::{self, ArrayReport, JournalReport, MemberReport};
pub use crate::errors::{AttachError, ChangeError, OwnRole};
use crate::probe::Probe;
use crate::{Managed, OpenOptions, create, identity};
use spindles_block::MemberIndex;
use spindles_engine::Event;
use spindles_format::{Found, SpareRecord, Uuid};

/// What an array does with devices that come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Each takes a place; a spare of the array may.
    Place,
    /// The same. A device that is being filled is one that an earlier rebuild began with.
    Rebuild,
    /// They become spares; what is one already stays one.
    Spare,
    /// One gets the journal.
    Journal,
}

/// Checks that devices that are to come to an array of these `devices` are there, each is another one, each can serve
/// the array's blocks, and the array does not need what any of them holds. Force changes none of it. A member that is out and may come back is
/// no new device either, unless it is to be overwritten.
pub(crate) fn look_at_new(
    devices: &[&str],
    new: &[&str],
    to: Use,
    overwrite: bool,
    open: &OpenOptions,
) -> Result<(), ChangeError> {
    are_others(devices, new)?;
    // First: nobody else can look at what a server of the array has.
    refuse_own(devices, new, to, overwrite)?;
    let block_size = devices.iter().find_map(|device| {
        let found = Probe::glance(device)?.found();
        Some(found.record().ok()?.0.block_size)
    });
    for device in new {
        let probe = create::look(device, open)?;
        block_size.map_or(Ok(()), |block_size| probe.check_blocks(block_size))?;
    }
    Ok(())
}

/// Refuses new devices that the array of these `devices`, or one inside it, counts on: active members,
/// its journal, and spares of it where they are to be something else. A member that can come back gets an error that says so.
fn refuse_own(devices: &[&str], new: &[&str], to: Use, overwrite: bool) -> Result<(), ChangeError> {
    let said = |device: &&str| {
        let found = Probe::glance(device)?.found();
        let of = match (found.record(), found.journal_device(), found.spare()) {
            (Ok((array, _)), ..) => vec![array.uuid, array.parent],
            (_, Some(journal), _) => vec![journal.array],
            (.., Some(spare)) => spare.arrays.clone(),
            _ => return None,
        };
        Some(of)
    };
    let labelled: Vec<&str> = (new.iter().copied())
        .filter(|device| said(device).is_some())
        .collect();
    // One that was a member until now may be a plain device.
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
    // Devices of other arrays make no array with these. Those of an array deep inside this one name none
    // that is known yet.
    let looked = [labelled, related].into_iter().find_map(|new| {
        let all = [devices.as_slice(), &new].concat();
        assemble::describe(&all, &OpenOptions::looking()).ok()
    });
    let before = assemble::describe(&devices, &OpenOptions::looking()).unwrap_or_default();
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
                // Such a command was killed when it was through.
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

/// Whether a device is a member that is out, and gets no more than what it missed. A rebuild takes one back that no command put
/// out.
fn comes_back(array: &ArrayReport, device: &str, to: Use) -> bool {
    let mut returning = array.returning.iter().filter(|_| to != Use::Rebuild);
    array.held_out.iter().any(|out| out == device) || returning.any(|(_, out)| out == device)
}

/// What a device is for an array that needs it. `before` is the array without it.
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
    // A command that was killed left it a member of which the others know nothing.
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
    let found = Probe::glance(device)?.found();
    let is_spare = found.spare()?.arrays.contains(&array.uuid);
    (is_spare && to == Use::Journal).then_some(OwnRole::Spare)
}

/// What devices hold that are to come to an array, which is an error unless it may be overwritten, or
/// the device is a spare of one of these arrays alone, or was never full as a member of one: of that array,
/// or of those inside it. A rebuild takes any spare that the array would take by itself.
pub(crate) fn may_overwrite(
    new: &[&str],
    overwrite: bool,
    arrays: &[Uuid],
    to: Use,
    open: &OpenOptions,
) -> Result<Vec<(String, String)>, ChangeError> {
    let is_reserved = |device: &&&str| {
        let found = Probe::glance(device).map(|probe| probe.found());
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

/// Whether each new device is another device, and none of these.
pub(crate) fn are_others(devices: &[&str], new: &[&str]) -> Result<(), ChangeError> {
    let all = [devices, new].concat();
    match identity::same_device(&all) {
        // What is wrong with the others is found when they are assembled.
        Some((first, second)) if second >= devices.len() => Err(ChangeError::SameDevice {
            first: all[first].to_owned(),
            second: all[second].to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Works until no device is being filled or copied onto any more, or `on_event` does not want to go on.
/// `progress` gets how many bytes of the arrays are done and how many there are; with `false` it
/// stops that, and so does this answer. While that job of that array goes on, `progress` gets its bytes
/// and not those of all jobs that fill devices.
pub(crate) fn work_through(
    target: &mut dyn Managed,
    job: Option<(&str, &str)>,
    on_event: &mut dyn FnMut(String, Event) -> bool,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> bool {
    loop {
        let mut goes_on = true;
        // Read before the events: what a job sends at its end is then in the queue.
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
