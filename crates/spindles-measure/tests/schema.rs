//! Tests the published schema of the record file against real records in both directions: records
//! contain no field unknown to the schema, and the schema has no field that records lack.

use std::collections::{BTreeMap, BTreeSet};

use super::example;
use serde_json::Value;
use spindles_measure::verdicts::Intervention;
use spindles_measure::{
    Beside, Calibration, Discard, Doubt, Evidence, JobShare, LateMember, LinkUse, MemberRate,
    MemberUse, NodeRun, Record, Run, Stage, Traffic, Trial, from_lines, to_line,
};

fn schema() -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/records.schema.json"
    );
    let text = std::fs::read_to_string(path).expect("the schema is in docs/");
    serde_json::from_str(&text).expect("the schema is JSON")
}

/// Records of the examples, and one run with every field that the examples lack.
fn records() -> Vec<Record> {
    let mut records = example::records(1);
    records.extend(example::file_records(1));
    let mut rest = Run {
        each_member: vec![Traffic::default()],
        late_members: vec![LateMember {
            array: "inner".to_owned(),
            ..LateMember::default()
        }],
        devices: Some(Traffic::default()),
        job: Some(JobShare::default()),
        trial: Some(Trial {
            of: "seeks".to_owned(),
            change: Intervention::ReplaceMember {
                member: "sdb".to_owned(),
            },
            pair: 0,
            changed: true,
        }),
        doubts: vec![Doubt::default()],
        evidence: Some(Evidence {
            links: vec![LinkUse {
                sent_bits_per_s: Some(1),
                ..LinkUse::default()
            }],
            members: vec![MemberUse::default()],
            ..Evidence::default()
        }),
        failed: Some("no space".to_owned()),
        nodes: vec![NodeRun::default()],
        fairness: Some(0.5),
        ..Run::default()
    };
    rest.system.options = BTreeMap::from([("journal".to_owned(), "j.img".to_owned())]);
    rest.workload.systems = vec!["raid5".to_owned()];
    rest.workload.beside = Some(Beside {
        stage: Stage::During,
        ..Beside::default()
    });
    records.push(Record::Calibration(Box::new(Calibration {
        members: vec![MemberRate {
            device: "sdb".to_owned(),
            failed: Some("dd-read: no such export".to_owned()),
            ..MemberRate::default()
        }],
        ..Calibration::default()
    })));
    // The last record, which the tests modify, is a run.
    records.push(Record::Discard(Discard::default()));
    records.push(Record::Run(Box::new(rest)));
    records
}

/// Supports the part of JSON Schema that the file uses. Unlisted properties are errors here,
/// although readers accept those of later versions.
struct Checker<'a> {
    schema: &'a Value,
    /// Pointers to the properties that records contained.
    met: BTreeSet<String>,
    errors: Vec<String>,
}

