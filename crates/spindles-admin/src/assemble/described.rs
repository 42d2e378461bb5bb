//! Describes an array from the superblocks of its devices.

use super::change::{Change, Changes, back, plan, plan_larger, room, stage_bytes};
use super::opening::Opening;
use super::parts::Candidate;
use crate::errors::AssembleError;
use crate::report::{ArrayReport, GivenUp, Growing, JournalReport, MemberReport, bare_report};
use crate::write_back::{WriteBack, memory_bytes};
use spindles_array::NodeId;
use spindles_array::positions::positions;
use spindles_block::{MemberIndex, MemberSet, SizeBytes};
use spindles_engine::{Policy, WriteHole, geometry_of};
use spindles_format::{
    ArrayRecord, Assembly, ChecksumKind, ErrorCounts, Found, JournalDevice, MemberState, Reason,
    Refusal, Uuid, choose,
};
use spindles_layout::{Geometry, Level, Redundancy};

/// An array as its superblocks describe it.
pub(super) struct Described {
    /// The record in the superblocks.
    pub(super) found: Box<ArrayRecord>,
    /// The members; its `array` is the record with all changes applied.
    pub(super) assembly: Assembly,
    pub(super) geometry: Geometry,
    pub(super) policy: &'static Policy,
    /// The journal device.
    pub(super) journal: Option<(String, JournalDevice, NodeId)>,
    pub(super) changes: Changes,
    pub(super) report: ArrayReport,
}

impl Described {
    /// Returns the error that it can't be opened without these members.
    pub(super) fn incomplete(&self, missing: MemberSet) -> AssembleError {
        AssembleError::Incomplete {
            array: self.report.name.clone(),
            survives: survives(&self.assembly.array),
            missing: positions(missing),
            members: self.assembly.devices.len(),
            refused: self.report.refused.clone(),
        }
    }

    /// Returns why a write without the missing members needs permission; `None` if it discards no
    /// data.
    pub(super) fn asks(&self, forced: bool) -> Option<AssembleError> {
        let GivenUp { newer, last_writes } = self.report.given_up;
        let array = self.report.name.clone();
        let members = self.assembly.devices.len();
        let refused = self.report.refused.clone();
        if !newer.is_empty() {
            return Some(AssembleError::MayBeNewer {
                array,
                missing: positions(newer),
                members,
                last_written_s: self.assembly.array.last_written_s,
                holds_last_writes: !last_writes.is_empty(),
                forced,
                refused,
            });
        }
        (!last_writes.is_empty()).then(|| AssembleError::HoldsLastWrites {
            array,
            missing: positions(last_writes),
            members,
            forced,
            refused,
        })
    }

    /// Returns the error that it was not closed in order and lacks members, so that the writes in
    /// flight can't be recovered.
    pub(super) fn unclean(&self, missing: MemberSet, asks: bool) -> AssembleError {
        AssembleError::UncleanDegraded {
            array: self.report.name.clone(),
            missing: positions(missing),
            members: self.assembly.devices.len(),
            lacks_journal: self.assembly.array.journal.on_device && self.journal.is_none(),
            asks,
            refused: self.report.refused.clone(),
        }
    }
}

