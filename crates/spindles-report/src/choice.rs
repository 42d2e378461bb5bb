//! The choice of a system as texts for every output: the matrix of all systems and workloads, and
//! the sentences that introduce it.

use std::collections::BTreeMap;

use spindles_measure::{
    Analysis, Pair, Place, Quantity, Ranking, Standing, System, Verdict, Weighted, factor_of,
    percent_of,
};

use crate::{figures, words};

/// The heading of the matrix.
pub(crate) const TITLE: &str = "Which should I take?";

/// Text of a cell for the fastest systems.
pub(crate) const BEST: &str = "best";

/// Mark of a workload whose figures don't count.
const NOT_COUNTED: &str = "*";

/// Name of the row over all weighted workloads.
const WEIGHTED: &str = "by your weights";

/// In a sentence, longer lists of names are cut.
const NAMES_MAX: usize = 4;

/// Facts and ranks of each system.
#[derive(Debug)]
pub(crate) struct Matrix<'a> {
    /// The systems, in the order of the experiment, without the control.
    pub(crate) systems: Vec<&'a System>,
    /// Facts such as fault tolerance, capacity and price: a name, and a text for each system.
    pub(crate) facts: Vec<(&'static str, Vec<String>)>,
    /// Workloads; first the weighted row, if the experiment has weights.
    pub(crate) rows: Vec<Row<'a>>,
}

/// A row of the matrix.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    /// Name of the workload, marked if its figures don't count.
    pub(crate) name: String,
    /// Description of the workload.
    pub(crate) summary: &'a str,
    /// Figure of the fastest system. Empty for the weighted row.
    pub(crate) fastest: String,
    /// Ranks of the systems; `None` for a system that did not run.
    pub(crate) places: Vec<Option<&'a Standing>>,
}

impl<'a> Matrix<'a> {
    /// Builds the matrix. `None` with fewer than two systems.
    pub(crate) fn of(analysis: &'a Analysis) -> Option<Self> {
        let choice = &analysis.choice;
        let ran = |system: &&System| {
            let mut rankings = choice.workloads.iter();
            rankings.any(|ranking| ranking.standing(&system.name).is_some())
        };
        let systems: Vec<&System> = analysis.experiment.systems.iter().filter(ran).collect();
        if systems.len() < 2 {
            return None;
        }
        let weighted = choice.weighted.iter().map(|weighted| Row {
            name: WEIGHTED.to_owned(),
            summary: "the weighted geometric mean of the speeds",
            fastest: String::new(),
            places: places(&systems, &weighted.standings),
        });
        let workloads = choice.workloads.iter().map(|ranking| Row {
            name: name(ranking),
            summary: summary(analysis, ranking),
            fastest: fastest(analysis, ranking),
            places: places(&systems, &ranking.standings),
        });
        Some(Self {
            facts: facts(&systems),
            rows: weighted.chain(workloads).collect(),
            systems,
        })
    }

    /// Explains the marks that occur.
    pub(crate) fn legend(&self, analysis: &Analysis) -> String {
        let mut places = self.rows.iter().flat_map(|row| &row.places).flatten();
        let has = |place: Place| places.clone().any(|standing| standing.place == place);
        let mut said = format!(
            "{BEST}: the fastest, and the next systems up to the first that is provably slower, by \
             its own interval or a verdict among {} pairs; others: how much slower, in percent or \
             times (×)",
            analysis.choice.pairs
        );
        for (place, words) in [
            (Place::Unresolved, "without a verdict"),
            (Place::OneBlock, "one block, no verdict"),
            (Place::Failed, "failed"),
            (Place::Refused, "refused, the load generator's figure"),
        ] {
            if has(place) {
                said += &format!("; {} {words}", mark(place));
            }
        }
        if places.next().is_some() && self.rows.iter().any(|row| row.name.ends_with(NOT_COUNTED)) {
            said += &format!("; {NOT_COUNTED} {}", not_counted(analysis));
        }
        said + "."
    }
}