impl Checker<'_> {
    fn check(&mut self, at: &str, value: &Value, path: &str) {
        let schema = self.schema.pointer(at).expect("pointers are ours").clone();
        let object = schema.as_object().expect("a schema is an object");
        for (keyword, wanted) in object {
            let fits = match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" => true,
                "type" => is_of(value, wanted),
                "const" => value == wanted,
                "enum" => wanted.as_array().is_some_and(|all| all.contains(value)),
                "minimum" => value.as_f64() >= wanted.as_f64(),
                "minItems" => {
                    let items = value.as_array().map(Vec::len);
                    items.and_then(|it| u64::try_from(it).ok()) >= wanted.as_u64()
                }
                "required" => {
                    let mut names = wanted.as_array().into_iter().flatten();
                    names.all(|name| name.as_str().is_some_and(|it| value.get(it).is_some()))
                }
                "$ref" => {
                    self.check(&target(wanted), value, path);
                    true
                }
                "anyOf" | "oneOf" => self.check_one(&format!("{at}/{keyword}"), value, path),
                "properties" => {
                    self.check_properties(at, wanted, value, path);
                    true
                }
                "additionalProperties" => {
                    for (name, value) in value.as_object().into_iter().flatten() {
                        self.check(&format!("{at}/{keyword}"), value, &format!("{path}.{name}"));
                    }
                    true
                }
                "prefixItems" | "items" => self.check_items(at, keyword, value, path),
                other => panic!("{at}: the keyword {other} is not known to this test"),
            };
            if !fits {
                self.errors
                    .push(format!("{path}: {value} is not {keyword} {wanted}"));
            }
        }
        if object.contains_key("properties") || object.contains_key("$ref") {
            self.check_strangers(at, value, path);
        }
    }

    /// Checks that exactly one of several schemas fits. Only its properties count as met.
    fn check_one(&mut self, at: &str, value: &Value, path: &str) -> bool {
        let count = self
            .schema
            .pointer(at)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        let mut fitting = Vec::new();
        let mut errors = Vec::new();
        for index in 0..count {
            let mut trial = Checker {
                schema: self.schema,
                met: BTreeSet::new(),
                errors: Vec::new(),
            };
            trial.check(&format!("{at}/{index}"), value, path);
            if trial.errors.is_empty() {
                fitting.push(trial.met);
            } else {
                errors.extend(trial.errors);
            }
        }
        let is_one = fitting.len() == 1;
        if !is_one {
            self.errors.extend(errors);
        }
        self.met.extend(fitting.into_iter().flatten());
        is_one
    }

    fn check_properties(&mut self, at: &str, wanted: &Value, value: &Value, path: &str) {
        for name in wanted
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
        {
            if let Some(value) = value.get(name) {
                let property = format!("{at}/properties/{name}");
                self.check(&property, value, &format!("{path}.{name}"));
                self.met.insert(property);
            }
        }
    }

    fn check_items(&mut self, at: &str, keyword: &str, value: &Value, path: &str) -> bool {
        let Some(values) = value.as_array() else {
            return false;
        };
        let prefix = self.schema.pointer(&format!("{at}/prefixItems"));
        let fixed = prefix.and_then(Value::as_array).map_or(0, Vec::len);
        if keyword == "prefixItems" {
            for (index, value) in values.iter().enumerate().take(fixed) {
                self.check(&format!("{at}/prefixItems/{index}"), value, path);
            }
            return true;
        }
        if self.schema.pointer(&format!("{at}/items")) == Some(&Value::Bool(false)) {
            return values.len() <= fixed;
        }
        for value in &values[fixed.min(values.len())..] {
            self.check(&format!("{at}/items"), value, &format!("{path}[]"));
        }
        true
    }

    /// Reports properties of a value that no list contains.
    fn check_strangers(&mut self, at: &str, value: &Value, path: &str) {
        let mut known = BTreeSet::new();
        if !self.add_known(at, value, &mut known) {
            return;
        }
        // Every line has these two.
        if path == "line" {
            known.extend(["schema", "record"].map(str::to_owned));
        }
        for name in value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
        {
            if !known.contains(name) {
                self.errors
                    .push(format!("{path}.{name} is not in the schema"));
            }
        }
    }

    /// Adds the properties that a schema lists. Returns false if it allows any name.
    fn add_known(&self, at: &str, value: &Value, known: &mut BTreeSet<String>) -> bool {
        let Some(object) = self.schema.pointer(at).and_then(Value::as_object) else {
            return true;
        };
        if object.contains_key("additionalProperties") {
            return false;
        }
        let listed = object.get("properties").and_then(Value::as_object);
        known.extend(listed.into_iter().flatten().map(|(name, _)| name.clone()));
        if let Some(wanted) = object.get("$ref") {
            return self.add_known(&target(wanted), value, known);
        }
        // The kind of the record selects the branch of a line.
        let branches = object.get("oneOf").and_then(Value::as_array);
        let mine = branches
            .into_iter()
            .flatten()
            .enumerate()
            .find(|(_, it)| it.pointer("/properties/record/const") == value.get("record"));
        mine.is_none_or(|(index, _)| self.add_known(&format!("{at}/oneOf/{index}"), value, known))
    }
}

