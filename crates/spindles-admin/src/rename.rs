//! Renames an array. The arrays inside it are named after it.

use crate::assemble::{ArrayReport, AssembleOptions, Change, MemberReport};
use crate::attach::ChangeError;
use crate::create::CreateError;
use crate::host::Host;
use crate::{create, journal};
use spindles_block::MemberIndex;
use spindles_device::notice;
use spindles_format::{Text, Uuid};
use std::collections::BTreeMap;

/// Gives the array on these devices a new name. The caller checks that no other array has it.
/// `progress` gets the progress of the resync of an array that was not closed in order. Returns the
/// array as found; does nothing if it already has the name. After an error the array keeps its old
/// name.
pub fn rename<'a>(
    host: impl Into<Host<'a>>,
    to: &str,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<ArrayReport, ChangeError> {
    create::check_name(to)?;
    let host = host.into();
    let report = journal::look(host)?;
    let mut names = BTreeMap::new();
    name(&report, to, &mut names)?;
    let is_named = |array: &&ArrayReport| {
        let name = names.get(&array.uuid);
        name.is_some_and(|name| name.as_str() == array.name)
    };
    if report.arrays().iter().all(is_named) {
        return Ok(report);
    }
    if let Some((array, member)) = not_given(&report) {
        return Err(ChangeError::NotAllGiven { array, member });
    }
    journal::put_in_order(host, &report, false, progress)?;
    let change = Change::Names(names.clone());
    let options = AssembleOptions {
        keep_spares: true,
        ..AssembleOptions::default()
    };
    host.change(&options, &change)?.target.close()?;
    let found = journal::look(host)?;
    if !found.arrays().iter().all(is_named) {
        let array = report.name.clone();
        return Err(ChangeError::NotRecorded { array });
    }
    if let Host::Served(_) = host {
        notice::rename(report.uuid, to);
    }
    Ok(report)
}

/// Collects the new names of an array and those inside it. Inner names follow from the places, as
/// at creation, so the leftovers of a killed rename make no difference.
fn name(
    array: &ArrayReport,
    to: &str,
    names: &mut BTreeMap<Uuid, Text<64>>,
) -> Result<(), CreateError> {
    let new = Text::new(to).ok_or_else(|| CreateError::Name {
        name: to.to_owned(),
    })?;
    names.insert(array.uuid, new);
    for (index, member) in array.members.iter().enumerate() {
        if let MemberReport::Array(inner) = member {
            name(inner, &format!("{to}.{index}"), names)?;
        }
    }
    Ok(())
}

/// Returns a member that the array counts on but that was not given: using the array would take it
/// out.
fn not_given(report: &ArrayReport) -> Option<(String, MemberIndex)> {
    let mut arrays = report.arrays().into_iter();
    arrays.find_map(|array| {
        let member = array.selected(MemberReport::is_awaited).iter().next()?;
        Some((array.name.clone(), member))
    })
}
