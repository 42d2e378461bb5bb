//! The schema of all documents, kept in `docs/reference/json.schema.json`.

use super::traces;
use super::{Error, Help, NotGiven, Several, changes, examine, models, scrub, status, tools};
use crate::operation::Operation;
use crate::ui::VERSION;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

/// What a program must know before it reads a document.
const ABOUT: &str = "With --json a command prints one JSON document on standard output. Remarks, \
    progress and errors go to standard error. Check the exit status first, then `schema`, which \
    names the document. `version` is common to all: a removed field or a changed meaning raises \
    it. New fields don't: ignore unknown ones. `not_given` lists devices of the array that were \
    left out. Sizes are in bytes, times in the unit that ends the name.";

type Of = fn(&mut SchemaGenerator) -> Schema;

/// The names of the documents, with the types of each.
const DOCUMENTS: &[(&str, &[Of])] = &[
    ("spindles.error", &[Error::json_schema]),
    ("spindles.help", &[Help::json_schema]),
    (
        "spindles.lab.run",
        &[tools::LabRun::json_schema, tools::DryRun::json_schema],
    ),
    ("spindles.lab.report", &[tools::Reports::json_schema]),
    (
        "spindles.lab.compare",
        &[tools::Change::json_schema, tools::Prediction::json_schema],
    ),
    ("spindles.lab.serve", &[tools::LabServer::json_schema]),
    (
        "spindles.lab.list",
        &[
            tools::LabList::json_schema,
            tools::ExperimentText::json_schema,
        ],
    ),
    (
        "spindles.create",
        &[changes::Created::json_schema, changes::Plan::json_schema],
    ),
    ("spindles.copy", &[tools::Copied::json_schema]),
    (
        "spindles.serve",
        &[tools::Served::json_schema, tools::AllServed::json_schema],
    ),
    (
        "spindles.stop",
        &[tools::Stopped::json_schema, Several::json_schema],
    ),
    (
        "spindles.status",
        &[
            status::Status::<super::array::Array>::json_schema,
            status::Status::<status::InnerArrays>::json_schema,
            status::Overview::json_schema,
            status::ClearedAll::json_schema,
            Several::json_schema,
        ],
    ),
    ("spindles.examine", &[examine::Examined::json_schema]),
    ("spindles.fail", &[changes::Failed::json_schema]),
    ("spindles.remove", &[changes::Released::json_schema]),
    ("spindles.add", &[changes::Added::json_schema]),
    ("spindles.rebuild", &[changes::RebuildResult::json_schema]),
    ("spindles.replace", &[changes::Replaced::json_schema]),
    ("spindles.spare.add", &[changes::SparesAdded::json_schema]),
    (
        "spindles.spare.remove",
        &[changes::SparesRemoved::json_schema],
    ),
    (
        "spindles.journal.add",
        &[changes::JournalAdded::json_schema],
    ),
    (
        "spindles.journal.remove",
        &[changes::JournalRemoved::json_schema],
    ),
    (
        "spindles.grow",
        &[
            changes::Grown::json_schema,
            changes::GrowthAborted::json_schema,
        ],
    ),
    ("spindles.rename", &[changes::Renamed::json_schema]),
    ("spindles.wipe", &[changes::Wiped::json_schema]),
    ("spindles.resync", &[changes::Resynced::json_schema]),
    ("spindles.scrub", &[scrub::Scrubbed::json_schema]),
    ("spindles.set", &[changes::Settings::json_schema]),
    ("spindles.layout", &[tools::LayoutTable::json_schema]),
    ("spindles.translate", &[tools::Translated::json_schema]),
    ("spindles.bench", &[tools::BenchRun::json_schema]),
    ("spindles.bench.engine", &[tools::EngineBench::json_schema]),
    ("spindles.bench.parity", &[tools::ParityBench::json_schema]),
    ("spindles.trace.show", &[traces::ShownTrace::json_schema]),
    ("spindles.trace.convert", &[traces::Converted::json_schema]),
    (
        "spindles.trace.record",
        &[traces::TraceRecorded::json_schema],
    ),
    (
        "spindles.trace.replay",
        &[traces::ReplayedTrace::json_schema],
    ),
    (
        "spindles.sim",
        &[
            tools::SimulatedStory::json_schema,
            tools::SimulatedRuns::json_schema,
        ],
    ),
    ("spindles.model.list", &[models::ModelList::json_schema]),
    ("spindles.model.show", &[models::ModelShown::json_schema]),
    ("spindles.completions", &[tools::Script::json_schema]),
    (
        "spindles.man",
        &[tools::ManPage::json_schema, tools::ManPages::json_schema],
    ),
];

