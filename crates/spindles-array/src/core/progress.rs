//! Reports on arrays: the progress of their jobs, and the counters and errors of their devices.

use super::carry::{Array, ArrayIndex, Carry, Node};
use super::tree::{in_use, in_use_from_the_top, leaves};
use crate::device_io::DeviceIndex;
use crate::incidents::is_out_of_space;
use crate::positions::positions;
use crate::progress::{RebuildProgress, ScrubProgress};
use crate::{ArraySnapshot, DeviceSnapshot, Incident, Lacks, LostBytes, MemberSnapshot};
use spindles_block::{MemberError, MemberSet};
use spindles_device::Counters;
use spindles_engine::{ArrayState, JournalStatus, Member, OutReason, Status};
use spindles_format::Uuid;

/// Returns how many bytes of all arrays are in sync, and how many there are.
pub(crate) fn in_sync_bytes(carry: &Carry) -> (u64, u64) {
    in_use(carry).fold((0, 0), |(in_sync, total), (_, array)| {
        let geometry = array.engine().geometry();
        let bytes = geometry.blocks() * u64::from(array.engine().block_size().bytes());
        // Less than all, until the resync has ended.
        let here = match array.engine().status().job("resync") {
            None if array.engine().is_settled() => bytes,
            // The resync has not begun yet.
            None => 0,
            Some(resync) => resync.done_bytes.min(bytes - 1),
        };
        (in_sync + here, total + bytes)
    })
}

/// Returns the progress of rebuilds and replacements; `None` if there are none.
pub(crate) fn rebuild(carry: &Carry) -> Option<RebuildProgress> {
    let mut all: Option<RebuildProgress> = None;
    for (_, array) in in_use(carry) {
        let engine = array.engine();
        let job = match (engine.is_rebuilding(), engine.replacing()) {
            (true, _) => "rebuild",
            (false, Some(_)) => "replace",
            (false, None) => continue,
        };
        let total = engine.geometry().blocks() * u64::from(engine.block_size().bytes());
        let done = engine.status().job(job).map_or(0, |job| job.done_bytes);
        let all = all.get_or_insert(RebuildProgress {
            done_bytes: 0,
            total_bytes: 0,
        });
        all.done_bytes += done;
        all.total_bytes += total;
    }
    all
}

/// Returns the progress of the scrubs of all arrays, and the findings. Arrays of which a scrub
/// inspects only the metadata count no bytes.
pub(crate) fn scrub(carry: &Carry) -> ScrubProgress {
    let mut all = ScrubProgress::default();
    for (_, array) in in_use(carry) {
        let geometry = array.engine().geometry();
        let blocks = if array.engine().compares() {
            geometry.blocks()
        } else {
            0
        };
        let bytes = blocks * u64::from(array.engine().block_size().bytes());
        let status = array.engine().status();
        all.total_bytes += bytes;
        all.done_bytes += bytes;
        if let Some(job) = status.job("scrub") {
            all.going |= job.going;
            all.failed += job.failed;
            all.done_bytes -= bytes.saturating_sub(job.done_bytes);
        }
        all.found.repaired_blocks += status.scrub.repaired_blocks;
        all.found.metadata_repaired_blocks += status.scrub.metadata_repaired_blocks;
        all.found.metadata_left_blocks += status.scrub.metadata_left_blocks;
        all.found.left_before_blocks += status.scrub.left_before_blocks;
        all.found.left_blocks += status.scrub.left_blocks;
        all.found.disagreements += status.scrub.disagreements;
        all.found.made_to_agree += status.scrub.made_to_agree;
        // With several arrays, it is enough to know if any scrub was interrupted.
        all.found.mark = all.found.mark.max(status.scrub.mark);
    }
    all
}

/// Returns the counters of all devices under a node, from left to right.
pub(crate) fn counters(carry: &Carry, node: Node) -> Counters {
    let devices = leaves(carry, node);
    Counters {
        devices: devices
            .into_iter()
            .map(|device| carry.members().counters(device))
            .collect(),
    }
}

/// Returns the state of an array, including its inner arrays. A failed inner array counts as
/// missing, although the engine still reads from it until a write to it fails.
pub(crate) fn status(carry: &Carry, index: ArrayIndex) -> Status {
    let array = carry.array(index);
    let mut status = array.engine().status();
    for (member, node) in status.members.iter_mut().zip(array.members()) {
        if let (Member::Active, Some(Node::Array(inside))) = (member.state, node)
            && self::status(carry, *inside).stopped_writing
        {
            member.state = Member::Missing { reason: None };
        }
    }
    let lost = status
        .members
        .iter()
        .filter(|member| member.state != Member::Active);
    let lost: MemberSet = lost.map(|lost| lost.member).collect();
    let geometry = array.engine().geometry();
    status.state = match ArrayState::of(geometry, lost) {
        ArrayState::Healthy if is_degraded(carry, index, &status, false) => ArrayState::Degraded,
        state => state,
    };
    status.survives_more = geometry.survives_more(lost).unwrap_or(0);
    status.stopped_writing |= status.state == ArrayState::Failed;
    status
}

