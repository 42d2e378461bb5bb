//! What an array is made of while it is assembled.

use crate::NodeId;
use crate::errors::AssembleError;
use crate::report::ArrayReport;
use spindles_format::{ArrayRecord, Assembly, Found, Reason, Uuid};

/// Something that may be a member: a device, or an array inside another.
pub(super) struct Part {
    pub(super) node: NodeId,
    pub(super) found: Found,
    /// Of an array.
    pub(super) report: Option<ArrayReport>,
    /// Of an array: what it is if the one around it goes on without it.
    pub(super) outdated: Option<Lost>,
    /// The devices that it is made of.
    pub(super) leaves: Vec<String>,
    /// Why it is not written unasked. It is no reason where the array around it leaves it out.
    pub(super) asks: Option<AssembleError>,
}

impl Part {
    /// The arrays in it, itself included.
    pub(super) fn arrays(&self) -> Vec<Uuid> {
        let report = self.report.iter();
        report.flat_map(ArrayReport::uuids).collect()
    }

    pub(super) fn parent(&self) -> Option<Uuid> {
        let (array, _) = self.found.record().ok()?;
        Some(array.parent).filter(|parent| *parent != Uuid::NIL)
    }

    pub(super) fn array(&self) -> Option<Uuid> {
        self.found.record().ok().map(|(array, _)| array.uuid)
    }
}

/// An array that is a member of another, and of which no other array given is a member.
pub(super) fn innermost(parts: &[Part]) -> Option<Uuid> {
    let inner = || parts.iter().filter(|part| part.parent().is_some());
    let holds_others = |part: &&Part| parts.iter().any(|other| other.parent() == part.array());
    inner()
        .find(|part| !holds_others(part))
        .or_else(|| inner().next())?
        .array()
}

/// What an array inside another is to it that is no member of it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It lacks too much, or never held all that it should: nothing is lost with it.
    Spoilt,
    /// It gets what it missed when the array is used.
    Returning,
    /// The array went on without it.
    Outdated,
}

/// An array inside another that can't take part in it.
pub(crate) struct Lost {
    pub(crate) record: ArrayRecord,
    /// By position: the device, if it was given, or the name of the array inside it.
    pub(crate) members: Vec<Option<String>>,
    /// Its devices that were given.
    pub(crate) leaves: Vec<String>,
    pub(crate) standing: Standing,
    /// Why.
    pub(super) why: String,
    /// What it is, where it was not opened.
    pub(super) report: Option<ArrayReport>,
}

impl Lost {
    pub(super) fn new(assembly: &Assembly, parts: &[Part], why: String) -> Self {
        let members = assembly.devices.iter();
        let name = |index: &Option<usize>| index.map(|index| parts[index].found.name.clone());
        Self {
            record: assembly.array.clone(),
            members: members.map(name).collect(),
            leaves: leaves(parts),
            standing: Standing::Spoilt,
            why,
            report: None,
        }
    }

    /// An array none of whose devices can be used. `None` where no superblock of it can be read.
    pub(super) fn refused(parts: &[Part], why: String) -> Option<Self> {
        let records = parts.iter().filter_map(|part| part.found.record().ok());
        let (record, _) = records.max_by_key(|(array, _)| array.generation)?;
        Some(Self {
            record: record.clone(),
            members: vec![None; record.members().len()],
            leaves: leaves(parts),
            standing: Standing::Spoilt,
            why,
            report: None,
        })
    }

    /// What it is to the array around it, which refuses it for that reason.
    pub(super) fn stands(mut self, part: &Part, reason: &Reason) -> Self {
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

    /// Why it has no part in the array around it, which is made of these.
    pub(super) fn why(&self, parts: &[Part]) -> String {
        let name = self.record.name.as_str();
        let mut reports = parts.iter().filter_map(|part| part.report.as_ref());
        if reports.any(|report| report.name == name) {
            return format!(
                "{}: outdated: array '{name}' was made anew without it; leave it out, or give it to \
                 something else with --force",
                self.leaves.join(", ")
            );
        }
        self.why.clone()
    }
}

pub(super) fn leaves(parts: &[Part]) -> Vec<String> {
    let each = parts.iter().flat_map(|part| part.leaves.iter().cloned());
    each.collect()
}
