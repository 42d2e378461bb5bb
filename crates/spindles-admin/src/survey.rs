//! Surveys the state of an array, in use or not. The engine reports it if the array can be opened.
//! If another program has it, or too many members are missing, the superblocks alone describe it.
//! Writes nothing.

use crate::assemble::{ArrayReport, AssembleError, AssembleOptions, assemble, describe, look};
use crate::host::{Host, Served, report_of, retry_while_changing};
pub use crate::report::Health;
use crate::scan;
use spindles_array::ArraySnapshot;
use spindles_device::OpenOptions;
use spindles_device::device_of;
pub use spindles_device::holders::{Server, User, another_owner, server_of, servers_given};
use spindles_device::holders::{holders, is_busy};
use spindles_device::identity::share_bytes;
use spindles_device::notice::work_on;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Pause between two checks whether devices are in use.
const PAUSE: Duration = Duration::from_millis(50);

/// The state of an array.
#[derive(Debug)]
pub struct Survey {
    /// The array. Several only if too many members are missing to know the outer array.
    pub reports: Vec<ArrayReport>,
    /// A snapshot of the array and of each one inside it. Empty if it can't be opened, or another
    /// program has it.
    pub open: Vec<ArraySnapshot>,
    /// The programs that have the array's devices open.
    pub users: Vec<User>,
    /// Why it can't be opened for use without force; `None` if it can.
    pub needs_force: Option<AssembleError>,
}

impl Survey {
    /// Notes that devices which the array lacks may be present.
    pub fn note_hidden_devices(&mut self) {
        let reports = self.reports.iter_mut();
        reports.for_each(ArrayReport::note_hidden_devices);
    }

    /// Notes that missing members are elsewhere: they were not given, or a server has them and does
    /// not answer.
    pub fn note_members_elsewhere(&mut self) {
        let reports = self.reports.iter_mut();
        reports.for_each(ArrayReport::note_members_elsewhere);
    }

    /// Returns the worst health of the reports.
    #[must_use]
    pub fn health(&self) -> Health {
        let health = self.reports.iter().map(ArrayReport::health);
        health.max().unwrap_or(Health::Healthy)
    }
}

/// What makes a server release a device of its array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FreedBy {
    /// Removing the member, which is out, from this array.
    Removal(String),
    /// Stopping the server of this array.
    Stop(String),
}

/// Returns what makes a server release a device of its array. `None` if no other process serves
/// it, or its array can't be found.
#[must_use]
pub fn freed_by(device: &str) -> Option<FreedBy> {
    let server = server_of(&[device])?;
    if server.pid == std::process::id() || server.another.is_some() {
        return None;
    }
    let path = &*device_of(device);
    let path = Path::new(path);
    // Block devices are always searched.
    let folder = path.parent().and_then(Path::to_str);
    let folder = folder.filter(|_| path.is_file());
    let folder = folder.map(|folder| if folder.is_empty() { "." } else { folder }.to_owned());
    let array = scan::array_of(device, folder.as_slice())?;
    let name = array.name?;
    let is_it = |other: &String| share_bytes(other, device);
    let is_out = report_of(&array.devices).is_ok_and(|report| {
        let mut arrays = report.arrays().into_iter();
        arrays.any(|array| {
            let mut out = array.held_out.iter().chain(&array.returning);
            out.any(|(_, device)| is_it(device))
        })
    });
    Some(if is_out {
        FreedBy::Removal(name)
    } else {
        FreedBy::Stop(name)
    })
}

/// Surveys an array. Missing members are no error.
pub fn survey<'a>(host: impl Into<Host<'a>>) -> Result<Survey, AssembleError> {
    match host.into() {
        Host::Devices(devices) => of_devices(devices),
        Host::Served(served) => Ok(of_served(served)),
    }
}

/// Surveys a served array, of which the server knows more than the superblocks show.
fn of_served(served: &dyn Served) -> Survey {
    let (mut report, target) = (served.report(), served.managed());
    let open = target.snapshot();
    report.note_members(&open);
    report.note_lost(&target.lost());
    let mut users = users_by_notice(std::slice::from_ref(&report));
    if users.is_empty() {
        users.push(User::silent(std::process::id()));
    }
    Survey {
        users,
        reports: vec![report],
        open,
        needs_force: None,
    }
}

fn of_devices(devices: &[&str]) -> Result<Survey, AssembleError> {
    retry_while_changing(|| {
        if is_in_use(devices) {
            in_use(devices)
        } else {
            free(devices)
        }
    })
}

fn in_use(devices: &[&str]) -> Result<Survey, AssembleError> {
    let open = OpenOptions::looking();
    let reports = describe(devices, &open)?;
    let users = users(devices, &reports);
    if users.iter().all(|user| user.pid.is_none()) && !is_in_use(devices) {
        // The other process has released the array meanwhile.
        return Err(AssembleError::Changed);
    }
    Ok(Survey {
        users,
        reports,
        open: Vec::new(),
        needs_force: None,
    })
}

fn free(devices: &[&str]) -> Result<Survey, AssembleError> {
    let mut options = AssembleOptions {
        open: OpenOptions {
            read_only: true,
            busy_timeout: Duration::ZERO,
            ..OpenOptions::default()
        },
        ..AssembleOptions::default()
    };
    let (assembled, needs_force) = match assemble(devices, &options) {
        Err(error @ AssembleError::UncleanDegraded { .. }) => {
            // The error is for a later opening with writes.
            options.open.read_only = false;
            let to_write = look(devices, &options).err();
            options.open.read_only = true;
            // Only to describe it; its data can't be trusted.
            options.force = true;
            let assembled = assemble(devices, &options);
            (assembled, Some(to_write.unwrap_or(error)))
        }
        assembled => (assembled, None),
    };
    let (reports, open) = match assembled {
        Ok(mut assembled) => {
            while assembled.target.work() {}
            assembled.report.note_lost(&assembled.target.lost());
            (vec![assembled.report], assembled.target.snapshot())
        }
        Err(AssembleError::Incomplete { .. } | AssembleError::NothingLeft { .. }) => {
            (describe(devices, &options.open)?, Vec::new())
        }
        Err(error) => return Err(error),
    };
    Ok(Survey {
        users: users_by_notice(&reports),
        reports,
        open,
        needs_force,
    })
}

/// Returns true if another program holds one of the devices exclusively. Checks twice, since a
/// program that only examines a device holds it for a moment.
fn is_in_use(devices: &[&str]) -> bool {
    let mut busy = devices.iter().filter(|device| is_busy(device)).peekable();
    if busy.peek().is_none() {
        return false;
    }
    sleep(PAUSE);
    busy.any(|device| is_busy(device))
}

/// Finds the programs that have the devices, with the work they published.
fn users(devices: &[&str], reports: &[ArrayReport]) -> Vec<User> {
    let mut users = users_by_notice(reports);
    for user in holders(devices) {
        if users.iter().all(|other| other.pid != user.pid) {
            users.push(user);
        }
    }
    if users.is_empty() {
        users.push(User::unknown());
    }
    users
}

fn users_by_notice(reports: &[ArrayReport]) -> Vec<User> {
    let arrays: Vec<_> = reports.iter().flat_map(ArrayReport::uuids).collect();
    work_on(&arrays).into_iter().map(User::working).collect()
}
