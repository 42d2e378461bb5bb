//! Compares two analyses of the same experiment, for instance before and after a change of the
//! code, the kernel or a setting.

use serde::Serialize;

use crate::environments::{self, of_environments};
use crate::results::{Cell, Finding, Quantity, Verdict};
use crate::significance::{SIGNIFICANCE, UNCORRECTED_COMPARISONS_MAX, verdict};
use crate::statistics::{Estimate, difference_of_means, holm, seed_of};
use crate::work::{self, Difference};
use crate::{Analysis, Rate};

/// The differences between two analyses.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ReportedChange"))]
pub struct Change {
    /// Name and start (milliseconds since 1970) of the earlier experiment.
    pub before: (String, u64),
    /// Name and start of the later experiment.
    pub after: (String, u64),
    /// Paths from which the two records were read; empty if not given.
    pub read_from: (String, String),
    /// Differences in the work itself: depths, sizes, chunks, levels, options.
    pub different_work: Vec<Difference>,
    /// One row for each system × workload in both analyses. An open loop has a row for each
    /// response time.
    pub rows: Vec<ChangeRow>,
    /// Differences between the two environments: name, before, after.
    pub environment: Vec<(String, String, String)>,
    /// Systems and workloads that only one side has, in words.
    pub unmatched: Vec<String>,
    /// Doubts about either side and about the comparison.
    pub findings: Vec<Finding>,
}

/// One system × workload before and after.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeRow {
    /// Name of the system.
    pub system: String,
    /// Name of the workload.
    pub workload: String,
    /// Quantity compared.
    pub quantity: Quantity,
    /// Unit of the rate.
    pub rate: Rate,
    /// Geometric mean of the rate per second before, or a time in nanoseconds.
    pub before: f64,
    /// The same figure after.
    pub after: f64,
    /// Log-ratio of the rates, after to before, or of the inverse of times. Above 0 is faster.
    pub log_ratio: Estimate,
    /// The p-value after Holm's correction.
    pub p_corrected: f64,
    /// Number of rows corrected for, if the interval alone shows a difference that does not survive
    /// the correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_shown_among: Option<usize>,
    /// True if both sides did the same work.
    pub same_work: bool,
    /// Verdict on the change. `None` for the control. Also `None` if the work differs, unless
    /// [`Verdicts::All`] asked for it.
    pub verdict: Option<Verdict>,
    /// True if the system is the yardstick: the baseline of the experiment or its control.
    pub baseline: bool,
    /// True if the system is the baseline measured a second time (the A/A pair). It shows the noise
    /// of the other rows and gets no verdict.
    pub control: bool,
}

impl ChangeRow {
    /// Name of the workload; for an open loop also the quantity compared.
    pub fn of(&self) -> String {
        self.quantity.of(&self.workload)
    }
}

/// Selects the rows that get a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdicts {
    /// Rows in which both sides did the same work.
    SameWork,
    /// All rows: the difference in the work is the question.
    All,
}

/// Compares two analyses. Their repetition blocks are not paired, so it compares the means of the
/// logarithms and resamples each side separately.
pub fn change(before: &Analysis, after: &Analysis, verdicts: Verdicts) -> Change {
    let mut rows = Vec::new();
    for cell in &before.cells {
        if let Some(other) = after.cell(&cell.system, &cell.workload) {
            let quantities = quantities(before, after, &cell.workload).iter();
            rows.extend(quantities.map(|&quantity| row(before, cell, other, quantity)));
        }
    }
    let different_work = different_work(before, after, &mut rows);
    let asked = |row: &&mut ChangeRow| !row.control && (row.same_work || verdicts == Verdicts::All);
    let judged: Vec<&mut ChangeRow> = rows.iter_mut().filter(asked).collect();
    let p_values: Vec<f64> = judged.iter().map(|row| row.log_ratio.p_value).collect();
    let asked = judged.len();
    let corrected = asked > UNCORRECTED_COMPARISONS_MAX;
    for (row, p) in judged.into_iter().zip(holm(&p_values)) {
        row.p_corrected = p;
        let floor = row.quantity.floor();
        let of = |p| verdict(&row.log_ratio, p, floor);
        let (alone, among_others) = (of(None), of(corrected.then_some(p)));
        row.verdict = Some(among_others);
        row.not_shown_among = (alone != among_others).then_some(asked);
        let is_refused = |analysis: &Analysis| {
            let cell = analysis.cell(&row.system, &row.workload);
            cell.is_some_and(|cell| analysis.is_refused(cell))
        };
        if is_refused(before) || is_refused(after) {
            row.verdict = Some(Verdict::Refused);
            row.not_shown_among = None;
        }
    }
    let environment = of_environments(before, after);
    // Doubts about the comparison itself come after the failed runs.
    let own = findings(&rows, &environment);
    let mut findings = of_either([("before", before), ("after", after)]);
    let failed = findings
        .iter()
        .take_while(|finding| finding.kind == FAILED_RUNS);
    let at = failed.count();
    findings.splice(at..at, own);
    Change {
        before: (
            before.experiment.name.clone(),
            before.experiment.started_unix_ms,
        ),
        after: (
            after.experiment.name.clone(),
            after.experiment.started_unix_ms,
        ),
        read_from: Default::default(),
        different_work,
        rows,
        environment,
        unmatched: unmatched(before, after, ["before", "after"]),
        findings,
    }
}

