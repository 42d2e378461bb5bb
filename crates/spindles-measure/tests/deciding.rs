//! Which numbers decided a prediction, and what would help: from records alone.

use super::example;
use spindles_measure::statistics::Random;
use spindles_measure::{Analysis, Predicted, Record};

const SYSTEMS: [&str; 2] = ["single", "raid0"];

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small and positive"
)]
fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Twenty draws. `raid0` gains with the number `decides`, and nothing else matters; `part` runs all
/// again with a faster part, which doubles the speed of raid0.
fn records(part: Option<&str>) -> Vec<Record> {
    let mut of_one = example::records(1);
    of_one.retain(|record| match record {
        Record::Run(run) => SYSTEMS.contains(&&*run.system.name) && run.workload.name == "dd-read",
        Record::Experiment(_) => true,
        _ => false,
    });
    let head = of_one[0].experiment_mut().unwrap();
    head.systems
        .retain(|system| SYSTEMS.contains(&&*system.name));
    head.workloads.retain(|workload| workload.name == "dd-read");
    head.control = None;
    let (head, runs) = of_one.split_at(1);
    let mut random = Random::new(5);
    let mut records = head.to_vec();
    for block in 0..20 {
        let decides = random.unit();
        let chance: Vec<(String, f64)> = (0..30)
            .map(|number| (format!("chance {number:02}"), random.unit()))
            .collect();
        for faster in [None, part] {
            for run in runs {
                let mut run = run.run().unwrap().clone();
                let is_raid0 = run.system.name == "raid0";
                let speed = match (is_raid0, faster) {
                    (true, None) => 1.0 + decides,
                    (true, Some(_)) => 2.0 * (1.0 + decides),
                    (false, _) => 1.0,
                };
                run.repetition_block = block;
                run.started_unix_ms = 0;
                run.counted = 1 << 30;
                run.elapsed_ns = ns(1.0 / speed);
                run.predicted = Some(Predicted {
                    model: "disk".to_owned(),
                    numbers: chance
                        .iter()
                        .cloned()
                        .chain([("decides".to_owned(), decides)])
                        .collect(),
                    switches: [("cache", decides > 0.5), ("constant", true)]
                        .map(|(name, is_on)| (name.to_owned(), format!("{is_on}")))
                        .into(),
                    faster: faster.map(str::to_owned),
                    ..Predicted::default()
                });
                records.push(Record::Run(Box::new(run)));
            }
            if part.is_none() {
                break;
            }
        }
    }
    records
}

#[test]
fn numbers_beyond_chance_are_named() {
    let analysis = Analysis::of(&records(None)).unwrap();
    let [of] = &analysis.deciding[..] else {
        panic!("{:?}", analysis.deciding);
    };
    assert_eq!(
        (&*of.system, &*of.baseline, of.draws),
        ("raid0", "single", 20)
    );
    // Thirty by chance, one that decides, and one of the two words; the constant is not drawn.
    assert_eq!(of.tested, 32);
    let names: Vec<&str> = of.numbers.iter().map(|number| &*number.name).collect();
    assert_eq!(names, ["decides", "cache = true"]);
    assert!((of.numbers[0].correlation - 1.0).abs() < 1e-9);
    assert!(of.numbers[1].correlation > 0.8 && of.numbers[1].p_corrected < 0.05);
}

/// Without draws nothing decides.
#[test]
fn nominal_values_decide_nothing() {
    let mut records = records(None);
    for record in &mut records {
        if let Some(predicted) = record.run_mut().and_then(|run| run.predicted.as_mut()) {
            predicted
                .numbers
                .values_mut()
                .for_each(|value| *value = 1.0);
            predicted.switches.clear();
        }
    }
    assert_eq!(Analysis::of(&records).unwrap().deciding, []);
}

/// Runs with a faster part count in no result but their own.
#[test]
fn a_faster_part_is_compared_with_the_same_draws() {
    let (without, with) = (records(None), records(Some("arm")));
    let [without, with] = [without, with].map(|records| Analysis::of(&records).unwrap());
    assert!(without.help.is_empty());
    assert_eq!(with.runs.len(), without.runs.len());
    assert_eq!(with.deciding, without.deciding);
    let found = with
        .help
        .iter()
        .map(|help| (&*help.part, &*help.system, help.log_ratio.value.exp()));
    let found: Vec<_> = found.collect();
    let [("arm", "single", one), ("arm", "raid0", two)] = found[..] else {
        panic!("{found:?}");
    };
    assert!(
        (one - 1.0).abs() < 1e-6 && (two - 2.0).abs() < 1e-6,
        "{found:?}"
    );
    let raid0 = &with.help[1].log_ratio;
    assert_eq!(raid0.blocks, 20);
    assert!((raid0.high - raid0.low).abs() < 1e-6, "the draws cancel");
}
