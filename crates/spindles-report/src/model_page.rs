//! The page of a modelled device: its portrait, and every number with its source.

use crate::charts::{Panel, WIDTH, half_wide, line_class, line_legend};
use crate::figures;
use crate::page::Page;
use crate::sections::{classed, grid, table_of_texts};
use crate::svg::{Anchor, Scale, Svg, escape};

/// What a page shows of a modelled device.
#[derive(Clone, Debug, Default)]
pub struct ModelFacts {
    /// Name of the model.
    pub name: String,
    /// Its kind and its year, in words.
    pub summary: String,
    /// Numbers and switches: name, value, low, high, how, source. Switches have no low and high.
    pub numbers: Vec<[String; 6]>,
    /// Points of the seek curve: cylinders and milliseconds.
    pub seek: Vec<(f64, f64)>,
    /// Rates by place: share of the capacity and MB/s.
    pub rates: Vec<(f64, f64)>,
    /// Measured responses in milliseconds; empty without measured requests.
    pub measured_ms: Vec<f64>,
    /// Modelled responses to the same requests.
    pub modelled_ms: Vec<f64>,
    /// Distance of the two distributions, in words.
    pub demerit: String,
}

/// Builds the page of a modelled device.
pub fn model_page(facts: &ModelFacts) -> Page {
    let mut body = format!(
        "<section id=\"headline\"><h1>{}</h1><p class=\"lead\">{}</p></section>",
        escape(&facts.name),
        escape(&facts.summary)
    );
    let mut contents = String::new();
    let panels = panels(facts);
    if !panels.is_empty() {
        let caption = "Computed from the values of the table, without their bounds. Rates are \
                       those of long reads.";
        body += &classed("portrait", "chart", "Portrait", caption, &grid(&panels));
        contents += "<li><a href=\"#portrait\">Portrait</a></li>";
    }
    let columns = ["number", "value", "low", "high", "how", "source"];
    let is_figure = |column: usize| (1..4).contains(&column);
    let table = table_of_texts("Numbers", "glance", &columns, is_figure, &facts.numbers);
    let caption = "Each draw takes a value between low and high, and one word of each switch.";
    body += &classed("numbers", "", "Numbers", caption, &table);
    contents += "<li><a href=\"#numbers\">Numbers</a></li>";
    Page {
        title: format!("{} – Spindles model", facts.name),
        contents,
        body,
        served: None,
    }
}

fn panels(facts: &ModelFacts) -> Vec<Panel> {
    let mut panels = Vec::new();
    if facts.seek.len() > 1 {
        let panel = plot(
            ("Seek curve", "ms by cylinders"),
            &[("seek", &facts.seek)],
            figures::thousands,
        );
        panels.push(panel);
    }
    if facts.rates.len() > 1 {
        let rates: Vec<(f64, f64)> = facts
            .rates
            .iter()
            .map(|(at, mb)| (at * 100.0, *mb))
            .collect();
        let panel = plot(
            ("Rate by place", "MB/s by place"),
            &[("rate", &rates)],
            |place| format!("{place:.0} %"),
        );
        panels.push(panel);
    }
    if !facts.measured_ms.is_empty() {
        let (measured, modelled) = (shares(&facts.measured_ms), shares(&facts.modelled_ms));
        let lines: [(&str, &[(f64, f64)]); 2] = [("measured", &measured), ("modelled", &modelled)];
        let title = ("Responses", &*facts.demerit);
        panels.push(plot(title, &lines, |ms| format!("{} ms", short(ms))));
    }
    panels
}

/// The share of responses, in percent, up to each time: from 0 to 99 %.
fn shares(responses_ms: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = responses_ms.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    let at = |percent: usize| {
        let ms = sorted[last * percent / 100];
        (ms, figures::float(u64::try_from(percent).unwrap_or(0)))
    };
    (0..=99).map(at).collect()
}

const LEFT: f64 = 46.0;
const RIGHT: f64 = 16.0;
const HEIGHT: f64 = 190.0;
const BOTTOM: f64 = HEIGHT - 24.0;

/// Draws lines over a common scale, from 0.
fn plot(
    (title, note): (&str, &str),
    lines: &[(&str, &[(f64, f64)])],
    label: impl Fn(f64) -> String,
) -> Panel {
    let points = || lines.iter().flat_map(|(_, points)| points.iter());
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
    let scale = |high: f64, from: f64, to: f64| Scale {
        low: 0.0,
        high,
        from,
        to,
    };
    let x = scale(most(|point| point.0), LEFT, WIDTH - RIGHT);
    let y = scale(most(|point| point.1) * 1.04, BOTTOM, 8.0);
    let mut svg = Svg::new(WIDTH, HEIGHT);
    for tick in y.ticks(4.0) {
        let height = y.at(tick);
        let class = if tick > 0.0 { "grid" } else { "zero" };
        svg.line(class, (LEFT, height), (WIDTH - RIGHT, height));
        svg.text(
            "tick",
            Anchor::End,
            (LEFT - 6.0, height + 4.0),
            &short(tick),
        );
    }
    for tick in x.ticks(3.0) {
        let place = x.at(tick);
        svg.line("grid", (place, 8.0), (place, BOTTOM));
        let text = label(tick);
        let middle = place.min(WIDTH - half_wide(&text));
        svg.text("tick", Anchor::Middle, (middle, BOTTOM + 16.0), &text);
    }
    for (index, (name, points)) in lines.iter().enumerate() {
        let drawn: Vec<(f64, f64)> = points.iter().map(|(a, b)| (x.at(*a), y.at(*b))).collect();
        svg.path(&format!("curve {}", line_class(index)), &drawn, name);
    }
    Panel {
        title: title.to_owned(),
        note: note.to_owned(),
        svg: svg.finish(&format!("{title}, {note}")),
        legend: line_legend(lines.iter().enumerate().map(|(at, (name, _))| (at, *name))),
    }
}

/// A figure without needless decimals.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