/// Returns the quantities of a workload that both sides have.
pub(crate) fn quantities(
    before: &Analysis,
    after: &Analysis,
    workload: &str,
) -> &'static [Quantity] {
    let of = |analysis: &Analysis| {
        let mut workloads = analysis.experiment.workloads.iter();
        let workload = workloads.find(|other| other.name == workload);
        workload.map_or(&[][..], |workload| analysis.quantities(workload))
    };
    match (of(before), of(after)) {
        (one, other) if one == other => one,
        _ => &[Quantity::Rate],
    }
}

fn row(analysis: &Analysis, before: &Cell, after: &Cell, quantity: Quantity) -> ChangeRow {
    let logs = |cell: &Cell| -> Vec<f64> { cell.speeds(quantity).map(f64::ln).collect() };
    let figure = |cell: &Cell| {
        let time_ns = cell.time_ns(quantity);
        time_ns.unwrap_or(if quantity.is_time() {
            0.0
        } else {
            cell.geometric_mean
        })
    };
    let seed = seed_of(
        analysis.experiment.seed,
        &[&before.system, &before.workload],
    );
    let control = Some(&before.system) == analysis.experiment.control.as_ref();
    ChangeRow {
        system: before.system.clone(),
        workload: before.workload.clone(),
        quantity,
        rate: before.rate,
        before: figure(before),
        after: figure(after),
        log_ratio: difference_of_means(&logs(before), &logs(after), seed),
        p_corrected: 1.0,
        not_shown_among: None,
        same_work: true,
        verdict: None,
        baseline: before.system == analysis.experiment.baseline || control,
        control,
    }
}

/// Lists differences in the work of systems and workloads that both sides have. Clears `same_work`
/// of the rows concerned.
fn different_work(before: &Analysis, after: &Analysis, rows: &mut [ChangeRow]) -> Vec<Difference> {
    let mut all = Vec::new();
    for mine in &before.experiment.workloads {
        let mut others = after.experiment.workloads.iter();
        if let Some(other) = others.find(|other| other.name == mine.name) {
            let found = work::of_workloads(mine, other);
            let concerned = rows.iter_mut().filter(|row| row.workload == mine.name);
            concerned.for_each(|row| row.same_work &= found.is_empty());
            all.extend(found);
        }
    }
    for mine in &before.experiment.systems {
        let mut others = after.experiment.systems.iter();
        if let Some(other) = others.find(|other| other.name == mine.name) {
            let mut found = work::of_systems(mine, other);
            found.extend(work::of_io(&mine.name, &before.runs, &after.runs));
            let concerned = rows.iter_mut().filter(|row| row.system == mine.name);
            concerned.for_each(|row| row.same_work &= found.is_empty());
            all.extend(found);
        }
    }
    all
}

/// Lists the cells that only one of two sides has, with the names of the sides.
pub(crate) fn unmatched(one: &Analysis, other: &Analysis, names: [&str; 2]) -> Vec<String> {
    let mut all = only(one, other, names[0]);
    all.extend(only(other, one, names[1]));
    all
}

/// Lists the cells of `from` that `other` lacks: whole systems, whole workloads, and the remaining
/// cells. Systems with the same missing workloads share an entry.
fn only(from: &Analysis, other: &Analysis, side: &str) -> Vec<String> {
    let missing = |cell: &&Cell| other.cell(&cell.system, &cell.workload).is_none();
    let (mut systems, mut workloads): (Vec<&str>, Vec<&str>) = Default::default();
    let mut rest: Vec<(&str, Vec<&str>)> = Vec::new();
    for Cell {
        system, workload, ..
    } in from.cells.iter().filter(missing)
    {
        if other.cells.iter().all(|cell| cell.system != *system) {
            add(&mut systems, system);
        } else if other.cells.iter().all(|cell| cell.workload != *workload) {
            add(&mut workloads, workload);
        } else {
            match rest.iter_mut().find(|(known, _)| known == system) {
                Some((_, workloads)) => workloads.push(workload),
                None => rest.push((system, vec![workload])),
            }
        }
    }
    let mut together: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for (system, workloads) in rest {
        match together.iter_mut().find(|(_, same)| *same == workloads) {
            Some((systems, _)) => systems.push(system),
            None => together.push((vec![system], workloads)),
        }
    }
    let whole = [(systems, "in all workloads"), (workloads, "on all systems")];
    let whole = whole.into_iter().filter(|(names, _)| !names.is_empty());
    let whole = whole.map(|(names, of)| format!("{}, {of}", names.join(", ")));
    let parts = together
        .iter()
        .map(|(systems, workloads)| format!("{} in {}", systems.join(", "), workloads.join(", ")));
    let said = whole.chain(parts);
    said.map(|what| format!("only {side}: {what}")).collect()
}

