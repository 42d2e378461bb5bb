//! Gives an array a journal device, or removes it. The array must be clean, so that the log is
//! empty; one write of the superblocks makes the change.

use crate::assemble::{ArrayReport, AssembleError, AssembleOptions, Change, JournalReport};
use crate::attach::{self, ChangeError, Use};
use crate::create;
use crate::host::{Host, Prepare};
use spindles_array::{await_resync, labels};
use spindles_device::errors::failed;
use spindles_device::{OpenError, OpenOptions, backends, clearing};
use spindles_format::Uuid;

/// The result of a moved journal.
#[derive(Clone, Debug)]
pub struct Moved {
    /// The array as found.
    pub report: ArrayReport,
    /// Overwritten data: each device, and a description.
    pub wiped: Vec<(String, String)>,
}

/// Gives an array a journal device; also replaces a missing one. `degraded` is as in
/// `AssembleOptions`. `progress` gets the progress of the resync of an array that was not closed in
/// order. After an error the journal is where it was; the device may have been written to, unless
/// the error is about it.
pub fn add<'a>(
    device: &str,
    host: impl Into<Host<'a>>,
    overwrite: bool,
    degraded: bool,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Moved, ChangeError> {
    let host = host.into();
    let members = host.devices_but(&[device]);
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    host.let_go(&[device]);
    let seen = attach::look_at_new(
        &members,
        &[device],
        Use::Journal,
        overwrite,
        &OpenOptions::default(),
    )?;
    let report = look(host)?;
    if let JournalReport::Device(journal) = &report.journal {
        return Err(ChangeError::HasJournal {
            array: report.name,
            device: journal.clone(),
        });
    }
    let (logs, parity) = (report.logs(), report.has_parity());
    let bytes = create::look(device, &OpenOptions::default())?.bytes;
    let record = create::plan_journal(device, bytes, report.uuid, logs, parity)?;
    let wiped = create::may_overwrite(device, overwrite, &OpenOptions::default())?;
    put_in_order(host, &report, degraded, progress)?;
    let (labelled, page) = (device.to_owned(), record.encode());
    // Label the device first, so that the superblocks always name an existing device.
    let seen = seen[0];
    let label = move || labels::make(&labelled, seen, &page);
    let coming = Some((device, Box::new(label) as Prepare));
    let changed = change(host, &report, degraded, record.device_uuid, coming);
    if let Err(error) = changed {
        // A refused device was not labelled.
        let is_refused = matches!(error, ChangeError::Assemble(AssembleError::Attach(_)));
        if !is_refused && look(host).is_ok_and(|now| now.journal == report.journal) {
            // The array continues without it, so it must not look like a journal.
            drop(empty(device));
        }
        return Err(error);
    }
    Ok(Moved { report, wiped })
}

/// Removes the journal device of an array; its members log from then on. If the journal device is
/// given too, it becomes a plain device. After an error the array still has it, unless only the
/// write to the device itself failed.
pub fn remove<'a>(
    host: impl Into<Host<'a>>,
    degraded: bool,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<ArrayReport, ChangeError> {
    let host = host.into();
    let report = look(host)?;
    if let JournalReport::Members = report.journal {
        return Err(ChangeError::HasNoJournal { array: report.name });
    }
    put_in_order(host, &report, degraded, progress)?;
    change(host, &report, degraded, Uuid::NIL, None)?;
    if let JournalReport::Device(device) = &report.journal {
        empty(device)?;
    }
    Ok(report)
}

/// Clears the label of a former journal device.
fn empty(device: &str) -> Result<(), OpenError> {
    let held = backends::open(device, &OpenOptions::default())?;
    let emptied = clearing::empty(device);
    drop(held);
    emptied.map_err(|source| failed(device, "clear", source))
}

/// Examines an array without writing to it.
pub(crate) fn look(host: Host<'_>) -> Result<ArrayReport, ChangeError> {
    let report = host.look(&AssembleOptions::default())?.report;
    if report.growing.is_some() {
        return Err(ChangeError::Growing { array: report.name });
    }
    Ok(report)
}

fn options(degraded: bool) -> AssembleOptions {
    AssembleOptions {
        degraded,
        keep_spares: true,
        ..AssembleOptions::default()
    }
}

/// Recovers an array that was not closed in order, so that its log is no longer needed.
pub(crate) fn put_in_order(
    host: Host<'_>,
    report: &ArrayReport,
    degraded: bool,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(), ChangeError> {
    if !report.is_clean() {
        let mut found = host.open(&options(degraded))?;
        await_resync(found.target.as_mut(), progress);
        found.close()?;
    }
    Ok(())
}

/// Writes superblocks that name another journal device.
fn change(
    host: Host<'_>,
    report: &ArrayReport,
    degraded: bool,
    device: Uuid,
    coming: Option<(&str, Prepare)>,
) -> Result<(), ChangeError> {
    let without = match &report.journal {
        JournalReport::Device(device) => Some(device.as_str()),
        JournalReport::Members | JournalReport::DeviceMissing => None,
    };
    let change = Change::Journal(device);
    let changed = host.change_devices(&options(degraded), &change, coming, without)?;
    changed.target.close()?;
    let is_there = !matches!(look(host)?.journal, JournalReport::Members);
    if is_there != (device != Uuid::NIL) {
        let array = report.name.clone();
        return Err(ChangeError::NotRecorded { array });
    }
    Ok(())
}
