//! Reads configurations from the shared folder next to the repository, if present.

use super::read;
use serde_json::Value;
use spindles_dialects::recognise;
use std::path::Path;

#[test]
fn collected_lines_are_read() {
    let repo = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap();
    let path = repo.join("../shared/foreign/configs/words.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        return;
    };
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
    for row in &rows {
        let string = |key: &str| row.get(key).and_then(Value::as_str);
        let words = string("words").unwrap();
        let dialect = recognise(words).unwrap_or_else(|| panic!("{words}"));
        let translation = match (read(dialect.name, words, &[]), string("error_names")) {
            (Ok(translation), None) => translation,
            (Err(error), Some(expected)) if error.message.contains(expected) => continue,
            (result, _) => panic!("{words}: {result:?}"),
        };
        let array = &translation.arrays[0];
        assert_eq!(
            Some(array.expression.to_string().as_str()),
            string("expression"),
            "{words}"
        );
        let chunk = array
            .shape
            .chunk_bytes
            .map(|bytes| format!("{}K", bytes / 1024));
        assert!(
            string("chunk").is_none_or(|expected| chunk.as_deref() == Some(expected)),
            "{words}"
        );
        assert!(
            string("name").is_none_or(|expected| array.shape.name.as_deref() == Some(expected))
        );
        assert!(
            string("journal").is_none_or(|journal| array.shape.journal.as_deref() == Some(journal))
        );
        let spares = row
            .get("spares")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let spares: Vec<_> = spares.filter_map(Value::as_str).collect();
        assert_eq!(array.shape.spares, spares, "{words}");
        let note = string("note_says").unwrap_or_default();
        assert!(
            note.is_empty() || translation.notes.iter().any(|had| had.text.contains(note)),
            "{words}"
        );
    }
}
