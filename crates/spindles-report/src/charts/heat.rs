//! Latency over time: one lane for each system, time from left to right, latency upwards in powers
//! of two. The colour is stronger for more operations.

use std::collections::BTreeMap;

use spindles_measure::{Analysis, Run, Series};

use super::timeline::{length_ns, time_axis};
use super::{Chart, Panel, WIDTH, float, legend, runs_by_rate, shown, time_tick};
use crate::figures;
use crate::svg::{Anchor, Scale, Svg};

pub(super) static CHART: Chart = Chart {
    name: "heat",
    entry: "Latency over time",
    title: "Latency over time",
    caption: "One lane for each system, with its median repetition: time from left to right, \
        latency upwards, each row twice the row below. The figures are where the lowest and the \
        highest row begin. The stronger the colour of a field, the more operations had that \
        latency at that time; each shade is four times the next. It shows what averages hide: \
        pauses, a second mode, a tail that comes and goes.",
    panels,
};

const LEFT: f64 = 48.0;
const RIGHT: f64 = WIDTH - 4.0;
const NAME: f64 = 19.0;
/// Height of the row for a power of two.
const ROW: f64 = 6.5;
/// Largest number of columns.
const COLUMNS_MAX: usize = 76;
/// Shades, each for four times as many operations as the previous one. The first also covers all
/// smaller counts.
const SHADES: [&str; 5] = ["heat1", "heat2", "heat3", "heat4", "heat5"];
const SHADE_FACTOR: f64 = 4.0;
/// Fewest slots for a chart.
const SLOTS_MIN: usize = 8;

/// Operations by column and power of two.
type Fields = BTreeMap<(usize, u8), u64>;

struct Lane<'a> {
    name: &'a str,
    run: &'a Run,
    series: &'a Series,
    fields: Fields,
}

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let systems = shown(analysis);
    let workloads = analysis.experiment.workloads.iter();
    workloads
        .filter_map(|workload| {
            let lanes: Vec<Lane> = (systems.iter())
                .filter_map(|name| {
                    let runs = runs_by_rate(analysis, name, &workload.name);
                    let run = *runs.get(runs.len() / 2)?;
                    let series = run.series.as_ref()?;
                    let fields = fields(series);
                    let enough = series.slots.len() >= SLOTS_MIN && !fields.is_empty();
                    enough.then_some(Lane {
                        name,
                        run,
                        series,
                        fields,
                    })
                })
                .collect();
            (!lanes.is_empty()).then(|| Panel {
                title: workload.name.clone(),
                note: "operations by latency over time".to_owned(),
                svg: draw(&workload.name, &lanes),
                legend: legend_of(&lanes),
            })
        })
        .collect()
}

fn legend_of(lanes: &[Lane]) -> Vec<(String, String)> {
    let mut swatches = vec![
        ("heat1", "few"),
        ("heat2", "× 4"),
        ("heat3", "× 16"),
        ("heat4", "× 64"),
        ("heat5", "most"),
    ];
    if lanes.iter().any(|lane| lane.series.warm_up_slots > 0) {
        swatches.push(("warm-up", "warm-up"));
    }
    legend(&swatches)
}

/// Number of slots in each column.
fn slots_a_column(series: &Series) -> usize {
    series.slots.len().div_ceil(COLUMNS_MAX).max(1)
}

fn fields(series: &Series) -> Fields {
    let each = slots_a_column(series);
    let mut fields = Fields::new();
    for (at, slot) in series.slots.iter().enumerate() {
        for (power, count) in slot.latency.iter().filter(|(_, count)| *count > 0) {
            let field = fields.entry((at / each, *power)).or_default();
            *field = field.saturating_add(*count);
        }
    }
    fields
}

/// Returns the shade of a count; `most` is the largest count.
fn shade(count: u64, most: u64) -> usize {
    let below = (figures::float(most) / figures::float(count.max(1))).ln() / SHADE_FACTOR.ln();
    let steps = [1.0, 2.0, 3.0, 4.0].iter().filter(|step| below >= **step);
    SHADES.len() - 1 - steps.count()
}

fn draw(workload: &str, lanes: &[Lane]) -> String {
    let powers = || {
        lanes
            .iter()
            .flat_map(|lane| lane.fields.keys().map(|(_, power)| *power))
    };
    let (low, high) = (powers().min().unwrap_or(0), powers().max().unwrap_or(0));
    let counts = lanes.iter().flat_map(|lane| lane.fields.values());
    let most = counts.copied().max().unwrap_or(0);
    let plot = ROW * f64::from(high - low + 1);
    let x = Scale {
        low: 0.0,
        high: lanes
            .iter()
            .map(|lane| length_ns(lane.run))
            .fold(1.0, f64::max),
        from: LEFT,
        to: RIGHT,
    };
    let bottom = float(lanes.len()) * (NAME + plot + 6.0);
    let mut svg = Svg::new(WIDTH, bottom + 26.0);
    for (at, lane) in lanes.iter().enumerate() {
        let top = float(at) * (NAME + plot + 6.0) + NAME;
        let y = |power: u8| top + ROW * f64::from(high - power);
        svg.text("name", Anchor::Start, (LEFT, top - 5.0), lane.name);
        for power in [low, high] {
            let label = time_tick(2_f64.powi(power.into()));
            svg.text("tick", Anchor::End, (LEFT - 5.0, y(power) + ROW), &label);
        }
        let slot_ns = figures::float(lane.series.slot_ns);
        let warm_up = f64::from(lane.series.warm_up_slots) * slot_ns;
        if warm_up > 0.0 {
            let title = format!("warm-up: {}", figures::time(warm_up));
            svg.bar("warm-up", (x.at(0.0), x.at(warm_up)), (top, plot), &title);
        }
        let column_ns = slot_ns * float(slots_a_column(lane.series));
        let mut shades: [Vec<[f64; 4]>; SHADES.len()] = [const { Vec::new() }; SHADES.len()];
        for ((column, power), count) in &lane.fields {
            let from = x.at(float(*column) * column_ns);
            let to = x.at(float(column + 1) * column_ns);
            shades[shade(*count, most)].push([from, y(*power), to - from, ROW]);
        }
        for (class, cells) in SHADES.iter().zip(&shades) {
            if !cells.is_empty() {
                svg.cells(&format!("heat {class}"), cells);
            }
        }
        svg.line("zero", (LEFT, top + plot), (RIGHT, top + plot));
    }
    time_axis(&mut svg, &x, bottom);
    let names: Vec<&str> = lanes.iter().map(|lane| lane.name).collect();
    svg.finish(&format!(
        "{workload}, latency over time between {} and {}: {}",
        time_tick(2_f64.powi(low.into())),
        time_tick(2_f64.powi(i32::from(high) + 1)),
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::shade;

    #[test]
    fn each_shade_is_four_times_the_next() {
        for (count, expected) in [(256, 4), (65, 4), (64, 3), (16, 2), (4, 1), (1, 0), (0, 0)] {
            assert_eq!(shade(count, 256), expected, "{count}");
        }
        assert_eq!(shade(1, 1_000_000), 0);
    }
}
