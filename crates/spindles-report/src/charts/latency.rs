//! How long operations took: the share that was done within a time, time on a
//! logarithmic scale, and the share on one that gives each nine the same room.

use spindles_measure::{Analysis, Histogram, P99_9_COUNT_MIN};

use super::{Chart, Panel, WIDTH, shown};
use crate::figures;
use crate::svg::{Anchor, Scale, Svg};

pub(super) static CHART: Chart = Chart {
    name: "latency",
    entry: "Latency",
    title: "Latency",
    caption: "The share of operations (upwards) that was answered within a time (rightwards); further \
              left is faster. Each step up is another nine, so that the slowest few are seen as \
              well; the third only from 10,000 operations on. These workloads are closed loops: the next request waits for an answer, so \
              a slow system is also asked less.",
    panels,
};

const HEIGHT: f64 = 232.0;
const LEFT: f64 = 46.0;
const BOTTOM: f64 = HEIGHT - 26.0;
/// Shares with a line of their own, and up to which lines are drawn.
const SHARES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 0.999];

/// The class of a system's line: nine colours, then the same again dashed.
fn class(index: usize) -> String {
    let dashed = if index >= 9 { " dashed" } else { "" };
    format!("system{}{dashed}", index % 9)
}

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let systems = shown(analysis);
    let mut panels = Vec::new();
    for workload in &analysis.experiment.workloads {
        let mut operations: Vec<&str> = analysis
            .cells
            .iter()
            .filter(|cell| cell.workload == workload.name)
            .flat_map(|cell| cell.latency.keys().map(String::as_str))
            .collect();
        operations.sort_unstable();
        operations.dedup();
        for operation in operations {
            let lines: Vec<(usize, &str, &Histogram)> = systems
                .iter()
                .enumerate()
                .filter_map(|(index, name)| {
                    let cell = analysis.cell(name, &workload.name)?;
                    Some((index, *name, &cell.latency.get(operation)?.histogram))
                })
                // A handful of flushes makes no distribution.
                .filter(|(_, _, histogram)| histogram.total() >= 20)
                .collect();
            if !lines.is_empty() {
                panels.push(Panel {
                    title: workload.name.clone(),
                    note: format!("latency of each {operation}"),
                    svg: draw(&workload.name, operation, &lines),
                    legend: legend(&lines),
                });
            }
        }
    }
    panels
}

fn legend(lines: &[(usize, &str, &Histogram)]) -> Vec<(String, String)> {
    let lines = lines.iter();
    lines
        .map(|(index, name, _)| {
            (
                format!("swatch stroke {}", class(*index)),
                (*name).to_owned(),
            )
        })
        .collect()
}

/// Up to which share a line is drawn: a percentile needs some that are slower.
fn share_max(histogram: &Histogram) -> f64 {
    if histogram.total() >= P99_9_COUNT_MIN {
        0.999
    } else {
        0.99
    }
}

/// A share as a height: 0 at 0, 1 at 90 %, 2 at 99 %, 3 at 99.9 %.
fn nines(share: f64) -> f64 {
    -(1.0 - share).max(1e-9).log10()
}

fn draw(workload: &str, operation: &str, lines: &[(usize, &str, &Histogram)]) -> String {
    let end =
        |h: &Histogram, share: f64| figures::float(h.percentile(share * 100.0).max(1)).log10();
    let lows = lines.iter().map(|(_, _, h)| end(h, 0.005));
    let low = lows.fold(f64::INFINITY, f64::min);
    let highs = lines.iter().map(|(_, _, h)| end(h, share_max(h)));
    let high = highs.fold(f64::NEG_INFINITY, f64::max);
    let tops = lines.iter().map(|(_, _, h)| share_max(h));
    let top = tops.fold(0.99, f64::max);
    let (low, high) = (low - 0.05, (high + 0.05).max(low + 0.5));
    let x = Scale {
        low,
        high,
        from: LEFT,
        to: WIDTH - 12.0,
    };
    let y = Scale {
        low: 0.0,
        high: nines(top),
        from: BOTTOM,
        to: 8.0,
    };

    let mut svg = Svg::new(WIDTH, HEIGHT);
    for share in SHARES.into_iter().filter(|share| *share <= top) {
        let height = y.at(nines(share));
        svg.line(
            if share > 0.0 { "grid" } else { "zero" },
            (LEFT, height),
            (WIDTH - 12.0, height),
        );
        let label = format!("{} %", (share * 1000.0).round() / 10.0);
        svg.text("tick", Anchor::End, (LEFT - 6.0, height + 4.0), &label);
    }
    for tick in time_ticks(low, high) {
        let place = x.at(tick.log10());
        svg.line("grid", (place, 8.0), (place, BOTTOM));
        let label = figures::time(tick).replace(".00", "").replace(".0", "");
        svg.text("tick", Anchor::Middle, (place, BOTTOM + 16.0), &label);
    }
    // The first system is the one all others are compared with: it is drawn last, on top.
    let mut said = Vec::new();
    for (index, name, histogram) in lines.iter().rev() {
        let mut points = Vec::new();
        let (mut seen, mut share) = (0, 0.0);
        for (least, count) in histogram.buckets() {
            let place = x.at(figures::float(least.max(1)).log10());
            points.push((place, y.at(nines(share))));
            seen = u64::saturating_add(seen, count);
            share = figures::float(seen) / figures::float(histogram.total());
            points.push((place, y.at(nines(share))));
            if share >= share_max(histogram) {
                break;
            }
        }
        svg.path(&format!("curve {}", class(*index)), &thinned(&points), name);
        let median = figures::time(figures::float(histogram.percentile(50.0)));
        said.push(format!("{name} {median}"));
    }
    said.reverse();
    svg.finish(&format!(
        "{workload}, median latency of a {operation}: {}",
        said.join(", ")
    ))
}

/// 1, 2, 5 or 1 of each power of ten between two powers of ten, as the room allows.
fn time_ticks(low: f64, high: f64) -> Vec<f64> {
    let factors: &[f64] = if high - low < 2.2 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let mut ticks = Vec::new();
    for power in 0_i32..12 {
        for factor in factors {
            let tick = factor * 10_f64.powi(power);
            if (low..=high).contains(&tick.log10()) {
                ticks.push(tick);
            }
        }
    }
    ticks
}

/// Without the points nobody could see apart.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let far = kept.last().is_none_or(|last: &(f64, f64)| {
            (point.0 - last.0).abs() + (point.1 - last.1).abs() > 1.0
        });
        if far || index + 1 == points.len() {
            kept.push(*point);
        }
    }
    kept
}
