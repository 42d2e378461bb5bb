//! A prediction next to a measurement: errors, bands and the order of systems follow from records.

use super::example;
use spindles_measure::{
    Analysis, Predicted, PredictionCheck, Quantity, check_prediction, nearest_cells,
};

const SYSTEMS: [&str; 4] = ["single", "single-again", "raid0", "raid5"];

/// Six blocks of a workload. `speed` gives the rate of a system in a block.
fn analysis(speed: impl Fn(&str, u32) -> f64, model: Option<&str>) -> Analysis {
    let mut records = example::records(6);
    records.retain(|record| {
        record.run().is_none_or(|run| {
            SYSTEMS.contains(&&*run.system.name) && run.workload.name == "dd-read"
        })
    });
    for record in &mut records {
        if let Some(experiment) = record.experiment_mut() {
            experiment
                .systems
                .retain(|system| SYSTEMS.contains(&&*system.name));
            experiment
                .workloads
                .retain(|workload| workload.name == "dd-read");
        }
        if let Some(run) = record.run_mut() {
            run.elapsed_ns = 1_000_000_000;
            let speed = speed(&run.system.name, run.repetition_block);
            run.counted = count(speed);
            run.predicted = model.map(|model| Predicted {
                model: model.to_owned(),
                ..Predicted::default()
            });
        }
    }
    Analysis::of(&records).unwrap()
}

/// A rate of millions, as a count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small and positive"
)]
fn count(speed: f64) -> u64 {
    (speed * 1e6).round() as u64
}

/// Predicted: 100 for a disk, twice as much for raid0, 0.9 for raid5; draws differ by ±10 %.
fn predicted() -> Analysis {
    let speed = |system: &str, block: u32| {
        let draw = 1.0 + 0.04 * (f64::from(block) - 2.5);
        let noise = 1.0 + 0.01 * f64::from(block % 2);
        match system {
            "raid0" => 200.0 * draw * noise,
            "raid5" => 90.0 * draw * noise,
            _ => 100.0 * draw,
        }
    };
    analysis(speed, Some("disk"))
}

/// Measured: a disk as predicted, raid0 half as fast as predicted, raid5 faster than the disk.
fn measured() -> Analysis {
    let speed = |system: &str, block: u32| {
        let noise = 1.0 + 0.001 * f64::from(block % 3);
        match system {
            "raid0" => 100.5 * noise,
            "raid5" => 110.0 * noise,
            _ => 100.0 * noise,
        }
    };
    analysis(speed, None)
}

fn check() -> PredictionCheck {
    check_prediction(&predicted(), &measured())
}

#[test]
fn errors_and_bands_follow_from_the_records() {
    let check = check();
    assert_eq!(check.models, ["disk"]);
    let figure = |system: &str| {
        let mut rows = check.figures.iter();
        rows.find(|row| row.system == system).unwrap()
    };
    let single = figure("single");
    assert_eq!(single.quantity, Quantity::Rate);
    let (low, high) = single.band.unwrap();
    assert!(
        low < single.measured && single.measured < high,
        "{single:?}"
    );
    assert!(single.error.abs() < 0.01 && single.is_in_band == Some(true));
    let raid0 = figure("raid0");
    assert!((raid0.error - 1.0).abs() < 0.02, "{raid0:?}");
    assert_eq!(raid0.is_in_band, Some(false));
    // Of three figures, that of the disk and that of raid5 lie in the band.
    assert_eq!((check.of_figures.rows, check.of_figures.with_band), (3, 3));
    assert_eq!(check.of_figures.in_band, 2);
    // Draws cancel in ratios, so the band of raid5 is narrow, and the measurement outside.
    let ratios: Vec<_> = check
        .ratios
        .iter()
        .map(|row| (&*row.system, row.is_in_band))
        .collect();
    assert_eq!(ratios, [("raid0", Some(false)), ("raid5", Some(false))]);
    let [one, other] = [0, 1].map(|row: usize| check.ratios[row].error.abs());
    let median = f64::midpoint(one, other);
    assert!((check.of_ratios.median_error - median).abs() < 1e-9);
}

/// The control is no system of its own. Of three pairs one has the predicted order.
#[test]
fn the_order_counts_pairs() {
    let order = check().order;
    assert_eq!((order.pairs, order.agree), (3, 1), "{order:?}");
    assert_eq!((order.shown, order.shown_agree), (3, 1));
    let names = |faster: &str, slower: &str| ["dd-read", faster, slower].map(str::to_owned).into();
    assert_eq!(
        order.against,
        [names("single", "raid5"), names("raid0", "raid5")]
    );
}

/// Without a second draw nothing is known about the spread.
#[test]
fn one_draw_has_no_band() {
    let one = |analysis: Analysis| {
        let mut analysis = analysis;
        for cell in &mut analysis.cells {
            cell.repetitions.truncate(1);
        }
        analysis
    };
    let check = check_prediction(&one(predicted()), &measured());
    assert!(check.figures.iter().all(|row| row.is_in_band.is_none()));
    assert_eq!((check.of_figures.rows, check.of_figures.with_band), (3, 0));
}

#[test]
fn the_nearest_cells_have_similar_names() {
    let mut other = measured();
    for cell in &mut other.cells {
        cell.workload = "dd-read 4K".to_owned();
    }
    let predicted = predicted();
    assert!(check_prediction(&predicted, &other).figures.is_empty());
    let [mine, theirs] = nearest_cells(&predicted, &other).unwrap();
    assert_eq!(
        (&*mine.system, &*theirs.workload),
        (&*theirs.system, "dd-read 4K")
    );
}
