//! The lines of a record file: one JSON object per line, each with the schema version.
//!
//! A file starts with one `experiment` and one `environment` line. A `run` line follows for each
//! system × workload × repetition block, in the order in which they ran. A `discard` line withdraws
//! the runs of a system whose check at the end of a block failed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Record, work};

/// Version of the schema. Grows when a field changes its meaning. A new field with a default does
/// not change it.
pub const SCHEMA: u32 = 1;

/// Why records could not be read. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file is from a later version.
    #[error(
        "line {line} has schema {found}, and this version of Spindles reads schema {SCHEMA}: use a \
         newer version"
    )]
    Newer {
        /// Line.
        line: usize,
        /// Schema version of the line.
        found: u64,
    },
    /// The line is not a record.
    #[error("line {line} is not a record of Spindles: {reason}")]
    Malformed {
        /// Line.
        line: usize,
        /// What is wrong with the line.
        reason: String,
    },
    /// The same run occurs twice with different contents.
    #[error(
        "lines {first} and {line} are the same run ({what}) with different contents: remove the \
         line that was changed"
    )]
    Differs {
        /// Line of the first run.
        first: usize,
        /// Line of the second run.
        line: usize,
        /// The run in question.
        what: String,
    },
    /// The file contains records of two experiments.
    #[error(
        "lines {first} and {line} belong to different experiments ({what}): put the records of \
         each experiment into a file of its own, and compare these files"
    )]
    Mixed {
        /// Line of the first record.
        first: usize,
        /// Line of the other record.
        line: usize,
        /// The differences.
        what: String,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    #[serde(flatten)]
    record: &'a Record,
}

/// Formats the record as one line of JSON, with its newline.
pub fn to_line(record: &Record) -> String {
    let mut line = serde_json::to_string(&Line {
        schema: SCHEMA,
        record,
    })
    .expect("records hold strings, integers and maps with string keys");
    line.push('\n');
    line
}

/// Reads all records of a file. Ignores an incomplete last line (of an interrupted run) and a byte
/// order mark at the start.
///
/// # Errors
/// If a line is not a record or has a later schema. If a run occurs twice with different contents.
/// If records belong to different experiments.
pub fn from_lines(text: &str) -> Result<Vec<Record>, ReadError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = Vec::new();
    let mut lines = Vec::new();
    let complete = text.ends_with('\n');
    let count = text.lines().count();
    for (index, content) in text.lines().enumerate() {
        let line = index + 1;
        if content.trim().is_empty() {
            continue;
        }
        match read_line(line, content) {
            Err(ReadError::Malformed { .. }) if line == count && !complete => {}
            read => {
                records.push(read?);
                lines.push(line);
            }
        }
    }
    check_runs(&records, &lines)?;
    check_work(&records, &lines)?;
    Ok(records)
}

/// Checks that a run that occurs several times is the same each time. Without start times, equal
/// runs cannot be identified.
fn check_runs(records: &[Record], lines: &[usize]) -> Result<(), ReadError> {
    let mut known = BTreeMap::new();
    for (record, &line) in records.iter().zip(lines) {
        let Record::Run(run) = record else { continue };
        let (system, workload) = (&*run.system.name, &*run.workload.name);
        let place = (run.repetition_block, run.order, run.trial.is_some());
        let identity = (run.started_unix_ms, run.seed, place, system, workload);
        let (first, same) = *known.entry(identity).or_insert((line, run));
        if run.started_unix_ms > 0 && same != run {
            let block = run.repetition_block.saturating_add(1);
            return Err(ReadError::Differs {
                first,
                line,
                what: format!("{system}, {workload}, block {block}"),
            });
        }
    }
    Ok(())
}

/// Checks that the records belong to a single experiment, so that results with equal names can be
/// averaged.
fn check_work(records: &[Record], lines: &[usize]) -> Result<(), ReadError> {
    let Some(mixture) = work::mixture(records) else {
        return Ok(());
    };
    let (first, second) = mixture.records;
    let differences = mixture.differences.iter();
    let words = differences.map(|difference| {
        format!(
            "{}: {} {} and {}",
            difference.of, difference.what, difference.before, difference.after
        )
    });
    Err(ReadError::Mixed {
        first: lines[first],
        line: lines[second],
        what: words.collect::<Vec<_>>().join("; "),
    })
}

