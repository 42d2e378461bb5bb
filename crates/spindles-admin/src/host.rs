//! Selects where a command finds its array: on devices that the command opens itself, or in a
//! server that keeps serving the array meanwhile.

pub use crate::assemble::Change;
use crate::assemble::{
    self, ArrayReport, AssembleError, AssembleOptions, Assembled, assemble, assemble_to_change,
};
use spindles_array::{Incident, Managed, Target, await_resync};
use spindles_block::MemberIndex;
use spindles_device::identity::share_bytes;
use spindles_device::is_address;
use spindles_device::probe::{glance, holds_superblock};
use spindles_device::{CloseError, OpenError, OpenOptions, device_of};
use spindles_format::{ArrayRecord, Found, take_left_over};
use std::fmt::Debug;
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;

/// Location of an array.
#[derive(Clone, Copy, Debug)]
pub enum Host<'a> {
    /// On these devices, in any order; no other process has the array open.
    Devices(&'a [&'a str]),
    /// Open in a server.
    Served(&'a dyn Served),
}

/// A served array. Device names are absolute.
pub trait Served: Debug {
    /// Returns the devices that the array was assembled from, and devices added later.
    fn devices(&self) -> Vec<String>;

    /// Returns a handle to manage it.
    fn managed(&self) -> Box<dyn Managed>;

    /// Returns what the superblocks say now, or what they said when last readable if too many
    /// devices are missing.
    fn report(&self) -> ArrayReport;

    /// Waits until the superblocks record that a member is out, so that it stays out after a crash.
    /// Returns false if the array no longer writes them, `None` if the server has ended.
    fn records_out(&self, array: &str, member: MemberIndex) -> Option<bool>;

    /// Records a device that belongs to the array but can't be used yet.
    fn remember(&self, device: &str);

    /// Closes the array, runs `reopen`, and serves the result. Client requests wait meanwhile.
    /// `reopen` gets the array's devices, with `more` added and `without` removed. If it fails, the
    /// server opens the array from its previous devices. Returns an error if the change must wait,
    /// or the array can't be closed. The server then still serves it unchanged.
    fn reopen(&self, restructure: Restructure<'_>, reopen: Reopen) -> Result<(), AssembleError>;
}

/// What changes in an array while its server has it closed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Restructure<'a> {
    /// The device to add.
    pub more: Option<&'a str>,
    /// The device to remove.
    pub without: Option<&'a str>,
    /// True if the data or the journal moves. A growing array can't do this.
    pub moves: bool,
}

/// Works on the devices of an array that its server has closed; gets the options with which the
/// server opens it. Returns the target if it leaves the array open. Otherwise the server opens the
/// array in its new form.
pub type Reopen =
    Box<dyn FnOnce(&[&str], &AssembleOptions) -> Result<Option<Box<dyn Target>>, Unchanged> + Send>;

/// The command failed. The server opens the array from its previous devices.
#[derive(Clone, Copy, Debug)]
pub struct Unchanged;

/// Labels a device that is to be added to an array.
pub(crate) type Prepare = Box<dyn FnOnce() -> Result<(), OpenError> + Send>;

/// Runs `work` while the server has the array closed; returns its result. `work` returns the target
/// if it leaves the array open.
pub(crate) fn while_closed<T, E>(
    served: &dyn Served,
    restructure: Restructure<'_>,
    work: impl FnOnce(&[&str], &AssembleOptions) -> Result<(Option<Box<dyn Target>>, T), E>
    + Send
    + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<AssembleError> + Send + 'static,
{
    let (done, result) = channel();
    let reopen = move |devices: &[&str], options: &AssembleOptions| {
        let (reopened, outcome) = match work(devices, options) {
            Ok((target, outcome)) => (Ok(target), Ok(outcome)),
            Err(error) => (Err(Unchanged), Err(error)),
        };
        // The caller may have given up.
        drop(done.send(outcome));
        reopened
    };
    served.reopen(restructure, Box::new(reopen))?;
    // If the server ended first, `work` never ran and nothing changed.
    let result = result.recv();
    result.unwrap_or_else(|_| Err(AssembleError::Changed.into()))
}

impl<'a, T: AsRef<[&'a str]> + ?Sized> From<&'a T> for Host<'a> {
    fn from(devices: &'a T) -> Self {
        Self::Devices(devices.as_ref())
    }
}

/// An array that is open here or in a server.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) target: Box<dyn Managed>,
    pub(crate) report: ArrayReport,
    /// Incidents in a server until the command began, which are not reported again.
    pub(crate) before: Vec<Incident>,
}

impl From<Assembled> for Opened {
    fn from(assembled: Assembled) -> Self {
        Self {
            target: assembled.target,
            report: assembled.report,
            before: Vec::new(),
        }
    }
}

