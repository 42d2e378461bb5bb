//! Manages spares: devices reserved for arrays, which take the place of a lost member.

use crate::assemble::{ArrayReport, AssembleOptions, SpareReport};
use crate::attach::{self, ChangeError, Use};
use crate::create;
use crate::host::{Host, Opened};
pub use spindles_array::spare_report::Taken;
use spindles_array::{TooSmall, labels};
use spindles_block::{BlockSize, MemberIndex};
use spindles_device::errors::failed;
use spindles_device::probe::Probe;
use spindles_device::seen::Examined;
use spindles_device::{OpenOptions, backends, clearing, random};
use spindles_format::{SpareRecord, Uuid, areas_for};

/// The arrays that spares serve.
#[derive(Clone, Copy, Debug)]
pub enum For<'a> {
    /// Any array.
    All,
    /// This array.
    Array(Host<'a>),
}

/// The result of adding spares.
#[derive(Clone, Debug)]
pub struct Added {
    /// Their array as it was before; `None` for shared spares.
    pub array: Option<Box<ArrayReport>>,
    /// Warnings about the devices given for it.
    pub warnings: Vec<String>,
    /// Spares that took such a place at once, or tried to. Only for a served array.
    pub taken: Vec<Taken>,
    /// The spares. A shared spare stays shared.
    pub spares: Vec<SpareReport>,
    /// Overwritten data: each device, and a description.
    pub wiped: Vec<(String, String)>,
}

/// Makes spares of devices. An existing spare serves the array in addition to its earlier ones.
/// Errors come before the first write, unless the operating system refused a write.
pub fn add(devices: &[&str], whose: For<'_>, overwrite: bool) -> Result<Added, ChangeError> {
    let members = match whose {
        For::All => Vec::new(),
        For::Array(host) => {
            host.let_go(devices);
            host.devices_but(devices)
        }
    };
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let seen = attach::look_at_new(
        &members,
        devices,
        Use::Spare,
        overwrite,
        &OpenOptions::default(),
    )?;
    let mut array = match whose {
        For::All => None,
        For::Array(host) => Some(host.look(&AssembleOptions::forced())?),
    };
    let labels = PlannedLabels::plan(devices, array.as_ref(), overwrite)?;
    for device in devices {
        labels::may_write(device)?;
    }
    let spares = write_labels(labels.planned, seen)?;
    let before = array.as_ref().map(|array| Box::new(array.report.clone()));
    let mut taken = Vec::new();
    if let (For::Array(Host::Served(_)), Some(array)) = (whose, &mut array) {
        for device in devices {
            taken.extend(array.target.provide_spare(device)?);
        }
    }
    Ok(Added {
        array: before,
        taken,
        warnings: labels.warnings,
        spares,
        wiped: labels.wiped,
    })
}

/// The labels that make spares of devices.
#[derive(Default)]
struct PlannedLabels<'a> {
    /// Each device, true if it is a spare already, and its label.
    planned: Vec<(&'a str, bool, SpareRecord)>,
    /// Warnings about the devices.
    warnings: Vec<String>,
    /// Overwritten data: each device, and a description.
    wiped: Vec<(String, String)>,
}

