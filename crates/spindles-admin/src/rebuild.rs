//! Rebuilds an array: opens it, attaches a blank device in place of a missing one, fills that, and
//! closes the array. A stopped rebuild continues from its checkpoint.

use crate::assemble::{
    self, ArrayReport, AssembleOptions, Assembled, Build, Lost, Standing, put_together,
};
use crate::attach::{self, ChangeError, Use};
use crate::away::arrays_away;
pub use crate::create::Made;
use crate::create::{Inner, Wanted};
use crate::host::{Host, Opened, Restructure, Served, while_closed};
use spindles_array::await_resync;
use spindles_array::core::manage::Vacancy;
use spindles_array::managed::PlaceWanted;
use spindles_array::positions::positions;
pub use spindles_array::progress::RebuildProgress;
use spindles_block::MemberIndex;
use spindles_device::identity::share_bytes;
use spindles_device::probe::glance;
use spindles_device::seen::Examined;
use spindles_engine::{Event, geometry_of};
use spindles_format::{Found, Uuid};
use spindles_layout::Expression;
use std::cmp::Reverse;

/// Options of a rebuild.
#[derive(Clone, Debug, Default)]
pub struct RebuildOptions {
    /// How to assemble the array.
    pub assemble: AssembleOptions,
    /// The device, or array, that takes the place.
    ///
    /// An array may consist of blank devices, or of the remaining devices of the earlier array in
    /// this place. If the earlier array lacks only one device, give only the new device to create
    /// the array again.
    ///
    /// `None` continues a stopped rebuild, and brings returned members up to date.
    pub onto: Option<Expression>,
    /// The position; `None` for the first one that is missing.
    pub member: Option<MemberIndex>,
    /// True to overwrite data on the device.
    pub overwrite: bool,
}

/// The result of a rebuild.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// The array as found.
    pub report: ArrayReport,
    /// The positions that became active, each with the name of its array. Empty if no member was
    /// missing.
    pub members: Vec<(String, MemberIndex)>,
    /// True if it finished. Otherwise `progress` stopped it, and the next rebuild continues there.
    pub through: bool,
    /// Stretches that could not be read. The device does not count as a member until they are
    /// filled.
    pub failed: u64,
    /// Data on the device that was overwritten.
    pub wiped: Vec<(String, String)>,
    /// The array that was created as the replacement.
    pub made: Option<Made>,
    /// True if the returned member had gone out because of too many read or write errors. Blocks
    /// that it did not miss were not read since.
    pub is_doubtful: bool,
}

impl Rebuilt {
    /// The result if no member was missing.
    fn nothing(report: ArrayReport) -> Self {
        Self {
            report,
            members: Vec::new(),
            through: true,
            failed: 0,
            wiped: Vec::new(),
            made: None,
            is_doubtful: false,
        }
    }

    /// Returns the arrays that still lack members, and the positions.
    #[must_use]
    pub fn still_missing(&self) -> Vec<(String, String)> {
        let lacking = self.report.arrays().into_iter().filter_map(|array| {
            let filled = self.members.iter().filter(|(of, _)| *of == array.name);
            let filled = filled.map(|(_, member)| *member).collect();
            let missing = array.missing().difference(filled);
            (!missing.is_empty()).then(|| (array.name.clone(), positions(missing)))
        });
        lacking.collect()
    }
}

/// Opens an array and fills a device, or an array of devices, in place of a missing member.
/// `progress` gets the bytes done and the total bytes of the array; it returns `false` to stop the
/// rebuild. Errors before the device is attached leave all devices unwritten.
pub fn rebuild<'a>(
    host: impl Into<Host<'a>>,
    options: &RebuildOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Rebuilt, ChangeError> {
    let host = host.into();
    if let Host::Served(served) = host
        && let Some(more) = to_open(served, options)?
    {
        return while_server_waits(served, more, options, progress);
    }
    let looked = match host {
        Host::Devices(devices) => look(devices, options)?,
        Host::Served(served) => look_at_served(served, options)?,
    };
    let ready = match looked {
        Looked::Ready(ready) => ready,
        Looked::Whole(report) => return Ok(Rebuilt::nothing(*report)),
    };
    let wiped = ready.may_overwrite(options)?;
    let (opened, made) = match host {
        Host::Devices(_) => {
            let (assembled, made) = begin(ready, options)?;
            (assembled.into(), made)
        }
        Host::Served(served) => (begin_served(served, ready, options)?, None),
    };
    let rebuilt = fill(opened, made, progress)?;
    Ok(Rebuilt { wiped, ..rebuilt })
}

