//! Members go and come: one is put out, a device is let go, and one is added, with the meaning that
//! administrators know from md.

use crate::assemble::{ArrayReport, AssembleOptions, MemberReport, assemble};
use crate::attach::{AttachError, ChangeError};
use crate::host::{Host, belongs, report_of};
use crate::identity;
use crate::probe::Probe;
use crate::rebuild::{RebuildOptions, Rebuilt, fill, rebuild};
use crate::spare::{self, For};
use crate::{Managed, PutOut, await_resync};
use spindles_block::{MemberIndex, MemberSet};
use spindles_engine::{Member, OutReason};
use spindles_layout::Expression;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two looks at what is being made durable.
const PAUSE: Duration = Duration::from_millis(5);
/// So long it is waited for a spare that takes a place.
const SPARE_MAX: Duration = Duration::from_secs(2);

/// The place of a member whose device nobody has any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out {
    /// Its array.
    pub array: String,
    /// Its position.
    pub member: MemberIndex,
}

/// Puts the member out that a device is: the array goes on without it. An array that nobody serves, and that was not
/// closed in order, is put in order first; `progress` gets how far that is, and with `false` it is not waited for.
///
/// # Errors
///
/// It is none that works, or the level does not survive it: nothing was written.
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
    host.look(options)?;
    let mut opened = host.open(options)?;
    if let Host::Devices(_) = host {
        // What a crash left in doubt is settled while all members are there.
        await_resync(opened.target.as_mut(), progress);
    }
    let mut out = match opened.target.fail(device) {
        Ok(out) => out,
        Err(error) => {
            opened.close()?;
            return Err(error.into());
        }
    };
    if let Host::Served(_) = host {
        await_record(opened.target.as_ref(), &out.array, out.member)?;
        if out.spare.is_some() {
            out.spare = await_spare(opened.target.as_mut(), &out);
        }
    }
    opened.close()?;
    Ok(out)
}

/// Waits until it is durable that a member is out: after a crash it stays so.
fn await_record(target: &dyn Managed, array: &str, member: MemberIndex) -> Result<(), ChangeError> {
    // Until the server has ended.
    while let Some(status) = target.status_of(array) {
        let is_counted_on = status.members[usize::from(member.0)].counted_on;
        match (is_counted_on, status.stopped_writing) {
            (false, _) => return Ok(()),
            (true, true) => break,
            (true, false) => sleep(PAUSE),
        }
    }
    Err(ChangeError::OutUnrecorded {
        array: array.to_owned(),
        member,
        server_ended: target.has_ended(),
    })
}

/// Waits for a while until a spare has taken the place of a member that is out. Which it was, since those that can't are
/// passed over; or which is about to.
fn await_spare(target: &mut dyn Managed, out: &PutOut) -> Option<String> {
    let end = Instant::now() + SPARE_MAX;
    let mut next = out.spare.clone();
    loop {
        // With the events comes what happened to spares.
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
        sleep(PAUSE);
    }
}

/// The devices of an array and one of them, which need not have been given with the others.
fn with_device(host: Host<'_>, device: &str) -> Vec<String> {
    let mut given = host.devices();
    let all: Vec<&str> = given.iter().map(String::as_str).chain([device]).collect();
    let is_new = belongs(device) && identity::same_device(&all).is_none();
    given.extend(is_new.then(|| device.to_owned()));
    given
}

/// What was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// A member that is out: nobody has its device any more.
    Member(Out),
    /// What was a member before this device took its place: nobody has its device any more.
    Replaced(Out, String),
    /// A spare, and what became of it.
    Spare(Vec<spare::Removed>),
}

/// Lets go the device of a member that is out, or makes a plain device of a spare.
///
/// # Errors
///
/// It is neither.
pub fn remove<'a>(
    host: impl Into<Host<'a>>,
    device: &str,
    options: &AssembleOptions,
) -> Result<Removed, ChangeError> {
    let host = host.into();
    let found = Probe::glance(device).map(|probe| probe.found());
    if found.is_some_and(|found| found.spare().is_some()) {
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
    // The server has no such device open: the member was out at opening, or its device was released before.
    Ok(out_of(&opened.report, device).ok_or(not_out)?)
}

/// What a device was that the array does not have, by what it says.
fn out_of(report: &ArrayReport, device: &str) -> Option<Removed> {
    let found = Probe::glance(device)?.found();
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

/// What a device has become.
#[derive(Debug)]
pub enum Added {
    /// A member: again, or anew.
    Member(Box<Rebuilt>),
    /// A spare.
    Spare(spare::Added),
}

/// Adds a device: a member that was out is brought up to date by what it missed; any other takes the place of one
/// that is missing, and is a spare where none is.
///
/// # Errors
///
/// Before the device takes its place, nothing was written to any.
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
        // With an array inside that came back, its members that a command put out before are still out.
        let mut opened = host.open(&options.assemble)?;
        if opened.target.bring_back(device).is_ok() {
            return Ok(Added::Member(Box::new(fill(opened, None, progress)?)));
        }
        opened.close()?;
    }
    Ok(Added::Member(Box::new(rebuilt)))
}

/// Returns the members that went out because too much of them could not be read or written.
fn doubtful_members(target: &dyn Managed) -> MemberSet {
    let members = target.status().map(|status| status.members);
    let doubtful = members.into_iter().flatten().filter(|it| {
        let Member::Missing { reason } = it.state else {
            return false;
        };
        matches!(
            reason,
            Some(OutReason::TooManyErrors | OutReason::TooManyBadBlocks)
        )
    });
    doubtful.map(|it| it.member).collect()
}

/// Whether a device may be a member that is out, and can be brought up to date.
fn comes_back(host: Host<'_>, device: &str, options: &RebuildOptions) -> bool {
    match host {
        // Whether it can the server knows. A copy is no member that comes back: which of the two is meant nobody could
        // say later.
        Host::Served(_) => report_of(&with_device(host, device)).is_ok(),
        Host::Devices(devices) => {
            let with = [devices, &[device]].concat();
            let mut looking = options.assemble.clone();
            looking.open.read_only = true;
            assemble(&with, &looking).is_ok_and(|found| {
                let arrays = found.report.arrays().into_iter();
                let mut out = arrays.flat_map(|array| {
                    let returning = array.returning.iter().map(|(_, name)| name);
                    returning.chain(&array.held_out)
                });
                out.any(|out| out == device)
            })
        }
    }
}