/// Explains why workloads are marked.
fn not_counted(analysis: &Analysis) -> String {
    let mut reasons: Vec<&str> = (analysis.choice.workloads.iter())
        .filter_map(|workload| workload.not_counted.map(spindles_measure::Reason::words))
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    format!("{}, counted nowhere", reasons.join(" or "))
}

fn places<'a>(systems: &[&System], standings: &'a [Standing]) -> Vec<Option<&'a Standing>> {
    let places = systems.iter().map(|system| {
        let mut standings = standings.iter();
        standings.find(|standing| standing.system == system.name)
    });
    places.collect()
}

fn name(ranking: &Ranking) -> String {
    let mark = ranking.not_counted.map_or("", |_| NOT_COUNTED);
    format!("{}{mark}", ranking.workload)
}

fn summary<'a>(analysis: &'a Analysis, ranking: &Ranking) -> &'a str {
    let mut workloads = analysis.experiment.workloads.iter();
    let workload = workloads.find(|workload| workload.name == ranking.workload);
    workload.map_or("", |workload| &*workload.summary)
}

/// Figure of the fastest system.
fn fastest(analysis: &Analysis, ranking: &Ranking) -> String {
    let first = ranking.standings.first();
    let cell = first.and_then(|standing| analysis.cell(&standing.system, &ranking.workload));
    cell.map_or(String::new(), |cell| words::figure(cell, ranking.quantity))
}

fn facts(systems: &[&System]) -> Vec<(&'static str, Vec<String>)> {
    let of = |text: &dyn Fn(&System) -> String| systems.iter().map(|system| text(system)).collect();
    let mut facts: Vec<(&'static str, Vec<String>)> = vec![
        (
            "survives",
            of(&|system| match system.known_to_survive() {
                None => "unknown".to_owned(),
                Some(0) => "none".to_owned(),
                Some(losses) => format!("any {losses}"),
            }),
        ),
        (
            "holds",
            of(&|system| match system.capacity_bytes {
                0 => String::new(),
                bytes => figures::short_bytes(figures::float(bytes)),
            }),
        ),
        ("members", of(&|system| system.members.max(1).to_string())),
        (
            "costs",
            of(&|system| {
                let price = system.price.filter(|price| price.is_finite());
                price.map_or(String::new(), |price| {
                    figures::three_digits(price).replace(".00", "")
                })
            }),
        ),
    ];
    facts.retain(|(_, texts)| texts.iter().any(|text| !text.is_empty()));
    facts
}

/// Mark of a rank that is no verdict.
fn mark(place: Place) -> &'static str {
    match place {
        Place::Best | Place::Behind => "",
        Place::Unresolved => "~",
        Place::OneBlock => figures::mark(Verdict::OneBlock),
        Place::Failed => figures::mark(Verdict::Failed),
        Place::Refused => figures::mark(Verdict::Refused),
    }
}

/// Text of a cell: `best`, `−31`, `2.1 ×`, `−4.0 ?`.
pub(crate) fn cell(standing: &Standing) -> String {
    let behind = standing.behind.map(|behind| match factor_of(behind.value) {
        Some((times, _)) => format!("{} ×", figures::how_often(times)),
        None => figures::signed(percent_of(&behind).0),
    });
    match (standing.place, behind) {
        (Place::Best, _) => BEST.to_owned(),
        (Place::Behind, behind) => behind.unwrap_or_default(),
        (Place::Unresolved, behind) => {
            format!("{} {}", behind.unwrap_or_default(), mark(standing.place))
        }
        (Place::OneBlock, None) => format!("first {}", mark(standing.place)),
        (Place::OneBlock, Some(behind)) => format!("{behind} {}", mark(standing.place)),
        (Place::Failed | Place::Refused, _) => mark(standing.place).to_owned(),
    }
}

