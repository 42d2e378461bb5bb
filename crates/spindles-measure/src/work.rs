//! Differences in the work of two measurements, apart from the change under test.

use crate::{Experiment, Record, Run, System, Workload};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A fact about the work that differs before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// The system or workload it is about.
    pub of: String,
    /// The fact that differs: `in flight`.
    pub what: String,
    /// Value before.
    pub before: String,
    /// Value after.
    pub after: String,
}

impl Difference {
    /// The difference as a sentence.
    pub fn words(&self) -> String {
        self.words_of(["before", "after"])
    }

    /// Formats the difference with other names of the two sides.
    pub fn words_of(&self, [first, second]: [&str; 2]) -> String {
        let Self {
            of,
            what,
            before,
            after,
        } = self;
        format!("{of}: {what} {before} {first}, {after} {second}")
    }
}

/// Lists the facts that are known on both sides and differ. Unknown facts are `""`.
fn differences(
    of: &str,
    before: &[(String, String)],
    after: &[(String, String)],
) -> Vec<Difference> {
    let mut names: Vec<&String> = before.iter().chain(after).map(|(name, _)| name).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let value = |facts: &[(String, String)], name: &String| {
        let found = facts.iter().find(|(known, _)| known == name);
        found.map_or(String::new(), |(_, value)| value.clone())
    };
    let sides = names
        .into_iter()
        .map(|name| (name, value(before, name), value(after, name)));
    sides
        .filter(|(_, before, after)| before != after && !before.is_empty() && !after.is_empty())
        .map(|(what, before, after)| Difference {
            of: of.to_owned(),
            what: what.clone(),
            before,
            after,
        })
        .collect()
}

fn named(facts: &[(&str, String)]) -> Vec<(String, String)> {
    let facts = facts.iter();
    facts
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect()
}

fn count(count: u64) -> String {
    if count == 0 {
        String::new()
    } else {
        count.to_string()
    }
}

/// Formats a size in the largest unit that divides it, so that different sizes never look the same.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = |power: &&(u32, &str)| bytes.is_multiple_of(1 << power.0);
    match units.iter().find(whole) {
        _ if bytes == 0 => String::new(),
        Some((power, unit)) => format!("{} {unit}", bytes >> power),
        None => format!("{bytes} bytes"),
    }
}

/// Formats a time in the same way.
fn seconds(nanoseconds: u64) -> String {
    match nanoseconds {
        0 => String::new(),
        whole if whole.is_multiple_of(1_000_000_000) => format!("{} s", whole / 1_000_000_000),
        other => format!("{other} ns"),
    }
}

/// Compares two workloads of one name.
pub(crate) fn of_workloads(before: &Workload, after: &Workload) -> Vec<Difference> {
    let chosen: BTreeSet<&String> = (before.parameters.keys())
        .chain(after.parameters.keys())
        .collect();
    let facts = |workload: &Workload| {
        let mut facts = named(&[
            ("kind", workload.kind.clone()),
            ("size", size(workload.size_bytes)),
            ("size of an operation", size(workload.operation_bytes)),
            ("operations", count(workload.operations)),
            ("in flight", count(workload.in_flight_max.into())),
            ("duration", seconds(workload.duration_ns)),
            (
                "arrivals a second",
                match workload.arrivals_per_s {
                    0 => "none: a closed loop".to_owned(),
                    rate => rate.to_string(),
                },
            ),
            (
                "beside",
                (workload.beside.as_ref())
                    .map_or("nothing".to_owned(), |beside| beside.job.clone()),
            ),
        ]);
        for name in &chosen {
            let value = workload.parameters.get(*name);
            facts.push(((*name).clone(), value.cloned().unwrap_or_default()));
        }
        facts
    };
    differences(&before.name, &facts(before), &facts(after))
}

/// Value of an option that was not set.
const DEFAULT: &str = "the default";

