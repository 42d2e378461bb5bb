//! Sweeps: workloads of one kind that differ only in a number, such as the requests in flight. The
//! number is derived from the workloads, so nothing has to be declared.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Rate, Workload};

/// Fewest values of a number that make a sweep: two are a comparison.
const VALUES_MIN: usize = 3;
/// Fewest values in each direction of a grid, and its fewest cells.
const GRID_SIDE_MIN: usize = 2;
const GRID_CELLS_MIN: usize = 6;

/// Unit of a swept number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweptUnit {
    /// Bytes.
    Bytes,
    /// A number without a unit.
    Count,
}

/// A number in which workloads differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Name of the number: `requests in flight`, `processes`.
    pub name: String,
    /// Unit of the number.
    pub unit: SweptUnit,
}

/// Workloads that differ in one number only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Kind of the workloads, with the phase if it has several: `cp write`.
    pub of: String,
    /// Unit of the rate.
    pub rate: Rate,
    /// The swept number.
    pub fact: Fact,
    /// Other numbers that vary among workloads of the kind, but not among these.
    pub fixed: Vec<(Fact, u64)>,
    /// Value and name of each workload, ascending.
    pub points: Vec<(u64, String)>,
}

/// Workloads that differ in two numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Kind of the workloads, with the phase if it has several.
    pub of: String,
    /// Unit of the rate.
    pub rate: Rate,
    /// The number with more values, shown from left to right.
    pub across: Fact,
    /// The other number, shown from top to bottom.
    pub down: Fact,
    /// Both values and the name of each workload.
    pub points: Vec<(u64, u64, String)>,
}

/// Finds the sweeps over a single number. Of sweeps that differ only in the fixed numbers, keeps
/// the longest.
pub fn sweeps(workloads: &[Workload]) -> Vec<Sweep> {
    families(workloads)
        .iter()
        .flat_map(|family| (0..family.facts.len()).flat_map(|at| family.sweeps_of(at)))
        .collect()
}

/// Finds all pairs of numbers with at least two thirds of the combinations run.
pub fn grids(workloads: &[Workload]) -> Vec<Grid> {
    families(workloads)
        .iter()
        .filter_map(Family::grid)
        .collect()
}

/// Workloads that differ only in numbers, with the numbers that distinguish them.
struct Family<'a> {
    of: String,
    rate: Rate,
    facts: Vec<Fact>,
    /// Values of `facts` for each workload.
    members: Vec<(Vec<u64>, &'a Workload)>,
}

impl Family<'_> {
    fn sweeps_of(&self, at: usize) -> Vec<Sweep> {
        let mut lines: BTreeMap<Vec<u64>, BTreeMap<u64, String>> = BTreeMap::new();
        for (values, workload) in &self.members {
            let mut fixed = values.clone();
            let value = fixed.remove(at);
            let line = lines.entry(fixed).or_default();
            line.insert(value, workload.name.clone());
        }
        let longest = lines.values().map(BTreeMap::len).max().unwrap_or(0);
        let others = self
            .facts
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at);
        let others: Vec<&Fact> = others.map(|(_, fact)| fact).collect();
        let kept = lines
            .into_iter()
            .filter(|(_, line)| line.len() == longest && longest >= VALUES_MIN);
        kept.map(|(fixed, line)| Sweep {
            of: self.of.clone(),
            rate: self.rate,
            fact: self.facts[at].clone(),
            fixed: others.iter().copied().cloned().zip(fixed).collect(),
            points: line.into_iter().collect(),
        })
        .collect()
    }

    fn grid(&self) -> Option<Grid> {
        let [first, second] = &self.facts[..] else {
            return None;
        };
        let count = |at: usize| {
            let values = self.members.iter().map(|(values, _)| values[at]);
            values.collect::<BTreeSet<u64>>().len()
        };
        let (firsts, seconds) = (count(0), count(1));
        let cells = self.members.len();
        let is_grid = firsts.min(seconds) >= GRID_SIDE_MIN
            && cells >= GRID_CELLS_MIN
            && cells * 3 >= firsts * seconds * 2;
        // More columns than rows, because a row is higher than a column is wide.
        let ((across, x), (down, y)) = if firsts > seconds {
            ((first, 0), (second, 1))
        } else {
            ((second, 1), (first, 0))
        };
        is_grid.then(|| Grid {
            of: self.of.clone(),
            rate: self.rate,
            across: across.clone(),
            down: down.clone(),
            points: (self.members.iter())
                .map(|(values, workload)| (values[x], values[y], workload.name.clone()))
                .collect(),
        })
    }
}

