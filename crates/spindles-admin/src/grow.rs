//! Grows an array: more members, another chunk size, another level, or all the room of its members.
//! A stopped growth continues from its checkpoint.

use crate::assemble::{
    self, ArrayReport, AssembleError, AssembleOptions, Change, MemberReport, assemble,
    assemble_to_change,
};
use crate::attach::{self, ChangeError, Use};
use crate::errors::{OwnRole, replace_first};
use crate::host::{Host, Opened, Restructure, while_closed};
use crate::report::Growing;
use crate::wipe;
use spindles_array::managed::PlaceWanted;
use spindles_array::positions::positions;
use spindles_array::{Managed, Target, TooSmall, await_resync};
use spindles_block::{BlockSize, MemberIndex, MemberSet, SizeBytes};
use spindles_device::seen::Examined;
use spindles_device::{OpenOptions, backends, probe, random};
use spindles_engine::{Event, GrowthTarget, Member, PlanError};
use spindles_format::{ArrayRecord, DeviceRecord};
use spindles_layout::{Layout, Level, chunk_blocks};
use std::collections::VecDeque;

/// The new size of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSize {
    /// The largest size for which the members have room.
    Max,
    /// This many bytes, rounded down to whole stripes.
    Bytes(u64),
}

/// The new shape of an array, and options.
#[derive(Clone, Debug, Default)]
pub struct GrowOptions {
    /// How to assemble the array.
    pub assemble: AssembleOptions,
    /// The devices that become members.
    pub add: Vec<String>,
    /// The chunk size.
    pub chunk_bytes: Option<u64>,
    /// The level.
    pub level: Option<&'static Level>,
    /// The layout.
    pub layout: Option<Layout>,
    /// The new size on the present members. Excludes a change of members, level or layout.
    pub size: Option<NewSize>,
    /// True to overwrite data on the new devices.
    pub overwrite: bool,
}

impl GrowOptions {
    /// Returns true if they ask for another chunk size, level or layout.
    fn changes_shape(&self) -> bool {
        self.chunk_bytes.is_some() || self.level.is_some() || self.layout.is_some()
    }
}

/// The result of a growth.
#[derive(Clone, Debug)]
pub struct Grown {
    /// The array as found.
    pub report: ArrayReport,
    /// Its size now.
    pub bytes: u64,
    /// True if it already had that shape: nothing was written.
    pub already: bool,
    /// Why it gets no larger, if a size was asked for.
    pub as_large: Option<String>,
    /// True if it finished. Otherwise `progress` stopped it, and the next growth continues there.
    pub through: bool,
    /// The block of the array that can't be moved, if any.
    pub stuck: Option<u64>,
    /// Data on the new devices that was overwritten.
    pub wiped: Vec<(String, String)>,
}

impl Grown {
    /// Returns the result for an array that was not changed.
    fn as_found(report: ArrayReport) -> Self {
        Self {
            bytes: report.bytes,
            report,
            already: false,
            as_large: None,
            through: true,
            stuck: None,
            wiped: Vec::new(),
        }
    }
}

/// Opens an array and reshapes it to `options`, or continues that. `progress` gets the bytes moved
/// and the total bytes; it returns `false` to stop the growth. Errors before the first new device
/// is attached leave all new devices unwritten.
pub fn grow<'a>(
    host: impl Into<Host<'a>>,
    options: &GrowOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Grown, ChangeError> {
    let host = host.into();
    if let Some(size) = options.size {
        return enlarge(host, &options.assemble, size, progress);
    }
    let assembling = &options.assemble;
    let asked: Vec<&str> = options.add.iter().map(String::as_str).collect();
    let devices = host.devices_but(&asked);
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let (already, added) = match host {
        Host::Devices(_) => members_already(&devices, &asked, assembling),
        Host::Served(_) => (Vec::new(), asked),
    };
    let devices = [devices, already.clone()].concat();
    let host = host.or_on(&devices);
    let seen = attach::look_at_new(
        &devices,
        &added,
        Use::Place,
        options.overwrite,
        &options.assemble.open,
    )?;
    let Opened { target, report, .. } = host.look(assembling)?;
    let growing = report.growing.is_some();
    if growing && !becomes(&report, options) {
        return Err(ChangeError::Growing { array: report.name });
    }
    if !growing && !already.is_empty() {
        check_already_grown(&report, options, &already, &added)?;
        return Ok(Grown {
            already: true,
            ..Grown::as_found(report)
        });
    }
    if !growing && !options.changes_shape() && added.is_empty() {
        return Err(ChangeError::NothingToGrow { array: report.name });
    }
    // Check this before asking to overwrite, and before repairing the array for it.
    let change = match &report.growing {
        None => {
            drop(target);
            Some(planned(host, &report, options, &added, assembling)?)
        }
        Some(growing) => {
            check_places(target.as_ref(), &report, growing, &added)?;
            drop(target);
            None
        }
    };
    let wiped = may_overwrite_new(&report, options, &added)?;
    let found = match change {
        None => host.open(assembling)?.target,
        Some(change) => {
            let is_whole = report.is_clean() && !report.is_degraded();
            if !is_whole && !resync(host, assembling, progress)? {
                return Ok(Grown {
                    through: false,
                    ..Grown::as_found(report)
                });
            }
            host.change(assembling, &change)?.target
        }
    };
    let waiting = added.into_iter().zip(seen).collect();
    carry_on(found, report, waiting, wiped, progress)
}

