//! Replaces a member of an array that nobody uses: assembled, a blank device put beside a member
//! that is alive, the member copied onto it, the place given to it, closed. Redundancy is never
//! less meanwhile.

use crate::assemble::{ArrayReport, AssembleError, AssembleOptions, assemble};
use crate::create::{self, CreateError};
use crate::rebuild::AttachError;
use crate::{CloseError, probe};
use spindles_block::MemberIndex;
use spindles_engine::{Event, ReplaceEnd};
use thiserror::Error;

/// Whom, onto what, and how.
#[derive(Clone, Debug, Default)]
pub struct ReplaceOptions {
    /// How the array is to be assembled.
    pub assemble: AssembleOptions,
    /// The device that is a member.
    pub old: String,
    /// The device that takes its place.
    pub onto: String,
    /// Overwrite what that device holds.
    pub overwrite: bool,
}

/// How a replacement ended.
#[derive(Clone, Debug)]
pub struct Replaced {
    /// The array, as it was found.
    pub report: ArrayReport,
    /// The array of the member, and its position.
    pub array: String,
    /// See `array`.
    pub member: MemberIndex,
    /// The old device went out meanwhile: its place was rebuilt from the others.
    pub rebuilt: bool,
    /// What the new device held that was overwritten.
    pub wiped: Vec<(String, String)>,
}

/// Why a member was not replaced.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// There is no array.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The array could not be closed.
    #[error(transparent)]
    Close(#[from] CloseError),
    /// The new device can't be taken.
    #[error(transparent)]
    Device(#[from] CreateError),
    /// The new device can't take the place.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The array has the device already.
    #[error("{device} is one of the array's own devices: give another one to copy onto")]
    Own {
        /// The device.
        device: String,
    },
    /// `progress` stopped it.
    #[error(
        "array '{array}': the copy was stopped; {old} is a member as before, and {onto} is not: the next replacement begins anew"
    )]
    Stopped {
        /// The array.
        array: String,
        /// The member.
        old: String,
        /// The new device.
        onto: String,
    },
    /// The new device failed.
    #[error(
        "array '{array}': {onto} failed while it was copied onto; {old} is a member as before: give another device"
    )]
    Newcomer {
        /// The array.
        array: String,
        /// The member.
        old: String,
        /// The new device.
        onto: String,
    },
    /// Not everything could be read.
    #[error(
        "array '{array}': {failed} stretches can be read neither from {old} nor from the other members, so it stays a member; what they belong to must be written anew"
    )]
    Unreadable {
        /// The array.
        array: String,
        /// The member.
        old: String,
        /// How many.
        failed: u64,
    },
    /// The old device went out, and the rebuild onto the new one did not come to its end.
    #[error(
        "array '{array}': {old} failed, and {onto} is not filled yet; `spindles rebuild` with the devices that are left and {onto} goes on"
    )]
    MemberLost {
        /// The array.
        array: String,
        /// The member.
        old: String,
        /// The new device.
        onto: String,
    },
    /// More is lost than the level survives.
    #[error("array '{array}' failed while {old} was copied")]
    Failed {
        /// The array.
        array: String,
        /// The member.
        old: String,
    },
}

/// Assembles an array and copies a member that works onto a device that takes its place. `progress`
/// is told how many bytes of the array are done and how many there are; with `false` it stops.
///
/// # Errors
///
/// Before the new device is attached, nothing was written to any. With any error but `MemberLost`
/// and `Failed` the array is as it was.
pub fn replace(
    devices: &[&str],
    options: &ReplaceOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Replaced, ReplaceError> {
    let (old, onto) = (&options.old, &options.onto);
    let mut devices = devices.to_vec();
    if probe::same_device(&[devices.as_slice(), &[old]].concat()).is_none() {
        devices.push(old);
    }
    let all = [devices.as_slice(), &[onto]].concat();
    if let Some((_, second)) = probe::same_device(&all)
        && second == devices.len()
    {
        let device = onto.clone();
        return Err(ReplaceError::Own { device });
    }
    let wiped = create::may_overwrite(onto, options.overwrite)?;
    // First for reading only, so that what can go wrong does so before anything is written.
    let mut reading = options.assemble.clone();
    reading.open.read_only = true;
    let looked = assemble(&devices, &reading)?;
    looked.target.may_replace(old, onto)?;
    drop(looked);
    let assembled = assemble(&devices, &options.assemble)?;
    let (mut target, report) = (assembled.target, assembled.report);
    let (array, member) = target.replace(old, onto)?;
    let (mut replaced, mut rebuilt, mut stopped, mut lost) = (false, false, false, false);
    let mut ended = None;
    loop {
        let state = target.rebuild_progress();
        while let Some((of, event)) = target.next_event() {
            match event {
                _ if of != array => {}
                Event::ReplaceDone { .. } => replaced = true,
                Event::ReplaceEnded { why, .. } => ended = Some(why),
                Event::RebuildDone { member: done } if done == member => rebuilt = true,
                Event::RebuildIncomplete { .. } => lost = true,
                _ => {}
            }
        }
        let Some(state) = state.filter(|_| !lost) else {
            break;
        };
        if !stopped && !progress(state.done_bytes, state.total_bytes) {
            stopped = true;
            target.stop_job("replace");
            if ended.is_none() {
                continue; // Until it has come to its end.
            }
            break; // It has become a rebuild, which goes on next time.
        }
        if !target.work() {
            break;
        }
    }
    target.close()?;
    let (name, old, onto) = (array.clone(), old.clone(), onto.clone());
    match ended {
        None if replaced => {}
        Some(ReplaceEnd::MemberLost) if rebuilt => {}
        None | Some(ReplaceEnd::Stopped) => {
            let array = name;
            return Err(ReplaceError::Stopped { array, old, onto });
        }
        Some(ReplaceEnd::MemberLost) => {
            let array = name;
            return Err(ReplaceError::MemberLost { array, old, onto });
        }
        Some(ReplaceEnd::NewcomerLost(_)) => {
            let array = name;
            return Err(ReplaceError::Newcomer { array, old, onto });
        }
        Some(ReplaceEnd::Unreadable { failed }) => {
            let array = name;
            return Err(ReplaceError::Unreadable { array, old, failed });
        }
        Some(ReplaceEnd::ArrayFailed) => {
            let array = name;
            return Err(ReplaceError::Failed { array, old });
        }
    }
    Ok(Replaced {
        report,
        array,
        member,
        rebuilt,
        wiped,
    })
}
