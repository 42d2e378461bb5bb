//! Changes of an array that are applied during assembly.

use crate::errors::AssembleError;
use crate::write_back::{CantStage, Wanted, WriteBack, check, ring_bytes};
use spindles_block::MemberSet;
use spindles_engine::{
    Extent, GrowthTarget, Persistence, PlanError, Policy, largest, plan_abort, plan_growth,
    plan_size,
};
use spindles_format::{ArrayRecord, Assembly, DeviceRecord, ErrorCounts, Text, Uuid};
use spindles_layout::Geometry;
use std::collections::BTreeMap;

/// A change to apply during assembly.
#[derive(Clone, Debug)]
pub enum Change {
    /// Begin to grow.
    Grow(GrowthTarget),
    /// Change the size on the present members to this many bytes; `None` for all their room.
    Size(Option<u64>),
    /// Revert to the shape before the growth.
    Abort,
    /// Put the journal on this device, or on the members if it is zeros.
    Journal(Uuid),
    /// Set whether the array, and arrays inside it, may be written while missing members may be
    /// newer.
    DegradedWrites(bool),
    /// Give it a stage, change the stage, or take it away. The stage is empty.
    WriteBack(Wanted),
    /// Reset the error counters of these members, in this array or those inside it.
    ClearErrors(BTreeMap<Uuid, MemberSet>),
    /// Rename the array and the arrays inside it; maps each to its new name.
    Names(BTreeMap<Uuid, Text<64>>),
}

/// The changes of one array.
#[derive(Default)]
pub(super) struct Changes {
    /// The new journal device.
    pub(super) journal: Option<Uuid>,
    /// The new name.
    pub(super) name: Option<Text<64>>,
    /// Whether writes are allowed while missing members may hold newer data.
    pub(super) degraded_writes: Option<bool>,
    /// The length of its stage on each member, 0 for none, and the writes that it takes.
    pub(super) stage: Option<(u32, WriteBack)>,
    /// The members whose error counters are reset.
    pub(super) clears_errors: MemberSet,
    /// True if its growth is reverted.
    pub(super) aborts: bool,
    /// The extent of the array before its size was raised.
    pub(super) extends: Option<Extent>,
}

impl Changes {
    /// Applies the changes to the state that the array is opened with.
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
        // The log refers to groups of the growing array.
        if self.aborts && !read_only && !clean {
            return Err(AssembleError::Changed);
        }
        if let Some(stage) = self.stage.filter(|_| !read_only) {
            set_stage(array, stage)?;
            persistence.changed = true;
        }
        persistence.changed |= self.aborts
            || self.journal.is_some()
            || self.name.is_some()
            || self.degraded_writes.is_some()
            || !self.clears_errors.is_empty()
            || self.extends.is_some();
        persistence.extends = self.extends;
        array.degraded_writes = self.degraded_writes.unwrap_or(array.degraded_writes);
        if let Some(name) = self.name {
            array.name = name;
        }
        for cleared in self.clears_errors.iter() {
            let device = persistence.devices.get_mut(usize::from(cleared.0));
            if let Some(Some(device)) = device {
                device.errors = ErrorCounts::NONE;
            }
        }
        if let Some(device) = self.journal {
            // The array is clean, so its log is not needed.
            array.journal.device = device;
            array.journal.tail = 0;
            array.journal.on_device = false;
            array.note_journal_device();
            persistence.journal_device = None;
        }
        Ok(())
    }
}

/// Gives an array the stage of this length on each member, or takes it away.
fn set_stage(array: &mut ArrayRecord, stage: (u32, WriteBack)) -> Result<(), AssembleError> {
    let (bytes, mode) = stage;
    if bytes != array.shared.stage_bytes {
        if array.staged {
            let array = array.name.to_string();
            return Err(AssembleError::StaysStaged { array });
        }
        array.set_stage(bytes);
    }
    array.write_back_auto = mode == WriteBack::Auto;
    Ok(())
}

/// Returns the length of the stage that an array is to have on each member.
pub(super) fn stage_bytes(
    assembly: &Assembly,
    geometry: &Geometry,
    policy: &Policy,
    of_arrays: bool,
    wanted: &Wanted,
) -> Result<u32, CantStage> {
    let array = &assembly.array;
    if array.growth.older.is_some() {
        return Err(CantStage::Growing);
    }
    if wanted.mode == WriteBack::Off {
        return Ok(0);
    }
    check(geometry.level(), policy, of_arrays)?;
    if array.has_stage() && wanted.memory_bytes.is_none() {
        return Ok(array.shared.stage_bytes);
    }
    let devices: Vec<DeviceRecord> = assembly.records.iter().flatten().copied().collect();
    ring_bytes(&array.shared, &devices, wanted.memory_bytes)
}

/// Returns the devices of an array that may grow.
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

/// Returns the assembly with the record that begins a growth. Unchanged if read-only.
pub(super) fn plan(
    assembly: &Assembly,
    target: &GrowthTarget,
    of_arrays: bool,
    read_only: bool,
) -> Result<Assembly, PlanError> {
    let array = plan_growth(&assembly.array, &devices(assembly, of_arrays)?, target)?;
    planned(assembly, array, read_only)
}

/// Like `plan`, with the record of the enlarged array. Also returns the extent of the enlargement.
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

/// Returns the largest size in blocks on the present members; `None` if it can't be enlarged now.
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

/// Returns the assembly with the record from before its growth. `None` if it is not growing, or if
/// a part of it has moved.
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
