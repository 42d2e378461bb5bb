//! Settings in the superblocks of an array that can be changed later.

use crate::assemble::{ArrayReport, AssembleOptions, Change, MemberReport};
use crate::errors::ChangeError;
use crate::host::{Host, report_of};
use crate::write_back::Wanted;
use spindles_array::errors::AttachError;
use spindles_block::{MemberIndex, MemberSet};
use spindles_device::identity;
use spindles_device::probe::glance;
use spindles_format::{ErrorCounts, Uuid};
use std::collections::BTreeMap;

/// Allows or forbids writes without `--degraded` while missing members may hold newer data. Applies
/// to the array and all arrays inside it. Recovers an array that was not closed in order. Errors
/// before the superblocks are written leave the array unchanged.
pub fn set_degraded_writes<'a>(
    host: impl Into<Host<'a>>,
    options: &AssembleOptions,
    allowed: bool,
) -> Result<ArrayReport, ChangeError> {
    let host = host.into();
    let options = options.to_recover();
    let change = Change::DegradedWrites(allowed);
    let report = host.change(&options, &change)?.close()?;
    let looked = host.look(&options)?.report;
    if looked.degraded_writes != allowed {
        let array = report.name;
        return Err(ChangeError::NotRecorded { array });
    }
    Ok(report)
}

/// Gives an array a stage, changes what the stage takes, or takes it away. What is staged is placed
/// first, and an array that was not closed in order is recovered. Errors before the superblocks are
/// written leave the array unchanged.
pub fn set_write_back<'a>(
    host: impl Into<Host<'a>>,
    options: &AssembleOptions,
    wanted: Wanted,
) -> Result<ArrayReport, ChangeError> {
    let host = host.into();
    let options = options.to_recover();
    let change = Change::WriteBack(wanted);
    host.may_change(&options, &change)?;
    host.change(&options, &change)?.close()?;
    let looked = host.look(&options)?.report;
    if looked.write_back != wanted.mode {
        let array = looked.name;
        return Err(ChangeError::NotRecorded { array });
    }
    Ok(looked)
}

/// Error counters of a member, as far as they are known or until they were cleared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClearedErrors {
    /// The array of the member.
    pub array: String,
    /// The member's position there.
    pub member: MemberIndex,
    /// Its device; `None` for an inner array.
    pub device: Option<String>,
    /// The counts.
    pub errors: ErrorCounts,
    /// The array's block size, in bytes.
    pub block_bytes: u32,
}

/// Returns the outermost array of a member, as its superblock names it.
#[must_use]
pub fn array_of_member(device: &str) -> Option<Uuid> {
    let found = glance(device)?;
    let array = found.array()?;
    Some(match array.parent {
        Uuid::NIL => array.uuid,
        parent => parent,
    })
}

/// Resets the error counters of a member's device, and the counters that the arrays around it count
/// at the inner array with the device. Without a device, resets the counters of all members.
/// Returns the counters until then, even those that were 0; those of a device first. The counters
/// stay if the device is no present member.
pub fn clear_errors<'a>(
    host: impl Into<Host<'a>>,
    options: &AssembleOptions,
    device: Option<&str>,
) -> Result<Vec<ClearedErrors>, ChangeError> {
    let host = host.into();
    let options = options.to_recover();
    let report = host.look(&options)?.report;
    let places = places(&report, device);
    if let (Some(device), []) = (device, places.as_slice()) {
        return Err(ChangeError::from(AttachError::NotMember {
            device: device.to_owned(),
            active: report.devices().into_iter().map(str::to_owned).collect(),
        }));
    }
    let counted = |place: &&(Uuid, ClearedErrors)| !place.1.errors.is_empty();
    let mut to_clear = BTreeMap::<Uuid, MemberSet>::new();
    for (array, place) in places.iter().filter(counted) {
        let members = to_clear.entry(*array).or_default();
        *members = members.with(place.member);
    }
    if !to_clear.is_empty() {
        let change = Change::ClearErrors(to_clear);
        host.change(&options, &change)?.close()?;
        let left = self::places(&host.look(&options)?.report, device);
        // Reads during the opening may have counted again.
        let mut cleared = places.iter().filter(counted);
        if cleared.any(|place| left.contains(place)) {
            let array = report.name;
            return Err(ChangeError::NotRecorded { array });
        }
    }
    Ok(places.into_iter().map(|(_, place)| place).collect())
}

/// Returns the errors that the arrays on these devices count at members which are arrays. None if
/// the devices do not assemble.
#[must_use]
pub fn errors_of_inner(devices: &[String]) -> Vec<ClearedErrors> {
    let report = report_of(devices);
    let places = report.map_or(Vec::new(), |report| places(&report, None));
    let places = places.into_iter().map(|(_, place)| place);
    places
        .filter(|place| place.device.is_none() && !place.errors.is_empty())
        .collect()
}

/// Returns the member with a device and the inner arrays around it, the innermost first, each with
/// its array and its counters. Returns all members for `None`.
fn places(report: &ArrayReport, device: Option<&str>) -> Vec<(Uuid, ClearedErrors)> {
    let is_it = |name: &str| {
        device.is_none_or(|device| name == device || identity::share_bytes(name, device))
    };
    let mut places = Vec::new();
    for (place, member) in (0..).map(MemberIndex).zip(&report.members) {
        let (name, errors) = match member {
            MemberReport::Device { name, errors, .. } if is_it(name) => {
                (Some(name.clone()), *errors)
            }
            MemberReport::Array(inner) => {
                let below = self::places(inner, device);
                if below.is_empty() {
                    continue;
                }
                places.extend(below);
                (None, inner.errors)
            }
            MemberReport::Device { .. } | MemberReport::Missing { .. } => continue,
        };
        let cleared = ClearedErrors {
            array: report.name.clone(),
            member: place,
            device: name,
            errors,
            block_bytes: report.block_bytes,
        };
        places.push((report.uuid, cleared));
    }
    places
}
