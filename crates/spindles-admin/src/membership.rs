//! Takes a member out, releases its device, and adds a device, with the semantics that
//! administrators know from md.

use crate::assemble::{ArrayReport, AssembleOptions, MemberReport, assemble};
use crate::attach::ChangeError;
use crate::host::{Host, is_spare, report_of};
use crate::rebuild::{RebuildOptions, Rebuilt, fill, rebuild};
use crate::spare::{self, For};
use spindles_array::errors::AttachError;
use spindles_array::{Managed, PutOut, await_resync};
use spindles_block::{MemberIndex, MemberSet};
use spindles_device::identity;
use spindles_device::probe::{glance, holds_superblock};
use spindles_engine::{Member, OutReason};
use spindles_layout::Expression;
use std::time::{Duration, Instant};

/// How long to wait for a spare to take a place.
const SPARE_MAX: Duration = Duration::from_secs(2);

/// The place of a member whose device was released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out {
    /// Its array.
    pub array: String,
    /// Its position.
    pub member: MemberIndex,
}

/// Takes out the member on that device; the array continues without it. An unserved array that was
/// not closed in order is recovered first. `progress` gets the progress of that; it returns `false`
/// to skip it. The member stays in, and nothing is written, if it is no active member or the level
/// does not survive its loss. After `OutUnrecorded` it is out, but the superblocks don't record it.
pub fn fail<'a>(
    host: impl Into<Host<'a>>,
    device: &str,
    options: &AssembleOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<PutOut, ChangeError> {
    let host = host.into();
    let given = with_device(host, device);
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let host = host.or_on(&given);
    let looked = host.look(options)?;
    looked.target.may_fail(device)?;
    drop(looked);
    let mut opened = host.open(options)?;
    if let Host::Devices(_) = host {
        // Resync blocks in doubt after a crash while all members are present.
        await_resync(opened.target.as_mut(), progress);
    }
    let mut out = match opened.target.fail(device) {
        Ok(out) => out,
        Err(error) => {
            opened.close()?;
            return Err(error.into());
        }
    };
    if let Host::Served(served) = host {
        let recorded = served.records_out(&out.array, out.member);
        if recorded != Some(true) {
            return Err(ChangeError::OutUnrecorded {
                array: out.array,
                member: out.member,
                server_ended: recorded.is_none(),
            });
        }
        if out.spare.is_some() {
            out.spare = await_spare(opened.target.as_mut(), &out);
        }
    }
    opened.close()?;
    Ok(out)
}

/// Waits for a while until a spare has taken the place of a member that is out. Returns that spare,
/// which may differ from `out.spare` because unsuitable spares are skipped. Otherwise returns
/// `out.spare`, or `None` if it failed to take the place.
fn await_spare(target: &mut dyn Managed, out: &PutOut) -> Option<String> {
    let end = Instant::now() + SPARE_MAX;
    let mut next = out.spare.clone();
    loop {
        // Fetching the events also updates the results of the spares.
        while target.next_event().is_some() {}
        for taken in target.spares_taken() {
            if taken.array != out.array || taken.member != out.member {
                continue;
            }
            if taken.error.is_none() {
                return Some(taken.device);
            }
            next = next.filter(|next| *next != taken.device);
        }
        if next.is_none() || Instant::now() > end || target.has_ended() {
            return next;
        }
        target.work();
    }
}

/// Returns the devices of an array, and `device` if it belongs to an array and is missing among
/// them.
fn with_device(host: Host<'_>, device: &str) -> Vec<String> {
    let mut given = host.devices();
    let all: Vec<&str> = given.iter().map(String::as_str).chain([device]).collect();
    let is_new = holds_superblock(device) && identity::same_device(&all).is_none();
    given.extend(is_new.then(|| device.to_owned()));
    given
}

/// The removed device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// A member that is out; its device was released.
    Member(Out),
    /// A former member whose place the named device took; its own device was released.
    Replaced(Out, String),
    /// A spare, and the results.
    Spare(Vec<spare::Removed>),
}

/// Releases the device of a member that is out, or unlabels a spare.
pub fn remove<'a>(
    host: impl Into<Host<'a>>,
    device: &str,
    options: &AssembleOptions,
) -> Result<Removed, ChangeError> {
    let host = host.into();
    if is_spare(device) {
        let is_other = |member: &String| !identity::share_bytes(member, device);
        let has_array = host.devices().iter().any(is_other);
        let removed = spare::remove(&[device], has_array.then_some(host))?;
        return Ok(Removed::Spare(removed));
    }
    let given = with_device(host, device);
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let host = host.or_on(&given);
    let mut opened = host.look(options)?;
    let not_out = match host {
        Host::Served(_) => match opened.target.let_go(device) {
            Ok((array, member)) => return Ok(Removed::Member(Out { array, member })),
            Err(error) => error,
        },
        Host::Devices(_) => AttachError::NotOut {
            device: device.to_owned(),
            out: Vec::new(),
        },
    };
    // The server has no such device open: the member was out at opening, or its device was released
    // before.
    Ok(out_of(&opened.report, device).ok_or(not_out)?)
}

