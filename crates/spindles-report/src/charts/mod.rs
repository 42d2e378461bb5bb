//! The charts of the page, in one table. Each chart draws a panel for each workload to which it
//! applies.

mod absolute;
mod amplification;
mod cpu;
mod deciding;
mod difference;
mod faster_parts;
mod grid;
mod heat;
mod latency;
mod repetitions;
mod request_time;
mod singles;
mod singles_cpu;
mod sweep;
mod timeline;

use spindles_measure::{Analysis, Cell, Quantity, Rate, Run, Workload};

pub(crate) use difference::class;

use crate::figures;
use crate::svg::{Anchor, Scale, Svg};

/// A chart.
#[derive(Debug)]
pub(crate) struct Chart {
    /// Name of the chart and of its section.
    pub(crate) name: &'static str,
    /// Entry in the page's table of contents.
    pub(crate) entry: &'static str,
    /// Heading.
    pub(crate) title: &'static str,
    /// How to read it, in one or two sentences.
    pub(crate) caption: &'static str,
    /// Draws the panels. The page omits the section of a chart without panels.
    pub(crate) panels: fn(&Analysis) -> Vec<Panel>,
}

/// One of several drawings of a chart.
#[derive(Debug)]
pub(crate) struct Panel {
    /// Name of the workload.
    pub(crate) title: String,
    /// Quantity shown.
    pub(crate) note: String,
    /// The drawing.
    pub(crate) svg: String,
    /// Meaning of the colours: CSS class of a swatch and its label.
    pub(crate) legend: Vec<(String, String)>,
}

/// All charts, in the order of the page.
pub(crate) static CHARTS: &[&Chart] = &[
    &difference::CHART,
    &singles::CHART,
    &absolute::CHART,
    &sweep::CHART,
    &grid::CHART,
    &repetitions::CHART,
    &timeline::CHART,
    &request_time::CHART,
    &deciding::CHART,
    &faster_parts::CHART,
    &cpu::CHART,
    &singles_cpu::CHART,
    &latency::CHART,
    &heat::CHART,
    &amplification::CHART,
];

/// Width of a panel: the width of a phone screen.
pub(crate) const WIDTH: f64 = 360.0;
/// Height of a row of a panel with one row for each system.
const ROW: f64 = 23.0;
/// Height of the ticks' labels beneath the rows.
const AXIS: f64 = 24.0;

/// Builds a legend of swatches with these classes.
pub(crate) fn legend(swatches: &[(&str, &str)]) -> Vec<(String, String)> {
    let swatches = swatches.iter();
    swatches
        .map(|(class, words)| (format!("swatch {class}"), (*words).to_owned()))
        .collect()
}

/// Characters in one line of a name.
const NAME_CHARACTERS: usize = 20;
/// Height of one line of a name.
const NAME_LINE: f64 = 13.0;

/// Splits a name into lines that fit, if possible after a comma, a blank or a parenthesis.
fn name_lines(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let parts = name.split_inclusive([',', ' ', '(']);
    for part in parts {
        let line = lines.last_mut().expect("there is always one");
        if !line.is_empty() && line.chars().count() + part.chars().count() > NAME_CHARACTERS {
            lines.push(String::new());
        }
        for character in part.chars() {
            if lines
                .last()
                .is_some_and(|line| line.chars().count() == NAME_CHARACTERS)
            {
                lines.push(String::new());
            }
            lines
                .last_mut()
                .expect("there is always one")
                .push(character);
        }
    }
    lines
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Least room between labels.
const GAP: f64 = 5.0;

/// Half the width of a label.
pub(crate) fn half_wide(label: &str) -> f64 {
    float(label.chars().count()) * 3.3
}

/// Labels along the bottom, from left to right. A label that would overlap the previous one is left
/// out.
struct Labels {
    y: f64,
    free_from: f64,
}

impl Labels {
    fn new(y: f64) -> Self {
        Self { y, free_from: 0.0 }
    }

    /// Writes a label centred at `x`, moved if necessary to fit in the panel.
    fn write(&mut self, svg: &mut Svg, x: f64, label: &str) {
        let half = half_wide(label);
        let middle = x.clamp(half, WIDTH - half);
        if middle - half >= self.free_from {
            svg.text("tick", Anchor::Middle, (middle, self.y), label);
            self.free_from = middle + half + GAP;
        }
    }
}

/// Returns the labels of an axis with their positions: every label, or every second, third and so
/// on, so that none overlap. A label at 0 is always included.
fn evenly<'a>(ticks: &'a [(f64, String)], scale: &Scale) -> Vec<(f64, &'a str)> {
    let zero = ticks.iter().position(|(tick, _)| *tick == 0.0).unwrap_or(0);
    let every = |step: usize| -> Vec<(f64, &str)> {
        let chosen = ticks.iter().enumerate();
        let chosen = chosen.filter(|(at, _)| at.abs_diff(zero).is_multiple_of(step));
        chosen
            .map(|(_, (tick, label))| (scale.at(*tick), &**label))
            .collect()
    };
    let fit = |labels: &Vec<(f64, &str)>| {
        let mut pairs = labels.windows(2);
        pairs.all(|two| two[1].0 - two[0].0 >= half_wide(two[0].1) + half_wide(two[1].1) + GAP)
    };
    let steps = 1..ticks.len().max(2);
    steps
        .map(every)
        .find(fit)
        .unwrap_or_else(|| every(ticks.len().max(1)))
}