impl Opened {
    /// Returns an array in a server.
    pub(crate) fn served(served: &dyn Served) -> Self {
        let target = served.managed();
        let before = target.incidents();
        Self {
            before,
            ..Self::by(served, target)
        }
    }

    /// Returns an array that a server has just opened for the command, managed through `target`.
    pub(crate) fn by(served: &dyn Served, target: Box<dyn Managed>) -> Self {
        let mut report = served.report();
        // Superblocks of an open array look like those after a crash.
        let (in_sync, total) = target.in_sync_bytes();
        let in_sync = in_sync == total;
        report.note_in_all(&mut |array| (array.clean, array.is_open) = (in_sync, true));
        report.note_members(&target.snapshot());
        Self {
            target,
            report,
            before: Vec::new(),
        }
    }

    /// Closes the array, unless others still use it. The report gets the spares that were taken
    /// meanwhile, and any failures.
    pub(crate) fn close(self) -> Result<ArrayReport, CloseError> {
        let Self {
            target,
            mut report,
            before,
        } = self;
        assemble::close(target, &mut report)?;
        let incidents = std::mem::take(&mut report.incidents).into_iter();
        report.incidents = incidents
            .filter_map(|incident| incident.since(&before))
            .collect();
        Ok(report)
    }
}

impl<'a> Host<'a> {
    /// Returns these devices as the location, unless a server has the array.
    pub(crate) fn or_on(self, devices: &'a [&'a str]) -> Self {
        match self {
            Self::Devices(_) => Self::Devices(devices),
            Self::Served(_) => self,
        }
    }

    /// Returns the devices of the array.
    pub(crate) fn devices(&self) -> Vec<String> {
        match self {
            Self::Devices(devices) => devices.iter().map(|&device| device.to_owned()).collect(),
            Self::Served(served) => served.devices(),
        }
    }

    /// Returns the array's devices except `apart`, the ones with another role in the command.
    pub(crate) fn devices_but(&self, apart: &[&str]) -> Vec<String> {
        let mut devices = self.devices();
        if let Self::Served(_) = self {
            devices.retain(|device| !apart.iter().any(|apart| share_bytes(apart, device)));
        }
        devices
    }

    /// Asks a server to close the devices of members that are out. While the server has a device
    /// open, no other process can open it.
    pub(crate) fn let_go(&self, devices: &[&str]) {
        if let Self::Served(served) = self {
            for device in devices {
                // Most were never members.
                drop(served.managed().let_go(device));
            }
        }
    }

    /// Opens the array read-only, so that errors surface before anything is written.
    pub(crate) fn look(&self, options: &AssembleOptions) -> Result<Opened, AssembleError> {
        match self {
            Self::Devices(devices) => assemble(devices, &options.to_read()).map(Opened::from),
            Self::Served(served) => Ok(Opened::served(*served)),
        }
    }

    /// Opens the array for writing.
    pub(crate) fn open(&self, options: &AssembleOptions) -> Result<Opened, AssembleError> {
        match self {
            Self::Devices(devices) => assemble(devices, options).map(Opened::from),
            Self::Served(served) => Ok(Opened::served(*served)),
        }
    }

    /// Checks that the array can make `change`. In a server it stays open meanwhile.
    pub(crate) fn may_change(
        &self,
        options: &AssembleOptions,
        change: &Change,
    ) -> Result<(), AssembleError> {
        match self {
            Self::Devices(devices) => {
                assemble_to_change(devices, &options.to_read(), change).map(drop)
            }
            Self::Served(served) => retry_while_changing(|| {
                let devices = served.devices();
                let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
                assemble::may_become(&devices, change)
            }),
        }
    }

    /// Opens the array and applies `change`.
    pub(crate) fn change(
        &self,
        options: &AssembleOptions,
        change: &Change,
    ) -> Result<Opened, AssembleError> {
        self.change_devices(options, change, None, None)
    }

    /// Like `change`, but also adds or removes a device. Prepares the added device before the
    /// change.
    pub(crate) fn change_devices(
        &self,
        options: &AssembleOptions,
        change: &Change,
        coming: Option<(&str, Prepare)>,
        without: Option<&str>,
    ) -> Result<Opened, AssembleError> {
        let (more, prepare) = coming.unzip();
        match self {
            Self::Devices(devices) => {
                prepare.map_or(Ok(()), |prepare| prepare())?;
                prepare_for(devices, options, change)?;
                assemble_to_change(devices, options, change).map(Opened::from)
            }
            Self::Served(served) => {
                let change = change.clone();
                let restructure = Restructure {
                    more,
                    without,
                    moves: matches!(
                        change,
                        Change::Grow(_) | Change::Size(_) | Change::Journal(_)
                    ),
                };
                while_closed(*served, restructure, move |devices, options| {
                    prepare.map_or(Ok(()), |prepare| prepare())?;
                    prepare_for(devices, options, &change)?;
                    let changed = assemble_to_change(devices, options, &change)?.target;
                    if let Change::Grow(_) = change {
                        // The growth has begun and continues on the open array.
                        return Ok((Some(changed), ()));
                    }
                    // The close writes the change to the superblocks.
                    changed.close()?;
                    Ok::<_, AssembleError>((None, ()))
                })?;
                Ok(Opened::served(*served))
            }
        }
    }
}

