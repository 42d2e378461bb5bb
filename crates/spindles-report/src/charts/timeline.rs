//! The rate over time: one lane for each system, with its warm-up shaded and its steadiness.

use spindles_measure::{Analysis, Quantity, Run};

use super::{Chart, Labels, Panel, WIDTH, legend, line_class, runs_by_rate, shown, time_tick};
use crate::figures;
use crate::svg::{Anchor, Scale, Svg};

pub(super) static CHART: Chart = Chart {
    name: "timeline",
    entry: "Over time",
    title: "Rate over time",
    caption: "One lane for each system, all from zero to the same rate. The strong line is the \
        median repetition, the faint lines are the others. The shaded part is warm-up, which \
        counts in no other figure. A run of a set time is steady if five rounds of its timed \
        window pass SNIA's test: they lie within 20 % of their mean, and the line through them \
        rises or falls by at most 10 % of it.",
    panels,
};

/// Heights of a lane's name and of its plot.
const NAME: f64 = 19.0;
const PLOT: f64 = 38.0;
const LEFT: f64 = 4.0;
const RIGHT: f64 = WIDTH - 4.0;
/// Largest number of points in a line: more are indistinguishable.
const POINTS_MAX: usize = 110;
/// Fewest slots for a chart.
const SLOTS_MIN: usize = 8;

/// Index and name of a system, and its runs with slots, slowest first.
struct Lane<'a> {
    index: usize,
    name: &'a str,
    runs: Vec<&'a Run>,
}

impl Lane<'_> {
    fn middle(&self) -> &Run {
        self.runs[self.runs.len() / 2]
    }

    /// Returns whether its timed runs became steady, in words. `None` without timed runs.
    fn steadiness(&self) -> Option<String> {
        let tested: Vec<bool> = (self.runs.iter())
            .filter_map(|run| run.steady_over_time())
            .map(|steady| steady.holds())
            .collect();
        let unsteady = tested.iter().filter(|holds| !**holds).count();
        match (tested.len(), unsteady) {
            (0, _) => None,
            (_, 0) => Some("steady".to_owned()),
            (1, _) => Some("NOT STEADY".to_owned()),
            (all, some) => Some(format!("NOT STEADY in {some} of {all}")),
        }
    }
}

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let systems = shown(analysis);
    let workloads = analysis.experiment.workloads.iter();
    workloads
        // One operation has no rate over time.
        .filter(|workload| analysis.quantities(workload) != [Quantity::Time])
        .filter_map(|workload| {
            let lanes: Vec<Lane> = (systems.iter().enumerate())
                .map(|(index, name)| {
                    let mut runs = runs_by_rate(analysis, name, &workload.name);
                    runs.retain(|run| run.rates_over_time().len() >= SLOTS_MIN);
                    Lane { index, name, runs }
                })
                .filter(|lane| !lane.runs.is_empty())
                .collect();
            (!lanes.is_empty()).then(|| panel(&workload.name, &lanes))
        })
        .collect()
}

/// Rates after the warm-up, or all rates if the run has nothing else.
fn timed(run: &Run) -> Vec<f64> {
    let rates = run.rates_over_time();
    let warm_up = run.series.as_ref().map_or(0, |series| series.warm_up_slots);
    let warm_up = usize::try_from(warm_up).unwrap_or(usize::MAX);
    match rates.get(warm_up..) {
        Some(timed) if !timed.is_empty() => timed.to_vec(),
        _ => rates,
    }
}

fn panel(workload: &str, lanes: &[Lane]) -> Panel {
    let runs = || lanes.iter().flat_map(|lane| &lane.runs);
    let rate = lanes[0].runs[0].workload.rate;
    let most = runs().flat_map(|run| timed(run)).fold(0.0, f64::max);
    let mut swatches = vec![("mean", "median repetition")];
    if lanes.iter().any(|lane| lane.runs.len() > 1) {
        swatches.push(("faint", "the others"));
    }
    let warm = |run: &&Run| {
        run.series
            .as_ref()
            .is_some_and(|series| series.warm_up_slots > 0)
    };
    let mut note = format!("each lane from 0 to {}", figures::rate(most, rate));
    if runs().any(warm) {
        swatches.push(("warm-up", "warm-up"));
        note += "; a faster warm-up is cut off";
    }
    Panel {
        title: workload.to_owned(),
        note,
        svg: draw(workload, lanes, most),
        legend: legend(&swatches),
    }
}

