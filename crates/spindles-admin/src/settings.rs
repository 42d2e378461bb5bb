//! Settings in the superblocks of an array that can be changed later.

use crate::assemble::{ArrayReport, AssembleOptions, Change, MemberReport};
use crate::errors::ChangeError;
use crate::host::Host;
use spindles_array::errors::AttachError;
use spindles_block::MemberIndex;
use spindles_device::identity;
use spindles_device::probe::Probe;
use spindles_format::{ErrorCounts, Uuid};

/// Allows or forbids writes without `--degraded` while missing members may hold newer data. Applies
/// to the array and all arrays inside it. Recovers an array that was not closed in order.
///
/// # Errors
///
/// Errors before the superblocks are written leave the array unchanged.
pub fn set_degraded_writes<'a>(
    host: impl Into<Host<'a>>,
    options: &AssembleOptions,
    allowed: bool,
) -> Result<ArrayReport, ChangeError> {
    let host = host.into();
    let options = AssembleOptions {
        only_recovers: true,
        keep_spares: true,
        ..options.clone()
    };
    let change = Change::DegradedWrites(allowed);
    let report = host.change(&options, &change)?.close()?;
    let looked = host.look(&options)?.report;
    if looked.degraded_writes != allowed {
        let array = report.name;
        return Err(ChangeError::NotRecorded { array });
    }
    Ok(report)
}

/// Error counters that were cleared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClearedErrors {
    /// The array of the device.
    pub array: String,
    /// The device's position there.
    pub member: MemberIndex,
    /// The counts until then.
    pub errors: ErrorCounts,
    /// The array's block size, in bytes.
    pub block_bytes: u32,
}

/// Returns the outermost array of a member, as its superblock names it.
#[must_use]
pub fn array_of_member(device: &str) -> Option<Uuid> {
    let found = Probe::glance(device)?.found();
    let (array, _) = found.record().ok()?;
    Some(match array.parent {
        Uuid::NIL => array.uuid,
        parent => parent,
    })
}

/// Resets the error counters of a member's device.
///
/// # Errors
///
/// If the device is no present member. The counters stay.
pub fn clear_errors<'a>(
    host: impl Into<Host<'a>>,
    options: &AssembleOptions,
    device: &str,
) -> Result<ClearedErrors, ChangeError> {
    let host = host.into();
    let options = AssembleOptions {
        only_recovers: true,
        keep_spares: true,
        ..options.clone()
    };
    let report = host.look(&options)?.report;
    let not_member = || AttachError::NotMember {
        device: device.to_owned(),
        active: report.devices().into_iter().map(str::to_owned).collect(),
    };
    let (array, member, errors) = place_of(&report, device).ok_or_else(not_member)?;
    let change = Change::ClearErrors(array.uuid, member);
    host.change(&options, &change)?.close()?;
    let name = array.name.clone();
    let looked = host.look(&options)?.report;
    // Reads during the opening may have counted again.
    let left = place_of(&looked, device).map(|(_, _, left)| left);
    if errors.is_empty() || left.is_some_and(|left| left != errors) {
        return Ok(ClearedErrors {
            array: name,
            member,
            errors,
            block_bytes: array.block_bytes,
        });
    }
    Err(ChangeError::NotRecorded { array: name })
}

/// Finds a device among the present members.
fn place_of<'a>(
    report: &'a ArrayReport,
    device: &str,
) -> Option<(&'a ArrayReport, MemberIndex, ErrorCounts)> {
    report.arrays().into_iter().find_map(|array| {
        let members = (0..).map(MemberIndex).zip(&array.members);
        members.into_iter().find_map(|(member, it)| match it {
            MemberReport::Device { name, errors, .. }
                if name == device || identity::share_bytes(name, device) =>
            {
                Some((array, member, *errors))
            }
            _ => None,
        })
    })
}