/// Checks that an array with the new devices `already` as members has the shape asked for.
fn check_already_grown(
    report: &ArrayReport,
    options: &GrowOptions,
    already: &[&str],
    added: &[&str],
) -> Result<(), ChangeError> {
    let array = report.name.clone();
    if let Some(device) = already.first()
        && (!added.is_empty() || !becomes(report, options))
    {
        let device = (*device).to_owned();
        let members = report.devices().into_iter().map(str::to_owned).collect();
        return Err(ChangeError::AlreadyMember {
            array,
            device,
            members,
        });
    }
    let mut devices = already.iter();
    let before = devices.find_map(|device| was_before(device, already.len()));
    before.map_or(Ok(()), |(device, member)| {
        let role = OwnRole::Member(member);
        Err(ChangeError::Own {
            array,
            device,
            role,
        })
    })
}

/// Checks that the new devices fit the vacant new places of a growing array.
fn check_places(
    target: &dyn Managed,
    report: &ArrayReport,
    growing: &Growing,
    added: &[&str],
) -> Result<(), ChangeError> {
    let missing = report.missing();
    let places = missing.iter();
    let places = places.filter(|place| usize::from(place.0) >= growing.members);
    for (device, place) in added.iter().zip(places) {
        target.may_attach(device, PlaceWanted::Added(place))?;
    }
    Ok(())
}

/// Checks that the new devices may be overwritten and are not in use; returns the data on them.
fn may_overwrite_new(
    report: &ArrayReport,
    options: &GrowOptions,
    added: &[&str],
) -> Result<Vec<(String, String)>, ChangeError> {
    let open = &options.assemble.open;
    let mut wiped = Vec::new();
    for device in added {
        let overwrite = options.overwrite || is_left_over(report, device)?;
        wiped.extend(attach::may_overwrite(
            &[device],
            overwrite,
            &[report.uuid],
            Use::Place,
            open,
        )?);
        // A loop device on the new device may be mounted: refuse before the array is changed.
        drop(backends::open(device, open)?);
    }
    Ok(wiped)
}