impl<'a> PlannedLabels<'a> {
    /// Plans the labels of spares for an array, or for any array, without writing. Checks that the
    /// devices are large enough, and warns about those too small for some members.
    fn plan(
        devices: &[&'a str],
        array: Option<&Opened>,
        overwrite: bool,
    ) -> Result<Self, ChangeError> {
        let uuid = array.map(|array| array.report.uuid);
        let mut labels = Self::default();
        for device in devices {
            let probe = create::look(device, &OpenOptions::default())?;
            if let Some(array) = array {
                let unfit = array.target.may_be_spare(device)?;
                let unfit = unfit.iter().map(ToString::to_string);
                labels.warnings.extend(unfit);
            } else {
                // Large enough for the smallest possible member.
                let areas = areas_for(probe.bytes, BlockSize::B512, MemberIndex(0));
                areas.map_err(TooSmall::of(device))?;
            }
            let known = probe.found().spare().cloned();
            let record = if let Some(known) = &known {
                if uuid.is_none() && !known.is_shared() {
                    labels.warnings.push(format!(
                        "{device} was the spare of an array, which found it by itself; from now on \
                         it is given with the devices of each array that may take it"
                    ));
                }
                serving_too(known, device, uuid)?
            } else {
                let open = OpenOptions::default();
                let wiped = create::may_overwrite(device, overwrite, &open)?;
                labels.wiped.extend(wiped);
                SpareRecord {
                    device_uuid: random::uuid()?,
                    device_bytes: 0,
                    arrays: uuid.into_iter().collect(),
                }
            };
            let record = SpareRecord {
                device_bytes: probe.bytes,
                ..record
            };
            labels.planned.push((device, known.is_some(), record));
        }
        Ok(labels)
    }
}

/// Writes the labels to their devices, which must still be as they were seen.
fn write_labels(
    planned: Vec<(&str, bool, SpareRecord)>,
    seen: Vec<Examined>,
) -> Result<Vec<SpareReport>, ChangeError> {
    let mut spares = Vec::new();
    for ((device, is_spare, record), seen) in planned.into_iter().zip(seen) {
        let page = record.encode();
        if is_spare {
            labels::replace(device, seen, &page)?;
        } else {
            labels::make(device, seen, &page)?;
        }
        spares.push(SpareReport {
            name: device.to_owned(),
            bytes: record.device_bytes,
            shared: record.is_shared(),
            record,
        });
    }
    Ok(spares)
}

/// Returns the record of a spare that serves an array in addition to its earlier ones, or any
/// array.
fn serving_too(
    known: &SpareRecord,
    device: &str,
    array: Option<Uuid>,
) -> Result<SpareRecord, ChangeError> {
    let serving = array.map_or_else(|| Some(known.serving_all()), |uuid| known.serving(uuid));
    serving.ok_or_else(|| ChangeError::TooManyArrays {
        device: device.to_owned(),
    })
}

/// The result of removing a spare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The device is a plain device now.
    Plain,
    /// The array with this name no longer takes the device; other arrays may.
    Of(String),
}

/// Makes plain devices of spares. If an array is given, all devices must be its spares; a spare
/// that also serves other arrays stays a spare of those. Errors come before the first write, unless
/// the operating system refused a write.
pub fn remove(devices: &[&str], of: Option<Host<'_>>) -> Result<Vec<Removed>, ChangeError> {
    let mut spares = Vec::new();
    for device in devices {
        // A server has its spares open, like its members; don't wait for these.
        let found = match Probe::glance(device) {
            Some(probe) => probe.found(),
            None => Probe::open(device)?.found(),
        };
        let device = (*device).to_owned();
        spares.push((found.spare().cloned()).ok_or(ChangeError::NoSpare { device })?);
    }
    if let Some(Host::Served(served)) = of {
        let target = served.managed();
        for device in devices {
            target.may_leave(device)?;
        }
    }
    // All devices were checked above to be spares. A member among them would make this opening fail
    // with a less useful error.
    let array = of.map(|host| host.look(&AssembleOptions::forced()));
    let mut array = array.transpose()?;
    let mut left = Vec::new();
    for (device, spare) in devices.iter().zip(spares) {
        let name = || (*device).to_owned();
        let others = match &array {
            None => Vec::new(),
            Some(array) => {
                let others = spare.arrays_but(array.report.uuid);
                // A shared spare that a server has belongs to its array.
                let is_its = matches!(of, Some(Host::Served(_))) && spare.is_shared();
                let others = others.or_else(|| is_its.then(Vec::new));
                others.ok_or_else(|| ChangeError::NoSpareOf {
                    device: name(),
                    array: array.report.name.clone(),
                    shared: spare.is_shared(),
                })?
            }
        };
        // An empty list would make it a shared spare.
        left.push((!others.is_empty()).then(|| SpareRecord {
            arrays: others,
            ..spare.clone()
        }));
        labels::may_write(device)?;
    }
    let mut removed = Vec::new();
    for (device, left) in devices.iter().zip(left) {
        if let (Some(Host::Served(_)), Some(array)) = (of, &mut array) {
            array.target.withdraw_spare(device);
        }
        removed.push(if let (Some(left), Some(array)) = (left, &array) {
            labels::replace(device, Examined::default(), &left.encode())?;
            Removed::Of(array.report.name.clone())
        } else {
            let held = backends::open(device, &OpenOptions::default())?;
            clearing::forget(device).map_err(|source| failed(device, "clear", source))?;
            drop(held);
            Removed::Plain
        });
    }
    Ok(removed)
}
