//! Compares every system with every other, in each workload and over the weighted workloads
//! together. Holm's correction covers all pairs. The set of systems that no verdict puts behind the
//! fastest is thus known with one error rate, however many there are.

use std::collections::BTreeMap;

use crate::questions::design_error_of;
use crate::results::{
    Cell, Choice, Pair, Place, Quantity, Ranking, Reason, Share, Standing, Verdict, Weighted,
};
use crate::significance::{SIGNIFICANCE, verdict};
use crate::statistics::{DesignError, Estimate, design_error, holm, mean, mean_of_blocks, seed_of};
use crate::{Analysis, Workload};

/// Builds the rankings from an analysis that already has its cells and comparisons.
pub(crate) fn of(analysis: &Analysis) -> Choice {
    let workloads = analysis.experiment.workloads.iter();
    let counting =
        workloads.filter(|workload| analysis.experiment.total_with(&workload.name).is_none());
    let mut asked: Vec<(&Workload, Contest)> = counting
        .map(|workload| (workload, Contest::of_workload(analysis, workload)))
        .filter(|(_, contest)| contest.systems() > 1)
        .collect();
    let mut contests: Vec<&mut Contest> = asked.iter_mut().map(|(_, contest)| contest).collect();
    let pairs = judge(&mut contests, analysis.experiment.seed);
    let rankings = asked.into_iter().map(|(workload, contest)| Ranking {
        workload: workload.name.clone(),
        quantity: analysis.quantities(workload)[0],
        not_counted: not_counted(analysis, workload),
        standings: contest.standings(analysis.experiment.seed),
        pairs: contest.pairs,
    });
    Choice {
        workloads: rankings.collect(),
        weighted: weighted(analysis),
        pairs,
    }
}

fn weighted(analysis: &Analysis) -> Option<Weighted> {
    let experiment = &analysis.experiment;
    let (shares, not_run) = shares(analysis);
    if shares.is_empty() {
        return None;
    }
    let mut contest = Contest::of_shares(analysis, &shares);
    judge(&mut [&mut contest], experiment.seed);
    Some(Weighted {
        standings: contest.standings(experiment.seed),
        pairs: contest.pairs,
        shares,
        not_run,
    })
}

/// Returns the weights as shares of the workloads that ran, and the names of those that did not.
/// The weight of a workload with several phases or stages is divided among them.
fn shares(analysis: &Analysis) -> (Vec<Share>, Vec<String>) {
    let experiment = &analysis.experiment;
    let (mut weights, mut not_run) = (Vec::new(), Vec::new());
    for (name, &weight) in &experiment.weights {
        let is_of = |workload: &&Workload| {
            workload.name == *name
                || workload
                    .part
                    .as_ref()
                    .is_some_and(|part| part.workload == *name)
                || (workload.beside.as_ref()).is_some_and(|beside| beside.workload == *name)
        };
        let counts = |workload: &&Workload| {
            let mut cells = analysis.cells.iter();
            experiment.total_with(&workload.name).is_none()
                && cells.any(|cell| cell.workload == workload.name)
        };
        let phases: Vec<&Workload> = (experiment.workloads.iter())
            .filter(is_of)
            .filter(counts)
            .collect();
        let Ok(count @ 1..) = u32::try_from(phases.len()) else {
            not_run.push(name.clone());
            continue;
        };
        let each = weight / f64::from(count);
        weights.extend(phases.into_iter().map(|phase| (phase, each)));
    }
    let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let shares = weights.into_iter().map(|(workload, weight)| Share {
        workload: workload.name.clone(),
        share: weight / sum,
        not_counted: not_counted(analysis, workload),
        is_short: is_short(analysis, workload),
    });
    (shares.collect(), not_run)
}

fn is_short(analysis: &Analysis, workload: &Workload) -> bool {
    let mut cells = analysis.cells.iter();
    cells.any(|cell| cell.workload == workload.name && analysis.seconds_if_short(cell).is_some())
}

