//! Where the array is that a command works on: on its devices, which the command opens for itself, or in a
//! server that has it open and goes on serving it meanwhile.

pub use crate::assemble::Change;
use crate::assemble::{
    self, ArrayReport, AssembleError, AssembleOptions, Assembled, assemble, assemble_to_change,
};
use crate::identity::share_bytes;
use crate::is_address;
use crate::left_over;
use crate::probe::Probe;
use crate::{CloseError, Managed, OpenError, OpenOptions, Target};
use spindles_format::{ArrayRecord, Found};
use std::fmt::{self, Debug};
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;

/// Where an array is.
#[derive(Clone, Copy, Debug)]
pub enum Host<'a> {
    /// On these devices, in any order; nobody has it.
    Devices(&'a [&'a str]),
    /// In a server.
    Served(&'a dyn Served),
}

/// An array that somebody serves.
pub trait Served: Debug {
    /// The devices that it was assembled from, and those that came later.
    fn devices(&self) -> Vec<String>;

    /// The way to it.
    fn managed(&self) -> Box<dyn Managed>;

    /// What its superblocks say now, or said when they could be read last: too many devices may be away for that.
    fn report(&self) -> ArrayReport;

    /// Knows a device from now on that belongs to it, and that it can't use yet.
    fn remember(&self, device: &str);

    /// Closes it, has it opened again with something changed, and goes on serving that. Clients wait. It is opened
    /// from the devices that it has, with what comes, and without what is to go; after a failure from those that it had.
    ///
    /// # Errors
    ///
    /// The change must wait, or it can't be closed: it is served as it was.
    fn reopen(&self, restructure: Restructure<'_>, reopen: Reopen) -> Result<(), AssembleError>;
}

/// What changes of an array while its server has it closed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Restructure<'a> {
    /// The device that comes to it.
    pub more: Option<&'a str>,
    /// The device that goes.
    pub without: Option<&'a str>,
    /// Where its data or its journal lies changes, which an array that grows can't do.
    pub moves: bool,
}

/// What is done with the devices of an array that its server has closed, with the options by which it opens it.
pub type Reopen = Box<dyn FnOnce(&[&str], &AssembleOptions) -> Reopened + Send>;

/// What a command made of an array that its server closed for it.
pub enum Reopened {
    /// It is open.
    Open(Box<dyn Target>),
    /// It is changed and closed: the server opens it as it is now.
    Closed,
    /// The command failed: the server opens it from the devices that it had before.
    AsBefore,
}

impl Debug for Reopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open(_) => "Open",
            Self::Closed => "Closed",
            Self::AsBefore => "AsBefore",
        })
    }
}

/// Writes to a device what it is to be for an array.
pub(crate) type Prepare = Box<dyn FnOnce() -> Result<(), OpenError> + Send>;

/// The same, with what came of it.
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
        let (reopened, told) = match work(devices, options) {
            Ok((Some(target), told)) => (Reopened::Open(target), Ok(told)),
            Ok((None, told)) => (Reopened::Closed, Ok(told)),
            Err(error) => (Reopened::AsBefore, Err(error)),
        };
        // Who asked may be gone.
        drop(done.send(told));
        reopened
    };
    served.reopen(restructure, Box::new(reopen))?;
    // Where the server has ended nothing was done.
    let result = result.recv();
    result.unwrap_or_else(|_| Err(AssembleError::Changed.into()))
}

/// The absolute name of a device, which means the same in every working directory. Links in its folder are resolved; a link
/// to the device itself is kept, as those of `/dev/disk/by-id` stay when disks change places. What is no path, as an
/// address or a mere name of nothing here, is left as it is.
#[must_use]
pub fn absolute(device: &str) -> String {
    let path = Path::new(device);
    let is_path = || path.exists() || (device.contains('/') && !is_address(device));
    let whole = || {
        let name = path.file_name().filter(|_| is_path())?;
        let folder = path.parent()?.to_owned();
        let folder = Path::new(".").join(folder).canonicalize().ok()?;
        folder.join(name).into_os_string().into_string().ok()
    };
    whole().unwrap_or_else(|| device.to_owned())
}

impl<'a, const N: usize> From<&'a [&'a str; N]> for Host<'a> {
    fn from(devices: &'a [&'a str; N]) -> Self {
        Self::Devices(devices)
    }
}