/// Adds the fields of every document to a schema.
fn document(name: &str, of: Of, generator: &mut SchemaGenerator) -> Value {
    let not_given = generator.subschema_for::<Vec<NotGiven>>();
    let mut schema = of(generator).to_value();
    schema["properties"]["schema"] = json!({ "const": name });
    schema["properties"]["version"] = json!({ "const": VERSION });
    schema["properties"]["not_given"] = not_given.to_value();
    let required = schema["required"].as_array_mut().expect("it has fields");
    required.extend(["schema", "version"].map(Value::from));
    schema
}

/// Returns the schema, with a definition for every document.
fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    let mut documents = serde_json::Map::new();
    for (name, shapes) in DOCUMENTS {
        let mut shapes: Vec<Value> = (shapes.iter())
            .map(|of| document(name, *of, &mut generator))
            .collect();
        let schema = match shapes.len() {
            1 => shapes.remove(0),
            _ => json!({ "anyOf": shapes }),
        };
        documents.insert((*name).to_owned(), schema);
    }
    let names = DOCUMENTS.iter();
    let names = names.map(|(name, _)| json!({ "$ref": format!("#/$defs/{name}") }));
    let names: Vec<Value> = names.collect();
    documents.extend(generator.take_definitions(true));
    documents.insert("operation".to_owned(), operation());
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "JSON of the commands",
        "description": ABOUT,
        "oneOf": names,
        "$defs": documents,
    });
    remove_ranges(&mut schema);
    schema
}

/// Returns the schema of an operation that a client sends to a server, without references.
fn operation() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut settings = settings.with(|settings| settings.inline_subschemas = true);
    settings.meta_schema = None;
    Operation::json_schema(&mut settings.into_generator()).to_value()
}

/// Removes the ranges of Rust's integers and the defaults of its types, which say nothing about a
/// field, and writes Rust's `None` as JSON does.
fn remove_ranges(schema: &mut Value) {
    match schema {
        Value::Object(all) => {
            if all.get("format").is_some_and(Value::is_string) {
                all.retain(|key, _| !["format", "minimum", "maximum"].contains(&key.as_str()));
            }
            // In a list of properties these keys are names, with schemas as values.
            let is_kind = |kind: &Value| kind.is_string() || kind.is_array();
            if ["type", "$ref"]
                .iter()
                .any(|key| all.get(*key).is_some_and(is_kind))
            {
                all.remove("default");
            }
            if let Some(Value::String(text)) = all.get_mut("description") {
                *text = text.replace("`None`", "Null");
            }
            all.values_mut().for_each(remove_ranges);
        }
        Value::Array(all) => all.iter_mut().for_each(remove_ranges),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Prints a value on one line if it fits, and else each part of it on lines of its own.
fn print(value: &Value, indent: usize, out: &mut String) {
    let flat = value.to_string();
    let parts: Vec<(String, &Value)> = match value {
        Value::Object(all) => (all.iter())
            .map(|(key, part)| (format!("{}: ", Value::from(key.as_str())), part))
            .collect(),
        Value::Array(all) => all.iter().map(|part| (String::new(), part)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    if parts.is_empty() || indent + flat.len() <= WIDTH {
        return out.push_str(&flat);
    }
    out.extend([&flat[..1], "\n"]);
    for (index, (key, part)) in parts.iter().enumerate() {
        out.extend([&" ".repeat(indent + 1), key.as_str()]);
        print(part, indent + 1, out);
        let comma = if index + 1 < parts.len() { ",\n" } else { "\n" };
        out.push_str(comma);
    }
    out.extend([" ".repeat(indent), flat[flat.len() - 1..].to_owned()]);
}

/// Longer values take several lines.
const WIDTH: usize = 150;

/// `SPINDLES_UPDATE=1 cargo test -p spindles` rewrites the kept schema.
#[test]
fn the_kept_schema_is_that_of_the_documents() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/json.schema.json"
    );
    let mut made = String::new();
    print(&schema(), 0, &mut made);
    made.push('\n');
    if std::env::var_os("SPINDLES_UPDATE").is_some() {
        std::fs::write(path, &made).expect("the folder is there");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines = kept.lines().zip(made.lines());
    let differs = lines.find(|(kept, made)| kept != made);
    assert!(
        kept == made,
        "docs/reference/json.schema.json is stale, first at {differs:?}: run with \
         SPINDLES_UPDATE=1"
    );
}