/// Returns why a workload does not count, if so.
fn not_counted(analysis: &Analysis, workload: &Workload) -> Option<Reason> {
    let cells = analysis.cells.iter();
    let mut mine = cells.filter(|cell| cell.workload == workload.name);
    if mine.clone().any(|cell| analysis.is_refused(cell)) {
        Some(Reason::Refused)
    } else if mine.any(Cell::is_cached) {
        Some(Reason::Cached)
    } else {
        None
    }
}

/// Systems in one comparison.
struct Contest {
    /// Name that seeds the resampling.
    name: String,
    runners: Vec<Runner>,
    /// Systems without a result.
    without: Vec<(String, Place)>,
    /// Difference that identical systems showed, as a log-ratio.
    floor: Option<f64>,
    error: Option<DesignError>,
    pairs: Vec<Pair>,
}

struct Runner {
    system: String,
    /// Logarithm of the speed, by repetition block.
    speeds: BTreeMap<u32, f64>,
}

/// Speeds of a system, or the reason why it has none.
type Speeds = Result<BTreeMap<u32, f64>, Place>;

impl Contest {
    fn new(analysis: &Analysis, name: &str, speeds: impl Fn(&str) -> Option<Speeds>) -> Self {
        let baseline = &analysis.experiment.baseline;
        // The baseline first, so that its pairs have the same ratio as the comparisons with it.
        let mut systems: Vec<&str> = (analysis.experiment.systems.iter())
            .map(|system| &*system.name)
            .filter(|name| Some(*name) != analysis.experiment.control.as_deref())
            .collect();
        systems.sort_by_key(|system| system != baseline);
        let mut contest = Self {
            name: name.to_owned(),
            runners: Vec::new(),
            without: Vec::new(),
            floor: None,
            error: None,
            pairs: Vec::new(),
        };
        for system in systems {
            match speeds(system) {
                Some(Ok(speeds)) => contest.runners.push(Runner {
                    system: system.to_owned(),
                    speeds,
                }),
                Some(Err(place)) => contest.without.push((system.to_owned(), place)),
                None => {}
            }
        }
        contest
    }

    fn of_workload(analysis: &Analysis, workload: &Workload) -> Self {
        let quantity = analysis.quantities(workload)[0];
        let speeds = |system: &str| {
            let cell = analysis.cell(system, &workload.name)?;
            Some(speeds_of(analysis, cell, quantity))
        };
        let mut contest = Self::new(analysis, &workload.name, speeds);
        let mut comparisons = analysis.comparisons.iter();
        let pair = comparisons.find(|comparison| {
            comparison.control
                && comparison.workload == workload.name
                && comparison.quantity == quantity
        });
        let pair = pair.filter(|pair| pair.log_ratio.blocks > 0);
        let floors = pair.map(|pair| pair.log_ratio.value.abs());
        contest.floor = floors.into_iter().chain(quantity.floor()).reduce(f64::max);
        contest.error = design_error_of(&analysis.cells, workload, quantity);
        contest
    }

    fn of_shares(analysis: &Analysis, shares: &[Share]) -> Self {
        let parts = shares.iter().filter_map(|share| {
            let mut workloads = analysis.experiment.workloads.iter();
            let workload = workloads.find(|workload| workload.name == share.workload)?;
            Some((workload, analysis.quantities(workload)[0], share.share))
        });
        let parts: Vec<(&Workload, Quantity, f64)> = parts.collect();
        let speeds = |system: &str| -> Speeds {
            let mut sums: Option<BTreeMap<u32, f64>> = None;
            for &(workload, quantity, share) in &parts {
                let cell = analysis.cell(system, &workload.name).ok_or(Place::Failed)?;
                let speeds = speeds_of(analysis, cell, quantity)?;
                let weighted = |block: &u32| Some(speeds.get(block)? * share);
                // Skip blocks without one of the workloads: their mean would cover fewer workloads.
                sums = Some(match sums {
                    None => speeds
                        .iter()
                        .map(|(at, speed)| (*at, speed * share))
                        .collect(),
                    Some(sums) => sums
                        .into_iter()
                        .filter_map(|(block, sum)| Some((block, sum + weighted(&block)?)))
                        .collect(),
                });
            }
            sums.filter(|sums| !sums.is_empty()).ok_or(Place::Failed)
        };
        let mut contest = Self::new(analysis, "weighted", |system| Some(speeds(system)));
        let control = analysis.experiment.control.as_deref();
        let floor_of_pair = control.and_then(|control| {
            let (again, first) = (speeds(control).ok()?, contest.runners.first()?);
            let ratios = ratios(&again, &first.speeds);
            let is_baseline = first.system == analysis.experiment.baseline;
            (is_baseline && !ratios.is_empty()).then(|| mean(&ratios).abs())
        });
        let of_buckets = parts.iter();
        let of_buckets = of_buckets.filter_map(|(_, bucket, share)| Some(bucket.floor()? * share));
        let of_buckets: f64 = of_buckets.sum();
        contest.floor = Some(floor_of_pair.unwrap_or(0.0).max(of_buckets));
        let complete = contest.complete_blocks();
        let rows = contest.runners.iter().map(|runner| {
            let speeds = complete.iter().map(|block| runner.speeds[block]);
            speeds.collect::<Vec<f64>>()
        });
        contest.error = design_error(&rows.collect::<Vec<_>>());
        contest
    }