impl<'a> From<&'a [&'a str]> for Host<'a> {
    fn from(devices: &'a [&'a str]) -> Self {
        Self::Devices(devices)
    }
}

impl<'a> From<&'a Vec<&'a str>> for Host<'a> {
    fn from(devices: &'a Vec<&'a str>) -> Self {
        Self::Devices(devices)
    }
}

/// An array that is open, here or in a server.
pub(crate) struct Opened {
    pub(crate) target: Box<dyn Managed>,
    pub(crate) report: ArrayReport,
}

impl Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opened({})", self.report.name)
    }
}

impl From<Assembled> for Opened {
    fn from(assembled: Assembled) -> Self {
        Self {
            target: assembled.target,
            report: assembled.report,
        }
    }
}

impl Opened {
    /// One in a server.
    pub(crate) fn served(served: &dyn Served) -> Self {
        Self::by(served, served.managed())
    }

    /// One in a server, by this way to it.
    pub(crate) fn by(served: &dyn Served, target: Box<dyn Managed>) -> Self {
        let mut report = served.report();
        // It is open, which no superblock tells from a crash.
        let (in_sync, total) = target.in_sync_bytes();
        report.note_open(in_sync == total);
        report.note_members(&target.snapshot());
        Self { target, report }
    }

    /// Closes it, unless others go on with it; the report gets the spares that were taken meanwhile, and what went
    /// wrong.
    pub(crate) fn close(self) -> Result<ArrayReport, CloseError> {
        let Self { target, mut report } = self;
        assemble::close(target, &mut report)?;
        Ok(report)
    }
}

impl<'a> Host<'a> {
    /// On these devices, unless a server has it.
    pub(crate) fn or_on(self, devices: &'a [&'a str]) -> Self {
        match self {
            Self::Devices(_) => Self::Devices(devices),
            Self::Served(_) => self,
        }
    }

    /// Its devices.
    pub(crate) fn devices(&self) -> Vec<String> {
        match self {
            Self::Devices(devices) => devices.iter().map(|&it| it.to_owned()).collect(),
            Self::Served(served) => served.devices(),
        }
    }

    /// Its devices but for those that have another part in a command.
    pub(crate) fn devices_but(&self, apart: &[&str]) -> Vec<String> {
        let mut devices = self.devices();
        if let Self::Served(_) = self {
            devices.retain(|device| !apart.iter().any(|apart| share_bytes(apart, device)));
        }
        devices
    }

    /// Has a server close those of the devices that were members and are out: nobody else can have what it has open.
    pub(crate) fn let_go(&self, devices: &[&str]) {
        if let Self::Served(served) = self {
            for device in devices {
                // Most never were any.
                drop(served.managed().let_go(device));
            }
        }
    }

    /// Opens it for reading only, so that what can go wrong does so before anything is written.
    pub(crate) fn look(&self, options: &AssembleOptions) -> Result<Opened, AssembleError> {
        match self {
            Self::Devices(devices) => {
                let mut looking = options.clone();
                looking.open.read_only = true;
                assemble(devices, &looking).map(Opened::from)
            }
            Self::Served(served) => Ok(Opened::served(*served)),
        }
    }

    /// Opens it for writing.
    pub(crate) fn open(&self, options: &AssembleOptions) -> Result<Opened, AssembleError> {
        match self {
            Self::Devices(devices) => assemble(devices, options).map(Opened::from),
            Self::Served(served) => Ok(Opened::served(*served)),
        }
    }

    /// Whether it can become that. In a server it stays open meanwhile.
    pub(crate) fn may_change(
        &self,
        options: &AssembleOptions,
        change: &Change,
    ) -> Result<(), AssembleError> {
        match self {
            Self::Devices(devices) => {
                let mut looking = options.clone();
                looking.open.read_only = true;
                assemble_to_change(devices, &looking, change).map(drop)
            }
            Self::Served(served) => retry_while_changing(|| {
                let devices = served.devices();
                let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
                assemble::may_become(&devices, change)
            }),
        }
    }

    /// Opens it so that it becomes that.
    pub(crate) fn change(
        &self,
        options: &AssembleOptions,
        change: &Change,
    ) -> Result<Opened, AssembleError> {
        self.change_devices(options, change, None, None)
    }

    /// The same where a device comes to it, which is prepared as soon as the change is decided, or one goes.
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
                    let changed = assemble_to_change(devices, options, &change)?.target;
                    if let Change::Grow(_) = change {
                        return Ok((Some(changed), ())); // It has begun, and goes on as it is.
                    }
                    // Closed, the superblocks say it.
                    changed.close()?;
                    Ok::<_, AssembleError>((None, ()))
                })?;
                Ok(Opened::served(*served))
            }
        }
    }
}

