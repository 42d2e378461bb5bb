//! Sweeps of two numbers: a field for each pair, in a stronger colour the faster it is.

use std::collections::BTreeSet;

use spindles_measure::{Analysis, Grid, grids};

use super::sweep::value;
use super::{Chart, Labels, Panel, WIDTH, float, legend, shown};
use crate::figures;
use crate::svg::{Anchor, Svg};

pub(super) static CHART: Chart = Chart {
    name: "grids",
    entry: "Grids",
    title: "Rate against two numbers",
    caption: "One field for each pair of numbers, with the geometric mean of its rate: the \
        stronger the colour, the faster. All panels of a kind use the same shades, so systems can \
        be compared.",
    panels,
};

const LEFT: f64 = 66.0;
const ROW: f64 = 30.0;
/// Strongest shade on which figures are still readable.
const SHARE_MAX: f64 = 0.46;

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let mut panels = Vec::new();
    for grid in grids(&analysis.experiment.workloads) {
        let rate = |system: &str, workload: &str| {
            let cell = analysis.cell(system, workload);
            cell.map_or(0.0, |cell| cell.geometric_mean)
        };
        let systems = shown(analysis);
        let rates = systems.iter().flat_map(|system| {
            let points = grid.points.iter();
            points.map(move |(_, _, workload)| rate(system, workload))
        });
        let fastest = rates.fold(0.0, f64::max);
        if fastest <= 0.0 {
            continue;
        }
        let (_, unit) = figures::rate_unit(fastest, grid.rate);
        let unit = match unit.trim() {
            "" => "op/s".to_owned(),
            unit => format!("{unit}/s"),
        };
        for system in systems {
            let fields: Vec<Field> = (grid.points.iter())
                .map(|(x, y, workload)| (*x, *y, rate(system, workload)))
                .filter(|(_, _, rate)| *rate > 0.0)
                .collect();
            if fields.is_empty() {
                continue;
            }
            panels.push(Panel {
                title: format!("{}: {system}", grid.of),
                note: format!(
                    "{unit}; {} from left to right, {} from top to bottom",
                    grid.across.name, grid.down.name
                ),
                svg: draw(&grid, system, &fields, fastest),
                legend: legend(&[("shade", "the stronger, the faster")]),
            });
        }
    }
    panels
}

/// The two numbers of a field, and its rate.
type Field = (u64, u64, f64);

fn draw(grid: &Grid, system: &str, fields: &[Field], fastest: f64) -> String {
    let columns: BTreeSet<u64> = grid.points.iter().map(|(x, _, _)| *x).collect();
    let rows: BTreeSet<u64> = grid.points.iter().map(|(_, y, _)| *y).collect();
    let (unit, _) = figures::rate_unit(fastest, grid.rate);
    let wide = (WIDTH - LEFT - 2.0) / float(columns.len());
    let bottom = 2.0 + ROW * float(rows.len());
    let mut svg = Svg::new(WIDTH, bottom + 24.0);
    let place = |of: &BTreeSet<u64>, number: u64| float(of.range(..number).count());
    let (left, top) = (
        |x: u64| LEFT + wide * place(&columns, x),
        |y: u64| 2.0 + ROW * place(&rows, y),
    );
    for y in &rows {
        let middle = top(*y) + ROW / 2.0 + 4.0;
        svg.text(
            "tick",
            Anchor::End,
            (LEFT - 6.0, middle),
            &value(&grid.down, *y),
        );
    }
    let mut labels = Labels::new(bottom + 16.0);
    for x in &columns {
        let middle = left(*x) + wide / 2.0;
        labels.write(&mut svg, middle, &value(&grid.across, *x));
    }
    let mut said = Vec::new();
    for (x, y, rate) in fields {
        let at = format!(
            "{} {}, {} {}",
            grid.across.name,
            value(&grid.across, *x),
            grid.down.name,
            value(&grid.down, *y)
        );
        let words = figures::rate(*rate, grid.rate);
        let corner = (left(*x) + 1.0, top(*y) + 1.0);
        let share = 0.04 + (SHARE_MAX - 0.04) * rate / fastest;
        svg.field(
            "shade",
            corner,
            (wide - 2.0, ROW - 2.0),
            share,
            &format!("{at}: {words}"),
        );
        let middle = (left(*x) + wide / 2.0, top(*y) + ROW / 2.0 + 4.0);
        // As many digits as fit.
        let figure = figures::three_digits(rate / unit);
        let figure = if wide < 40.0 {
            format!("{:.0}", rate / unit)
        } else {
            figure
        };
        svg.text("cell", Anchor::Middle, middle, &figure);
        said.push(format!("{at} {words}"));
    }
    svg.finish(&format!("{}, {system}: {}", grid.of, said.join("; ")))
}
