//! Compares a prediction with a measurement of the same systems and workloads: errors, how often
//! the measurement lies in the band of the prediction, and the order of the systems.

use serde::Serialize;

use crate::results::{Cell, Finding, Quantity};
use crate::statistics::{deviation, mean, mean_of_blocks, median, seed_of, student_t_quantile};
use crate::work::{self, Difference};
use crate::{Analysis, Rate};
use std::collections::BTreeSet;

/// A prediction next to a measurement.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PredictionCheck {
    /// Name and start (milliseconds since 1970) of the predicted experiment.
    pub predicted: (String, u64),
    /// Name and start of the measured experiment.
    pub measured: (String, u64),
    /// Paths from which the two records were read; empty if not given.
    pub read_from: (String, String),
    /// Models of the disks of the prediction.
    pub models: Vec<String>,
    /// One row for each system × workload in both. An open loop has a row for each response time.
    pub figures: Vec<CheckedFigure>,
    /// The sum of these rows.
    pub of_figures: Coverage,
    /// The same for the ratio to the baseline of the experiments.
    pub ratios: Vec<CheckedFigure>,
    /// The sum of the ratios.
    pub of_ratios: Coverage,
    /// The order of the systems, pair by pair.
    pub order: Order,
    /// Differences in the work itself.
    pub different_work: Vec<Difference>,
    /// Systems and workloads that only one side has, in words.
    pub unmatched: Vec<String>,
    /// Doubts about either side.
    pub findings: Vec<Finding>,
}

/// A predicted figure and the measured one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckedFigure {
    /// Name of the system.
    pub system: String,
    /// Name of the workload.
    pub workload: String,
    /// Quantity of the figure.
    pub quantity: Quantity,
    /// Unit of the rate.
    pub rate: Rate,
    /// Geometric mean over the draws: a rate per second, nanoseconds, or a ratio of speeds.
    pub predicted: f64,
    /// Ends of the band, which holds the figure of one more draw with 95 % probability: Student's
    /// prediction interval of the logarithms. `None` with fewer than two draws.
    pub band: Option<(f64, f64)>,
    /// Geometric mean of the measured repetitions.
    pub measured: f64,
    /// Predicted by measured, minus 1.
    pub error: f64,
    /// True if the measurement lies in the band.
    pub is_in_band: Option<bool>,
}

impl CheckedFigure {
    /// Name of the workload; for an open loop also the quantity.
    pub fn of(&self) -> String {
        self.quantity.of(&self.workload)
    }
}

/// How often the measurement lies in the band, and how far the prediction errs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Coverage {
    /// Number of rows.
    pub rows: usize,
    /// Rows with a band.
    pub with_band: usize,
    /// Rows whose measurement lies in the band.
    pub in_band: usize,
    /// Median of the errors without their sign.
    pub median_error: f64,
}

impl Coverage {
    fn of(rows: &[CheckedFigure]) -> Self {
        let errors: Vec<f64> = rows.iter().map(|row| row.error.abs()).collect();
        let count = |is: bool| rows.iter().filter(|row| row.is_in_band == Some(is)).count();
        Self {
            rows: rows.len(),
            with_band: count(true) + count(false),
            in_band: count(true),
            median_error: median(&errors),
        }
    }
}

/// How many pairs of systems have the predicted order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Order {
    /// Pairs of systems in a common workload.
    pub pairs: usize,
    /// Pairs with the predicted order.
    pub agree: usize,
    /// Pairs for which both sides show a difference beyond its interval.
    pub shown: usize,
    /// Of these, the pairs with the predicted order.
    pub shown_agree: usize,
    /// The shown pairs in the opposite order: workload, system predicted as faster, the other.
    pub against: Vec<(String, String, String)>,
}

/// Returns true if models answered, in virtual time.
pub fn is_predicted(analysis: &Analysis) -> bool {
    let mut runs = analysis.runs.iter();
    runs.any(|run| run.predicted.is_some())
}

