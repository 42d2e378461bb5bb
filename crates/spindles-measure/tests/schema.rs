//! Tests the published schema of the record file against real records in both directions: records
//! contain no field unknown to the schema, and the schema has no field that records lack.

use std::collections::{BTreeMap, BTreeSet};

use super::checker::Checker;
use super::example;
use serde_json::Value;
use spindles_measure::verdicts::Intervention;
use spindles_measure::{
    Beside, Calibration, Discard, Doubt, Evidence, JobShare, LateMember, LinkUse, MemberRate,
    MemberUse, NodeRun, Record, Run, Stage, Staging, Traffic, Trial, from_lines, to_line,
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
        staging: Some(Staging::default()),
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
    let mut checker = Checker::new(schema);
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
            errors.iter().any(|error| error.contains(words)),
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