/// Whether a device says that it belongs to an array, as a member, a spare or with its journal.
#[must_use]
pub fn belongs(device: &str) -> bool {
    says_so(device).unwrap_or(false)
}

/// Returns true if a device says that it belongs to an array, or is an export that does not answer now.
#[must_use]
pub fn may_belong(device: &str) -> bool {
    says_so(device).unwrap_or_else(|| is_address(device))
}

/// Those of the devices that say that they are members of this array or of one inside it, spares, or have a journal. One
/// of the array that another has the place of by now is none. What is `open` belongs to it whatever it says.
#[must_use]
pub fn belonging(devices: &[String], open: &[String], array: &ArrayReport) -> Vec<String> {
    let arrays = array.uuids();
    let is_one = |own: &ArrayRecord| arrays.contains(&own.uuid) || arrays.contains(&own.parent);
    let found = |device: &String| Some(Probe::glance(device)?.found());
    let mut found: Vec<Found> = devices.iter().filter_map(found).collect();
    found.retain(|found| {
        let is_here = || open.contains(&found.name);
        is_marked(found)
            || found
                .record()
                .is_ok_and(|(own, _)| is_one(own) || is_here())
    });
    let left_over = left_over::set_apart(&mut found);
    let in_use = left_over.into_iter().filter(|it| open.contains(&it.name));
    let mut belonging: Vec<String> = found.into_iter().chain(in_use).map(|it| it.name).collect();
    // Such as a file that was moved away.
    let is_unreadable =
        |device: &&String| open.contains(*device) && Probe::glance(device).is_none();
    belonging.extend(devices.iter().filter(is_unreadable).cloned());
    belonging.sort_by_key(|name| devices.iter().position(|device| device == name));
    belonging
}

/// Whether a device can be read, and says that it belongs to none.
#[must_use]
pub fn is_plain(device: &str) -> bool {
    says_so(device).is_some_and(|belongs| !belongs)
}

fn says_so(device: &str) -> Option<bool> {
    let found = Probe::glance(device)?.found();
    Some(is_marked(&found) || found.record().is_ok())
}

fn is_marked(found: &Found) -> bool {
    found.spare().is_some() || found.journal_device().is_some()
}

/// Whether a device says that it is a spare.
#[must_use]
pub fn is_spare(device: &str) -> bool {
    Probe::glance(device).is_some_and(|probe| probe.found().spare().is_some())
}

/// Whether a device says that the journal of an array is on it.
#[must_use]
pub fn holds_journal(device: &str) -> bool {
    Probe::glance(device).is_some_and(|probe| probe.found().journal_device().is_some())
}

/// How often superblocks are read again that change meanwhile.
const LOOKS_MAX: u32 = 40;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(25);

/// What the superblocks of an array say that somebody has open: on those of these devices that are there and
/// belong to an array.
///
/// # Errors
///
/// They can't be read.
pub fn report_of(devices: &[String]) -> Result<ArrayReport, AssembleError> {
    describe(devices, belongs)
}

/// Whether these devices are one array's, that somebody has open.
///
/// # Errors
///
/// As for whoever opens the array with them.
pub fn check_one_array(devices: &[String]) -> Result<(), AssembleError> {
    describe(devices, |_| true).map(drop)
}

fn describe(devices: &[String], takes: fn(&str) -> bool) -> Result<ArrayReport, AssembleError> {
    let open = OpenOptions::looking();
    retry_while_changing(|| {
        let devices: Vec<&str> = devices
            .iter()
            .map(String::as_str)
            .filter(|it| takes(it))
            .collect();
        Ok(assemble::describe(&devices, &open)?.remove(0))
    })
}

/// Looks again where superblocks change meanwhile, which somebody writes who has the array open.
fn retry_while_changing<T>(
    look: impl Fn() -> Result<T, AssembleError>,
) -> Result<T, AssembleError> {
    let mut looks = 0;
    loop {
        match look() {
            Err(AssembleError::Changed) if looks < LOOKS_MAX => {
                looks += 1;
                sleep(PAUSE);
            }
            looked => return looked,
        }
    }
}