/// Converts a reference such as `#/$defs/run` to a pointer.
fn target(reference: &Value) -> String {
    let reference = reference.as_str().unwrap_or_default();
    reference.trim_start_matches('#').to_owned()
}

fn is_of(value: &Value, wanted: &Value) -> bool {
    match wanted.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        _ => false,
    }
}

/// Collects pointers to all properties that a schema lists, at any depth.
fn listed(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            for (name, value) in object {
                let inner = format!("{at}/{name}");
                if at.ends_with("/properties") {
                    found.insert(inner.clone());
                }
                listed(value, &inner, found);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                listed(value, &format!("{at}/{index}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn checked(schema: &Value, lines: impl Iterator<Item = Value>) -> (Vec<String>, BTreeSet<String>) {
    let mut checker = Checker {
        schema,
        met: BTreeSet::new(),
        errors: Vec::new(),
    };
    for line in lines {
        checker.check("", &line, "line");
    }
    (checker.errors, checker.met)
}

fn lines() -> impl Iterator<Item = Value> {
    let records = records().into_iter();
    records.map(|record| serde_json::from_str(&to_line(&record)).expect("a line is JSON"))
}

#[test]
fn the_schema_lists_exactly_the_written_fields() {
    let schema = schema();
    let (errors, met) = checked(&schema, lines());
    // A line that fits no kind of record gets an error from each; the last is enough to find it.
    let last = errors
        .last()
        .map(|error| error.chars().take(300).collect::<String>());
    assert!(
        last.is_none(),
        "{} problems, the last {last:?}",
        errors.len()
    );
    let mut all = BTreeSet::new();
    listed(&schema, "", &mut all);
    let never: Vec<&String> = all.difference(&met).collect();
    assert!(never.is_empty(), "no record has these: {never:?}");
    for at in &all {
        let property = schema.pointer(at).expect("it was found there");
        let says = property.get("description").or(property.get("$ref"));
        assert!(
            says.or(property.get("const")).is_some(),
            "{at} has no description"
        );
    }
    assert_eq!(
        schema["properties"]["schema"]["const"],
        spindles_measure::SCHEMA
    );
}

/// A modification of a record.
type Plant = fn(&mut Value);

/// Tests the check itself: it finds a new field, a wrong unit and a missing name.
#[test]
fn a_record_that_violates_the_schema_is_detected() {
    let schema = schema();
    let broken: [(&str, Plant); 5] = [
        ("line.colour is not in the schema", |line| {
            line["colour"] = "red".into();
        }),
        ("line.elapsed_ns", |line| line["elapsed_ns"] = "1 s".into()),
        ("line.io.depth is not in the schema", |line| {
            line["io"]["depth"] = 1.into();
        }),
        ("line.system: ", |line| {
            line["system"]
                .as_object_mut()
                .expect("an object")
                .remove("name");
        }),
        ("oneOf", |line| line["record"] = "song".into()),
    ];
    for (words, plant) in broken {
        let mut line = lines().last().expect("there are records");
        plant(&mut line);
        let (errors, _) = checked(&schema, std::iter::once(line));
        assert!(
            errors.iter().any(|it| it.contains(words)),
            "{words}: {errors:?}"
        );
    }
}

/// Properties that the schema makes optional can be omitted.
#[test]
fn minimal_records_are_read() {
    for kind in ["experiment", "environment", "calibration"] {
        let line = format!("{{\"schema\":1,\"record\":\"{kind}\"}}\n");
        assert_eq!(from_lines(&line).map(|records| records.len()), Ok(1));
    }
    let run = "{\"schema\":1,\"record\":\"run\",\"system\":{\"name\":\"a\"},\
               \"workload\":{\"name\":\"b\"}}\n";
    assert_eq!(from_lines(run).map(|records| records.len()), Ok(1));
    let value = serde_json::from_str(run).expect("it is JSON");
    assert_eq!(
        checked(&schema(), std::iter::once(value)).0,
        Vec::<String>::new()
    );
}