fn add<'a>(names: &mut Vec<&'a str>, name: &'a str) {
    if !names.contains(&name) {
        names.push(name);
    }
}

/// The kind of doubt that comes first.
const FAILED_RUNS: &str = "failed-runs";

/// Doubts about the figures of either side, worst first. Excludes doubts about how systems compare
/// with each other.
pub(crate) fn of_either(sides: [(&str, &Analysis); 2]) -> Vec<Finding> {
    let kinds = crate::doubts::KINDS.iter();
    let kinds = kinds.filter(|kind| !crate::doubts::OF_COMPARISONS.contains(&kind.name));
    let of_kind = |kind: &&'static crate::doubts::Kind| {
        let details = sides.into_iter().flat_map(|(side, analysis)| {
            let found = analysis
                .findings
                .iter()
                .filter(|finding| finding.kind == kind.name);
            let details = found.flat_map(|finding| &finding.details);
            details.map(move |what| format!("{side}: {what}"))
        });
        let details: Vec<String> = details.collect();
        let found = Finding::new(kind.name, kind.title, kind.remedy, details);
        (!found.details.is_empty()).then_some(found)
    };
    kinds.filter_map(of_kind).collect()
}

/// Parts of the environment that differ if another version of Spindles was measured.
const CODE: &[&str] = &["version", "commit"];
/// Parts of the environment that differ if other disks were measured.
const DISKS: &[&str] = &[environments::MEMBERS, environments::DEVICES];

fn findings(rows: &[ChangeRow], environment: &[(String, String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let yardsticks = rows.iter().filter(|row| row.baseline && row.same_work);
    let yardsticks: Vec<&ChangeRow> = yardsticks.collect();
    let p_values: Vec<f64> = yardsticks.iter().map(|row| row.log_ratio.p_value).collect();
    let moved: Vec<String> = yardsticks
        .iter()
        .zip(holm(&p_values))
        .filter(|(row, p)| *p < SIGNIFICANCE && row.log_ratio.excludes_zero())
        .map(|(row, _)| {
            let of = row.quantity.of(&row.workload);
            let changed = if let Some((times, which)) = crate::factor_of(row.log_ratio.value) {
                format!("became {times:.1} times {which}")
            } else {
                let (percent, ..) = crate::difference_of(row.quantity, &row.log_ratio);
                format!("changed by {} %", crate::doubts::signed(percent))
            };
            format!("{} {changed} in {of}", row.system)
        })
        .collect();
    let differs = |is_meant: fn(&str) -> bool| environment.iter().any(|(name, ..)| is_meant(name));
    let code = differs(|name| CODE.contains(&name));
    let disks = differs(|name| DISKS.contains(&name));
    let others = differs(|name| !CODE.contains(&name) && !DISKS.contains(&name));
    // On other disks the baseline changes with them, and its change is the question.
    if !moved.is_empty() && !disks {
        findings.push(Finding::new(
            "yardstick-moved",
            "The baseline itself changed",
            "The machine differed between the two runs, so a change of an array by as much says \
             nothing about the array. Measure both again, one right after the other.",
            moved,
        ));
    }
    if others || (code && disks) {
        let details = environment
            .iter()
            .map(|(name, before, after)| format!("{name}: {before} before, {after} after"))
            .collect();
        findings.push(Finding::new(
            "environment-changed",
            "The environment changed as well",
            "More than one thing differs, so the cause is unknown. Repeat with everything else \
             unchanged.",
            details,
        ));
    }
    let blocks = rows.iter().map(|row| row.log_ratio.blocks);
    if let Some(fewest) = blocks.filter(|&blocks| blocks > 0).min()
        && fewest < crate::statistics::BOOTSTRAP_BLOCKS_MIN
    {
        findings.push(Finding::new(
            "few-blocks",
            "Few repetitions",
            crate::doubts::by_name("few-blocks").map_or("", |kind| kind.remedy),
            vec![format!(
                "one of the two runs has only {}",
                crate::doubts::blocks(fewest)
            )],
        ));
    }
    findings
}