/// Returns true if an array with this status, or an array inside it, is degraded.
fn is_degraded(carry: &Carry, index: ArrayIndex, own: &Status, is_redundant_above: bool) -> bool {
    let array = carry.array(index);
    let lacks = Lacks {
        members: own
            .members
            .iter()
            .any(|member| member.state != Member::Active),
        journal: own.journal == JournalStatus::DeviceOut,
        left: own.left_blocks,
        lost: own.lost_blocks,
        is_redundant: array.engine().geometry().redundancy() > 0,
    };
    let mut inside = array.members().iter().filter_map(|node| match node {
        Some(Node::Array(inside)) => Some(*inside),
        Some(Node::Device(_)) | None => None,
    });
    let is_redundant = lacks.is_redundant || is_redundant_above;
    lacks.is_degraded(is_redundant_above)
        || inside.any(|inner| is_degraded(carry, inner, &status(carry, inner), is_redundant))
}

/// Returns the current state of all arrays in use, each before its inner arrays. `lacking`: the
/// devices without space for writes.
pub(super) fn snapshot(carry: &Carry, lacking: &[DeviceIndex]) -> Vec<ArraySnapshot> {
    let of_array = |index| {
        let array = carry.array(index);
        let engine = array.engine();
        let block_bytes = engine.block_size().bytes();
        let status = status(carry, index);
        let lacks_space = |device: &DeviceIndex| {
            // A lack of space may have ended all writing: no write checks the space again.
            let is_last = status.stopped_writing && carry.members().had_no_space(*device);
            is_last || lacking.contains(device)
        };
        let of_device = |device: DeviceIndex| DeviceSnapshot {
            name: carry.members().facts(device).name.clone(),
            counters: carry.members().counters(device),
            left_bytes: Some(device)
                .filter(lacks_space)
                .and_then(|device| carry.members().holes(device)?.left_bytes()),
        };
        let members = array.members().iter().map(|node| match node {
            Some(Node::Device(device)) if carry.members().is_gone(*device) => None,
            Some(Node::Device(device)) => {
                Some(MemberSnapshot::Device(Box::new(of_device(*device))))
            }
            Some(Node::Array(_)) => Some(MemberSnapshot::Array),
            None => None,
        });
        ArraySnapshot {
            name: array.name().to_owned(),
            uuid: engine.record().map_or(Uuid::NIL, |record| record.uuid),
            bytes: engine.geometry().blocks() * u64::from(block_bytes),
            block_bytes,
            last_scrub_s: engine.record().map_or(0, |record| record.last_scrub_s),
            members: members.collect(),
            replacing: engine.membership().beside,
            journal: array.journal().map(of_device),
            status,
        }
    };
    let arrays = in_use_from_the_top(carry).into_iter();
    arrays.map(of_array).collect()
}

/// Returns what went wrong on the devices of all arrays since they were opened.
pub(crate) fn incidents(carry: &Carry) -> Vec<Incident> {
    let device = |device| carry.members().facts(device).name.clone();
    let had_no_space = |device: &DeviceIndex| carry.members().had_no_space(*device);
    let of_array = |(_, array): (_, &Array)| {
        let block_bytes = array.engine().block_size().bytes();
        let members = array.engine().status().members.into_iter();
        let went_wrong = members.flat_map(|mut status| {
            let node = array.members().get(usize::from(status.member.0)).copied();
            let node = node.flatten();
            let lies_on = node.map_or(Vec::new(), |node| leaves(carry, node));
            let had_no_space = lies_on.iter().any(had_no_space);
            let device = match node {
                Some(Node::Device(index)) => Some(device(index)),
                Some(Node::Array(_)) | None => None,
            };
            let gone = Member::Missing {
                reason: Some(OutReason::Error(MemberError::Gone)),
            };
            if had_no_space && device.is_none() && status.state == gone {
                // An inner array has no other way to report this.
                status.state = Member::Missing {
                    reason: Some(OutReason::Error(MemberError::NoSpace)),
                };
            }
            let stays = had_no_space && !is_out_of_space(&status);
            let no_space = device
                .clone()
                .filter(|_| stays)
                .map(|device| Incident::NoSpace {
                    array: array.name().to_owned(),
                    device,
                    in_memory: carry.members().is_overlay_full(),
                });
            let of_member = Incident::of_member(array.name(), device, status, block_bytes);
            of_member.into_iter().chain(no_space)
        });
        let mut incidents: Vec<_> = went_wrong.collect();
        let journal = array.journal().filter(|_| array.journal_is_out());
        incidents.extend(journal.map(|journal| Incident::JournalDevice {
            array: array.name().to_owned(),
            device: device(journal),
        }));
        incidents
    };
    carry.arrays().flat_map(of_array).collect()
}

/// Describes the members that the arrays lack, for users; `None` if none are missing.
pub(crate) fn lacks(carry: &Carry) -> Option<String> {
    let of_array = |(_, array): (_, &Array)| {
        let members = array.engine().status().members.into_iter();
        let missing = members.filter(|member| matches!(member.state, Member::Missing { .. }));
        let missing: MemberSet = missing.map(|missing| missing.member).collect();
        let name = array.name();
        (!missing.is_empty()).then(|| format!("{} of array '{name}'", positions(missing)))
    };
    let lacks: Vec<String> = in_use(carry).filter_map(of_array).collect();
    (!lacks.is_empty()).then(|| lacks.join(" and "))
}

/// Returns the lost bytes of all arrays.
pub(crate) fn lost(carry: &Carry) -> Vec<LostBytes> {
    let of_array = |(_, array): (_, &Array)| {
        let block_bytes = u64::from(array.engine().block_size().bytes());
        let name = array.name().to_owned();
        let runs = array.engine().lost_runs().into_iter();
        runs.map(move |run| LostBytes {
            array: name.clone(),
            bytes: run.start.0 * block_bytes..run.end.0 * block_bytes,
        })
    };
    carry.arrays().flat_map(of_array).collect()
}