/// The same for a sentence, with the interval: `−31 % (−34 … −27)`.
pub(crate) fn in_words(standing: &Standing) -> String {
    let behind = standing.behind.map(|behind| {
        let said = words::difference_of(Quantity::Rate, &behind, "times");
        let interval = words::interval_of(Quantity::Rate, &behind, "times");
        format!("{said} ({interval})")
    });
    match (standing.place, behind) {
        (Place::Best, None) => "the fastest".to_owned(),
        (Place::Best, Some(behind)) => format!("no difference shown: {behind}"),
        // Holm's correction over all pairs and the A/A pair require more than the interval.
        (Place::Unresolved, behind) => format!(
            "{}, but not proven: identical systems may differ as much, or chance explains it",
            behind.unwrap_or_default()
        ),
        (Place::Behind, behind) => behind.unwrap_or_default(),
        (Place::OneBlock, None) => "the fastest in one block: no verdict".to_owned(),
        (Place::OneBlock, Some(behind)) => format!("{behind} in one block: no verdict"),
        (Place::Failed, _) => "failed".to_owned(),
        (Place::Refused, _) => "refused: the load generator's figure".to_owned(),
    }
}

/// Answers in one sentence which systems are among the best in most workloads.
pub(crate) fn answer(analysis: &Analysis) -> Option<String> {
    let choice = &analysis.choice;
    let matrix = Matrix::of(analysis)?;
    let all = choice.counting().count();
    if all == 0 {
        let of_one_block = (choice.workloads.iter()).any(|workload| workload.not_counted.is_none());
        let why = if of_one_block {
            "no two systems have two repetition blocks in common. Use at least 5 blocks"
        } else {
            "every figure measures a cache or the load generator. The doubts say what to do about \
             it"
        };
        return Some(format!("{TITLE} There is no answer: {why}."));
    }
    let (of_all, any_of) = match all {
        1 => ("the one workload".to_owned(), "the one workload".to_owned()),
        2 => ("both workloads".to_owned(), "either workload".to_owned()),
        _ => (
            format!("all {all} workloads"),
            format!("any of {all} workloads"),
        ),
    };
    let counts: Vec<(&System, usize)> = (matrix.systems.iter())
        .map(|system| (*system, choice.best_in(&system.name)))
        .collect();
    if counts.iter().all(|(_, best)| *best == all) {
        return Some(format!(
            "{TITLE} No system is provably slower than the fastest in {any_of}: choose by \
             redundancy, capacity and cost."
        ));
    }
    let first = most(&counts)?;
    let of = match first.1 {
        best if best == all => of_all,
        best => format!("{best} of {all} workloads"),
    };
    let mut said = format!("{TITLE} {} among the best in {of}", named(&first.0));
    // Speed without redundancy is only half an answer.
    let survives = |system: &System| {
        system.members > 1
            && system
                .known_to_survive()
                .is_some_and(|known_to_survive| known_to_survive > 0)
    };
    let safe: Vec<(&System, usize)> = (counts.into_iter())
        .filter(|(system, _)| survives(system))
        .collect();
    let is_safe = |name: &&str| safe.iter().any(|(system, _)| system.name == *name);
    let of_first: Vec<&str> = first.0.iter().copied().filter(is_safe).collect();
    if of_first.len() == first.0.len() {
        return Some(said + ".");
    }
    said += &match (of_first.as_slice(), most(&safe)) {
        ([], None | Some((_, 0))) => {
            "; no system that survives a loss is among the best in any".to_owned()
        }
        ([], Some((names, best))) => {
            format!(
                "; of the systems that survive a loss, {} among the best in {best}",
                named(&names)
            )
        }
        ([only], _) => format!("; of these, {only} survives a loss"),
        (several, _) => format!("; of these, {} survive a loss", listed(several)),
    };
    Some(said + ".")
}

/// Systems that are among the best most often, and the number of times.
fn most<'a>(counts: &[(&'a System, usize)]) -> Option<(Vec<&'a str>, usize)> {
    let best = counts.iter().map(|(_, best)| *best).max()?;
    let names = counts.iter().filter(|(_, wins)| *wins == best);
    Some((names.map(|(system, _)| &*system.name).collect(), best))
}

/// Names with a verb: `raid0 is`, `raid0 and raid10 are`.
fn named(names: &[&str]) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", listed(names))
}

/// Joins names: `raid0, raid10 and raid1`. Long lists are cut.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [all @ .., last] if names.len() <= NAMES_MAX => format!("{} and {last}", all.join(", ")),
        names => {
            let (first, rest) = names.split_at(NAMES_MAX - 1);
            format!("{} and {} more", first.join(", "), rest.len())
        }
    }
}