/// Returns the former role, by its superblock, of a device that the array does not have.
fn out_of(report: &ArrayReport, device: &str) -> Option<Removed> {
    let found = glance(device)?;
    let (record, own) = found.record().ok()?;
    let arrays = report.arrays();
    let array = arrays.iter().find(|array| array.uuid == record.uuid)?;
    let out = Out {
        array: array.name.clone(),
        member: own.member,
    };
    match array.members.get(usize::from(own.member.0))? {
        MemberReport::Missing { .. } => Some(Removed::Member(out)),
        MemberReport::Device { name, .. } if !identity::share_bytes(name, device) => {
            Some(Removed::Replaced(out, name.clone()))
        }
        MemberReport::Device { .. } | MemberReport::Array(_) => None,
    }
}

/// The role of an added device.
#[derive(Debug)]
pub enum Added {
    /// A member, returned or new.
    Member(Box<Rebuilt>),
    /// A spare.
    Spare(spare::Added),
}

/// Adds a device. A member that was out catches up. Any other device takes a vacant place, or
/// becomes a spare if there is none. Errors before the device takes its place leave all devices
/// unwritten.
pub fn add<'a>(
    host: impl Into<Host<'a>>,
    device: &str,
    options: &RebuildOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Added, ChangeError> {
    let host = host.into();
    if comes_back(host, device, options) {
        let mut opened = host.open(&AssembleOptions {
            keep_spares: true, // Its place is for the device.
            ..options.assemble.clone()
        })?;
        let doubtful = doubtful_members(opened.target.as_ref());
        match opened.target.bring_back(device) {
            Ok((array, member)) => {
                let is_doubtful = array == opened.report.name && doubtful.contains(member);
                let rebuilt = fill(opened, None, progress)?;
                return Ok(Added::Member(Box::new(Rebuilt {
                    is_doubtful,
                    ..rebuilt
                })));
            }
            Err(error) => {
                opened.close()?;
                if !matches!(error, AttachError::NotReturning { .. }) {
                    return Err(error.into());
                }
            }
        }
    }
    let opened = host.look(&options.assemble)?;
    let may = opened.target.may_attach(device, options.member.into());
    drop(opened);
    if let Err(AttachError::NothingMissing) = may {
        let added = spare::add(&[device], For::Array(host), options.overwrite)?;
        return Ok(Added::Spare(added));
    }
    let options = RebuildOptions {
        onto: Some(Expression::Leaf(device.to_owned())),
        ..options.clone()
    };
    let rebuilt = rebuild(host, &options, progress)?;
    if let Host::Served(_) = host {
        // If the device brought back an inner array, members of it that a command took out are
        // still out.
        let mut opened = host.open(&options.assemble)?;
        if opened.target.bring_back(device).is_ok() {
            return Ok(Added::Member(Box::new(fill(opened, None, progress)?)));
        }
        opened.close()?;
    }
    Ok(Added::Member(Box::new(rebuilt)))
}

/// Returns the members that went out because of too many read or write errors.
fn doubtful_members(target: &dyn Managed) -> MemberSet {
    let reasons = [OutReason::TooManyErrors, OutReason::TooManyBadBlocks];
    let is_doubtful = |state| match state {
        Member::Missing { reason } => reason.is_some_and(|reason| reasons.contains(&reason)),
        Member::Active | Member::Rebuilding { .. } => false,
    };
    let members = target.status().map(|status| status.members);
    let doubtful = members.into_iter().flatten();
    let doubtful = doubtful.filter(|member| is_doubtful(member.state));
    doubtful.map(|doubtful| doubtful.member).collect()
}

/// Returns true if a device may be a member that is out and can catch up.
fn comes_back(host: Host<'_>, device: &str, options: &RebuildOptions) -> bool {
    match host {
        // The server decides whether the member can catch up. Only a copy is ruled out here: the
        // array could not distinguish the copy from the member later.
        Host::Served(_) => report_of(&with_device(host, device)).is_ok(),
        Host::Devices(devices) => {
            let with = [devices, &[device]].concat();
            assemble(&with, &options.assemble.to_read()).is_ok_and(|found| {
                let arrays = found.report.arrays().into_iter();
                let mut out =
                    arrays.flat_map(|array| array.returning.iter().chain(&array.held_out));
                out.any(|(_, out)| out == device)
            })
        }
    }
}
