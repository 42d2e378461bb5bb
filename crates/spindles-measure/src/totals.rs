//! Totals of phases. A phase that only finishes the one before it, such as the flush after
//! unpacking files, says little alone: a system that wrote more before has less to write in it. The
//! two together become a workload of their own, derived from the runs of both. Summaries count that
//! total.

use crate::{Experiment, Part, Rate, Run, Workload};

/// Adds the totals to the workloads, each after the last of its phases. Returns their runs.
pub(crate) fn add(experiment: &mut Experiment, runs: &[Run]) -> Vec<Run> {
    experiment.workloads.retain(|workload| !workload.is_total());
    let mut all: Vec<Run> = Vec::new();
    let mut at = 1;
    while at < experiment.workloads.len() {
        let [before, end] = [&experiment.workloads[at - 1], &experiment.workloads[at]];
        let total = total(before, end).filter(|_| is_one_operation(end, runs));
        if let Some(total) = total {
            all.extend(runs_of(&total, runs));
            at += 1;
            experiment.workloads.insert(at, total);
        }
        at += 1;
    }
    all
}

fn is_one_operation(workload: &Workload, runs: &[Run]) -> bool {
    let mut mine = runs
        .iter()
        .filter(|run| run.workload.name == workload.name && run.counts());
    workload.rate == Rate::Operations
        && mine.clone().count() > 0
        && mine.all(|phase| phase.counted == 1)
}

/// Builds the total of two phases of one workload.
fn total(before: &Workload, end: &Workload) -> Option<Workload> {
    let (first, last) = (before.part.as_ref()?, end.part.as_ref()?);
    let name = before.name_of_total(end)?;
    Some(Workload {
        name,
        summary: format!("{} and {} together: total time", first.phase, last.phase),
        rate: Rate::Operations,
        size_bytes: before.size_bytes,
        in_flight_max: before.in_flight_max.max(end.in_flight_max),
        systems: before.systems.clone(),
        part: Some(Part {
            workload: first.workload.clone(),
            phase: format!("{} and {}", first.phase, last.phase),
        }),
        together: vec![before.name.clone(), end.name.clone()],
        ..Workload::default()
    })
}

/// Derives a total's runs, each from a pair of runs of the two phases.
fn runs_of(total: &Workload, runs: &[Run]) -> Vec<Run> {
    let [before, end] = [&total.together[0], &total.together[1]];
    let ends = runs.iter().filter(|run| run.workload.name == *end);
    let pairs = ends.filter_map(|last| {
        let mut firsts = runs.iter().filter(|run| run.workload.name == *before);
        let first = firsts.find(|run| {
            (&run.system.name, run.repetition_block) == (&last.system.name, last.repetition_block)
        })?;
        Some((first, last))
    });
    pairs
        .map(|(first, last)| {
            let mut run = Run {
                experiment: last.experiment.clone(),
                system: last.system.clone(),
                workload: total.clone(),
                repetition_block: last.repetition_block,
                order: last.order,
                seed: first.seed,
                started_unix_ms: first.started_unix_ms,
                elapsed_ns: first.elapsed_ns.saturating_add(last.elapsed_ns),
                operations: first.operations.saturating_add(last.operations),
                counted: 1,
                application: first.application,
                members: first.members,
                cpu_ns: first.cpu_ns,
                io: last.io.clone(),
                scaled: first.scaled || last.scaled,
                shared_device: first.shared_device || last.shared_device,
                failed: first.failed.clone().or_else(|| last.failed.clone()),
                ..Run::default()
            };
            run.application += last.application;
            run.members += last.members;
            run.cpu_ns += last.cpu_ns;
            run
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::public::example;
    use crate::{Analysis, Quantity, Reason, Record, Verdict};

    /// A system that is slow at unpacking has little to flush afterwards.
    fn untar() -> Vec<Record> {
        let mut records = example::records(5);
        let phase = |workload: &mut crate::Workload| {
            let phase = match &*workload.name {
                "dd-write" => "extract",
                "rewrite" => "sync",
                _ => return false,
            };
            workload.rate = crate::Rate::Operations;
            workload.part = Some(crate::Part {
                workload: "untar".to_owned(),
                phase: phase.to_owned(),
            });
            workload.name = format!("untar {phase}");
            true
        };
        records.retain_mut(|record| match record {
            Record::Experiment(experiment) => {
                experiment.workloads.retain_mut(|workload| phase(workload));
                experiment.workloads.sort_by(|a, b| a.name.cmp(&b.name));
                true
            }
            Record::Run(run) => {
                let is_kept = phase(&mut run.workload);
                let slow = run.system.name == "raid5";
                let (seconds, counted) = match (&*run.workload.name, slow) {
                    ("untar extract", true) => (9, 3000),
                    ("untar extract", false) => (2, 3000),
                    (_, true) => (1, 1),
                    (_, false) => (3, 1),
                };
                run.counted = counted;
                run.elapsed_ns = seconds * 1_000_000_000 + run.elapsed_ns % 10_000_000;
                is_kept
            }
            Record::Environment(_) | Record::Calibration(_) | Record::Discard(_) => true,
        });
        records
    }

    #[test]
    fn a_final_flush_counts_towards_its_phase() {
        let records = untar();
        let analysis = Analysis::of(&records).unwrap();
        let names: Vec<&str> = (analysis.experiment.workloads.iter())
            .map(|workload| &*workload.name)
            .collect();
        assert_eq!(
            names,
            ["untar extract", "untar sync", "untar extract and sync"]
        );
        let comparison = |workload: &str| analysis.comparison("raid5", workload).unwrap();
        assert_eq!(comparison("untar sync").verdict, Verdict::Faster);
        let total = comparison("untar extract and sync");
        assert_eq!(
            (total.verdict, total.quantity),
            (Verdict::Slower, Quantity::Time)
        );
        assert!((total.percent().0 - 100.0).abs() < 5.0, "{total:?}");
        let cell = analysis.cell("raid5", "untar extract and sync").unwrap();
        assert_eq!(cell.repetitions.len(), 5);

        // Summaries include the total, but not its phases.
        let summed: Vec<&str> =
            (analysis.headlines().map(|headlines| &*headlines.workload)).collect();
        assert!(
            summed
                .iter()
                .all(|workload| *workload == "untar extract and sync"),
            "{summed:?}"
        );
        let left_out = &analysis.overall_scope.left_out;
        assert!(
            left_out
                .iter()
                .all(|left_out| left_out.reason == Reason::InTotal)
        );
        assert_eq!(left_out.len(), 2);
        // The total does not make runs count as missing.
        assert_eq!(
            analysis.experiment.runs_per_block() * 5,
            analysis.runs.len()
        );
        assert!(
            analysis
                .findings
                .iter()
                .all(|finding| finding.kind != "missing-runs")
        );
    }

    /// A page analyses the records again.
    #[test]
    fn totals_are_recomputed_the_same_from_their_records() {
        let mut records = untar();
        let first = Analysis::of(&records).unwrap();
        records[0] = Record::Experiment(first.experiment.clone());
        let again = Analysis::of(&records).unwrap();
        assert_eq!(again.experiment.workloads, first.experiment.workloads);
    }
}