    fn systems(&self) -> usize {
        self.runners.len() + self.without.len()
    }

    /// Blocks shared by all systems with a result.
    fn complete_blocks(&self) -> Vec<u32> {
        let first = self.runners.first().into_iter();
        let blocks = first.flat_map(|runner| runner.speeds.keys().copied());
        let is_complete = |block: &u32| {
            let mut runners = self.runners.iter();
            runners.all(|runner| runner.speeds.contains_key(block))
        };
        blocks.filter(is_complete).collect()
    }

    /// Systems with a result, fastest first, by the mean over the complete blocks.
    fn ranked(&self) -> Vec<&Runner> {
        let complete = self.complete_blocks();
        let of = |runner: &Runner| {
            let all = runner.speeds.iter();
            let counting = all.filter(|(at, _)| complete.is_empty() || complete.contains(at));
            mean(&counting.map(|(_, speed)| *speed).collect::<Vec<_>>())
        };
        let mut ranked: Vec<&Runner> = self.runners.iter().collect();
        ranked.sort_by(|a, b| of(b).total_cmp(&of(a)));
        ranked
    }

    /// Estimates the log-ratio of one system to an earlier one.
    fn estimate(&self, system: usize, other: usize, seed: u64) -> Estimate {
        let (system, other) = (&self.runners[system], &self.runners[other]);
        let seed = seed_of(seed, &[&system.system, &self.name]);
        mean_of_blocks(&ratios(&system.speeds, &other.speeds), seed)
    }

    fn standings(&self, seed: u64) -> Vec<Standing> {
        let ranked = self.ranked();
        let at = |system: &str| {
            let mut runners = self.runners.iter();
            runners.position(|runner| runner.system == system)
        };
        let fastest = ranked.first().and_then(|standing| at(&standing.system));
        let mut standings: Vec<Standing> = ranked
            .iter()
            .filter_map(|runner| {
                let (mine, first) = (at(&runner.system)?, fastest?);
                let behind = match mine.cmp(&first) {
                    std::cmp::Ordering::Equal => None,
                    std::cmp::Ordering::Greater => Some(self.estimate(mine, first, seed)),
                    std::cmp::Ordering::Less => Some(self.estimate(first, mine, seed).negated()),
                };
                let excludes_equal = behind.as_ref().is_some_and(Estimate::excludes_zero);
                Some(Standing {
                    system: runner.system.clone(),
                    place: match self.verdict(mine, first) {
                        Some(Verdict::NoDifferenceShown) if excludes_equal => Place::Unresolved,
                        Some(Verdict::Slower) => Place::Behind,
                        Some(Verdict::OneBlock | Verdict::Failed) => Place::OneBlock,
                        None
                        | Some(
                            Verdict::Faster
                            | Verdict::NoDifferenceShown
                            | Verdict::Refused
                            | Verdict::AaPair,
                        ) => Place::Best,
                    },
                    behind: behind.filter(|behind| behind.blocks > 0),
                })
            })
            .collect();
        demote_after_separated(&mut standings);
        // If no other system shares two blocks with the fastest, its lead is not shown either.
        if let [first, others @ ..] = standings.as_mut_slice()
            && !others.is_empty()
            && others.iter().all(|other| other.place == Place::OneBlock)
        {
            first.place = Place::OneBlock;
        }
        standings.extend(self.without.iter().map(|(system, place)| Standing {
            system: system.clone(),
            place: *place,
            behind: None,
        }));
        standings
    }

