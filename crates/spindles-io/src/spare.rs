//! Spares: devices that are set aside for arrays, and take the place of a member that is lost.

use crate::assemble::{AssembleOptions, SpareReport};
use crate::attach::{self, ChangeError, Use};
use crate::create;
use crate::errors::failed;
use crate::host::Host;
use crate::probe::Probe;
pub use crate::report::Taken;
use crate::{OpenOptions, TooSmall, backends, clearing, labels, random};
use spindles_block::{BlockSize, MemberIndex};
use spindles_format::{SpareRecord, Uuid, areas_for};

/// Whose spares devices become.
#[derive(Clone, Copy, Debug)]
pub enum For<'a> {
    /// Any array's.
    All,
    /// That array's.
    Array(Host<'a>),
}

/// Spares that there are now.
#[derive(Clone, Debug)]
pub struct Added {
    /// Name and UUID of the array that they belong to; `None` for shared spares.
    pub array: Option<(String, Uuid)>,
    /// Warnings about that array and the devices given for it.
    pub warnings: Vec<String>,
    /// The spares; one that was shared before still is.
    pub spares: Vec<SpareReport>,
    /// What was overwritten: device and what it was.
    pub wiped: Vec<(String, String)>,
}

/// Makes spares of devices. One that is a spare already serves the array as well as those before.
///
/// # Errors
///
/// Nothing was written to any, unless the operating system refuses that.
pub fn add(devices: &[&str], whose: For<'_>, overwrite: bool) -> Result<Added, ChangeError> {
    let members = match whose {
        For::All => Vec::new(),
        For::Array(host) => host.devices_but(devices),
    };
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    attach::look_at_new(&members, devices, Use::Spare)?;
    let mut array = match whose {
        For::All => None,
        For::Array(host) => {
            let looking = AssembleOptions {
                force: true,
                ..AssembleOptions::default()
            };
            Some(host.look(&looking)?)
        }
    };
    let uuid = array.as_ref().map(|array| array.report.uuid);
    let mut wiped = Vec::new();
    let mut warnings = array.as_ref().map(|array| array.report.warnings());
    let mut planned = Vec::new();
    let mut probes = Vec::new();
    for device in devices {
        let probe = create::look(device)?;
        if let Some(array) = &array {
            let unfit = array.target.may_be_spare(device)?;
            let unfit = unfit.iter().map(ToString::to_string);
            warnings.get_or_insert_default().extend(unfit);
        } else {
            // As large as the smallest member there can be.
            let areas = areas_for(probe.bytes, BlockSize::B512, MemberIndex(0));
            areas.map_err(TooSmall::of(device))?;
        }
        probes.push(probe);
    }
    for (device, probe) in devices.iter().zip(probes) {
        let known = probe.found().spare().cloned();
        let mut record = if let Some(known) = &known {
            serving_too(known, device, uuid)?
        } else {
            wiped.extend(create::may_overwrite(device, overwrite)?);
            SpareRecord {
                device_uuid: random::uuid()?,
                device_bytes: 0,
                arrays: uuid.into_iter().collect(),
            }
        };
        record.device_bytes = probe.bytes;
        planned.push((device, known.is_some(), record));
    }
    for device in devices {
        labels::may_write(device)?;
    }
    let mut spares = Vec::new();
    for (device, is_spare, record) in planned {
        labels::make(device, is_spare, &record.encode())?;
        spares.push(SpareReport {
            name: (*device).to_owned(),
            bytes: record.device_bytes,
            shared: record.is_shared(),
        });
    }
    if let (For::Array(Host::Served(_)), Some(array)) = (whose, &mut array) {
        for device in devices {
            array.target.provide_spare(device)?;
        }
    }
    let array = array.map(|array| (array.report.name, array.report.uuid));
    Ok(Added {
        array,
        warnings: warnings.unwrap_or_default(),
        spares,
        wiped,
    })
}

/// A spare that serves an array as well as those before, or any.
fn serving_too(
    known: &SpareRecord,
    device: &str,
    array: Option<Uuid>,
) -> Result<SpareRecord, ChangeError> {
    match array {
        None => Ok(known.serving_all()),
        Some(uuid) => known
            .serving(uuid)
            .ok_or_else(|| ChangeError::TooManyArrays {
                device: device.to_owned(),
            }),
    }
}

/// Makes plain devices of spares.
///
/// # Errors
///
/// Nothing was written to any, unless the operating system refuses that.
pub fn remove(devices: &[&str]) -> Result<(), ChangeError> {
    let mut held = Vec::new();
    for device in devices {
        let probe = Probe::open(device)?;
        if probe.found().spare().is_none() {
            let device = (*device).to_owned();
            return Err(ChangeError::NoSpare { device });
        }
        drop(probe);
        held.push(backends::open(device, &OpenOptions::default())?);
    }
    for device in devices {
        clearing::forget(device).map_err(|source| failed(device, "clear", source))?;
    }
    Ok(())
}
