//! Tidy CSV: one row per run × metric, so that any tool can filter, pivot and plot.

use std::fmt::Write as _;

use spindles_measure::{Analysis, Change, P99_9_COUNT_MIN, PredictionCheck, Quantity, Rate, Run};

use super::{Options, Output};
use crate::words;

pub(super) static OUTPUT: Output = Output {
    name: "csv",
    summary: "tidy CSV: one row for each run and metric",
    file_name: "report.csv",
    has_sections: false,
    applies: |_| true,
    report,
    together: Some(super::under_one_header),
    change: Some(change),
    prediction: Some(prediction),
};

const HEADER: &str = "experiment,system,expression,level,members,workload,repetition_block,order,\
                      seed,scaled,operation,metric,unit,value\n";

fn report(analysis: &Analysis, _: &Options) -> String {
    let mut text = HEADER.to_owned();
    for run in &analysis.runs {
        run_rows(analysis, run, &mut text);
    }
    text
}

fn run_rows(analysis: &Analysis, run: &Run, text: &mut String) {
    let key = [
        field(&run.experiment),
        field(&run.system.name),
        field(&run.system.expression),
        field(&run.system.level),
        run.system.members.to_string(),
        field(&run.workload.name),
        run.repetition_block.to_string(),
        run.order.to_string(),
        run.seed.to_string(),
        run.scaled.to_string(),
    ]
    .join(",");
    let mut row = |operation: &str, metric: &str, unit: &str, value: String| {
        writeln!(text, "{key},{},{metric},{unit},{value}", field(operation))
            .expect("writing to a string does not fail");
    };
    if let Some(reason) = &run.failed {
        row("", "failed", "reason", field(reason));
        return;
    }
    let unit = match run.workload.rate {
        Rate::Bytes => "bytes/s",
        Rate::Operations => "operations/s",
    };
    row("", "rate", unit, format!("{:.3}", run.per_second()));
    for (quantity, baseline, ratio) in ratios(analysis, run) {
        let unit = format!("{} of {baseline}", quantity.words());
        row("", "ratio", &field(&unit), format!("{ratio:.6}"));
    }
    row("", "elapsed", "ns", run.elapsed_ns.to_string());
    row("", "operations", "1", run.operations.to_string());
    row(
        "read",
        "application",
        "bytes",
        run.application.read.to_string(),
    );
    row(
        "write",
        "application",
        "bytes",
        run.application.written.to_string(),
    );
    row("read", "members", "bytes", run.members.read.to_string());
    row("write", "members", "bytes", run.members.written.to_string());
    row("", "cpu_workload", "ns", run.cpu_ns.workload.to_string());
    row("", "cpu_engine", "ns", run.cpu_ns.engine.to_string());
    row("", "cpu_machine", "ns", run.cpu_ns.machine.to_string());
    for (what, latencies) in [("latency", &run.latency), ("response", &run.response)] {
        for (operation, histogram) in latencies {
            for (name, percent) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9)] {
                if percent > 99.0 && histogram.total() < P99_9_COUNT_MIN {
                    continue;
                }
                let value = histogram.percentile(percent).to_string();
                row(operation, &format!("{what}_{name}"), "ns", value);
            }
            let max = histogram.max().to_string();
            row(operation, &format!("{what}_max"), "ns", max);
        }
    }
}

/// Compares a run with the baseline's in the same block: the quantities, the baseline, and the
/// ratios.
fn ratios<'a>(analysis: &'a Analysis, run: &Run) -> Vec<(Quantity, &'a str, f64)> {
    let baseline = analysis.baseline_of(&run.workload.name);
    if baseline == run.system.name {
        return Vec::new();
    }
    let speed = |system: &str, quantity: Quantity| {
        let cell = analysis.cell(system, &run.workload.name)?;
        let mut repetitions = cell.repetitions.iter();
        let mine = repetitions.find(|repetition| repetition.block == run.repetition_block)?;
        mine.speed(quantity)
    };
    let quantities = analysis.quantities(&run.workload).iter();
    let ratios = quantities.filter_map(|&quantity| {
        let of = |system: &str| speed(system, quantity);
        let (mine, theirs) = (of(&run.system.name)?, of(baseline)?);
        let ratio = if quantity.is_time() {
            theirs / mine
        } else {
            mine / theirs
        };
        Some((quantity, baseline, ratio))
    });
    ratios.collect()
}

fn change(change: &Change, _: &Options) -> String {
    let mut text =
        "system,workload,quantity,before,after,ratio,ratio_low,ratio_high,p_corrected,verdict\n"
            .to_owned();
    for row in &change.rows {
        let percent = spindles_measure::difference_of(row.quantity, &row.log_ratio);
        writeln!(
            text,
            "{},{},{},{:.3},{:.3},{:.6},{:.6},{:.6},{:.6},{}",
            field(&row.system),
            field(&row.workload),
            row.quantity.words(),
            row.before,
            row.after,
            1.0 + percent.0 / 100.0,
            1.0 + percent.1 / 100.0,
            1.0 + percent.2 / 100.0,
            row.p_corrected,
            words::change_verdict(row),
        )
        .expect("writing to a string does not fail");
    }
    text
}

fn prediction(check: &PredictionCheck, _: &Options) -> String {
    let mut text =
        "of,system,workload,quantity,predicted,band_low,band_high,measured,error,in_band\n"
            .to_owned();
    for (of, rows) in [("figure", &check.figures), ("ratio", &check.ratios)] {
        for row in rows {
            let [low, high] = match row.band {
                Some((low, high)) => [low, high].map(|end| format!("{end:.6}")),
                None => Default::default(),
            };
            writeln!(
                text,
                "{of},{},{},{},{:.6},{low},{high},{:.6},{:.6},{}",
                field(&row.system),
                field(&row.workload),
                row.quantity.words(),
                row.predicted,
                row.measured,
                row.error,
                row.is_in_band.map_or(String::new(), |is| is.to_string()),
            )
            .expect("writing to a string does not fail");
        }
    }
    text
}

/// Quotes a field if RFC 4180 requires it.
pub(super) fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn fields_are_quoted_where_needed() {
        assert_eq!(field("raid5"), "raid5");
        assert_eq!(field("raid5(a,b)"), "\"raid5(a,b)\"");
        assert_eq!(field("a \"b\""), "\"a \"\"b\"\"\"");
    }
}
