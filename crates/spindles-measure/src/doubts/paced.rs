//! Reports members that answer at the pace of a model, and those that fell behind it.

use super::{Kind, Rank};
use crate::Analysis;
use std::collections::BTreeMap;

/// The begin of the names of paced members.
const PREFIX: &str = "paced:";

/// Members with a larger share of late operations are behind their pace, in per cent.
const LATE_PERCENT: u64 = 1;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "paced",
    rank: Rank::Note,
    title: "Members answered at the pace of modelled disks",
    remedy: "The members are real, and answer no sooner than the model of another disk. The \
        figures are worth as much as that model.",
    find: |analysis| {
        let members = members(analysis).into_keys();
        members.map(|name| format!("{name} is paced")).collect()
    },
};

/// Entry in the table of doubts.
pub(super) static BEHIND: Kind = Kind {
    name: "behind-pace",
    rank: Rank::Unsure,
    title: "Paced members fell behind",
    remedy: "A real device took longer for an operation than the modelled disk allows, so the \
        figures are not those of the model. Use faster devices, such as files in memory, or stop \
        what else uses them.",
    find: |analysis| {
        let members = members(analysis).into_iter();
        let behind = members.filter(|(_, (done, late))| late * 100 > done * LATE_PERCENT);
        let sentence = |(name, (done, late)): (&str, (u64, u64))| {
            format!("{late} of {done} operations on {name} came too late")
        };
        behind.map(sentence).collect()
    },
};

/// Returns the operations of each paced member, and how many of them came too late.
fn members(analysis: &Analysis) -> BTreeMap<&str, (u64, u64)> {
    let mut members = BTreeMap::new();
    let evidence = (analysis.runs.iter()).filter_map(|run| run.evidence.as_ref());
    for member in evidence.flat_map(|evidence| &evidence.members) {
        if member.name.starts_with(PREFIX) {
            let requests = member.requests;
            let sums: &mut (u64, u64) = members.entry(member.name.as_str()).or_default();
            sums.0 += requests.read + requests.written + requests.flushed;
            sums.1 += member.late;
        }
    }
    members
}
