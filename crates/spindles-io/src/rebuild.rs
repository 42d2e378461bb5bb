//! Rebuilds an array that nobody uses: assembled, a blank device put in the place of a missing one,
//! filled, closed. A rebuild that was stopped goes on where it was.

use crate::assemble::{ArrayReport, AssembleOptions, assemble};
use crate::attach::{self, ChangeError};
use spindles_block::MemberIndex;
use spindles_engine::Event;

/// Onto what, and how.
#[derive(Clone, Debug, Default)]
pub struct RebuildOptions {
    /// How the array is to be assembled.
    pub assemble: AssembleOptions,
    /// The device that takes the place; `None` goes on with a rebuild that was stopped, and gives
    /// members that came back what they missed.
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
) -> Result<Rebuilt, ChangeError> {
    let onto = options.onto.as_deref();
    attach::look_at_newcomers(devices, onto.as_slice())?;
    // First for reading only, so that what can go wrong does so before anything is written.
    let mut assembling = options.assemble.clone();
    assembling.open.read_only = true;
    assembling.keep_spares = onto.is_some();
    let looked = assemble(devices, &assembling)?;
    let array = looked.report.name.clone();
    match onto {
        Some(onto) => looked.target.may_attach(onto, options.member)?,
        None if looked.target.rebuild_progress().is_some() => {}
        None if looked.report.has_returning() => {}
        None if looked.report.is_degraded() && !looked.report.spares.is_empty() => {}
        None => {
            let refused = looked.report.refused;
            return Err(ChangeError::NothingToRebuild { array, refused });
        }
    }
    drop(looked);
    let wiped = attach::may_overwrite(onto.as_slice(), options.overwrite)?;
    assembling.open.read_only = options.assemble.open.read_only;
    let assembled = assemble(devices, &assembling)?;
    let (mut target, mut report) = (assembled.target, assembled.report);
    match onto {
        Some(onto) => {
            target.attach(onto, options.member)?;
        }
        None if target.rebuild_progress().is_some() => {}
        None => {
            // A spare that would do for another place is too small for this one.
            let spares = report.spares.iter();
            let unfit = spares.filter_map(|spare| target.may_attach(&spare.name, None).err());
            let mut refused: Vec<String> = unfit.map(|error| error.to_string()).collect();
            refused.append(&mut report.refused);
            attach::close(target, &mut report)?;
            return Err(ChangeError::NothingToRebuild { array, refused });
        }
    }
    let (mut started, mut members, mut out) = (Vec::new(), Vec::new(), Vec::new());
    let mut failed = 0;
    let told = &mut |array: String, event| {
        match event {
            Event::RebuildStarted { member } => started.push((array, member)),
            Event::RebuildDone { member } => members.push((array, member)),
            Event::RebuildIncomplete { failed: columns } => failed = columns,
            Event::MemberOut { member, .. } if started.contains(&(array.clone(), member)) => {
                out.push((array, member));
            }
            _ => {}
        }
        failed == 0
    };
    let through = attach::work_through(target.as_mut(), told, progress);
    attach::close(target, &mut report)?;
    // Where one failed, a spare may have gone on.
    out.retain(|place| through && !members.contains(place));
    match out.pop() {
        Some((array, member)) => Err(ChangeError::RebuildOut { array, member }),
        None => Ok(Rebuilt {
            report,
            members,
            through,
            failed,
            wiped,
        }),
    }
}
