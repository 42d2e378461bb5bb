//! Gives an array that nobody uses another name. Arrays inside it are named after it.

use crate::assemble::{
    ArrayReport, AssembleOptions, Change, MemberReport, NewName, assemble_to_change,
};
use crate::attach::ChangeError;
use crate::{create, journal};
use spindles_block::MemberIndex;

/// Gives the array of these devices this name. `progress` gets how far an array that was not closed
/// in order is put in order. The array as it was found.
///
/// # Errors
///
/// The array has its old name.
pub fn rename(
    devices: &[&str],
    to: &str,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<ArrayReport, ChangeError> {
    create::check_name(to)?;
    let report = journal::look(devices)?;
    if let Some((array, member)) = not_given(&report) {
        return Err(ChangeError::NotAllGiven { array, member });
    }
    journal::put_in_order(devices, &report, false, progress)?;
    let change = Change::Name(NewName {
        from: report.name.clone(),
        to: to.to_owned(),
    });
    let options = AssembleOptions {
        keep_spares: true,
        ..AssembleOptions::default()
    };
    assemble_to_change(devices, &options, &change)?
        .target
        .close()?;
    if journal::look(devices)?.name != to {
        let array = report.name.clone();
        return Err(ChangeError::NotRecorded { array });
    }
    Ok(report)
}

/// A member that the array counts on, and that was not given: using the array would put it out.
fn not_given(report: &ArrayReport) -> Option<(String, MemberIndex)> {
    (0..)
        .zip(&report.members)
        .find_map(|(index, member)| match member {
            MemberReport::Missing { out_since: None } => {
                Some((report.name.clone(), MemberIndex(index)))
            }
            MemberReport::Array(inner) => not_given(inner),
            MemberReport::Device { .. } | MemberReport::Missing { .. } => None,
        })
}