fn read_line(line: usize, content: &str) -> Result<Record, ReadError> {
    let malformed = |reason: String| ReadError::Malformed { line, reason };
    let value: serde_json::Value =
        serde_json::from_str(content).map_err(|error| malformed(error.to_string()))?;
    let schema = value.get("schema").and_then(serde_json::Value::as_u64);
    match schema {
        Some(found) if found > u64::from(SCHEMA) => Err(ReadError::Newer { line, found }),
        Some(_) => serde_json::from_value(value).map_err(|error| malformed(error.to_string())),
        None => Err(malformed("it has no \"schema\"".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Doubt, Environment, Experiment, Histogram, Run, Traffic};

    fn run() -> Run {
        let mut latency = Histogram::new();
        for value in [1, 900, 1_000_000, u64::MAX] {
            latency.record(value);
        }
        Run {
            experiment: "quickstart".to_owned(),
            elapsed_ns: u64::MAX,
            latency: BTreeMap::from([("read".to_owned(), latency)]),
            devices: Some(Traffic {
                read: 1,
                written: 2,
            }),
            doubts: vec![Doubt {
                kind: "scaled".to_owned(),
                detail: "é \"x\"\n".to_owned(),
            }],
            ..Run::default()
        }
    }

    #[test]
    fn records_round_trip() {
        let records = vec![
            Record::Experiment(Experiment {
                name: "q".to_owned(),
                ..Experiment::default()
            }),
            Record::Environment(Environment {
                cpus: 2,
                ..Environment::default()
            }),
            Record::Run(Box::new(run())),
        ];
        let text: String = records.iter().map(to_line).collect();
        assert_eq!(text.lines().count(), 3);
        assert!(
            text.lines()
                .all(|line| line.starts_with("{\"schema\":1,\"record\":\""))
        );
        assert_eq!(from_lines(&text), Ok(records));
    }

    #[test]
    fn a_truncated_last_line_is_ignored() {
        let text = to_line(&Record::Run(Box::new(run())));
        let both = format!("{text}{}", &text[..text.len() / 2]);
        assert_eq!(from_lines(&both).unwrap().len(), 1);
        let broken_inside = format!("{}\n{text}", &text[..text.len() / 2]);
        assert!(matches!(
            from_lines(&broken_inside),
            Err(ReadError::Malformed { line: 1, .. })
        ));
    }

    /// Some editors add a byte order mark.
    #[test]
    fn a_byte_order_mark_is_skipped() {
        let text = to_line(&Record::Run(Box::new(run())));
        assert_eq!(from_lines(&format!("\u{feff}{text}")), from_lines(&text));
        let inside = format!("{text}\u{feff}{text}");
        assert!(from_lines(&inside).is_err());
    }

    #[test]
    fn conflicting_records_of_one_run_are_refused() {
        let record = |began: u64, elapsed_ns: u64| {
            to_line(&Record::Run(Box::new(Run {
                started_unix_ms: began,
                elapsed_ns,
                ..run()
            })))
        };
        let read = |lines: &[String]| from_lines(&lines.concat());
        let error = read(&[record(5, 1), record(6, 1), record(5, 2)]).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("lines 1 and 3 are the same run (, , block 1)"),
            "{message}"
        );
        assert!(message.ends_with("remove the line that was changed"));
        // An identical run is accepted. Without a start time, the same run cannot be recognised.
        assert_eq!(read(&[record(5, 1), record(5, 1)]).unwrap().len(), 2);
        assert_eq!(read(&[record(0, 1), record(0, 2)]).unwrap().len(), 2);
    }

    #[test]
    fn unknown_fields_of_the_same_schema_are_ignored() {
        let text = "{\"schema\":1,\"record\":\"run\",\"elapsed_ns\":7,\"new_field\":[1]}\n";
        let records = from_lines(text).unwrap();
        assert!(matches!(&records[..], [Record::Run(run)] if run.elapsed_ns == 7));
    }

    #[test]
    fn a_later_schema_is_refused_with_the_remedy() {
        let error = from_lines("{\"schema\":2,\"record\":\"run\"}\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1 has schema 2, and this version of Spindles reads schema 1: use a newer version"
        );
    }

    #[test]
    fn invalid_records_are_refused_with_their_line() {
        for (text, words) in [
            ("hello\n", "line 1 is not a record"),
            ("{\"a\":1}\n", "no \"schema\""),
            ("\n{\"schema\":1,\"record\":\"song\"}\n", "line 2"),
        ] {
            let error = from_lines(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