    /// Verdict on `system` against `other`. `None` for a system against itself.
    fn verdict(&self, system: usize, other: usize) -> Option<Verdict> {
        let (system, other) = (&self.runners[system].system, &self.runners[other].system);
        self.pairs.iter().find_map(|pair| {
            if pair.system == *system && pair.other == *other {
                Some(pair.verdict)
            } else if pair.system == *other && pair.other == *system {
                Some(pair.verdict.of_the_other())
            } else {
                None
            }
        })
    }
}

/// Takes `Best` from every system ranked after one that is separated from the fastest. A noisy
/// system has a wide interval, which separates it from nothing, however slow it is.
fn demote_after_separated(standings: &mut [Standing]) {
    let is_separated =
        |standing: &Standing| matches!(standing.place, Place::Unresolved | Place::Behind);
    let Some(first) = standings.iter().position(is_separated) else {
        return;
    };
    for standing in &mut standings[first..] {
        if standing.place == Place::Best {
            standing.place = Place::Unresolved;
        }
    }
}

/// Compares all pairs of each contest and corrects them together. Returns the number of pairs.
fn judge(contests: &mut [&mut Contest], seed: u64) -> usize {
    let mut p_values = Vec::new();
    for contest in contests.iter_mut() {
        for (at, system) in contest.runners.iter().enumerate() {
            for other in &contest.runners[..at] {
                let ratios = ratios(&system.speeds, &other.speeds);
                let log_ratio = mean(&ratios);
                let p_value = match &contest.error {
                    Some(error) if ratios.len() > 1 => error.p_value(log_ratio),
                    _ => 1.0,
                };
                p_values.push(p_value);
                contest.pairs.push(Pair {
                    system: system.system.clone(),
                    other: other.system.clone(),
                    log_ratio,
                    blocks: ratios.len(),
                    p_corrected: p_value,
                    verdict: Verdict::NoDifferenceShown,
                });
            }
        }
    }
    let corrected = holm(&p_values);
    let mut next = corrected.iter();
    for contest in contests {
        let mut pairs = std::mem::take(&mut contest.pairs);
        for pair in &mut pairs {
            pair.p_corrected = *next.next().expect("a p-value for each pair");
            let at = |system: &str| {
                let mut runners = contest.runners.iter();
                runners
                    .position(|runner| runner.system == system)
                    .expect("a pair of runners")
            };
            // The interval takes thousands of resamples; skip it if the p-value alone decides.
            pair.verdict = match pair.blocks {
                0 => Verdict::Failed,
                1 => Verdict::OneBlock,
                _ if pair.p_corrected >= SIGNIFICANCE => Verdict::NoDifferenceShown,
                _ => {
                    let estimate = contest.estimate(at(&pair.system), at(&pair.other), seed);
                    verdict(&estimate, Some(pair.p_corrected), contest.floor)
                }
            };
        }
        contest.pairs = pairs;
    }
    p_values.len()
}

fn speeds_of(analysis: &Analysis, cell: &Cell, quantity: Quantity) -> Speeds {
    if analysis.is_refused(cell) {
        return Err(Place::Refused);
    }
    let speeds: BTreeMap<u32, f64> = (cell.repetitions.iter())
        .filter_map(|repetition| Some((repetition.block, repetition.speed(quantity)?.ln())))
        .collect();
    if speeds.is_empty() {
        return Err(Place::Failed);
    }
    Ok(speeds)
}

/// Log-ratios over the common blocks.
fn ratios(system: &BTreeMap<u32, f64>, other: &BTreeMap<u32, f64>) -> Vec<f64> {
    let common = system.iter();
    let common = common.filter_map(|(block, mine)| Some(mine - other.get(block)?));
    common.collect()
}