impl Opening<'_> {
    /// Describes the array of these parts from its superblocks.
    pub(super) fn describe(&mut self, parts: &[Candidate]) -> Result<Described, AssembleError> {
        let found: Vec<Found> = parts.iter().map(|part| part.found.clone()).collect();
        let assembly = choose(&found)?;
        let found = Box::new(assembly.array.clone());
        // A left-over array takes no part in it.
        let members = assembly.devices.iter().flatten();
        let of_arrays = members.clone().any(|index| parts[*index].report.is_some());
        let (assembly, changes) = self.with_change(assembly, of_arrays)?;
        let array = &assembly.array;
        let (geometry, policy) = understand(&assembly)?;
        let mut refused: Vec<String> = assembly.refused.iter().map(Refusal::to_string).collect();
        if array.parent == Uuid::NIL {
            refused.extend(self.lost.iter().map(|lost| lost.why(parts)));
        }
        let journal = self.take_journal(array);
        refused.extend(self.refuse_journals(array));
        let mut report = report(&assembly, &geometry, policy);
        report.given_up = self.given_up(&assembly, &geometry, policy, journal.is_some());
        let block_bytes = u64::from(array.block_size.bytes());
        report.room_bytes = room(&assembly, of_arrays)
            .map(|blocks| blocks * block_bytes)
            .filter(|room| *room > report.bytes);
        report.for_writing = !self.read_only && !assembly.read_only;
        report.degraded_writes = changes.degraded_writes.unwrap_or(array.degraded_writes);
        report.journal = match &journal {
            Some((name, ..)) => JournalReport::Device(name.clone()),
            None if array.journal.device == Uuid::NIL => JournalReport::Members,
            None => JournalReport::DeviceMissing,
        };
        let members = (0_u8..).zip(&assembly.devices).map(|(member, index)| {
            let part = index.map(|index| &parts[index]);
            let lagging = assembly.lagging.contains(MemberIndex(member));
            member_report(part, lagging, &assembly, member)
        });
        report.members = members.collect();
        report.refused = refused;
        let is_replaced = |refusal: &&Refusal| matches!(refusal.reason, Reason::Replaced);
        let replaced = assembly.refused.iter().filter(is_replaced);
        report.replaced = replaced.map(Refusal::to_string).collect();
        report.damaged = (parts.iter())
            .filter_map(|part| Some((part.found.name.clone(), part.found.damage()?)))
            .collect();
        Ok(Described {
            found,
            assembly,
            geometry,
            policy,
            journal,
            changes,
            report,
        })
    }

    /// Returns the data that a write without the missing members would discard.
    fn given_up(
        &self,
        assembly: &Assembly,
        geometry: &Geometry,
        policy: &Policy,
        has_device: bool,
    ) -> GivenUp {
        let newer = if self.none_is_newer {
            MemberSet::EMPTY
        } else {
            may_be_newer(assembly, geometry)
        };
        GivenUp {
            newer,
            last_writes: hold_last_writes(assembly, geometry, policy, has_device),
        }
    }

    /// Applies the change to an array. An inner array can change only its name, its permission for
    /// degraded writes, and its error counters.
    fn with_change(
        &mut self,
        mut assembly: Assembly,
        of_arrays: bool,
    ) -> Result<(Assembly, Changes), AssembleError> {
        let is_inner = assembly.array.parent != Uuid::NIL;
        let mut changes = Changes::default();
        match &self.change {
            Some(Change::Names(names)) => changes.name = names.get(&assembly.array.uuid).copied(),
            Some(Change::DegradedWrites(allowed)) => changes.degraded_writes = Some(*allowed),
            Some(Change::ClearErrors(members)) => {
                let members = members.get(&assembly.array.uuid).copied();
                changes.clears_errors = members.unwrap_or_default();
            }
            Some(
                Change::Grow(_)
                | Change::Size(_)
                | Change::Abort
                | Change::Journal(_)
                | Change::WriteBack(_),
            )
            | None => {}
        }
        let array = assembly.array.name.to_string();
        let cant = |reason| AssembleError::CantGrow {
            array: array.clone(),
            reason,
        };
        match self.change.take_if(|_| !is_inner) {
            None | Some(Change::Names(_) | Change::DegradedWrites(_) | Change::ClearErrors(..)) => {
            }
            Some(Change::Journal(device)) => changes.journal = Some(device),
            Some(Change::WriteBack(wanted)) => {
                let (geometry, policy) = understand(&assembly)?;
                let bytes = stage_bytes(&assembly, &geometry, policy, of_arrays, &wanted);
                let bytes = bytes.map_err(|reason| AssembleError::CantStage { array, reason });
                changes.stage = Some((bytes?, wanted.mode));
            }
            Some(Change::Abort) => {
                assembly = back(&assembly).ok_or(AssembleError::TooLate { array })?;
                changes.aborts = true;
            }
            Some(Change::Grow(target)) => {
                assembly = plan(&assembly, &target, of_arrays, self.read_only).map_err(cant)?;
            }
            Some(Change::Size(bytes)) => {
                (assembly, changes.extends) =
                    plan_larger(&assembly, bytes, of_arrays, self.read_only).map_err(cant)?;
            }
        }
        Ok((assembly, changes))
    }

    /// Takes the array's journal device, if it was given and has its full length.
    fn take_journal(&mut self, array: &ArrayRecord) -> Option<(String, JournalDevice, NodeId)> {
        let at = self.journals.iter().position(|(_, device, node)| {
            let bytes = self.stack.blocks(*node) * u64::from(array.block_size.bytes());
            device.array == array.uuid
                && device.device_uuid == array.journal.device
                && !device.is_outdated(array)
                && device.device_bytes <= bytes + u64::from(array.block_size.bytes())
        })?;
        Some(self.journals.remove(at))
    }

    /// Explains why the other given journal devices of this array are not current.
    fn refuse_journals(&mut self, array: &ArrayRecord) -> Vec<String> {
        let of_it = |(_, device, _): &mut (_, JournalDevice, _)| device.array == array.uuid;
        let refused = self.journals.extract_if(.., of_it);
        let why = |(name, device, node): (String, JournalDevice, NodeId)| {
            let block_bytes = u64::from(array.block_size.bytes());
            let (has, had) = (self.stack.blocks(node) * block_bytes, device.device_bytes);
            let place = if array.journal.device == Uuid::NIL {
                "its members"
            } else {
                "another device"
            };
            if device.device_uuid != array.journal.device {
                format!(
                    "{name}: outdated: the array had its journal there, and has it on {place} now; \
                     leave it out, or give it to something else with --force"
                )
            } else if had > has + block_bytes {
                format!(
                    "{name}: truncated: it has {} and had {had} when it got the journal; make it \
                     {had} again, or give the array another device for its journal",
                    SizeBytes(has),
                    had = SizeBytes(had)
                )
            } else {
                format!(
                    "{name}: outdated: an old copy of the device with the journal, or it went back \
                     in time; it does not record the interrupted writes"
                )
            }
        };
        refused.map(why).collect()
    }
}

