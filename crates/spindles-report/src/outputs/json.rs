//! JSON with its schema and schema version. It holds the analysis; the runs themselves are in the
//! records file.

use serde_json::{Value, json};
use spindles_measure::{Analysis, Change, PredictionCheck, SCHEMA};

use super::{Options, Output};

pub(super) static OUTPUT: Output = Output {
    name: "json",
    summary: "all results computed from the records, for programs",
    file_name: "report.json",
    has_sections: false,
    applies: |_| true,
    report,
    together: Some(together),
    change: Some(change),
    prediction: Some(prediction),
};

fn report(analysis: &Analysis, _: &Options) -> String {
    document("report", serde_json::to_value(analysis))
}

/// Joins reports in one document, like that of `lab report --json`.
fn together(reports: &[String]) -> String {
    let reports = reports.iter().map(|text| {
        let document: Value = serde_json::from_str(text).expect("it was printed here");
        document["report"].clone()
    });
    printed("lab.report", "reports", &reports.collect())
}

fn change(change: &Change, _: &Options) -> String {
    document("change", serde_json::to_value(change))
}

fn prediction(check: &PredictionCheck, _: &Options) -> String {
    document("prediction", serde_json::to_value(check))
}

fn document(kind: &str, value: serde_json::Result<Value>) -> String {
    let mut value = value.expect("an analysis holds strings, numbers and maps with string keys");
    round(&mut value);
    printed(kind, kind, &value)
}

fn printed(schema: &str, name: &str, value: &Value) -> String {
    let schema = format!("spindles.{schema}");
    let document = json!({ "schema": schema, "version": SCHEMA, name: value });
    format!("{document:#}\n")
}

/// Nine digits exceed the precision of any measurement, and are the same on every machine.
fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let exact = number.as_f64().unwrap_or(0.0);
            let rounded: f64 = format!("{exact:.8e}").parse().unwrap_or(exact);
            *value = json!(rounded);
        }
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(values) => values.values_mut().for_each(round),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
