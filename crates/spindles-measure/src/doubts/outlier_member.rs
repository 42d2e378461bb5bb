//! Reports a member that is far slower than its peers, alone or in the runs, or that fails.

use std::collections::BTreeMap;

use super::{Kind, Rank, by_workload};
use crate::histogram::to_f64;
use crate::statistics::median;
use crate::verdicts::Facts;
use crate::{Analysis, Calibration, Cell, MemberRate};

/// Factor below the median of its peers from which a member's rate is out of line.
const FAR: f64 = 3.0;

/// Smallest share of the actors' time that a straggler must cost to be reported.
const SHARE_MIN: f64 = 0.05;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "outlier-member",
    rank: Rank::Untrue,
    title: "One member is out of line",
    remedy: "A member is at least 3 times slower than its peers, or fails. These figures measure \
        that device more than the array: it slows down every level, and redundancy hides it in \
        some workloads only. Check its health, its path and what else uses it. Mend or replace it, \
        and measure again.",
    find: |analysis| {
        let mut details = slow(analysis, false);
        details.extend(by_workload(analysis, |cell| failed(analysis, cell)));
        details
    },
};

/// Entry for files and partitions that share a disk with other members.
pub(super) static ON_A_SHARED_DISK: Kind = Kind {
    name: "outlier-on-shared-disk",
    rank: Rank::Untrue,
    title: "One member on a shared disk is out of line",
    remedy: "A member is at least 3 times slower than its peers, but it is a file or partition on \
        a shared disk. These figures measure the shared disk at that moment. Check what else uses \
        the disk and measure again, or give every member a disk of its own.",
    find: |analysis| slow(analysis, true),
};

/// Reports slow members: those that share a disk with other members, or those that don't.
fn slow(analysis: &Analysis, shared: bool) -> Vec<String> {
    let mut details = Vec::new();
    let late = analysis
        .cells
        .iter()
        .filter_map(|cell| late(analysis, cell));
    for (member, detail) in alone(analysis).into_iter().chain(late) {
        if shares_disk(analysis, &member) == shared && !details.contains(&detail) {
            details.push(detail);
        }
    }
    details
}

/// Returns true if the member lies on one disk with another member. False if it failed alone, which
/// no other load explains.
fn shares_disk(analysis: &Analysis, member: &str) -> bool {
    let calibrated = analysis.calibration.iter();
    let mut members = calibrated.flat_map(|calibration| &calibration.members);
    let own = members.clone().find(|other| other.name == member);
    if own.is_some_and(|own| own.failed.is_some()) {
        return false;
    }
    analysis.experiment.shared_device
        || own.is_some_and(|own| {
            let is_beside =
                |other: &MemberRate| other.name != own.name && other.device == own.device;
            !own.device.is_empty() && members.any(is_beside)
        })
}

/// Reports members that were far slower than their peers when measured alone, with their names.
fn alone(analysis: &Analysis) -> Vec<(String, String)> {
    let Some(calibration) = &analysis.calibration else {
        return Vec::new();
    };
    let groups = groups(analysis, calibration);
    let far = groups
        .iter()
        .flat_map(|group| group.far_from_peers(calibration));
    far.collect()
}

/// Members of one array, by name, and the device of its journal.
struct Group<'a> {
    members: Vec<&'a str>,
    journal: Option<&'a str>,
}

/// Returns one group for each array whose driver counted its members, or one group of all measured
/// members.
fn groups<'a>(analysis: &'a Analysis, calibration: &'a Calibration) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for run in &analysis.runs {
        let journal = run.system.journal();
        let members = run.evidence.iter().flat_map(|evidence| &evidence.members);
        let names = members.map(|member| &*member.name);
        let members: Vec<&str> = names.filter(|name| journal != Some(name)).collect();
        let is_known = |group: &Group<'_>| {
            group.journal == journal && members.iter().all(|member| group.members.contains(member))
        };
        if members.len() > 1 && !groups.iter().any(is_known) {
            groups.push(Group { members, journal });
        }
    }
    if groups.is_empty() {
        groups.push(Group {
            members: calibration
                .members
                .iter()
                .map(|member| &*member.name)
                .collect(),
            journal: None,
        });
    }
    groups
}