/// Builds the report from the superblocks alone.
fn report(assembly: &Assembly, geometry: &Geometry, policy: &Policy) -> ArrayReport {
    let array = &assembly.array;
    let block_bytes = u64::from(array.block_size.bytes());
    // A growing array keeps its earlier size.
    let bytes = geometry.older().unwrap_or(geometry).blocks() * block_bytes;
    let not_filled = (0_u8..)
        .zip(array.members())
        .filter(|(_, member)| matches!(member.state, MemberState::Rebuilding { .. }));
    let not_filled: MemberSet = not_filled.map(|(member, _)| MemberIndex(member)).collect();
    ArrayReport {
        uuid: array.uuid,
        consistency: policy.name,
        checksum: array.checksum.name(),
        bytes,
        generation: array.generation,
        last_written_s: array.last_written_s,
        write_back: WriteBack::of(array),
        stage_bytes: memory_bytes(array),
        staged: array.staged,
        last_scrub_s: array.last_scrub_s,
        scrub_left_bytes: array.scrub_left_blocks.saturating_mul(block_bytes),
        scrub_stopped_bytes: array.scrub_mark.0.saturating_mul(block_bytes),
        clean: array.clean,
        survives_more: geometry
            .survives_more(assembly.missing.union(not_filled))
            .unwrap_or(0),
        read_only: assembly.read_only,
        away: assembly.away(),
        degraded_writes: array.degraded_writes,
        growing: array.growth.older.as_ref().map(|older| Growing {
            level: older.level.as_str().to_owned(),
            members: usize::from(older.members),
            chunk_bytes: u64::from(older.chunk_blocks) * block_bytes,
            moved_bytes: (older.mark.0 * block_bytes).min(bytes),
        }),
        returning: refused_members(assembly, knows),
        held_out: refused_members(assembly, |refusal| {
            matches!(refusal.reason, Reason::Returning { held_out: true, .. })
        }),
        stale: refused_members(assembly, |refusal| {
            matches!(refusal.reason, Reason::Stale { .. }) && !is_outrun(refusal)
        }),
        outrun: refused_members(assembly, is_outrun),
        truncated: truncated_members(assembly),
        ..bare_report(
            &array.name.to_string(),
            geometry,
            array.block_size,
            assembly.missing,
        )
    }
}

/// Returns the members whose device was refused for that reason, with the name of the device.
fn refused_members(
    assembly: &Assembly,
    is_reason: impl Fn(&Refusal) -> bool,
) -> Vec<(MemberIndex, String)> {
    let refused = assembly.refused.iter().filter(|refusal| is_reason(refusal));
    refused
        .filter_map(|refusal| Some((refusal.member?, refusal.name.clone())))
        .collect()
}

/// Returns the members whose device is shorter than it was, with its name and its earlier size.
fn truncated_members(assembly: &Assembly) -> Vec<(MemberIndex, String, SizeBytes)> {
    let truncated = assembly.refused.iter().filter_map(|refusal| {
        let Reason::Truncated { expected_bytes, .. } = refusal.reason else {
            return None;
        };
        let bytes = SizeBytes(expected_bytes);
        Some((refusal.member?, refusal.name.clone(), bytes))
    });
    truncated.collect()
}

/// Returns true if the array knows which blocks that device missed, and writes them without a
/// command.
pub(super) fn knows(refusal: &Refusal) -> bool {
    matches!(refusal.reason, Reason::Returning { held_out, .. } if !held_out)
}