/// Places everything that is staged, if the change needs an empty stage.
fn prepare_for(
    devices: &[&str],
    options: &AssembleOptions,
    change: &Change,
) -> Result<(), AssembleError> {
    let Change::WriteBack(_) = change else {
        return Ok(());
    };
    // Errors of the change come first.
    let report = assemble_to_change(devices, &options.to_read(), change)?.report;
    if !report.staged {
        return Ok(());
    }
    let mut options = options.to_recover();
    options.engine.drains = true;
    let mut drained = assemble(devices, &options)?;
    await_resync(drained.target.as_mut(), &mut |_, _| true);
    drained.target.close()?;
    Ok(())
}

/// Returns true if a device says that it belongs to an array, or is an export that does not answer
/// now.
#[must_use]
pub fn may_belong(device: &str) -> bool {
    let is_export = || is_address(&device_of(device));
    glance(device).map_or_else(is_export, |found| found.is_labelled())
}

/// Selects from `devices` the members of this array or of an array inside it, and all spares and
/// journal devices. Leaves out a former member whose place another device has taken. Devices in
/// `open` belong even if they name another array or can't be read.
#[must_use]
pub fn belonging(devices: &[String], open: &[String], array: &ArrayReport) -> Vec<String> {
    let arrays = array.uuids();
    let is_one = |own: &ArrayRecord| arrays.contains(&own.uuid) || arrays.contains(&own.parent);
    let is_open = |found: &Found| open.contains(&found.name);
    let mut found: Vec<Found> = devices.iter().filter_map(|device| glance(device)).collect();
    found.retain(|found| match found.array() {
        Some(own) => is_one(own) || is_open(found),
        None => found.is_labelled(),
    });
    let left_over = take_left_over(&mut found);
    let all = found
        .into_iter()
        .chain(left_over.into_iter().filter(is_open));
    let mut belonging: Vec<String> = all.map(|found| found.name).collect();
    // Keep unreadable devices of `open`, such as a file that was moved away.
    let is_unreadable = |device: &&String| open.contains(*device) && glance(device).is_none();
    belonging.extend(devices.iter().filter(is_unreadable).cloned());
    belonging.sort_by_key(|name| devices.iter().position(|device| device == name));
    belonging
}

/// Returns true if a device can be read and belongs to no array.
#[must_use]
pub fn is_plain(device: &str) -> bool {
    glance(device).is_some_and(|found| !found.is_labelled())
}

/// Returns true if a device is labeled as a spare.
#[must_use]
pub fn is_spare(device: &str) -> bool {
    glance(device).is_some_and(|found| found.spare().is_some())
}

/// Returns true if a device holds the journal of an array.
#[must_use]
pub fn holds_journal(device: &str) -> bool {
    glance(device).is_some_and(|found| found.journal_device().is_some())
}

/// How often to read superblocks again that change meanwhile.
const LOOKS_MAX: u32 = 80;
/// Time between two reads.
const PAUSE: Duration = Duration::from_millis(25);

/// Reads the superblocks of an array that another process has open. Skips `devices` that are
/// missing or belong to no array.
pub fn report_of(devices: &[String]) -> Result<ArrayReport, AssembleError> {
    describe(devices, holds_superblock)
}

/// Checks that these devices all belong to one array. Works while another process has the array
/// open.
pub fn check_one_array(devices: &[String]) -> Result<(), AssembleError> {
    describe(devices, |_| true).map(drop)
}

fn describe(devices: &[String], takes: fn(&str) -> bool) -> Result<ArrayReport, AssembleError> {
    let open = OpenOptions::looking();
    retry_while_changing(|| {
        let devices = devices.iter().map(String::as_str);
        let devices: Vec<&str> = devices.filter(|device| takes(device)).collect();
        Ok(assemble::describe(&devices, &open)?.remove(0))
    })
}

/// Looks again if another process writes superblocks meanwhile, or has just begun to use the array.
pub(crate) fn retry_while_changing<T>(
    look: impl Fn() -> Result<T, AssembleError>,
) -> Result<T, AssembleError> {
    let mut looks = 0;
    loop {
        match look() {
            Err(AssembleError::Changed | AssembleError::Open(OpenError::Busy { .. }))
                if looks < LOOKS_MAX =>
            {
                looks += 1;
                sleep(PAUSE);
            }
            looked => return looked,
        }
    }
}
