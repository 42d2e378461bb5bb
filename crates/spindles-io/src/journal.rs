//! The device of its own for a journal: an array that nobody uses gets one, or loses it. What says so
//! is one write of superblocks of an array that is clean, so that nothing that is logged counts.

use crate::assemble::{
    ArrayReport, AssembleOptions, Change, JournalReport, assemble, assemble_to_change,
};
use crate::attach::{self, ChangeError};
use crate::{OpenOptions, TooSmall, backends, create, probe, settle, spare};
use spindles_engine::{Policy, WriteHole};
use spindles_format::{ChecksumKind, JOURNAL_DEVICE_BYTES_MIN, JournalDevice, Uuid};
use spindles_layout::Redundancy;

/// A journal that has come to another place.
#[derive(Clone, Debug)]
pub struct Moved {
    /// The array, as it was found.
    pub report: ArrayReport,
    /// What was overwritten: device and what it was.
    pub wiped: Vec<(String, String)>,
}

/// Gives an array a device for its journal, in the place of one that is not there any more too.
/// `degraded` is as in `AssembleOptions`; `progress` gets how far an array that was not closed in order is put in order.
///
/// # Errors
///
/// The device is not that of its journal; it may have been written to where the error is not about it.
pub fn add(
    device: &str,
    members: &[&str],
    overwrite: bool,
    degraded: bool,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Moved, ChangeError> {
    attach::are_others(members, &[device])?;
    let report = look(members)?;
    if let JournalReport::Device(journal) = &report.journal {
        return Err(ChangeError::HasJournal {
            array: report.name,
            device: journal.clone(),
        });
    }
    let parity = matches!(report.level.redundancy, Redundancy::Parity(_));
    let logs = Policy::by_name(report.consistency)
        .is_some_and(|policy| policy.write_hole == WriteHole::Closed);
    let bytes = create::look(device)?.bytes;
    let record = plan(
        device,
        bytes,
        report.uuid,
        logs,
        parity || report.checksum != ChecksumKind::None.name(),
    )?;
    let wiped = create::may_overwrite(device, overwrite)?;
    put_in_order(members, &report, degraded, progress)?;
    // First the device: what the superblocks name is there.
    spare::make(device, false, &record.encode())?;
    change(members, &report, degraded, record.device_uuid)?;
    Ok(Moved { report, wiped })
}

/// Takes the device of its journal away from an array: its members log from then on. The device may be
/// among those given; where it is, it is a plain one then.
///
/// # Errors
///
/// The array still has it, unless only the device itself could not be written to.
pub fn remove(
    devices: &[&str],
    degraded: bool,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<ArrayReport, ChangeError> {
    let report = look(devices)?;
    if let JournalReport::Members = report.journal {
        return Err(ChangeError::HasNoJournal { array: report.name });
    }
    put_in_order(devices, &report, degraded, progress)?;
    change(devices, &report, degraded, Uuid::NIL)?;
    if let JournalReport::Device(device) = &report.journal {
        let held = backends::open(device, &OpenOptions::default())?;
        let emptied = create::empty(device);
        drop(held);
        emptied.map_err(|source| probe::failed(device, "clear", source))?;
    }
    Ok(report)
}

/// What a device says of itself that gets the journal of an array, which `logs` what it writes where
/// there `is_something` to log.
pub(crate) fn plan(
    device: &str,
    bytes: u64,
    array: Uuid,
    logs: bool,
    is_something: bool,
) -> Result<JournalDevice, create::CreateError> {
    let why = match (logs, is_something) {
        (_, false) => {
            Some("an array without parity and without checksums logs nothing, so leave it out")
        }
        (false, true) => Some("only an array that is created with --consistency journal logs"),
        (true, true) => None,
    };
    let device = device.to_owned();
    if let Some(why) = why {
        return Err(create::CreateError::NoJournal { device, why });
    }
    if bytes < JOURNAL_DEVICE_BYTES_MIN {
        let small = TooSmall::new(&device, bytes, JOURNAL_DEVICE_BYTES_MIN);
        return Err(small.with_part(" for a journal".to_owned(), "").into());
    }
    Ok(JournalDevice {
        device_uuid: create::new_uuid()?,
        array,
        device_bytes: bytes,
        stamps: 0,
        nonce: 0,
    })
}

/// Looks at an array without writing to it.
pub(crate) fn look(devices: &[&str]) -> Result<ArrayReport, ChangeError> {
    let mut options = AssembleOptions::default();
    options.open.read_only = true;
    let report = assemble(devices, &options)?.report;
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

/// An array that was not closed in order is, so that nothing that is logged is needed any more.
pub(crate) fn put_in_order(
    devices: &[&str],
    report: &ArrayReport,
    degraded: bool,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(), ChangeError> {
    if !report.is_clean() {
        let mut found = assemble(devices, &options(degraded))?.target;
        settle(found.as_mut(), progress);
        found.close()?;
    }
    Ok(())
}

/// Makes the superblocks name another device.
fn change(
    devices: &[&str],
    report: &ArrayReport,
    degraded: bool,
    device: Uuid,
) -> Result<(), ChangeError> {
    let target = assemble_to_change(devices, &options(degraded), &Change::Journal(device))?.target;
    target.close()?;
    let is_there = !matches!(look(devices)?.journal, JournalReport::Members);
    if is_there != (device != Uuid::NIL) {
        let array = report.name.clone();
        return Err(ChangeError::NotRecorded { array });
    }
    Ok(())
}