impl Group<'_> {
    fn far_from_peers(&self, calibration: &Calibration) -> Vec<(String, String)> {
        let members = self.members.iter();
        let rates: Vec<&MemberRate> = members
            .filter_map(|member| calibration.member(member))
            .collect();
        let mut details = Vec::new();
        for name in &self.members {
            let Some(own) = calibration.member(name) else {
                continue;
            };
            let others = rates.iter().copied().filter(|rate| rate.name != own.name);
            let others: Vec<&MemberRate> = others.collect();
            let far_below = RATES.iter().filter_map(|rate| rate.far_below(own, &others));
            let said: Vec<String> = far_below.chain(own.failed.clone()).collect();
            if !said.is_empty() {
                let detail = format!("{name} alone: {}", said.join("; "));
                details.push(((*name).to_owned(), detail));
            }
        }
        let journal = self.journal.and_then(|journal| calibration.member(journal));
        if let Some(said) = journal.and_then(|own| WRITES.far_below(own, &rates)) {
            let name = self.journal.unwrap_or_default();
            let detail = format!("{name}, a journal device, alone: {said}");
            details.push((name.to_owned(), detail));
        }
        details
    }
}

/// A rate measured for each member.
struct RateOf {
    of: fn(&MemberRate) -> u64,
    /// Unit in words, and its size in the rate's own unit.
    unit: &'static str,
    one: f64,
}

static WRITES: RateOf = RateOf {
    of: |rate| rate.write_bytes_per_s,
    unit: "MB/s written in order",
    one: 1e6,
};

static RATES: [&RateOf; 3] = [
    &RateOf {
        of: |rate| rate.random_reads_per_s,
        unit: "random reads a second",
        one: 1.0,
    },
    &RateOf {
        of: |rate| rate.read_bytes_per_s,
        unit: "MB/s read in order",
        one: 1e6,
    },
    &WRITES,
];

impl RateOf {
    /// Compares a member with its peers. `None` unless its rate is far below their median.
    fn far_below(&self, own: &MemberRate, others: &[&MemberRate]) -> Option<String> {
        let own = to_f64((self.of)(own));
        let mut others: Vec<f64> = others
            .iter()
            .map(|other| to_f64((self.of)(other)))
            .collect();
        others.retain(|&rate| rate > 0.0);
        others.sort_by(f64::total_cmp);
        let ends = [*others.first()?, *others.last()?];
        // A rate of 0 was not measured; `failed` says why.
        (own > 0.0 && own * FAR < median(&others)).then(|| {
            let [least, most] = ends.map(|rate| self.figure(rate));
            let others = if least == most {
                format!("the others {most}")
            } else {
                format!("the others {least} to {most}")
            };
            format!("{} {} ({others})", self.figure(own), self.unit)
        })
    }

    fn figure(&self, rate: f64) -> String {
        match rate / self.one {
            few if few < 10.0 && self.one > 1.0 => format!("{few:.1}"),
            many => format!("{many:.0}"),
        }
    }
}

/// Reports a member that the actors of a cell waited for, with its name.
fn late(analysis: &Analysis, cell: &Cell) -> Option<(String, String)> {
    let facts = Facts::of(analysis, cell)?;
    let straggler = facts
        .straggler()
        .filter(|straggler| straggler.share >= SHARE_MIN)?;
    let name = straggler.member.name.clone();
    let detail = format!(
        "{name} in {} of {} ({})",
        cell.workload,
        cell.system,
        straggler.words()
    );
    Some((name, detail))
}

/// Reports members that failed requests in the runs of a cell.
fn failed(analysis: &Analysis, cell: &Cell) -> Option<String> {
    let mut errors: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for run in analysis.runs_of(cell) {
        for member in run.evidence.iter().flat_map(|evidence| &evidence.members) {
            let requests = &member.requests;
            let (failed, all) = errors.entry(&member.name).or_default();
            *failed = failed.saturating_add(member.errors);
            for count in [requests.read, requests.written, requests.flushed] {
                *all = all.saturating_add(count);
            }
        }
    }
    let failing = errors.iter().filter(|(_, (failed, _))| *failed > 0);
    let said: Vec<String> = failing
        .map(|(name, (failed, all))| format!("{failed} of {all} requests of {name} failed"))
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}