fn families(workloads: &[Workload]) -> Vec<Family<'_>> {
    let mut alike: Vec<(String, Vec<&Workload>)> = Vec::new();
    for workload in workloads
        .iter()
        .filter(|workload| !workload.kind.is_empty())
    {
        let key = likeness(workload);
        match alike.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(workload),
            None => alike.push((key, vec![workload])),
        }
    }
    alike
        .iter()
        .filter_map(|(_, workloads)| family(workloads))
        .collect()
}

/// Properties that all workloads of a sweep share.
fn likeness(workload: &Workload) -> String {
    let phase = workload.part.as_ref().map(|part| plain(&part.phase));
    let words: Vec<(&String, &String)> = (workload.parameters.iter())
        .filter(|(_, value)| value.parse::<u64>().is_err())
        .collect();
    let beside = &workload.beside;
    let (kind, duration) = (&workload.kind, workload.duration_ns);
    format!("{kind:?} {phase:?} {duration} {beside:?} {words:?}")
}

/// Removes numbers from the name of a phase: `write 4M 512` becomes `write`.
fn plain(phase: &str) -> String {
    let words = phase.split(' ');
    let words = words.filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// Finds the smallest set of numbers that distinguishes these workloads. If one follows from
/// others, as the size of all files from their number, the one set by name stays. Of workloads that
/// do the same under several names, the first counts.
fn family<'a>(workloads: &[&'a Workload]) -> Option<Family<'a>> {
    let mut places = BTreeSet::new();
    let first_there = |workload: &&&Workload| places.insert(numbers(workload));
    let workloads: Vec<&Workload> = workloads.iter().filter(first_there).copied().collect();
    let facts: Vec<BTreeMap<(u8, String), u64>> =
        workloads.iter().map(|workload| numbers(workload)).collect();
    let names: BTreeSet<&(u8, String)> = facts.iter().flat_map(BTreeMap::keys).collect();
    let value = |at: usize, name: &(u8, String)| facts[at].get(name).copied().unwrap_or(0);
    let all = 0..workloads.len();
    let distinct = |names: &[&(u8, String)]| {
        let tuples = all
            .clone()
            .map(|at| names.iter().map(|name| value(at, name)).collect());
        tuples.collect::<BTreeSet<Vec<u64>>>().len()
    };
    let mut chosen: Vec<&(u8, String)> = names.iter().copied().collect();
    let told_apart = distinct(&chosen);
    for name in names.iter().rev() {
        let rest: Vec<&(u8, String)> = chosen
            .iter()
            .copied()
            .filter(|other| other != name)
            .collect();
        if distinct(&rest) == told_apart {
            chosen = rest;
        }
    }
    let first = workloads.first()?;
    let of = match &first.part {
        Some(part) => format!("{} {}", first.kind, plain(&part.phase)),
        None => first.kind.clone(),
    };
    let members = all.clone().map(|at| {
        let values = chosen.iter().map(|name| value(at, name)).collect();
        (values, workloads[at])
    });
    Some(Family {
        of,
        rate: first.rate,
        facts: chosen.iter().map(|(_, name)| fact(name)).collect(),
        members: members.collect(),
    })
}

