//! Bars of the correlations of drawn numbers with a ratio.

use spindles_measure::{Analysis, Deciding};

use super::{Chart, Panel, Rows, legend};
use crate::figures;
use crate::sections::correlation;

pub(super) static CHART: Chart = Chart {
    name: "correlations",
    entry: "Deciding numbers",
    title: "Deciding numbers",
    caption: "The five largest rank correlations of drawn numbers with the ratio to the baseline, \
        as far as they are beyond chance. Right: a larger number favours the system.",
    panels,
};

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let deciding = analysis.deciding.iter();
    deciding
        .filter(|of| !of.numbers.is_empty())
        .map(|of| Panel {
            title: format!("{}, {}", of.quantity.of(&of.workload), of.system),
            note: format!("against {}, {} draws", of.baseline, of.draws),
            svg: draw(of),
            legend: legend(&[("rate", "rank correlation")]),
        })
        .collect()
}

fn draw(of: &Deciding) -> String {
    let names: Vec<&str> = of.numbers.iter().map(|number| &*number.name).collect();
    let tick = |tick: f64| match figures::round(&format!("{tick:.1}")) {
        zero if zero == "0" => zero,
        other => other.replace('-', "−"),
    };
    let mut chart = Rows::new(&names, (-1.0, 1.0), 48.0, tick);
    let zero = chart.scale.at(0.0);
    let mut said = Vec::new();
    for (index, number) in of.numbers.iter().enumerate() {
        let middle = chart.middle(index);
        let figure = correlation(number.correlation);
        let title = format!("{}: {figure}", number.name);
        let ends = (zero, chart.scale.at(number.correlation));
        chart
            .svg
            .bar("bar rate", ends, (middle - 6.0, 12.0), &title);
        chart.label(index, &number.name, "figure plain", &figure);
        said.push(title);
    }
    let bottom = chart.bottom;
    chart.svg.line("zero", (zero, 2.0), (zero, bottom));
    let words = format!("{} in {}, rank correlation: ", of.system, of.workload);
    chart.svg.finish(&(words + &said.join(", ")))
}