/// Returns the devices that a server must open in addition, if the array has to be closed and
/// opened again: to create an inner array again, or to take one back. `None` if the array can stay
/// open.
fn to_open(
    served: &dyn Served,
    options: &RebuildOptions,
) -> Result<Option<Vec<String>>, ChangeError> {
    let device = match &options.onto {
        Some(Expression::Array { .. } | Expression::Slice { .. }) => return Ok(Some(Vec::new())),
        Some(Expression::Leaf(_)) if options.overwrite => return Ok(None),
        Some(Expression::Leaf(device)) => Some(device.as_str()),
        None => None,
    };
    let mut away = arrays_away(served, device);
    if let Some(device) = device {
        away.retain(|array| array.has(device));
        if !away.is_empty() {
            // The array may need more devices than this one; remember it for later.
            served.remember(device);
        }
        if let Some(array) = away.iter().find(|array| !array.returns) {
            return Err(ChangeError::OfArrayAway {
                device: device.to_owned(),
                array: array.name.clone(),
            });
        }
    }
    let returning = away.into_iter().filter(|array| array.returns);
    let mut devices: Vec<String> = returning.flat_map(|array| array.devices).collect();
    let comes_back = !devices.is_empty();
    devices.retain(|own| device.is_none_or(|device| !share_bytes(own, device)));
    Ok(comes_back.then_some(devices))
}