/// Compares a prediction with a measurement.
pub fn check_prediction(predicted: &Analysis, measured: &Analysis) -> PredictionCheck {
    let mut figures = Vec::new();
    let mut ratios = Vec::new();
    for cell in &predicted.cells {
        let other = measured.cell(&cell.system, &cell.workload);
        let Some(other) = other.filter(|_| !is_control(predicted, measured, cell)) else {
            continue;
        };
        for &quantity in crate::change::quantities(predicted, measured, &cell.workload) {
            figures.extend(figure(cell, other, quantity));
            ratios.extend(ratio(predicted, measured, (cell, other), quantity));
        }
    }
    let models: BTreeSet<&String> = (predicted.runs.iter())
        .filter_map(|run| Some(&run.predicted.as_ref()?.model))
        .collect();
    let head = |analysis: &Analysis| {
        let experiment = &analysis.experiment;
        (experiment.name.clone(), experiment.started_unix_ms)
    };
    PredictionCheck {
        predicted: head(predicted),
        measured: head(measured),
        read_from: Default::default(),
        models: models.into_iter().cloned().collect(),
        of_figures: Coverage::of(&figures),
        figures,
        of_ratios: Coverage::of(&ratios),
        ratios,
        order: order(predicted, measured),
        different_work: different_work(predicted, measured),
        unmatched: crate::change::unmatched(predicted, measured, ["predicted", "measured"]),
        findings: crate::change::of_either([("predicted", predicted), ("measured", measured)]),
    }
}

/// Returns true if a cell is the baseline a second time, on either side.
fn is_control(predicted: &Analysis, measured: &Analysis, cell: &Cell) -> bool {
    let mut sides = [predicted, measured].into_iter();
    sides.any(|analysis| analysis.experiment.control.as_ref() == Some(&cell.system))
}

fn figure(cell: &Cell, other: &Cell, quantity: Quantity) -> Option<CheckedFigure> {
    let logs = |cell: &Cell| -> Vec<f64> { cell.speeds(quantity).map(f64::ln).collect() };
    let speed = checked((cell, quantity), &logs(cell), &logs(other))?;
    if !quantity.is_time() {
        return Some(speed);
    }
    // A time is the inverse of a speed, and so are the ends of its band.
    let (predicted, measured) = (1e9 / speed.predicted, 1e9 / speed.measured);
    Some(CheckedFigure {
        predicted,
        measured,
        band: speed.band.map(|(low, high)| (1e9 / high, 1e9 / low)),
        error: predicted / measured - 1.0,
        ..speed
    })
}

/// Returns the ratio of a system's speed to its baseline's; `None` for the baseline itself.
fn ratio(
    predicted: &Analysis,
    measured: &Analysis,
    (cell, other): (&Cell, &Cell),
    quantity: Quantity,
) -> Option<CheckedFigure> {
    let baseline = &predicted.experiment.baseline;
    if *baseline != measured.experiment.baseline || *baseline == cell.system {
        return None;
    }
    let pairs = |analysis: &Analysis, cell: &Cell| {
        let base = analysis.cell(baseline, &cell.workload)?;
        Some(paired(cell, base, quantity))
    };
    let (drawn, seen) = (pairs(predicted, cell)?, pairs(measured, other)?);
    checked((cell, quantity), &drawn, &seen)
}

/// Returns the row of a figure from the logarithms of its draws and of its measurements.
fn checked(
    (cell, quantity): (&Cell, Quantity),
    drawn: &[f64],
    seen: &[f64],
) -> Option<CheckedFigure> {
    if drawn.is_empty() || seen.is_empty() {
        return None;
    }
    let (middle, measured) = (mean(drawn), mean(seen));
    let band = band(drawn);
    Some(CheckedFigure {
        system: cell.system.clone(),
        workload: cell.workload.clone(),
        quantity,
        rate: cell.rate,
        predicted: middle.exp(),
        band: band.map(|(low, high)| (low.exp(), high.exp())),
        measured: measured.exp(),
        error: (middle - measured).exp() - 1.0,
        is_in_band: band.map(|(low, high)| (low..=high).contains(&measured)),
    })
}

/// Probability that the band holds the figure of one more draw.
const BAND: f64 = 0.95;

/// Returns the interval that holds one more draw of a normal distribution (Student's prediction
/// interval). `None` for fewer than two draws.
pub(crate) fn band(drawn: &[f64]) -> Option<(f64, f64)> {
    let degrees = u32::try_from(drawn.len()).ok()?.checked_sub(1)?;
    if degrees == 0 {
        return None;
    }
    let quantile = student_t_quantile(f64::midpoint(1.0, BAND), degrees);
    let wider = (1.0 + 1.0 / f64::from(degrees + 1)).sqrt();
    let half = quantile * deviation(drawn) * wider;
    let middle = mean(drawn);
    Some((middle - half, middle + half))
}

/// Logarithms of the ratios of two cells, over the blocks that both finished.
pub(crate) fn paired(cell: &Cell, base: &Cell, quantity: Quantity) -> Vec<f64> {
    paired_blocks(cell, base, quantity)
        .into_iter()
        .map(|(_, log)| log)
        .collect()
}