/// Length of a run's slots in nanoseconds.
pub(super) fn length_ns(run: &Run) -> f64 {
    run.series.as_ref().map_or(0.0, |series| {
        let slots = u64::try_from(series.slots.len()).unwrap_or(u64::MAX);
        figures::float(slots) * figures::float(series.slot_ns)
    })
}

/// Draws a time axis below the lanes.
pub(super) fn time_axis(svg: &mut Svg, x: &Scale, bottom: f64) {
    // Choose ticks that are round in the unit shown.
    let unit = [1e9, 1e6, 1e3].into_iter().find(|unit| x.high >= *unit);
    let unit = unit.unwrap_or(1.0);
    let in_unit = Scale {
        low: 0.0,
        high: x.high / unit,
        ..*x
    };
    let mut labels = Labels::new(bottom + 17.0);
    for tick in in_unit.ticks(6.0) {
        let place = in_unit.at(tick);
        svg.line("grid", (place, bottom), (place, bottom + 4.0));
        let label = if tick > 0.0 {
            time_tick(tick * unit)
        } else {
            "0".to_owned()
        };
        labels.write(svg, place, &label);
    }
}

fn draw(workload: &str, lanes: &[Lane], most: f64) -> String {
    let runs = lanes.iter().flat_map(|lane| &lane.runs);
    let x = Scale {
        low: 0.0,
        high: runs.map(|run| length_ns(run)).fold(1.0, f64::max),
        from: LEFT,
        to: RIGHT,
    };
    let bottom = super::float(lanes.len()) * (NAME + PLOT);
    let mut svg = Svg::new(WIDTH, bottom + 26.0);
    let mut said = Vec::new();
    for (at, lane) in lanes.iter().enumerate() {
        let top = super::float(at) * (NAME + PLOT) + NAME;
        let y = Scale {
            low: 0.0,
            high: most * 1.03,
            from: top + PLOT,
            to: top,
        };
        svg.text("name", Anchor::Start, (LEFT, top - 5.0), lane.name);
        let middle = lane.middle();
        let mean = figures::rate(middle.per_second(), middle.workload.rate);
        let figure = match lane.steadiness() {
            Some(steadiness) => format!("{mean}, {steadiness}"),
            None => mean,
        };
        svg.text("figure plain", Anchor::End, (RIGHT, top - 5.0), &figure);
        if let Some(series) = &middle.series {
            let end = f64::from(series.warm_up_slots) * figures::float(series.slot_ns);
            if end > 0.0 {
                let title = format!("warm-up: {}", figures::time(end));
                svg.bar("warm-up", (x.at(0.0), x.at(end)), (top, PLOT), &title);
            }
        }
        svg.line("zero", (LEFT, top + PLOT), (RIGHT, top + PLOT));
        let strong = lane.runs.len() / 2;
        let others = lane.runs.iter().enumerate().filter(|(at, _)| *at != strong);
        for (_, run) in others {
            svg.path("curve faint", &points(run, &x, &y), "");
        }
        let class = format!("curve {}", line_class(lane.index));
        svg.path(&class, &points(middle, &x, &y), lane.name);
        said.push(format!("{} {figure}", lane.name));
    }
    time_axis(&mut svg, &x, bottom);
    svg.finish(&format!("{workload}, rate over time: {}", said.join("; ")))
}

/// A run's rates as points. Averages neighbouring slots if a run has more than `POINTS_MAX`.
fn points(run: &Run, x: &Scale, y: &Scale) -> Vec<(f64, f64)> {
    let rates = run.rates_over_time();
    let each = rates.len().div_ceil(POINTS_MAX).max(1);
    let slot_ns = run
        .series
        .as_ref()
        .map_or(0.0, |series| figures::float(series.slot_ns));
    let points = rates.chunks(each).enumerate().map(|(at, chunk)| {
        let mean = chunk.iter().sum::<f64>() / super::float(chunk.len());
        let middle = super::float(at * each) + super::float(chunk.len()) / 2.0;
        (x.at(middle * slot_ns), y.at(mean))
    });
    points.collect()
}