/// Rebuilds a served array that its server must close first. The server then reopens the rebuilt
/// array, with `more` devices.
fn while_server_waits(
    served: &dyn Served,
    more: Vec<String>,
    options: &RebuildOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Rebuilt, ChangeError> {
    let options = options.clone();
    let is_new_array = !matches!(options.onto, Some(Expression::Leaf(_)) | None);
    // Subscribe first, so that no event is lost.
    let target = served.managed();
    let made = while_closed(served, Restructure::default(), move |devices, assemble| {
        let options = RebuildOptions {
            assemble: AssembleOptions {
                // The returning member may be older than members still missing.
                degraded: is_new_array && assemble.degraded || options.assemble.degraded,
                ..assemble.clone()
            },
            ..options
        };
        let more = more.iter().map(String::as_str);
        let is_new = |more: &&str| !devices.iter().any(|device| share_bytes(device, more));
        let devices: Vec<&str> = devices.iter().copied().chain(more.filter(is_new)).collect();
        let ready = match look(&devices, &options)? {
            Looked::Ready(ready) => ready,
            Looked::Whole(report) => return Ok((None, Err(Rebuilt::nothing(*report)))),
        };
        let wiped = ready.may_overwrite(&options)?;
        let (assembled, made) = begin(ready, &options)?;
        Ok::<_, ChangeError>((Some(assembled.target), Ok((made, wiped))))
    })?;
    let (made, wiped) = match made {
        Ok(made) => made,
        Err(nothing) => return Ok(nothing),
    };
    let rebuilt = fill(Opened::by(served, target), made, progress)?;
    Ok(Rebuilt { wiped, ..rebuilt })
}

/// Opens an array and attaches the replacement.
fn begin(ready: Ready, options: &RebuildOptions) -> Result<(Assembled, Option<Made>), ChangeError> {
    let Ready {
        devices,
        replacement,
        ..
    } = ready;
    let mut assembling = options.assemble.clone();
    assembling.keep_spares = !matches!(replacement, Replacement::None);
    let given: Vec<&str> = devices.iter().map(String::as_str).collect();
    let mut build = put_together(&given, &assembling)?;
    if let Replacement::Array(inner, vacancy) = &replacement {
        build.stack.still_waits(vacancy)?;
        let node = inner.make(&mut build.stack, &vacancy.around)?;
        let name = format!("array '{}'", inner.name());
        build.stack.attach(&name, node, vacancy, &inner.areas)?;
    }
    let mut assembled = build.into_assembled();
    let made = match replacement {
        Replacement::Device(onto, seen) => {
            assembled
                .target
                .attach(&onto, options.member.into(), seen)?;
            None
        }
        Replacement::Array(inner, _) => Some(inner.made()),
        // A returned member may already have caught up.
        Replacement::None
            if assembled.target.rebuild_progress().is_some()
                || assembled.report.has_returning() =>
        {
            None
        }
        Replacement::None => return Err(nothing_to_rebuild(assembled)?),
    };
    Ok((assembled, made))
}

/// Does the same for a served array.
fn begin_served(
    served: &dyn Served,
    ready: Ready,
    options: &RebuildOptions,
) -> Result<Opened, ChangeError> {
    let mut opened = Opened::served(served);
    match ready.replacement {
        Replacement::Device(onto, seen) => {
            opened.target.attach(&onto, options.member.into(), seen)?;
        }
        Replacement::Array(..) => unreachable!("the server closes the array for that"),
        Replacement::None => {
            for device in &ready.devices {
                opened.target.bring_back(device)?;
            }
        }
    }
    Ok(opened)
}

/// Returns true if a spare may take a missing place. The places of one array are of the same size;
/// if several arrays lack members, the arrays choose once they are open.
fn has_spare(assembled: &Assembled) -> bool {
    let (report, target) = (&assembled.report, &assembled.target);
    let arrays = report.arrays().into_iter();
    let is_one = arrays.filter(|array| !array.missing().is_empty()).count() == 1;
    let fits = |spare: &str| target.may_attach(spare, PlaceWanted::First).is_ok();
    let mut spares = report.spares.iter();
    spares.any(|spare| !is_one || fits(&spare.name))
}

/// Closes an array in which no place is being filled. Spares that don't fit are listed as refused:
/// they may be too small for this place though large enough for another.
fn nothing_to_rebuild(assembled: Assembled) -> Result<ChangeError, ChangeError> {
    let (target, mut report) = (assembled.target, assembled.report);
    let spares = report.spares.iter();
    let unfit = spares.filter_map(|spare| target.may_attach(&spare.name, PlaceWanted::First).err());
    let unfit: Vec<String> = unfit.map(|error| error.to_string()).collect();
    report.refused.splice(0..0, unfit);
    report.spares.clear();
    assemble::close(target, &mut report)?;
    Ok(ChangeError::NothingToRebuild(Box::new(report)))
}

/// Works until all places are filled or `progress` stops it, then closes the array.
pub(crate) fn fill(
    opened: Opened,
    made: Option<Made>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Rebuilt, ChangeError> {
    let Opened {
        mut target,
        report,
        before,
    } = opened;
    let (mut started, mut members, mut out) = (Vec::new(), Vec::new(), Vec::new());
    let mut failed = 0;
    let on_event = &mut |array: String, event| {
        match event {
            Event::RebuildStarted { member } => started.push((array, member)),
            Event::RebuildDone { member } => members.push((array, member)),
            Event::RebuildIncomplete { failed: ranges } => failed = ranges,
            Event::MemberOut { member, .. } if started.contains(&(array.clone(), member)) => {
                out.push((array, member));
            }
            _ => {}
        }
        failed == 0
    };
    let through = attach::work_through(target.as_mut(), None, on_event, progress)
        // A new array without bitmaps must first build its own redundancy.
        && (made.is_none() || await_resync(target.as_mut(), progress));
    let closing = Opened {
        target,
        report,
        before,
    };
    let report = closing.close()?;
    // After one spare failed, another one may have filled the place.
    out.retain(|place| through && !members.contains(place));
    match out.pop() {
        Some((array, member)) => Err(ChangeError::RebuildOut { array, member }),
        None => Ok(Rebuilt {
            members,
            through,
            failed,
            made,
            ..Rebuilt::nothing(report)
        }),
    }
}

/// The replacement to be filled.
enum Replacement {
    /// None: continue a started rebuild, and fill returned members and spares.
    None,
    /// A device with its examined state.
    Device(String, Examined),
    Array(Box<Inner>, Box<Vacancy>),
}

/// The result of the checks before a rebuild.
enum Looked {
    /// A rebuild is possible.
    Ready(Ready),
    /// No member is missing.
    Whole(Box<ArrayReport>),
}

/// The inputs of a rebuild.
struct Ready {
    devices: Vec<String>,
    replacement: Replacement,
    /// The identities of the array and of those inside it.
    uuids: Vec<Uuid>,
}

impl Ready {
    /// Returns the data on new devices that is to be overwritten, if the options permit that.
    fn may_overwrite(
        &self,
        options: &RebuildOptions,
    ) -> Result<Vec<(String, String)>, ChangeError> {
        match &self.replacement {
            Replacement::None => Ok(Vec::new()),
            Replacement::Device(onto, _) => attach::may_overwrite(
                &[onto.as_str()],
                options.overwrite,
                &self.uuids,
                Use::Rebuild,
                &options.assemble.open,
            ),
            Replacement::Array(inner, _) => Ok(inner.occupied.clone()),
        }
    }
}

/// Checks everything read-only, so that errors appear before anything is written.
fn look(devices: &[&str], options: &RebuildOptions) -> Result<Looked, ChangeError> {
    let onto = options.onto.as_ref();
    let new = onto.map_or(Vec::new(), Expression::leaves);
    let seen = new
        .first()
        .map_or(Examined::default(), |new| Examined::now(new));
    let (given, build) = look_with(devices, &new, options)?;
    let uuids = build.report.uuids();
    let members = build.report.devices();
    let is_member = |device: &&&str| members.contains(*device);
    let returning = returning(&build);
    let returns = |device: &&str| !options.overwrite && returning.iter().any(|name| name == device);
    let goes_on = build.stack.rebuild_progress().is_some() || new.iter().any(returns);
    let all_are_there = new
        .iter()
        .all(|device| is_member(&device) || returns(device));
    let (devices, replacement) = match onto {
        _ if goes_on && all_are_there => (given, Replacement::None),
        None if !build.report.is_degraded() => {
            return Ok(Looked::Whole(Box::new(build.report)));
        }
        None if build.report.has_returning() => (given, Replacement::None),
        None => {
            let assembled = build.into_assembled();
            if !has_spare(&assembled) {
                return Err(nothing_to_rebuild(assembled)?);
            }
            (given, Replacement::None)
        }
        Some(_) if new.iter().any(|device| is_member(&device)) => {
            let device = new.iter().find(is_member).map_or("", |device| device);
            let device = device.to_owned();
            let members = members.into_iter().map(str::to_owned).collect();
            return Err(ChangeError::AlreadyMember {
                array: build.report.name.clone(),
                device,
                members,
            });
        }
        Some(onto) => {
            let replacement = look_at(onto, seen, build, options)?;
            let is_other = |device: &&str| match &replacement {
                Replacement::Array(inner, _) => !inner.leaves.iter().any(|leaf| leaf == device),
                Replacement::Device(new, _) => new != device,
                Replacement::None => true,
            };
            (given.into_iter().filter(is_other).collect(), replacement)
        }
    };
    Ok(Looked::Ready(Ready {
        devices: devices.into_iter().map(str::to_owned).collect(),
        replacement,
        uuids,
    }))
}

/// Does the same for a served array. Returned devices are the ones to continue with.
fn look_at_served(served: &dyn Served, options: &RebuildOptions) -> Result<Looked, ChangeError> {
    let Opened { target, report, .. } = Opened::served(served);
    let uuids = report.uuids();
    let (devices, replacement) = match &options.onto {
        Some(Expression::Array { .. } | Expression::Slice { .. }) => {
            unreachable!("the server closes the array for that")
        }
        Some(Expression::Leaf(onto)) => {
            let host = Host::Served(served);
            // Close the device if it is open: its contents may have changed since the member went
            // out.
            host.let_go(&[onto]);
            let devices = host.devices_but(&[onto]);
            let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
            let seen = attach::look_at_new(
                &devices,
                &[onto],
                Use::Rebuild,
                options.overwrite,
                &options.assemble.open,
            )?;
            target.may_attach(onto, options.member.into())?;
            let seen = seen.first().copied().unwrap_or_default();
            (Vec::new(), Replacement::Device(onto.clone(), seen))
        }
        None => {
            let arrays = report.arrays();
            let returning = arrays.iter().flat_map(|array| &array.returning);
            let returning: Vec<String> = returning.map(|(_, device)| device.clone()).collect();
            if returning.is_empty() && target.rebuild_progress().is_none() {
                if !report.is_degraded() {
                    return Ok(Looked::Whole(Box::new(report)));
                }
                return Err(ChangeError::NothingToRebuild(Box::new(report)));
            }
            (returning, Replacement::None)
        }
    };
    Ok(Looked::Ready(Ready {
        devices,
        replacement,
        uuids,
    }))
}

/// Assembles the array read-only from `devices` and those of `new` that belong to it. A stopped
/// rebuild has already made new devices members, and an array may be created from the rest of an
/// earlier one.
fn look_with<'a>(
    devices: &[&'a str],
    new: &[&'a str],
    options: &RebuildOptions,
) -> Result<(Vec<&'a str>, Build), ChangeError> {
    let is_array = !matches!(options.onto, Some(Expression::Leaf(_)) | None);
    let is_other = |device: &&str| !is_array || !new.iter().any(|new| share_bytes(new, device));
    let (devices, of_both): (Vec<&str>, Vec<&str>) = devices.iter().copied().partition(is_other);
    attach::look_at_new(
        &devices,
        new,
        Use::Rebuild,
        options.overwrite,
        &options.assemble.open,
    )?;
    let is_ours = |new: &&&str| {
        of_both.iter().any(|device| share_bytes(new, device)) || is_related(new, &devices)
    };
    let mut reading = options.assemble.to_read();
    reading.keep_spares = options.onto.is_some();
    let ours: Vec<&str> = new.iter().filter(is_ours).copied().collect();
    let is_of_use = |build: &Build| {
        let is_lost = |device: &&str| {
            let mut lost = build.lost.iter().filter(|lost| is_spoilt(lost));
            lost.any(|lost| lost.leaves.iter().any(|leaf| leaf == device))
        };
        let mut members = build.report.devices();
        let returning = returning(build);
        members.extend(returning.iter().map(String::as_str));
        let is_member = |device: &&str| members.contains(device);
        // Members and returning devices are overwritten only on request.
        let keeps = build.stack.rebuild_progress().is_some() || !options.overwrite;
        ours.iter().any(is_lost) || keeps && ours.iter().any(is_member)
    };
    if !ours.is_empty() {
        let all = [devices.as_slice(), &ours].concat();
        match put_together(&all, &reading) {
            Ok(build) if is_of_use(&build) => return Ok((all, build)),
            // The new devices are useless as they are; assemble without them.
            Ok(_) | Err(_) => {}
        }
    }
    let build = put_together(&devices, &reading)?;
    Ok((devices, build))
}

/// Returns true if nothing is lost with this array.
fn is_spoilt(lost: &Lost) -> bool {
    lost.standing == Standing::Spoilt
}

/// Returns the devices that catch up when the array is used, including those of returning inner
/// arrays.
fn returning(build: &Build) -> Vec<String> {
    let arrays = build.report.arrays();
    let devices = arrays.iter().flat_map(|array| &array.returning);
    let devices = devices.map(|(_, device)| device);
    let of_arrays = build.lost.iter();
    let of_arrays = of_arrays.filter(|lost| lost.standing == Standing::Returning);
    let of_arrays = of_arrays.flat_map(|lost| &lost.leaves);
    devices.chain(of_arrays).cloned().collect()
}

/// Determines the replacement and checks that it fits the vacant place.
fn look_at(
    onto: &Expression,
    seen: Examined,
    build: Build,
    options: &RebuildOptions,
) -> Result<Replacement, ChangeError> {
    let vacancy = build.stack.vacancy(options.member)?;
    let place = format!("{}.{}", vacancy.around.name, vacancy.member);
    let of_place = |lost: &&Lost| lost.record.name.as_str() == place;
    let lost = build.lost.iter().filter(|lost| is_spoilt(lost));
    let mut lost: Vec<&Lost> = lost.filter(of_place).collect();
    // The array created last comes first.
    lost.sort_by_key(|lost| Reverse(lost.record.created_s));
    let expression = match onto {
        Expression::Array { .. } | Expression::Slice { .. } => Some(onto.clone()),
        Expression::Leaf(device) => lost.iter().find_map(|lost| with_new_device(lost, device)),
    };
    let Some(expression) = expression else {
        let device = onto.leaves().concat();
        let has_device = |lost: &&&Lost| lost.leaves.contains(&device);
        if let Some(lost) = lost.iter().find(has_device)
            && !options.overwrite
        {
            let array = lost.record.name.to_string();
            return Err(ChangeError::OfArrayAway { device, array });
        }
        let target = build.into_assembled().target;
        target.may_attach(&device, options.member.into())?;
        return Ok(Replacement::Device(device, seen));
    };
    let leaves = expression.leaves();
    let is_leaf = |device: &&String| leaves.contains(&device.as_str());
    let left = lost.iter().flat_map(|lost| &lost.leaves);
    let left: Vec<String> = left.filter(is_leaf).cloned().collect();
    let like = lost.first().map(|lost| &lost.record);
    let like = like.or(vacancy.inside.as_ref()).unwrap_or(&vacancy.around);
    let like = like.clone();
    // Release the devices; otherwise they can't be opened for writing.
    drop(build);
    let wanted = Wanted {
        expression: &expression,
        around: &vacancy.around,
        member: vacancy.member,
        like: &like,
        left: &left,
    };
    let inner = Inner::plan(&wanted, &options.assemble.open, options.overwrite)?;
    Ok(Replacement::Array(Box::new(inner), Box::new(vacancy)))
}

/// Returns true if a device is a member of the array on these devices, or of one around or inside
/// it.
fn is_related(device: &str, devices: &[&str]) -> bool {
    let uuids = |device: &str| {
        let found = glance(device);
        let array = found.as_ref().and_then(Found::array);
        array.map_or([Uuid::NIL; 2], |array| [array.uuid, array.parent])
    };
    let known: Vec<Uuid> = devices.iter().flat_map(|device| uuids(device)).collect();
    let mut own = uuids(device).into_iter();
    own.any(|uuid| uuid != Uuid::NIL && known.contains(&uuid))
}

/// Returns the expression of an inner array with a new device in place of its missing one. `None`
/// if it lacks several, or consists of arrays.
fn with_new_device(lost: &Lost, device: &str) -> Option<Expression> {
    let geometry = geometry_of(&lost.record).ok()?;
    let is_device = |name: &String| lost.leaves.contains(name);
    // A stopped rebuild may already have made it a member.
    let is_member = lost.leaves.iter().any(|leaf| leaf == device);
    let vacant = lost.members.iter().filter(|member| member.is_none());
    let new = vacant.count();
    let members = lost.members.iter().map(|member| match member {
        Some(name) => is_device(name).then(|| Expression::Leaf(name.clone())),
        None => Some(Expression::Leaf(device.to_owned())),
    });
    let members = members.collect::<Option<Vec<_>>>()?;
    (new == usize::from(!is_member)).then(|| Expression::Array {
        level: geometry.level(),
        layout: Some(geometry.layout()),
        members,
    })
}