/// The same with the numbers of the blocks.
pub(crate) fn paired_blocks(cell: &Cell, base: &Cell, quantity: Quantity) -> Vec<(u32, f64)> {
    let of_base = |block: u32| {
        let mut repetitions = base.repetitions.iter();
        repetitions
            .find(|repetition| repetition.block == block)?
            .speed(quantity)
    };
    let repetitions = cell.repetitions.iter();
    let log = |ratio: f64| ratio.ln();
    repetitions
        .filter_map(|mine| {
            let ratio = mine.speed(quantity)? / of_base(mine.block)?;
            Some((mine.block, log(ratio)))
        })
        .collect()
}

fn order(predicted: &Analysis, measured: &Analysis) -> Order {
    let mut order = Order::default();
    let is_common = |cell: &&Cell| {
        let other = measured.cell(&cell.system, &cell.workload);
        other.is_some() && !is_control(predicted, measured, cell)
    };
    let cells: Vec<&Cell> = predicted.cells.iter().filter(is_common).collect();
    for (at, first) in cells.iter().enumerate() {
        let rest = cells[at + 1..].iter();
        for second in rest.filter(|cell| cell.workload == first.workload) {
            add_pair(&mut order, (predicted, measured), (first, second));
        }
    }
    order
}

fn add_pair(order: &mut Order, sides: (&Analysis, &Analysis), (first, second): (&Cell, &Cell)) {
    let workload = &first.workload;
    let quantity = crate::change::quantities(sides.0, sides.1, workload)[0];
    let of = |analysis: &Analysis| {
        let one = analysis.cell(&first.system, workload)?;
        let other = analysis.cell(&second.system, workload)?;
        let logs = paired(one, other, quantity);
        let seed = seed_of(analysis.experiment.seed, &[&first.system, &second.system]);
        (!logs.is_empty()).then(|| mean_of_blocks(&logs, seed))
    };
    let (Some(predicted), Some(measured)) = (of(sides.0), of(sides.1)) else {
        return;
    };
    let agrees = (predicted.value > 0.0) == (measured.value > 0.0);
    let is_shown = predicted.excludes_zero() && measured.excludes_zero();
    order.pairs += 1;
    order.agree += usize::from(agrees);
    order.shown += usize::from(is_shown);
    order.shown_agree += usize::from(is_shown && agrees);
    if is_shown && !agrees {
        let (faster, slower) = if predicted.value > 0.0 {
            (first, second)
        } else {
            (second, first)
        };
        let names = [workload, &faster.system, &slower.system].map(String::clone);
        order.against.push(names.into());
    }
}

/// Lists differences in the work of workloads and systems that both sides have.
fn different_work(predicted: &Analysis, measured: &Analysis) -> Vec<Difference> {
    let (mine, theirs) = (&predicted.experiment, &measured.experiment);
    let workloads = mine.workloads.iter().flat_map(|workload| {
        let other = theirs
            .workloads
            .iter()
            .find(|other| other.name == workload.name);
        other.map_or(Vec::new(), |other| work::of_workloads(workload, other))
    });
    let systems = mine.systems.iter().flat_map(|system| {
        let other = theirs
            .systems
            .iter()
            .find(|other| other.name == system.name);
        other.map_or(Vec::new(), |other| work::of_systems(system, other))
    });
    workloads.chain(systems).collect()
}

/// The cell of `others` whose names are nearest to those of a cell of `mine`, with that cell.
/// `None` if a side has none.
pub fn nearest_cells<'a>(mine: &'a Analysis, others: &'a Analysis) -> Option<[&'a Cell; 2]> {
    let pairs = mine.cells.iter().flat_map(|cell| {
        let others = others.cells.iter();
        others.map(move |other| [cell, other])
    });
    pairs.min_by_key(|[cell, other]| {
        distance(&cell.system, &other.system) + distance(&cell.workload, &other.workload)
    })
}

/// Levenshtein's distance of two names.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, &found) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != found);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With known draws, the band is Student's prediction interval: the values of a textbook.
    #[test]
    fn a_band_holds_one_more_draw() {
        assert_eq!(band(&[1.0]), None);
        // Mean 2, deviation 1, t(0.975, 2) = 4.3027, √(4/3) = 1.1547.
        let (low, high) = band(&[1.0, 2.0, 3.0]).unwrap();
        assert!((low + 2.968_3).abs() < 1e-3 && (high - 6.968_3).abs() < 1e-3);
        assert_eq!(band(&[2.0, 2.0]), Some((2.0, 2.0)));
    }

    #[test]
    fn distances_count_changed_letters() {
        let found = [
            ("raid5", "raid6"),
            ("", "ab"),
            ("seeks", "seek"),
            ("a", "a"),
        ];
        let found = found.map(|(one, other)| distance(one, other));
        assert_eq!(found, [1, 2, 1, 0]);
    }
}
