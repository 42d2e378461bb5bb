//! The charts of the page: each a row of one table that draws one panel for each
//! workload it has something to say about.

mod amplification;
mod cpu;
mod difference;
mod latency;
mod repetitions;

use spindles_measure::Analysis;

pub(crate) use difference::class;

use crate::svg::{Anchor, Scale, Svg};

/// A chart.
#[derive(Debug)]
pub(crate) struct Chart {
    /// Its name, and the name of its section.
    pub(crate) name: &'static str,
    /// What the page's contents call it.
    pub(crate) entry: &'static str,
    /// Its heading.
    pub(crate) title: &'static str,
    /// How to read it: one or two sentences.
    pub(crate) caption: &'static str,
    /// Its panels. None: there is nothing to show, and no section.
    pub(crate) panels: fn(&Analysis) -> Vec<Panel>,
    /// What its colours mean: class of a swatch and words. May be empty.
    pub(crate) legend: fn(&Analysis) -> Vec<(String, String)>,
}

/// One drawing among others of its kind.
#[derive(Debug)]
pub(crate) struct Panel {
    /// The workload.
    pub(crate) title: String,
    /// What is counted.
    pub(crate) note: String,
    /// The drawing.
    pub(crate) svg: String,
}

/// All charts, in the order of the page.
pub(crate) static CHARTS: &[&Chart] = &[
    &difference::CHART,
    &repetitions::CHART,
    &cpu::CHART,
    &latency::CHART,
    &amplification::CHART,
];

/// Width of a panel: a phone's.
const WIDTH: f64 = 360.0;
/// Height of a row of a panel with one row for each system.
const ROW: f64 = 23.0;
/// Height of the ticks' labels beneath the rows.
const AXIS: f64 = 24.0;

fn no_legend(_: &Analysis) -> Vec<(String, String)> {
    Vec::new()
}

/// A panel with one row for each system: names at the left, a plot, figures at the right.
struct Rows {
    svg: Svg,
    /// Figures to places in the plot.
    scale: Scale,
    label_end: f64,
    bottom: f64,
}

impl Rows {
    /// Begins one with these names and the ticks of `low..=high`, each labelled by `label`.
    fn new(
        names: &[&str],
        (low, high): (f64, f64),
        figures_wide: f64,
        label: impl Fn(f64) -> String,
    ) -> Self {
        let longest = names
            .iter()
            .map(|name| name.chars().count())
            .max()
            .unwrap_or(0);
        let longest = f64::from(u32::try_from(longest).unwrap_or(u32::MAX));
        let label_end = (longest * 6.6 + 4.0).clamp(40.0, 132.0);
        let rows = f64::from(u32::try_from(names.len()).unwrap_or(u32::MAX));
        let bottom = rows * ROW + 4.0;
        let scale = Scale {
            low,
            high,
            from: label_end + 10.0,
            to: WIDTH - figures_wide - 8.0,
        };
        let mut svg = Svg::new(WIDTH, bottom + AXIS);
        for tick in scale.ticks(5.0) {
            let x = scale.at(tick);
            svg.line("grid", (x, 2.0), (x, bottom));
            svg.text("tick", Anchor::Middle, (x, bottom + 15.0), &label(tick));
        }
        Self {
            svg,
            scale,
            label_end,
            bottom,
        }
    }

    /// The middle of a row.
    fn middle(index: usize) -> f64 {
        f64::from(u32::try_from(index).unwrap_or(u32::MAX)) * ROW + ROW / 2.0 + 2.0
    }

    /// Writes the name and the figure of a row.
    fn label(&mut self, index: usize, name: &str, figure_class: &str, figure: &str) {
        let y = Self::middle(index) + 4.0;
        let shown: String = if name.chars().count() > 20 {
            name.chars().take(19).chain(['…']).collect()
        } else {
            name.to_owned()
        };
        self.svg
            .text("name", Anchor::End, (self.label_end, y), &shown);
        self.svg
            .text(figure_class, Anchor::End, (WIDTH - 2.0, y), figure);
    }
}

/// The systems a chart shows: all but the control, whose figures are the baseline's.
fn shown(analysis: &Analysis) -> Vec<&str> {
    analysis
        .experiment
        .systems
        .iter()
        .filter(|system| Some(&system.name) != analysis.experiment.control.as_ref())
        .map(|system| system.name.as_str())
        .collect()
}
