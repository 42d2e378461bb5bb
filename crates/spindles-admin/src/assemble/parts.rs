//! The parts of an array during assembly.

use crate::errors::AssembleError;
use crate::report::ArrayReport;
use spindles_array::NodeId;
use spindles_format::{ArrayRecord, Assembly, Found, Reason, Uuid};

/// A possible member: a device, or an inner array.
pub(super) struct Candidate {
    pub(super) node: NodeId,
    pub(super) found: Found,
    /// Set for an array.
    pub(super) report: Option<ArrayReport>,
    /// For an array: its description if the outer array continues without it.
    pub(super) outdated: Option<Lost>,
    /// Its devices.
    pub(super) leaves: Vec<String>,
    /// Why it must not be written without permission. Ignored if the outer array leaves it out.
    pub(super) asks: Option<AssembleError>,
}

impl Candidate {
    /// Returns the arrays in it, including itself.
    pub(super) fn arrays(&self) -> Vec<Uuid> {
        let report = self.report.iter();
        report.flat_map(ArrayReport::uuids).collect()
    }

    pub(super) fn parent(&self) -> Option<Uuid> {
        let parent = self.found.array()?.parent;
        (parent != Uuid::NIL).then_some(parent)
    }

    pub(super) fn array(&self) -> Option<Uuid> {
        self.found.array().map(|array| array.uuid)
    }
}

/// Returns an inner array that contains no other given array.
pub(super) fn innermost(parts: &[Candidate]) -> Option<Uuid> {
    let inner = || parts.iter().filter(|part| part.parent().is_some());
    let holds_others = |part: &&Candidate| parts.iter().any(|other| other.parent() == part.array());
    inner()
        .find(|part| !holds_others(part))
        .or_else(|| inner().next())?
        .array()
}

/// How an inner array that is no current member relates to its outer array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The inner array lacks too many members, or was never filled. It holds no usable data.
    Spoilt,
    /// It catches up when the outer array is used.
    Returning,
    /// The outer array continued without it.
    Outdated,
}

/// An inner array that can't take part in its outer array.
pub(crate) struct Lost {
    pub(crate) record: ArrayRecord,
    /// By position: the device, if it was given, or the name of the inner array.
    pub(crate) members: Vec<Option<String>>,
    /// Devices of the inner array that were given.
    pub(crate) leaves: Vec<String>,
    pub(crate) standing: Standing,
    /// The reason.
    pub(super) why: String,
    /// Its report, if it was not opened.
    pub(super) report: Option<ArrayReport>,
}

impl Lost {
    pub(super) fn new(assembly: &Assembly, parts: &[Candidate], why: String) -> Self {
        let members = assembly.devices.iter();
        let name = |index: &Option<usize>| index.map(|index| parts[index].found.name.clone());
        Self::of(&assembly.array, members.map(name).collect(), parts, why)
    }

    fn of(
        record: &ArrayRecord,
        members: Vec<Option<String>>,
        parts: &[Candidate],
        why: String,
    ) -> Self {
        Self {
            record: record.clone(),
            members,
            leaves: leaves(parts),
            standing: Standing::Spoilt,
            why,
            report: None,
        }
    }

    /// Describes an array without usable devices. `None` if no superblock of it can be read.
    pub(super) fn refused(parts: &[Candidate], why: String) -> Option<Self> {
        let records = parts.iter().filter_map(|part| part.found.array());
        let record = records.max_by_key(|array| array.generation)?;
        let members = vec![None; record.members().len()];
        Some(Self::of(record, members, parts, why))
    }

    /// Sets its standing from the reason for which the outer array refuses it.
    pub(super) fn stands(mut self, part: &Candidate, reason: &Reason) -> Self {
        let record = part.found.record();
        let never_full = record.is_ok_and(|(array, device)| array.was_never_full(device.member));
        self.standing = match reason {
            Reason::Returning {
                held_out: false, ..
            } => Standing::Returning,
            _ if never_full => Standing::Spoilt,
            _ => Standing::Outdated,
        };
        self
    }

    /// Explains why it takes no part in the outer array, which consists of `parts`.
    pub(super) fn why(&self, parts: &[Candidate]) -> String {
        let name = self.record.name.as_str();
        let mut reports = parts.iter().filter_map(|part| part.report.as_ref());
        if reports.any(|report| report.name == name) {
            return format!(
                "{}: outdated: array '{name}' was created again without it; leave it out, or \
                 give it to something else with --force",
                self.leaves.join(", ")
            );
        }
        self.why.clone()
    }
}

pub(super) fn leaves(parts: &[Candidate]) -> Vec<String> {
    let each = parts.iter().flat_map(|part| part.leaves.iter().cloned());
    each.collect()
}