/// A panel with one row for each system: names on the left, a plot, figures on the right.
pub(crate) struct Rows {
    svg: Svg,
    /// Maps figures to positions in the plot.
    scale: Scale,
    label_end: f64,
    /// Vertical centres of the rows. A row's height depends on the lines of its name.
    middles: Vec<f64>,
    bottom: f64,
}

impl Rows {
    /// Starts a panel with these names and round ticks in `low..=high`, labelled by `label`.
    pub(crate) fn new(
        names: &[&str],
        range: (f64, f64),
        figures_wide: f64,
        label: impl Fn(f64) -> String,
    ) -> Self {
        let labelled = |tick| (tick, label(tick));
        let ticks = |scale: &Scale| scale.ticks(5.0).into_iter().map(labelled).collect();
        Self::with_ticks(names, range, figures_wide, ticks)
    }

    /// Starts a panel with the given ticks: positions on the scale and labels.
    fn with_ticks(
        names: &[&str],
        (low, high): (f64, f64),
        figures_wide: f64,
        ticks: impl Fn(&Scale) -> Vec<(f64, String)>,
    ) -> Self {
        let lines: Vec<Vec<String>> = names.iter().map(|name| name_lines(name)).collect();
        let longest = lines.iter().flatten().map(|line| line.chars().count());
        let label_end = (float(longest.max().unwrap_or(0)) * 6.6 + 4.0).clamp(40.0, 136.0);
        let mut middles = Vec::with_capacity(names.len());
        let mut top = 2.0;
        for lines in &lines {
            let high = ROW + NAME_LINE * (float(lines.len()) - 1.0);
            middles.push(top + high / 2.0);
            top += high;
        }
        let bottom = top + 2.0;
        let scale = Scale {
            low,
            high,
            from: label_end + 10.0,
            to: WIDTH - figures_wide - 8.0,
        };
        let mut svg = Svg::new(WIDTH, bottom + AXIS);
        let ticks = ticks(&scale);
        for (tick, _) in &ticks {
            let x = scale.at(*tick);
            svg.line("grid", (x, 2.0), (x, bottom));
        }
        let mut labels = Labels::new(bottom + 15.0);
        for (x, label) in evenly(&ticks, &scale) {
            labels.write(&mut svg, x, label);
        }
        Self {
            svg,
            scale,
            label_end,
            middles,
            bottom,
        }
    }

    /// The middle of a row.
    pub(crate) fn middle(&self, index: usize) -> f64 {
        self.middles[index]
    }

    /// Draws an interval across a row. An end off the scale gets no cap. An interval with an
    /// unknown end is not drawn.
    pub(crate) fn whisker(&mut self, middle: f64, (low, high): (f64, f64)) {
        if !(low.is_finite() && high.is_finite()) {
            return;
        }
        let (from, to) = (self.scale.at(low), self.scale.at(high));
        // A halo separates the whisker from its bar, whatever their colours.
        self.svg.line("halo", (from, middle), (to, middle));
        self.svg.line("whisker", (from, middle), (to, middle));
        let on = |end: f64| self.scale.low <= end && end <= self.scale.high;
        let ends = [(low, from), (high, to)];
        for (_, end) in ends.into_iter().filter(|(end, _)| on(*end)) {
            self.svg
                .line("whisker", (end, middle - 3.5), (end, middle + 3.5));
        }
    }

    /// Draws a bar from 0 to a figure.
    pub(crate) fn bar(&mut self, index: usize, value: f64, title: &str) {
        let ends = (self.scale.at(0.0), self.scale.at(value));
        let rows = (self.middle(index) - 6.0, 12.0);
        self.svg.bar("bar rate", ends, rows, title);
    }

    /// Draws a circle at a figure.
    pub(crate) fn circle(&mut self, index: usize, value: f64, class: &str, title: &str) {
        let place = (self.scale.at(value), self.middle(index));
        self.svg.circle(class, place, 4.0, title);
    }