const IN_FLIGHT: &str = "requests in flight";
const OPERATION: &str = "operation size";
const SIZE: &str = "size";
const ARRIVALS: &str = "arrivals a second";

/// Numbers of a workload; those set by name come first.
fn numbers(workload: &Workload) -> BTreeMap<(u8, String), u64> {
    let own = [
        (1, OPERATION, workload.operation_bytes),
        (2, IN_FLIGHT, workload.in_flight_max.into()),
        (3, ARRIVALS, workload.arrivals_per_s),
        (4, SIZE, workload.size_bytes),
    ];
    let own = own.map(|(rank, name, value)| ((rank, name.to_owned()), value));
    let chosen = workload
        .parameters
        .iter()
        .filter_map(|(name, value)| Some(((0, name.clone()), value.parse::<u64>().ok()?)));
    own.into_iter().chain(chosen).collect()
}

/// Parameters that are sizes in bytes.
const SIZES: &[&str] = &["chunk", "record", "block", "buffer", "bs", "stdio"];

fn fact(name: &str) -> Fact {
    let is_size = name.ends_with(SIZE) || SIZES.contains(&name);
    Fact {
        name: name.to_owned(),
        unit: if is_size {
            SweptUnit::Bytes
        } else {
            SweptUnit::Count
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Part;

    fn cp(processes: u64, size: u64) -> Workload {
        Workload {
            name: format!("cp {processes} {size} write"),
            kind: "cp".to_owned(),
            part: Some(Part {
                workload: format!("cp {processes} {size}"),
                phase: "write".to_owned(),
            }),
            in_flight_max: u32::try_from(processes).unwrap(),
            size_bytes: processes * size,
            operation_bytes: 65_536,
            parameters: [("processes", processes), ("size", size)]
                .map(|(name, value)| (name.to_owned(), value.to_string()))
                .into(),
            ..Workload::default()
        }
    }

    fn random(in_flight_max: u32, operation_bytes: u64) -> Workload {
        Workload {
            name: format!("random-read {in_flight_max} {operation_bytes}"),
            kind: "random-read".to_owned(),
            in_flight_max,
            operation_bytes,
            size_bytes: 1 << 30,
            ..Workload::default()
        }
    }

    #[test]
    fn a_derived_number_is_not_swept_separately() {
        let workloads: Vec<Workload> = [1, 2, 4].map(|processes| cp(processes, 64)).into();
        let found = sweeps(&workloads);
        let [sweep] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((&*sweep.of, &*sweep.fact.name), ("cp write", "processes"));
        assert_eq!(sweep.fact.unit, SweptUnit::Count);
        let values: Vec<u64> = sweep.points.iter().map(|(value, _)| *value).collect();
        assert_eq!(values, [1, 2, 4]);
        assert!(sweep.fixed.is_empty() && grids(&workloads).is_empty());
    }

    /// One workload sweeps the sizes, another the processes at some of them: both include one
    /// process there.
    #[test]
    fn the_same_work_under_two_names_is_one_point() {
        let mut workloads: Vec<Workload> = [16, 64, 128, 256].map(|size| cp(1, size)).into();
        let several = [16, 64, 128].map(|size| [1, 2, 4, 8].map(|processes| cp(processes, size)));
        workloads.extend(several.into_iter().flatten().map(|workload| Workload {
            name: format!("several {}", workload.name),
            ..workload
        }));
        let found = sweeps(&workloads);
        let summaries = found
            .iter()
            .map(|sweep| (&*sweep.fact.name, sweep.points.len()));
        let summaries: Vec<_> = summaries.collect();
        assert_eq!(
            summaries,
            [
                ("processes", 4),
                ("processes", 4),
                ("processes", 4),
                ("size", 4)
            ]
        );
        assert_eq!(found[3].points[0].1, "cp 1 16 write");
    }

    /// Sizes with one process, and processes at two sizes: three sweeps. A grid would be mostly
    /// empty.
    #[test]
    fn each_arm_of_a_cross_is_a_sweep() {
        let sizes = [1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];
        let mut workloads: Vec<Workload> = sizes.map(|size| cp(1, size)).into();
        for size in [16 << 20, 64 << 20] {
            workloads.extend([2, 4, 8, 16, 32].map(|processes| cp(processes, size)));
        }
        let found = sweeps(&workloads);
        let summaries = found.iter().map(|sweep| {
            let fixed = sweep
                .fixed
                .iter()
                .map(|(fact, value)| format!("{}={value}", fact.name));
            let fixed: Vec<String> = fixed.collect();
            format!(
                "{} × {} {}",
                sweep.fact.name,
                sweep.points.len(),
                fixed.join(" ")
            )
        });
        assert_eq!(
            summaries.collect::<Vec<_>>(),
            [
                "processes × 6 size=16777216",
                "processes × 6 size=67108864",
                "size × 5 processes=1"
            ]
        );
        assert_eq!(found[2].fact.unit, SweptUnit::Bytes);
        assert!(grids(&workloads).is_empty());
    }

    #[test]
    fn two_numbers_in_all_combinations_are_a_grid() {
        let mut workloads = Vec::new();
        for operation in [4096, 65_536] {
            workloads.extend([1, 4, 16, 64].map(|depth| random(depth, operation)));
        }
        let found = grids(&workloads);
        let [grid] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (&*grid.across.name, &*grid.down.name),
            (IN_FLIGHT, OPERATION)
        );
        assert_eq!(grid.points.len(), 8);
        assert_eq!(sweeps(&workloads).len(), 2, "one at each operation size");
    }

    /// Like records of iozone's auto mode: a phase for each pair.
    #[test]
    fn phases_with_numbers_in_their_names_are_one_family() {
        let mut workloads = Vec::new();
        for what in ["write", "read"] {
            for (size, record) in [
                (1, 512),
                (1, 1024),
                (1, 2048),
                (2, 512),
                (2, 1024),
                (2, 2048),
            ] {
                let numbers = [("size", size << 20), ("record", record)];
                workloads.push(Workload {
                    name: format!("iozone {what} {size}M {record}"),
                    kind: "iozone".to_owned(),
                    part: Some(Part {
                        workload: "iozone".to_owned(),
                        phase: format!("{what} {size}M {record}"),
                    }),
                    parameters: numbers
                        .map(|(name, value): (&str, u64)| (name.to_owned(), value.to_string()))
                        .into(),
                    ..Workload::default()
                });
            }
        }
        let found = grids(&workloads);
        let of: Vec<&str> = found.iter().map(|grid| &*grid.of).collect();
        assert_eq!(of, ["iozone write", "iozone read"]);
        assert_eq!(
            (&*found[0].across.name, &*found[0].down.name),
            ("record", "size")
        );
        assert!(found.iter().all(|grid| grid.points.len() == 6));
    }

    #[test]
    fn workloads_that_differ_in_text_or_phase_are_no_sweep() {
        let mut workloads: Vec<Workload> = [1, 2, 4].map(|processes| cp(processes, 64)).into();
        let no = |workloads: &[Workload]| sweeps(workloads).is_empty();
        let fsync = |value: &str| ("fsync".to_owned(), value.to_owned());
        workloads[0].parameters.extend([fsync("yes")]);
        assert!(no(&workloads));
        workloads[1].parameters.extend([fsync("yes")]);
        workloads[2].parameters.extend([fsync("yes")]);
        assert!(!no(&workloads));
        workloads[1].part.as_mut().unwrap().phase = "read".to_owned();
        assert!(no(&workloads));
        assert!(no(&[]) && no(&[random(1, 1), random(2, 1), random(2, 1)]));
        assert!(no(&[random(1, 1), random(2, 1)]), "two are a comparison");
    }
}
