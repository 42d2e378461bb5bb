//! Presets: parameters as TOML. Every number is a table with its value, bounds and source.

use crate::fault::{Fault, Problem, nearest};
use crate::kinds::{KINDS, Kind, NumberRule, SwitchRule};
use crate::parameters::{How, Number, Parameters, Switch};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Keys of presets of every kind.
const COMMON: &[&str] = &["name", "kind", "year"];

/// Parses a preset. `file` names the text in faults.
pub fn parse_preset(file: &str, text: &str) -> Result<Parameters, Fault> {
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| Fault::new(file, Problem::Toml(error.to_string())))?;
    let kind = kind(file, &table)?;
    let mut parameters = Parameters {
        name: text_of(file, &table, "name")?,
        kind,
        year: year(file, &table)?,
        numbers: BTreeMap::new(),
        switches: BTreeMap::new(),
        zones: Vec::new(),
        extents: Vec::new(),
        seek: Vec::new(),
    };
    for (key, value) in &table {
        let place = || format!("{file}: {key}");
        if COMMON.contains(&key.as_str()) {
            continue;
        }
        if let Some(rule) = kind.numbers.iter().find(|rule| rule.key == key) {
            let number = number(value, rule).map_err(|problem| Fault::new(place(), problem))?;
            parameters.numbers.insert(key.clone(), number);
        } else if let Some(rule) = kind.switches.iter().find(|rule| rule.key == key) {
            let switch = switch(value, rule).map_err(|problem| Fault::new(place(), problem))?;
            parameters.switches.insert(key.clone(), switch);
        } else {
            let problem = Problem::UnknownKey {
                nearest: nearest(key, known(kind)),
            };
            return Err(Fault::new(place(), problem));
        }
    }
    Ok(parameters)
}

fn known(kind: &Kind) -> impl Iterator<Item = &'static str> {
    let numbers = kind.numbers.iter().map(|rule| rule.key);
    let switches = kind.switches.iter().map(|rule| rule.key);
    numbers.chain(switches).chain(COMMON.iter().copied())
}

fn kind(file: &str, table: &Table) -> Result<&'static Kind, Fault> {
    let name = text_of(file, table, "kind")?;
    Kind::by_name(&name).ok_or_else(|| {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        let problem = Problem::UnknownWord {
            found: name,
            known: known.join(", "),
        };
        Fault::new(format!("{file}: kind"), problem)
    })
}

fn text_of(file: &str, table: &Table, key: &str) -> Result<String, Fault> {
    let found = table.get(key).and_then(Value::as_str);
    found.map(str::to_owned).ok_or_else(|| {
        let expected = "a text in quotes";
        Fault::new(format!("{file}: {key}"), Problem::Missing { expected })
    })
}

fn year(file: &str, table: &Table) -> Result<Option<u16>, Fault> {
    let Some(value) = table.get("year") else {
        return Ok(None);
    };
    let year = value.as_integer().and_then(|year| u16::try_from(year).ok());
    let expected = || Problem::Expected {
        expected: "a year, such as 1996".to_owned(),
    };
    let year = year.ok_or_else(|| Fault::new(format!("{file}: year"), expected()))?;
    Ok(Some(year))
}

const NUMBER: &str = "{ value = 1.0, low = 0.9, high = 1.1, how = \"sheet\", source = \"...\" }";

fn number(value: &Value, rule: &NumberRule) -> Result<Number, Problem> {
    if matches!(value, Value::Integer(_) | Value::Float(_)) {
        return Err(Problem::NoSource);
    }
    let expected = || Problem::Expected {
        expected: format!("{} as {NUMBER}", rule.about),
    };
    let table = value.as_table().ok_or_else(expected)?;
    check_keys(table, &["value", "low", "high", "how", "source"])?;
    let part = |key: &str| {
        table
            .get(key)
            .map(|part| float_of(part).ok_or_else(expected))
    };
    let value = part("value").ok_or_else(expected)??;
    let low = part("low").transpose()?.unwrap_or(value);
    let high = part("high").transpose()?.unwrap_or(value);
    for value in [value, low, high] {
        if !(rule.least..=rule.most).contains(&value) {
            return Err(Problem::Range {
                value,
                least: rule.least,
                most: rule.most,
            });
        }
    }
    if low > value || value > high {
        return Err(Problem::Order { low, value, high });
    }
    let (how, source) = origin(table)?;
    Ok(Number {
        value,
        low,
        high,
        how,
        source,
    })
}

fn switch(value: &Value, rule: &SwitchRule) -> Result<Switch, Problem> {
    let expected = || Problem::Expected {
        expected: format!(
            "{} as {{ value = \"{}\", or = [], how = \"sheet\", source = \"...\" }}",
            rule.about, rule.words[0]
        ),
    };
    let table = value.as_table().ok_or_else(expected)?;
    check_keys(table, &["value", "or", "how", "source"])?;
    let word = |value: &Value| match value {
        Value::String(word) if rule.words.contains(&word.as_str()) => Ok(word.clone()),
        Value::String(word) => Err(Problem::UnknownWord {
            found: word.clone(),
            known: rule.words.join(", "),
        }),
        _ => Err(expected()),
    };
    let none = Vec::new();
    let others = match table.get("or") {
        Some(others) => others.as_array().ok_or_else(expected)?,
        None => &none,
    };
    let (how, source) = origin(table)?;
    Ok(Switch {
        value: word(table.get("value").ok_or_else(expected)?)?,
        or: others.iter().map(word).collect::<Result<_, _>>()?,
        how,
        source,
    })
}

fn origin(table: &Table) -> Result<(How, String), Problem> {
    let (Some(how), Some(source)) = (table.get("how"), table.get("source")) else {
        return Err(Problem::NoSource);
    };
    let source = source.as_str().filter(|source| !source.trim().is_empty());
    let source = source.ok_or(Problem::NoSource)?.to_owned();
    let how = how
        .clone()
        .try_into::<How>()
        .map_err(|_| Problem::UnknownWord {
            found: how.as_str().unwrap_or_default().to_owned(),
            known: "stated, sheet, measured, extracted, computed, inferred, assumed".to_owned(),
        })?;
    Ok((how, source))
}

fn check_keys(table: &Table, known: &[&str]) -> Result<(), Problem> {
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(Problem::UnknownKey {
            nearest: nearest(key, known.iter().copied()),
        }),
        None => Ok(()),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of presets are far below 2^53"
)]
fn float_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Float(value) if value.is_finite() => Some(*value),
        _ => None,
    }
}
