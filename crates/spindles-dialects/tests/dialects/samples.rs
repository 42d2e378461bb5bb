//! Other people's samples: each with the map that it means, or the words of its error. They are
//! not in this repository; without them the test is skipped.

use super::map::Map;
use super::read;
use serde_json::{Map as Object, Value};
use std::path::Path;

const FOLDER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/foreign/configs"
);

#[test]
fn samples_of_other_systems_mean_the_same_map() {
    let Ok(folder) = Path::new(FOLDER).read_dir() else {
        println!("SKIPPED: samples_of_other_systems_mean_the_same_map: {FOLDER} is not there");
        return;
    };
    let mut samples = 0;
    for entry in folder {
        let path = entry.expect("an entry").path();
        let Ok(expected) = std::fs::read_to_string(path.with_added_extension("expect.json")) else {
            continue;
        };
        let given = std::fs::read_to_string(&path).expect("text");
        check(
            &path.display().to_string(),
            &given,
            &serde_json::from_str(&expected).expect("JSON"),
        );
        samples += 1;
    }
    assert!(samples > 0, "there is no sample in {FOLDER}");
}

fn check(path: &str, given: &str, expected: &Value) {
    let dialect = match expected["system"].as_str().expect(path) {
        "raidframe" => "raidctl",
        system => system,
    };
    if spindles_dialects::named(dialect).is_none() {
        return;
    }
    assert_eq!(
        spindles_dialects::recognise(given).map(|dialect| dialect.name),
        Some(dialect),
        "{path}"
    );
    if let Some(message) = expected["error_names"].as_str() {
        let error = read(dialect, given, &[]).expect_err(path);
        assert!(error.message.contains(message), "{path}: {error}");
        if let Some(line) = expected["line"].as_u64() {
            assert_eq!(u64::try_from(error.line), Ok(line), "{path}: {error}");
        }
        return;
    }
    let none = Object::new();
    let arrays = [&expected["arrays"], &expected["volumes"]];
    let mut arrays: Vec<(Option<&str>, &Value)> = arrays
        .iter()
        .flat_map(|arrays| arrays.as_object().unwrap_or(&none))
        .map(|(name, array)| (Some(name.as_str()), array))
        .collect();
    if arrays.is_empty() {
        arrays.push((None, expected));
    }
    for (name, array) in arrays {
        check_array(path, dialect, given, name, array);
    }
}

fn check_array(path: &str, dialect: &str, given: &str, name: Option<&str>, expected: &Value) {
    let sizes = expected["component_sectors"].as_object();
    let sizes: Vec<(&str, u64)> = sizes
        .into_iter()
        .flatten()
        .map(|(name, sectors)| (name.as_str(), sectors.as_u64().expect("a number")))
        .collect();
    let translation = read(dialect, given, &sizes).expect(path);
    let named = |array: &&spindles_dialects::Translated| array.shape.name.as_deref() == name;
    let array = translation.arrays.iter().find(named).expect(path);
    let wanted = expected["expression"].as_str().expect(path);
    assert_eq!(array.expression.to_string(), in_sectors(wanted), "{path}");
    if let Some(spares) = expected["spares"].as_array() {
        let spares: Vec<_> = spares.iter().filter_map(Value::as_str).collect();
        assert_eq!(array.shape.spares, spares, "{path}");
    }

    let chunk_sectors = array.shape.chunk_bytes.map_or(128, |bytes| bytes / 512);
    let chunk_sectors = u32::try_from(chunk_sectors).expect(path);
    let map = Map::new(&array.expression, chunk_sectors, &|device| {
        let size = sizes.iter().find(|(name, _)| *name == device);
        size.map_or(1 << 30, |(_, sectors)| *sectors)
    });
    let unit = if expected["bytes"].is_null() { 1 } else { 512 };
    let sectors = &expected[if unit == 1 { "sectors" } else { "bytes" }];
    assert_eq!(Some(map.sectors() * unit), sectors.as_u64(), "{path}");
    let places = expected["sector_to_places"].as_object();
    let places = places
        .or(expected["byte_to_places"].as_object())
        .expect(path);
    for (at, places) in places {
        let at: u64 = at.parse().expect(path);
        let found = map.places(at / unit);
        let found = found.into_iter();
        let found: Vec<_> = found
            .map(|(device, sector)| (device.to_owned(), sector * unit + at % unit))
            .collect();
        let wanted: Vec<(String, u64)> = serde_json::from_value(places.clone()).expect("places");
        assert_eq!(found, wanted, "{path}: {at}");
    }
    for (stripe, device) in expected["parity"].as_object().into_iter().flatten() {
        let found = map.parity(stripe.parse().expect(path));
        assert_eq!(Some(found), device.as_str(), "{path}: stripe {stripe}");
    }
}

/// Returns an expression with all sizes in sectors.
fn in_sectors(expression: &str) -> String {
    let parts = expression.split_inclusive([',', ')', '(']);
    parts
        .map(|part| {
            let (word, end) = part.split_at(part.len() - 1);
            let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            match (digits.parse::<u64>(), &word[digits.len()..]) {
                (Ok(count), "K") => format!("{}s{end}", count * 2),
                (Ok(count), "M") => format!("{}s{end}", count * 2048),
                (Ok(count), "G") => format!("{}s{end}", count << 21),
                _ => part.to_owned(),
            }
        })
        .collect()
}