/// Compares two systems of one name.
pub(crate) fn of_systems(before: &System, after: &System) -> Vec<Difference> {
    let options = before.options.keys().chain(after.options.keys());
    let options: BTreeSet<&String> = options
        .filter(|option| *option != System::MOUNTED)
        .collect();
    let facts = |system: &System| {
        let mut facts = named(&[
            ("target", system.expression.clone()),
            ("level", system.level.clone()),
            ("members", count(system.members.into())),
            ("members missing", system.missing.to_string()),
            ("chunk", size(system.chunk_bytes)),
        ]);
        for option in &options {
            let value = system.options.get(*option);
            let value = value.map_or(DEFAULT, String::as_str);
            facts.push(((*option).clone(), value.to_owned()));
        }
        facts
    };
    let mut found = differences(&before.name, &facts(before), &facts(after));
    // The target implies these as well.
    if found.iter().any(|difference| difference.what == "target") {
        found.retain(|difference| !matches!(&*difference.what, "level" | "members"));
    }
    found
}

/// Compares two experiments in their name, baseline and control. Systems and workloads are compared
/// separately.
fn of_experiments(before: &Experiment, after: &Experiment) -> Vec<Difference> {
    let facts = |experiment: &Experiment| {
        let control = experiment.control.as_deref().unwrap_or("none");
        named(&[
            ("name", experiment.name.clone()),
            ("baseline", experiment.baseline.clone()),
            ("baseline once more", control.to_owned()),
        ])
    };
    differences("experiment", &facts(before), &facts(after))
}

/// Records that use one name for different things.
pub(crate) struct Mixture {
    /// Indices of the first record with the name, and of the one that differs.
    pub(crate) records: (usize, usize),
    /// The differences.
    pub(crate) differences: Vec<Difference>,
}

/// Finds the first record that does not belong to the experiment of those before it. Ignores
/// trials, which change the work on purpose.
pub(crate) fn mixture(records: &[Record]) -> Option<Mixture> {
    let mut experiment: Option<(usize, &Experiment)> = None;
    let mut systems: BTreeMap<&str, (usize, &System)> = BTreeMap::new();
    let mut workloads: BTreeMap<&str, (usize, &Workload)> = BTreeMap::new();
    for (at, record) in records.iter().enumerate() {
        let mut found: Vec<(usize, Difference)> = Vec::new();
        let mut note = |first: usize, differences: Vec<Difference>| {
            found.extend(
                differences
                    .into_iter()
                    .map(|difference| (first, difference)),
            );
        };
        let (its_systems, its_workloads) = match record {
            Record::Experiment(this) => {
                let (first, known) = *experiment.get_or_insert((at, this));
                note(first, of_experiments(known, this));
                (&this.systems[..], &this.workloads[..])
            }
            Record::Run(run) if run.trial.is_none() => (
                std::slice::from_ref(&run.system),
                std::slice::from_ref(&run.workload),
            ),
            _ => continue,
        };
        for system in its_systems {
            let (first, known) = *systems.entry(&system.name).or_insert((at, system));
            note(first, of_systems(known, system));
        }
        for workload in its_workloads {
            let (first, known) = *workloads.entry(&workload.name).or_insert((at, workload));
            note(first, of_workloads(known, workload));
        }
        // Ignore two workloads of the same name within one record.
        found.retain(|(first, _)| *first != at);
        if let Some(&(first, _)) = found.first() {
            found.retain(|(of, _)| *of == first);
            return Some(Mixture {
                records: (first, at),
                differences: found
                    .into_iter()
                    .map(|(_, difference)| difference)
                    .collect(),
            });
        }
    }
    None
}

/// Compares the access path to the members of a system.
pub(crate) fn of_io(system: &str, before: &[Run], after: &[Run]) -> Vec<Difference> {
    let facts = |runs: &[Run]| {
        let runs = runs.iter().filter(|run| run.system.name == system);
        let io: BTreeSet<String> = runs
            .filter(|run| !run.io.backend.is_empty())
            .map(|run| {
                let direct = if run.io.direct {
                    ""
                } else {
                    " and the page cache"
                };
                format!("{}{direct}", run.io.backend)
            })
            .collect();
        let io: Vec<String> = io.into_iter().collect();
        named(&[("members through", io.join(" or "))])
    };
    differences(system, &facts(before), &facts(after))
}
