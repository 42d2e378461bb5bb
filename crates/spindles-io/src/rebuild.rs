//! Rebuilds an array that nobody uses: assembled, a blank device put in the place of a missing one,
//! filled, closed. A rebuild that was stopped goes on where it was.

use crate::assemble::{ArrayReport, AssembleError, AssembleOptions, assemble};
use crate::create::{self, CreateError};
use crate::spare::Taken;
use crate::{CloseError, OpenError, probe};
use spindles_block::MemberIndex;
use spindles_engine::{CommandError, Event};
use std::io;
use thiserror::Error;

/// Onto what, and how.
#[derive(Clone, Debug, Default)]
pub struct RebuildOptions {
    /// How the array is to be assembled.
    pub assemble: AssembleOptions,
    /// The device that takes the place; `None` goes on with a rebuild that was stopped.
    pub onto: Option<String>,
    /// The position; `None` for the first that is missing.
    pub member: Option<MemberIndex>,
    /// Overwrite what the device holds.
    pub overwrite: bool,
}

/// How far the rebuilds of a target are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildProgress {
    /// Bytes of the arrays gone through.
    pub done_bytes: u64,
    /// Bytes of the arrays.
    pub total_bytes: u64,
}

/// How a rebuild ended.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// The array, as it was found.
    pub report: ArrayReport,
    /// The positions that are active again, each with the name of its array.
    pub members: Vec<(String, MemberIndex)>,
    /// Whether it went through; otherwise `progress` stopped it, and it goes on there next time.
    pub through: bool,
    /// Stretches that could not be read, so that the device does not count yet.
    pub failed: u64,
    /// What the device held that was overwritten.
    pub wiped: Vec<(String, String)>,
    /// Spares that were taken after the array was opened.
    pub taken: Vec<Taken>,
}

/// Why a device can't take the place of a missing one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No position waits for a device.
    #[error("no member is missing: there is nothing to rebuild")]
    NothingMissing,
    /// That position does not.
    #[error("member {member} is not missing: a device takes the place of a missing one only")]
    NotMissing {
        /// The position.
        member: MemberIndex,
    },
    /// What is missing is an array itself.
    #[error(
        "member {member} of array '{array}' is itself an array: a device can't take its place; bring back the devices of that array"
    )]
    ArrayMember {
        /// The array around it.
        array: String,
        /// The position.
        member: MemberIndex,
    },
    /// The device is no member that works.
    #[error(
        "{device} is not an active member of this array: what is missing or not filled yet is rebuilt, not replaced"
    )]
    NotActive {
        /// The device.
        device: String,
    },
    /// The device has too little room.
    #[error(
        "{device} is too small: it has {bytes} bytes, and this position needs a device of about {needed_bytes}"
    )]
    TooSmall {
        /// The device.
        device: String,
        /// What it has.
        bytes: u64,
        /// What it needs at least.
        needed_bytes: u64,
    },
    /// It can't be cleared. Nothing else was written.
    #[error("{device}: can't clear what it holds: {source}")]
    Clear {
        /// The device.
        device: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody else was faster.
    #[error("{device} is not a spare of this array any more")]
    TakenAlready {
        /// The device.
        device: String,
    },
    /// The array does not take it.
    #[error("the array can't take {device} now: {reason:?}")]
    Refused {
        /// The device.
        device: String,
        /// As the engine answered.
        reason: CommandError,
    },
}

/// Why there was no rebuild.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// There is no array.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The array could not be closed.
    #[error(transparent)]
    Close(#[from] CloseError),
    /// The device can't be taken.
    #[error(transparent)]
    Device(#[from] CreateError),
    /// The device can't take the place.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The array has the device already.
    #[error("{device} is one of the array's own devices: give another one to rebuild onto")]
    Own {
        /// The device.
        device: String,
    },
    /// Nothing was under way, and no device was given.
    #[error(
        "array '{array}' has no rebuild to go on with: give the new device with --onto, or a spare of the array; `spindles status` shows what is missing"
    )]
    NothingToDo {
        /// The array.
        array: String,
    },
    /// The new device failed.
    #[error(
        "array '{array}': the device in the place of member {member} failed while it was filled"
    )]
    Out {
        /// The array.
        array: String,
        /// The position.
        member: MemberIndex,
    },
}

/// Assembles an array and fills a device that takes the place of a missing one. `progress` is told
/// how many bytes of the array are done and how many there are; with `false` it stops the rebuild.
///
/// # Errors
///
/// Before the device is attached, nothing was written to any.
pub fn rebuild(
    devices: &[&str],
    options: &RebuildOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Rebuilt, RebuildError> {
    let mut wiped = Vec::new();
    if let Some(onto) = &options.onto {
        let all: Vec<&str> = devices.iter().copied().chain([onto.as_str()]).collect();
        if let Some((_, second)) = probe::same_device(&all)
            && second == devices.len()
        {
            let device = onto.clone();
            return Err(RebuildError::Own { device });
        }
        wiped = create::may_overwrite(onto, options.overwrite)?;
    }
    // First for reading only, so that what can go wrong does so before anything is written.
    let mut reading = options.assemble.clone();
    reading.open.read_only = true;
    let looked = assemble(devices, &reading)?;
    if let Some(onto) = &options.onto {
        looked.target.may_attach(onto, options.member)?;
    } else if looked.target.rebuild_progress().is_none()
        && (!looked.report.is_degraded() || looked.report.spares.is_empty())
    {
        let array = looked.report.name;
        return Err(RebuildError::NothingToDo { array });
    }
    drop(looked);
    let mut assembling = options.assemble.clone();
    assembling.keep_spares = options.onto.is_some();
    let assembled = assemble(devices, &assembling)?;
    let (mut target, report) = (assembled.target, assembled.report);
    if let Some(onto) = &options.onto {
        target.attach(onto, options.member)?;
    } else if target.rebuild_progress().is_none() {
        target.close()?;
        let array = report.name;
        return Err(RebuildError::NothingToDo { array });
    }
    let (mut through, mut failed) = (true, 0);
    let mut members = Vec::new();
    let mut started = Vec::new();
    let mut out = None;
    let mut taken = Vec::new();
    loop {
        let state = target.rebuild_progress();
        while let Some((array, event)) = target.next_event() {
            match event {
                Event::RebuildStarted { member } => started.push((array, member)),
                Event::RebuildDone { member } => {
                    if out.as_ref() == Some(&(array.clone(), member)) {
                        out = None; // A spare went on where another device failed.
                    }
                    members.push((array, member));
                }
                Event::RebuildIncomplete { failed: columns } => failed = columns,
                Event::MemberOut { member, .. } if started.contains(&(array.clone(), member)) => {
                    out = Some((array, member));
                }
                _ => {}
            }
        }
        taken.extend(target.spares_taken());
        let Some(state) = state.filter(|_| out.is_none() || target.rebuild_progress().is_some())
        else {
            break;
        };
        if !progress(state.done_bytes, state.total_bytes) {
            through = false;
            break;
        }
        if failed > 0 || !target.work() {
            break;
        }
    }
    target.close()?;
    match out {
        Some((array, member)) => Err(RebuildError::Out { array, member }),
        None => Ok(Rebuilt {
            report,
            members,
            through,
            failed,
            wiped,
            taken,
        }),
    }
}
