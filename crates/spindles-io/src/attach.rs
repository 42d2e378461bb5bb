//! What all have in common that change which devices an array has: rebuild, replace, grow and
//! spares.

pub use crate::errors::{AttachError, ChangeError};
use crate::probe::Probe;
use crate::{Target, create, identity};
use spindles_engine::Event;
use spindles_format::{Found, Uuid};

/// Whether devices that are to come to an array of these `devices` are there, and each is another one.
pub(crate) fn look_at_new(devices: &[&str], new: &[&str]) -> Result<(), ChangeError> {
    are_others(devices, new)?;
    for device in new {
        create::look(device)?;
    }
    Ok(())
}

/// What devices hold that are to come to an array, which is an error unless it may be overwritten, or
/// the device is a spare of one of these arrays alone: of that array, or of those inside it.
pub(crate) fn may_overwrite(
    new: &[&str],
    overwrite: bool,
    arrays: &[Uuid],
) -> Result<Vec<(String, String)>, ChangeError> {
    let is_reserved = |device: &&&str| {
        let found = Probe::glance(device).map(|probe| probe.found());
        let spare = found.as_ref().and_then(Found::spare);
        spare.is_some_and(|spare| matches!(&spare.arrays[..], [array] if arrays.contains(array)))
    };
    let mut held = Vec::new();
    for device in new.iter().filter(|device| !is_reserved(device)) {
        held.extend(create::may_overwrite(device, overwrite)?);
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
/// stops that, and so does this answer.
pub(crate) fn work_through(
    target: &mut dyn Target,
    on_event: &mut dyn FnMut(String, Event) -> bool,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> bool {
    loop {
        let mut goes_on = true;
        while let Some((array, event)) = target.next_event() {
            goes_on &= on_event(array, event);
        }
        let Some(state) = target.rebuild_progress().filter(|_| goes_on) else {
            return true;
        };
        if !progress(state.done_bytes, state.total_bytes) {
            return false;
        }
        if !target.work() {
            return true;
        }
    }
}