/// Opens the array, waits for its resync, and closes it; returns false if `progress` stopped it.
fn resync(
    host: Host<'_>,
    assembling: &AssembleOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<bool, ChangeError> {
    let mut found = host.open(assembling)?.target;
    let through = await_resync(found.as_mut(), progress);
    found.close()?;
    Ok(through)
}

/// Enlarges an array on its present members. Takes effect once it is open.
fn enlarge(
    host: Host<'_>,
    assembling: &AssembleOptions,
    size: NewSize,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Grown, ChangeError> {
    let report = host.look(assembling)?.report;
    let array = report.name.clone();
    let mut grown = Grown::as_found(report);
    if grown.report.growing.is_some() {
        return Err(ChangeError::Growing { array });
    }
    let lacking = grown.report.lacking();
    if !lacking.is_empty() {
        let members = positions(lacking);
        return Err(ChangeError::NotWhole { array, members });
    }
    let change = Change::Size(match size {
        NewSize::Max => None,
        NewSize::Bytes(bytes) => Some(bytes),
    });
    // Check this before repairing the array for it.
    if let Err(error) = host.may_change(assembling, &change) {
        return as_large(grown, error);
    }
    if !grown.report.is_clean() {
        grown.through = resync(host, assembling, progress)?;
        if !grown.through {
            return Ok(grown);
        }
    }
    let target = match host.change(assembling, &change) {
        Ok(changed) => changed.target,
        Err(error) => return as_large(grown, error),
    };
    assemble::close(target, &mut grown.report)?;
    grown.bytes = host.look(assembling)?.report.bytes;
    if grown.bytes == grown.report.bytes {
        return Err(ChangeError::NotRecorded { array });
    }
    Ok(grown)
}

/// Explains why an array gets no larger.
fn as_large(mut grown: Grown, error: AssembleError) -> Result<Grown, ChangeError> {
    match error {
        AssembleError::CantGrow {
            reason:
                PlanError::AsLarge {
                    bytes,
                    bytes_max,
                    least,
                },
            ..
        } => {
            grown.already = true;
            let least = if bytes == bytes_max {
                let replace = replace_first(&named(&grown.report, least));
                format!(", and its members have no room for more: {replace}")
            } else {
                String::new()
            };
            let reason = format!("it holds {} already{least}", SizeBytes(bytes).rounded());
            grown.as_large = Some(reason);
            Ok(grown)
        }
        AssembleError::CantGrow {
            reason: PlanError::NoRoom { bytes_max, least },
            ..
        } => Err(ChangeError::NoRoom {
            array: grown.report.name.clone(),
            bytes_max: SizeBytes(bytes_max),
            least: named(&grown.report, least),
        }),
        error => Err(error.into()),
    }
}

/// Returns the device names of members.
fn named(report: &ArrayReport, members: MemberSet) -> Vec<String> {
    let members = members.iter();
    members.map(|member| report.name_of(member)).collect()
}

/// Splits the new devices into those that a stopped growth already made members, and the others. So
/// the same command continues the growth.
fn members_already<'a>(
    devices: &[&'a str],
    added: &[&'a str],
    assembling: &AssembleOptions,
) -> (Vec<&'a str>, Vec<&'a str>) {
    let array = devices.iter().find_map(|device| said_by(device));
    let array = array.map(|(array, _)| array.uuid);
    let of_it = |device: &&&str| said_by(device).map(|(of, _)| of.uuid) == array;
    let may_be: Vec<&str> = added.iter().filter(of_it).copied().collect();
    if array.is_none() || may_be.is_empty() {
        return (Vec::new(), added.to_vec());
    }
    // An error here shows up again when the array is opened without these devices.
    let members = assemble(&[devices, &may_be].concat(), &assembling.to_read())
        .map(|found| found.report.members)
        .unwrap_or_default();
    let is_member = |device: &&str| {
        let mut members = members.iter();
        members.any(|member| matches!(member, MemberReport::Device { name, .. } if name == device))
    };
    added.iter().partition(|device| is_member(device))
}

/// Returns a device that was not among the last `added` members of a growth, and its position.
fn was_before(device: &str, added: usize) -> Option<(String, MemberIndex)> {
    let (array, own) = said_by(device)?;
    let is_new = usize::from(own.member.0) + added >= usize::from(array.members);
    (!is_new || !array.growth.is_used()).then(|| (device.to_owned(), own.member))
}

/// Returns the records in the superblock of a device, even if it is in use, as by the server that
/// has closed the array and keeps the locks. `None` if unreadable.
fn said_by(device: &str) -> Option<(ArrayRecord, DeviceRecord)> {
    let found = probe::Probe::peek(device).ok()?.found();
    found.record().ok().cloned()
}

/// Returns true if a device took a place in this growth, but the array never recorded it. No data
/// has moved yet, so the device holds none.
fn is_left_over(report: &ArrayReport, device: &str) -> Result<bool, ChangeError> {
    let growing = report.growing.as_ref();
    if growing.is_none_or(|growing| growing.moved_bytes > 0) {
        return Ok(false);
    }
    probe::Probe::open(device)?;
    Ok(is_of_growth(device, report))
}

/// Returns true if a device says that it is new in the growth of this array.
fn is_of_growth(device: &str, report: &ArrayReport) -> bool {
    let growing = report.growing.as_ref().zip(said_by(device));
    growing.is_some_and(|(growing, (array, of))| {
        array.uuid == report.uuid && usize::from(of.member.0) >= growing.members
    })
}

/// Returns true if an array has the shape asked for, or is growing to it.
fn becomes(report: &ArrayReport, options: &GrowOptions) -> bool {
    let layout = options.layout.map(|layout| layout.to_string());
    (options.level).is_none_or(|level| level.name == report.level.name)
        && (options.chunk_bytes).is_none_or(|bytes| bytes == report.chunk_bytes)
        && layout.is_none_or(|layout| layout == report.layout)
}

/// An aborted growth.
#[derive(Clone, Debug)]
pub struct Aborted {
    /// The array as found.
    pub report: ArrayReport,
    /// The new devices, which no longer belong to the array.
    pub removed: Vec<String>,
}

/// Reverts a growing array to its earlier shape, if none of its data has moved yet. Wipes the new
/// devices that are given. `progress` gets the progress of the resync of an array that was not
/// closed in order. After an error the array still grows, except if wiping a new device failed.
pub fn abort<'a>(
    host: impl Into<Host<'a>>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Aborted, ChangeError> {
    match host.into() {
        Host::Devices(devices) => abort_on(devices, &OpenOptions::default(), progress),
        Host::Served(served) => {
            let report = served.report();
            if report.growing.is_none() {
                let array = report.name;
                return Err(ChangeError::NothingToAbort { array });
            }
            // A new device may be left out, if the growth stopped before the members recorded it.
            let known = served.devices();
            // The server closes it in order, so no resync is needed.
            while_closed(served, Restructure::default(), move |devices, options| {
                let is_left_out =
                    |device: &&str| !devices.contains(device) && is_of_growth(device, &report);
                let left_out = known.iter().map(String::as_str).filter(is_left_out);
                let devices: Vec<&str> = devices.iter().copied().chain(left_out).collect();
                let aborted = abort_on(&devices, &options.open, &mut |_, _| true)?;
                Ok((None, aborted))
            })
        }
    }
}

fn abort_on(
    devices: &[&str],
    open: &OpenOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Aborted, ChangeError> {
    let writing = AssembleOptions {
        open: open.clone(),
        keep_spares: true,
        ..AssembleOptions::default()
    };
    let looking = writing.to_read();
    let report = assemble(devices, &looking)?.report;
    let array = report.name.clone();
    let Some(growing) = &report.growing else {
        return Err(ChangeError::NothingToAbort { array });
    };
    let before = growing.members;
    let mut members = report.members[..before].iter();
    let counted_on = members.position(MemberReport::is_awaited);
    if let Some(at) = counted_on {
        let member = MemberIndex(u8::try_from(at).expect("a position"));
        return Err(ChangeError::NotAllGiven { array, member });
    }
    let is_new = |device: &&&str| is_of_growth(device, &report);
    let (new, old): (Vec<&str>, Vec<&str>) = devices.iter().partition(is_new);
    // Before the first write, check that the growth may still be aborted. Without the new devices
    // the growth moves no data.
    drop(assemble_to_change(&old, &looking, &Change::Abort)?);
    if !report.is_clean() {
        let mut found = assemble(&old, &writing)?.target;
        await_resync(found.as_mut(), progress);
        found.close()?;
    }
    assemble_to_change(&old, &writing, &Change::Abort)?
        .target
        .close()?;
    if assemble(&old, &looking)?.report.growing.is_some() {
        return Err(ChangeError::NotRecorded { array });
    }
    if !new.is_empty() {
        wipe::wipe_with(&new, open)?;
    }
    let removed = new.into_iter().map(str::to_owned).collect();
    Ok(Aborted { report, removed })
}

/// Assembles an array that was closed in order, and begins to grow it by a device, overwriting
/// that. The caller continues the growth through the target.
pub fn begin(
    devices: &[&str],
    added: &str,
    assembling: &AssembleOptions,
) -> Result<Box<dyn Target>, ChangeError> {
    let options = GrowOptions {
        add: vec![added.to_owned()],
        ..GrowOptions::default()
    };
    let seen = Examined::now(added);
    let report = assemble(devices, &assembling.to_read())?.report;
    let host = Host::Devices(devices);
    let change = planned(host, &report, &options, &[added], assembling)?;
    let mut found = assemble_to_change(devices, assembling, &change)?.target;
    let place = u8::try_from(report.members.len()).expect("a position");
    found.attach(added, PlaceWanted::Added(MemberIndex(place)), seen)?;
    Ok(found)
}

/// Returns the change that `options` ask for. Checks it by opening the array read-only.
fn planned(
    host: Host<'_>,
    report: &ArrayReport,
    options: &GrowOptions,
    new: &[&str],
    looking: &AssembleOptions,
) -> Result<Change, ChangeError> {
    let block_size = BlockSize::from_bytes(report.block_bytes).expect("it is that of an array");
    let mut added = Vec::new();
    for device in new {
        added.push((random::uuid()?, probe::Probe::open(device)?.bytes));
    }
    let chunk = options.chunk_bytes;
    let change = Change::Grow(GrowthTarget {
        level: options.level,
        layout: options.layout,
        chunk_blocks: chunk
            .map(|bytes| chunk_blocks(bytes, block_size))
            .transpose()
            .map_err(ChangeError::Chunk)?,
        added,
    });
    match host.may_change(looking, &change) {
        Ok(()) => Ok(change),
        Err(AssembleError::CantGrow {
            reason: PlanError::TooSmall { member, small },
            ..
        }) => {
            let device = new[usize::from(member.0) - report.members.len()];
            Err(TooSmall::of(device)(small).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Attaches the waiting devices, and works until all data has moved.
fn carry_on(
    mut target: Box<dyn Managed>,
    mut report: ArrayReport,
    mut waiting: VecDeque<(&str, Examined)>,
    wiped: Vec<(String, String)>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Grown, ChangeError> {
    let array = || report.name.clone();
    let (mut through, mut stuck, mut error) = (false, None, None);
    let mut bytes = report.bytes;
    let old_members =
        (report.growing.as_ref()).map_or(report.members.len(), |growing| growing.members);
    // Until the growth finishes, or the server of the array ends.
    while let Some(status) = target.status() {
        let Some(growth) = status.growth else {
            through = true;
            break;
        };
        if target.rebuild_progress().is_none() {
            let mut places = status.members.iter().skip(old_members).filter(|member| {
                matches!(member.state, Member::Missing { .. }) && growth.done_bytes == 0
            });
            let place = places.next().map(|place| place.member);
            if let Err(why) = attach_next(target.as_mut(), &mut waiting, place, &report.name) {
                error = Some(why);
                break;
            }
        }
        if !progress(growth.done_bytes, growth.total_bytes) {
            break;
        }
        let works = target.work();
        while let Some((_, event)) = target.next_event() {
            match event {
                Event::Grown { blocks } => bytes = blocks * u64::from(report.block_bytes),
                Event::GrowthStuck { block } => stuck = Some(block.0),
                Event::ArrayFailed { .. } => {
                    error = Some(ChangeError::GrowthFailed { array: array() });
                }
                _ => {}
            }
        }
        if !works || stuck.is_some() || error.is_some() {
            break;
        }
    }
    while let Some((_, event)) = target.next_event() {
        if let Event::Grown { blocks } = event {
            bytes = blocks * u64::from(report.block_bytes);
        }
    }
    let closed = assemble::close(target, &mut report);
    if let Some(error) = error {
        return Err(error);
    }
    closed?;
    Ok(Grown {
        bytes,
        through,
        stuck,
        wiped,
        ..Grown::as_found(report)
    })
}

/// Attaches the next waiting device at a new `place` that is vacant, if there are both.
fn attach_next(
    target: &mut dyn Managed,
    waiting: &mut VecDeque<(&str, Examined)>,
    place: Option<MemberIndex>,
    array: &str,
) -> Result<(), ChangeError> {
    let array = || array.to_owned();
    match (waiting.front(), place) {
        (Some((device, seen)), Some(place)) => {
            target.attach(device, PlaceWanted::Added(place), *seen)?;
            waiting.pop_front();
            Ok(())
        }
        (None, Some(member)) => Err(ChangeError::GrowthOut {
            array: array(),
            member,
        }),
        (Some((device, _)), None) => Err(ChangeError::NoPosition {
            array: array(),
            device: (*device).to_owned(),
        }),
        (None, None) => Ok(()),
    }
}