/// Returns true if that device holds all that its member had when it went out, but the array no
/// longer knows what it missed since.
fn is_outrun(refusal: &Refusal) -> bool {
    match refusal.reason {
        // It may have missed the update before the one that put it out.
        Reason::Stale {
            generation,
            out_since: Some(since),
            ..
        } => generation + 2 >= since,
        _ => false,
    }
}

fn member_report(
    part: Option<&Candidate>,
    lagging: bool,
    assembly: &Assembly,
    member: u8,
) -> MemberReport {
    let state = assembly.array.member[usize::from(member)].state;
    let filled_bytes = match state {
        MemberState::Rebuilding { mark, .. } => {
            Some(mark.0 * u64::from(assembly.array.block_size.bytes()))
        }
        MemberState::Active | MemberState::Missing { .. } => None,
    };
    match part {
        None => match state {
            MemberState::Active | MemberState::Rebuilding { .. } => MemberReport::UNSEEN,
            MemberState::Missing {
                out_since,
                held_out,
            } => MemberReport::Missing {
                out_since: Some(out_since),
                held_out,
            },
        },
        Some(Candidate {
            report: Some(report),
            found,
            ..
        }) => MemberReport::Array(Box::new(ArrayReport {
            filled_bytes,
            errors: errors_of(found),
            ..report.clone()
        })),
        Some(Candidate { found, .. }) => MemberReport::Device {
            name: found.name.clone(),
            lagging,
            filled_bytes,
            errors: errors_of(found),
        },
    }
}

/// Returns the errors that the superblock of a member counts.
fn errors_of(found: &Found) -> ErrorCounts {
    let record = found.record();
    record.map_or(ErrorCounts::NONE, |(_, device)| device.errors)
}

/// Returns active members that were not given, if they hold all data of the array by themselves.
/// Another machine may have written newer data to these members.
pub(super) fn may_be_newer(assembly: &Assembly, geometry: &Geometry) -> MemberSet {
    let unheard_of = assembly.unheard_of();
    let others = MemberSet::all(geometry.members()).difference(unheard_of);
    if geometry.survives(others) {
        unheard_of
    } else {
        MemberSet::EMPTY
    }
}

/// Returns missing members that alone may prove the last writes. They were present when the array
/// was not closed in order; whole rows are not logged while all members are present. `has_device`
/// says whether the journal device is present.
fn hold_last_writes(
    assembly: &Assembly,
    geometry: &Geometry,
    policy: &Policy,
    has_device: bool,
) -> MemberSet {
    let array = &assembly.array;
    let has_parity = matches!(geometry.level().redundancy, Redundancy::Parity(_));
    // Without the log, opening it takes `--force` anyway.
    let has_log = array.journal.tail > 0 && (has_device || !array.journal.on_device);
    // Without checksums whole rows are logged too.
    let whole_unlogged = array.checksum != ChecksumKind::None;
    let closes = policy.write_hole == WriteHole::Closed;
    if !array.clean && has_parity && closes && has_log && whole_unlogged {
        assembly.away()
    } else {
        MemberSet::EMPTY
    }
}

/// Names the level or shape that tolerates fewer losses than the array has, for a message.
fn survives(array: &ArrayRecord) -> String {
    let Some(older) = &array.growth.older else {
        return format!("{} survives", array.level);
    };
    let may_be_missing = |level: &str, members: u8| match Level::by_name(level)?.redundancy {
        Redundancy::Parity(parity) => Some(parity),
        Redundancy::CopyOnEveryMember => members.checked_sub(1),
        Redundancy::None | Redundancy::Copies => None,
    };
    let before = may_be_missing(older.level.as_str(), older.members);
    let after = may_be_missing(array.level.as_str(), array.members);
    let most = before.zip(after).map(|(before, after)| before.min(after));
    let most = most.map(|most| match most {
        1 => ": only one may be missing".to_owned(),
        most => format!(": only {most} may be missing"),
    });
    format!(
        "it survives while it grows from {} on {} members{}",
        older.level,
        older.members,
        most.unwrap_or_default()
    )
}

/// Looks up the names in the record.
pub(super) fn understand(
    assembly: &Assembly,
) -> Result<(Geometry, &'static Policy), AssembleError> {
    let array = &assembly.array;
    let unknown = |what: String| AssembleError::Unknown {
        array: array.name.to_string(),
        what,
    };
    let geometry = geometry_of(array).map_err(|error| unknown(error.to_string()))?;
    let name = array.consistency.as_str();
    let policy = Policy::by_name(name);
    let policy = policy.ok_or_else(|| unknown(format!("there is no consistency policy '{name}'")));
    Ok((geometry, policy?))
}