    /// Returns the drawing, with a label for screen readers.
    pub(crate) fn finish(self, label: &str) -> String {
        self.svg.finish(label)
    }

    /// Writes the name and the figure of a row.
    pub(crate) fn label(&mut self, index: usize, name: &str, figure_class: &str, figure: &str) {
        let y = self.middle(index) + 4.0;
        let lines = name_lines(name);
        let first = y - NAME_LINE / 2.0 * (float(lines.len()) - 1.0);
        for (at, line) in lines.iter().enumerate() {
            let place = (self.label_end, first + NAME_LINE * float(at));
            self.svg.text("name", Anchor::End, place, line.trim_end());
        }
        self.svg
            .text(figure_class, Anchor::End, (WIDTH - 2.0, y), figure);
    }
}

/// Returns the CSS class of a system's line: nine colours, then the same dashed.
pub(crate) fn line_class(index: usize) -> String {
    let dashed = if index >= 9 { " dashed" } else { "" };
    format!("system{}{dashed}", index % 9)
}

/// Builds the legend of lines, one for each system.
pub(crate) fn line_legend<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> Vec<(String, String)> {
    lines
        .map(|(index, name)| {
            let class = format!("swatch stroke {}", line_class(index));
            (class, name.to_owned())
        })
        .collect()
}

/// Formats a tick of a rate in a unit of [`figures::rate_unit`].
fn rate_tick(tick: f64, words: &str) -> String {
    let figure = figures::round(&figures::three_digits(tick));
    let words = if tick > 0.0 { words } else { "" };
    format!("{figure}{words}")
}

/// Formats a time on an axis.
fn time_tick(nanoseconds: f64) -> String {
    if nanoseconds == 0.0 {
        return "0".to_owned();
    }
    figures::round(&figures::time(nanoseconds))
}

/// Finished repetitions, slowest first.
fn runs_by_rate<'a>(analysis: &'a Analysis, system: &str, workload: &str) -> Vec<&'a Run> {
    let runs = analysis.runs.iter();
    let mut runs: Vec<&Run> = runs
        .filter(|run| run.system.name == system && run.workload.name == workload)
        .filter(|run| run.failed.is_none())
        .collect();
    runs.sort_by(|a, b| a.per_second().total_cmp(&b.per_second()));
    runs
}

/// Draws a panel for each workload, from its cells of all systems that charts show.
fn by_workload<'a>(
    analysis: &'a Analysis,
    draw: impl Fn(&'a Workload, Vec<&'a Cell>) -> Option<Panel>,
) -> Vec<Panel> {
    let systems = shown(analysis);
    let panel = |workload: &'a Workload| {
        let cells = systems.iter();
        let cells = cells.filter_map(|name| analysis.cell(name, &workload.name));
        draw(workload, cells.collect())
    };
    analysis
        .experiment
        .workloads
        .iter()
        .filter_map(panel)
        .collect()
}

/// Formats a figure that may be a time.
fn figure(value: f64, quantity: Quantity, rate: Rate) -> String {
    if quantity.is_time() {
        figures::time(value)
    } else {
        figures::rate(value, rate)
    }
}

/// Returns the divisor of an axis up to `most`, whose ticks are thus round, and how they are
/// formatted.
pub(crate) fn axis(most: f64, quantity: Quantity, rate: Rate) -> (f64, impl Fn(f64) -> String) {
    let is_time = quantity.is_time();
    let (unit, words) = if is_time {
        (1.0, "")
    } else {
        figures::rate_unit(most, rate)
    };
    let tick = move |tick| {
        if is_time {
            time_tick(tick)
        } else {
            rate_tick(tick, words)
        }
    };
    (unit, tick)
}

/// Systems that a chart shows: all but the control, which repeats the baseline.
pub(crate) fn shown(analysis: &Analysis) -> Vec<&str> {
    analysis
        .experiment
        .systems
        .iter()
        .filter(|system| Some(&system.name) != analysis.experiment.control.as_ref())
        .map(|system| system.name.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without room for all labels, every second is written, including the one at 0.
    #[test]
    fn tick_labels_are_evenly_spaced() {
        let scale = Scale {
            low: -1.0,
            high: 3.0,
            from: 0.0,
            to: 200.0,
        };
        let labels = |label: &str| {
            let ticks = [-1.0, 0.0, 1.0, 2.0, 3.0].map(|tick| (tick, label.to_owned()));
            let places = evenly(&ticks, &scale).into_iter();
            places.map(|(x, _)| x).collect::<Vec<_>>()
        };
        assert_eq!(labels("1 s"), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(labels("1.5 GiB/s"), [50.0, 150.0]);
    }
}
