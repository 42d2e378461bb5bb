//! What an array becomes while it is assembled.

use crate::errors::AssembleError;
use spindles_block::{MemberIndex, MemberSet};
use spindles_engine::{
    Extent, GrowthTarget, Persistence, PlanError, largest, plan_abort, plan_growth, plan_size,
};
use spindles_format::{ArrayRecord, Assembly, DeviceRecord, ErrorCounts, Text, Uuid};
use std::collections::BTreeMap;

/// What an array is to become that is assembled.
#[derive(Clone, Debug)]
pub enum Change {
    /// It begins to grow.
    Grow(GrowthTarget),
    /// It has so many bytes on the members that it has, or as many as they have room for.
    Size(Option<u64>),
    /// It is again what it was before it began to grow.
    Abort,
    /// Its journal lies on this device, or on its members where that is zeros.
    Journal(Uuid),
    /// Whether it, and arrays inside it, may be written while members are away that may be newer.
    DegradedWrites(bool),
    /// The error counters of a member's device are 0, in this array or one inside it.
    ClearErrors(Uuid, MemberIndex),
    /// It is called otherwise, and so are the arrays inside it: what each of them is called then.
    Names(BTreeMap<Uuid, Text<64>>),
}

/// What changes about one of the arrays.
#[derive(Default)]
pub(super) struct Changes {
    /// The device of its journal.
    pub(super) journal: Option<Uuid>,
    /// What it is called.
    pub(super) name: Option<Text<64>>,
    /// Whether it may be written without members that may have gone on alone.
    pub(super) degraded_writes: Option<bool>,
    /// Whose device's error counters become 0.
    pub(super) clears_errors: Option<MemberIndex>,
    /// Its growth is taken back.
    pub(super) aborts: bool,
    /// What it was before it got larger.
    pub(super) extends: Option<Extent>,
}

impl Changes {
    /// Puts them into what the array is opened with.
    pub(super) fn apply(
        self,
        persistence: &mut Persistence,
        read_only: bool,
    ) -> Result<(), AssembleError> {
        let array = &mut persistence.array;
        let (clean, grows) = (array.clean, array.growth.older.is_some());
        if self.journal.is_some() && (!clean || grows) {
            return Err(AssembleError::Changed);
        }
        // What is logged speaks of groups as the growing array counts them.
        if self.aborts && !read_only && !clean {
            return Err(AssembleError::Changed);
        }
        persistence.changed |= self.aborts
            || self.journal.is_some()
            || self.name.is_some()
            || self.degraded_writes.is_some()
            || self.clears_errors.is_some()
            || self.extends.is_some();
        persistence.extends = self.extends;
        array.degraded_writes = self.degraded_writes.unwrap_or(array.degraded_writes);
        if let Some(name) = self.name {
            array.name = name;
        }
        let cleared = self.clears_errors.map(|it| usize::from(it.0));
        if let Some(Some(device)) = cleared.and_then(|at| persistence.devices.get_mut(at)) {
            device.errors = ErrorCounts::NONE;
        }
        if let Some(device) = self.journal {
            // Nothing that is logged counts: the array is clean.
            array.journal.device = device;
            array.journal.tail = 0;
            array.journal.on_device = false;
            array.note_journal_device();
            persistence.journal_device = None;
        }
        Ok(())
    }
}

/// The devices of an array that may grow.
fn devices(assembly: &Assembly, of_arrays: bool) -> Result<Vec<DeviceRecord>, PlanError> {
    if of_arrays {
        return Err(PlanError::Inner);
    }
    let devices: Vec<DeviceRecord> = assembly.records.iter().flatten().copied().collect();
    if devices.len() < assembly.records.len() {
        return Err(PlanError::Degraded);
    }
    Ok(devices)
}

/// The assembly with the record that a growth begins with. Unchanged for reading only.
pub(super) fn plan(
    assembly: &Assembly,
    target: &GrowthTarget,
    of_arrays: bool,
    read_only: bool,
) -> Result<Assembly, PlanError> {
    let array = plan_growth(&assembly.array, &devices(assembly, of_arrays)?, target)?;
    planned(assembly, array, read_only)
}

/// As `plan`, with the record of the larger array; and what it extends.
pub(super) fn plan_larger(
    assembly: &Assembly,
    bytes: Option<u64>,
    of_arrays: bool,
    read_only: bool,
) -> Result<(Assembly, Option<Extent>), PlanError> {
    let block_bytes = u64::from(assembly.array.block_size.bytes());
    let blocks = bytes.map(|bytes| bytes.div_ceil(block_bytes));
    let (array, extent) = plan_size(&assembly.array, &devices(assembly, of_arrays)?, blocks)?;
    let planned = planned(assembly, array, read_only)?;
    Ok((planned, (!read_only).then_some(extent)))
}

/// How many blocks an array may have on the members that it has, where it may get larger now.
pub(super) fn room(assembly: &Assembly, of_arrays: bool) -> Option<u64> {
    let devices = devices(assembly, of_arrays).ok()?;
    largest(&assembly.array, &devices).ok()
}

fn planned(
    assembly: &Assembly,
    array: ArrayRecord,
    read_only: bool,
) -> Result<Assembly, PlanError> {
    let mut planned = assembly.clone();
    if read_only {
        return Ok(planned);
    }
    if !assembly.array.clean {
        return Err(PlanError::Unclean);
    }
    planned.missing = planned.missing.union(array.missing());
    planned.records.resize(usize::from(array.members), None);
    planned.devices.resize(usize::from(array.members), None);
    planned.array = array;
    Ok(planned)
}

/// The assembly with the record from before its growth. `None` where it does not grow, or where a part
/// of it has moved.
pub(super) fn back(assembly: &Assembly) -> Option<Assembly> {
    let mut back = assembly.clone();
    back.array = plan_abort(&assembly.array)?;
    let count = usize::from(back.array.members);
    let added = |set: MemberSet| set.difference(MemberSet::all(back.array.members));
    back.missing = assembly.missing.difference(added(assembly.missing));
    back.lagging = assembly.lagging.difference(added(assembly.lagging));
    back.records.truncate(count);
    back.devices.truncate(count);
    Some(back)
}
