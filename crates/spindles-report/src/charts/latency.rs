//! Distribution of latencies: the share completed within a time. Time has a logarithmic scale, and
//! each further nine of the share has the same height.

use std::collections::{BTreeMap, BTreeSet};

use spindles_measure::{Analysis, Cell, Histogram, Latency, P99_9_COUNT_MIN};

use super::{Chart, Panel, WIDTH, line_class, line_legend, shown, time_tick};
use crate::figures;
use crate::svg::{Anchor, Scale, Svg};

pub(super) static CHART: Chart = Chart {
    name: "latency",
    entry: "Latency",
    title: "Latency",
    caption: "The share of operations (upwards) answered within a time (rightwards); further left \
        is faster. All runs of a system form one line. Each step up is another nine, so the \
        slowest few are visible; the third needs 10,000 operations. In a closed loop the next \
        request waits for an answer, so a slow system also gets fewer requests. If operations \
        arrive at a set rate (an open loop), the response time is shown too. It starts when an \
        operation is due, so it includes the wait for earlier operations.",
    panels,
};

const HEIGHT: f64 = 232.0;
const LEFT: f64 = 46.0;
const BOTTOM: f64 = HEIGHT - 26.0;
/// Shares with a grid line, up to the largest share that is drawn.
const SHARES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 0.999];

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let systems = shown(analysis);
    let mut panels = Vec::new();
    // Response times are compared for open loops, so they come first and are not folded away.
    let mut workloads: Vec<_> = analysis.experiment.workloads.iter().collect();
    workloads.sort_by_key(|workload| workload.arrivals_per_s == 0);
    for workload in workloads {
        let cells = analysis.cells.iter();
        let mine = cells.filter(|cell| cell.workload == workload.name);
        let operations: BTreeSet<&String> = mine.flat_map(|cell| cell.latency.keys()).collect();
        for operation in operations {
            let lines = |of: Of| -> Vec<Line> {
                let systems = systems.iter().enumerate();
                systems
                    .filter_map(|(index, name)| {
                        let cell = analysis.cell(name, &workload.name)?;
                        Some((index, *name, &of(cell).get(operation)?.histogram))
                    })
                    // A few flushes make no distribution.
                    .filter(|(_, _, histogram)| histogram.total() >= 20)
                    .collect()
            };
            let (service, response) = (lines(|cell| &cell.latency), lines(|cell| &cell.response));
            // Draw service times and response times to one scale, so that readers can compare them.
            let both: Vec<Line> = service.iter().chain(&response).copied().collect();
            let note = match response.len() {
                0 => format!("latency of each {operation}"),
                _ => format!("service time of each {operation}, from its submission"),
            };
            let due = format!("response time of each {operation}, from when it was due");
            for (lines, note) in [(response, due), (service, note)] {
                if lines.is_empty() {
                    continue;
                }
                panels.push(Panel {
                    title: workload.name.clone(),
                    svg: draw(&format!("{}, {note}", workload.name), &lines, &both),
                    note,
                    legend: line_legend(lines.iter().map(|(index, name, _)| (*index, *name))),
                });
            }
        }
    }
    panels
}

/// Selects the latencies of a cell.
type Of = fn(&Cell) -> &BTreeMap<String, Latency>;

/// Index and name of a system, and its latencies.
type Line<'a> = (usize, &'a str, &'a Histogram);

/// Largest share that is drawn: a percentile needs some slower operations.
fn share_max(histogram: &Histogram) -> f64 {
    if histogram.total() >= P99_9_COUNT_MIN {
        0.999
    } else {
        0.99
    }
}

/// Maps a share to a height: 0 at 0, 1 at 90 %, 2 at 99 %, 3 at 99.9 %.
fn nines(share: f64) -> f64 {
    -(1.0 - share).max(1e-9).log10()
}

/// Draws lines on a scale with room for all of `scaled`.
fn draw(words: &str, lines: &[Line], scaled: &[Line]) -> String {
    let end =
        |h: &Histogram, share: f64| figures::float(h.percentile(share * 100.0).max(1)).log10();
    let lows = scaled.iter().map(|(_, _, h)| end(h, 0.005));
    let low = lows.fold(f64::INFINITY, f64::min);
    let highs = scaled.iter().map(|(_, _, h)| end(h, share_max(h)));
    let high = highs.fold(f64::NEG_INFINITY, f64::max);
    let tops = scaled.iter().map(|(_, _, h)| share_max(h));
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
        let label = time_tick(tick);
        svg.text("tick", Anchor::Middle, (place, BOTTOM + 16.0), &label);
    }
    // The first system, with which all others are compared, is drawn last, on top.
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
        svg.path(
            &format!("curve {}", line_class(*index)),
            &thinned(&points),
            name,
        );
        let median = figures::time(figures::float(histogram.percentile(50.0)));
        said.push(format!("{name} {median}"));
    }
    said.reverse();
    svg.finish(&format!("{words}, medians: {}", said.join(", ")))
}

/// Ticks at 1, 2, 5 or only 1 of each power of ten, depending on the room.
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

/// Removes points too close to distinguish.
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