/// Answers by the experiment's weights: the rank of each system and its distance to the first.
pub(crate) fn weighted(analysis: &Analysis) -> Option<String> {
    let weighted = analysis.choice.weighted.as_ref()?;
    let ran = |name: &String| !weighted.not_run.contains(name);
    let given = &analysis.experiment.weights;
    let given: BTreeMap<&String, f64> = (given.iter())
        .filter(|(name, _)| ran(name))
        .map(|(name, weight)| (name, *weight))
        .collect();
    let sum: f64 = given.values().sum();
    let shares = given
        .iter()
        .map(|(name, weight)| format!("{name} {:.0} %", weight / sum * 100.0));
    let ranks = weighted.standings.iter().enumerate().map(|(at, standing)| {
        let is_ranked = !matches!(standing.place, Place::Failed | Place::Refused);
        match (is_ranked, at) {
            (true, 0) if standing.place == Place::Best => format!("1. {}", standing.system),
            (true, at) => format!("{}. {}, {}", at + 1, standing.system, in_words(standing)),
            (false, _) => format!("{}: {}", standing.system, in_words(standing)),
        }
    });
    let (shares, ranks): (Vec<String>, Vec<String>) = (shares.collect(), ranks.collect());
    if weighted
        .shares
        .iter()
        .all(|share| share.not_counted.is_some())
    {
        let why = weighted_exceptions(weighted);
        let shares = shares.join(", ");
        return Some(format!(
            "By your weights ({shares}) there is no answer.{why}"
        ));
    }
    let said = format!(
        "By your weights ({}): {}.",
        shares.join(", "),
        ranks.join("; ")
    );
    Some(said + &weighted_exceptions(weighted))
}

/// Lists weighted workloads that are left out, are short, or don't count.
pub(crate) fn weighted_exceptions(weighted: &Weighted) -> String {
    let mut said = String::new();
    let doubtful = weighted.shares.iter();
    let doubtful = doubtful.filter_map(|share| Some((&*share.workload, share.not_counted?)));
    for (workload, reason) in doubtful {
        said += &format!(" {workload} is {}.", reason.words());
    }
    let short = weighted.shares.iter().filter(|share| share.is_short);
    let short: Vec<&str> = short.map(|short| &*short.workload).collect();
    if !short.is_empty() {
        said += &format!(
            " Runs of less than 0.1 s, which mean little: {}.",
            listed(&short)
        );
    }
    if !weighted.not_run.is_empty() {
        said += &format!(" Not run, and left out: {}.", weighted.not_run.join(", "));
    }
    said
}

/// Explains the marks of pairs.
pub(crate) fn legend_of_pairs(analysis: &Analysis) -> String {
    let rankings = &analysis.choice.workloads;
    let has_verdict = |verdict: Verdict| {
        let mut pairs = rankings.iter().flat_map(|ranking| &ranking.pairs);
        pairs.any(|pair| pair.verdict == verdict)
    };
    words::marks(has_verdict)
}

/// All pairs of a ranking as a table: a row and a column for each system with a result, fastest
/// first. A cell is the verdict on the row's system against the column's.
pub(crate) fn pairs(ranking: &Ranking) -> (Vec<&str>, Vec<Vec<String>>) {
    let has_result =
        |standing: &&Standing| !matches!(standing.place, Place::Failed | Place::Refused);
    let systems: Vec<&str> = (ranking.standings.iter())
        .filter(has_result)
        .map(|standing| &*standing.system)
        .collect();
    let verdict = |system: &str, other: &str| {
        let of = |pair: &Pair| match (pair.system == system, pair.other == other) {
            (true, true) => Some(pair.verdict),
            _ if pair.system == other && pair.other == system => Some(pair.verdict.of_the_other()),
            _ => None,
        };
        let verdict = ranking.pairs.iter().find_map(of);
        verdict.map_or(String::new(), |verdict| figures::mark(verdict).to_owned())
    };
    let row = |system: &&str| systems.iter().map(|other| verdict(system, other)).collect();
    let rows = systems.iter().map(row).collect();
    (systems, rows)
}
