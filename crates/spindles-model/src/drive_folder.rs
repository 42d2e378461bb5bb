//! Drive folders: parameters extracted from a real drive, as texts.

use crate::fault::{Fault, Problem, nearest};
use crate::kinds::Kind;
use crate::parameters::{Extent, How, Number, Parameters, Switch, Zone};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The most rows of a table that are read.
const ROWS_MAX: usize = 4_000_000;

/// The most zones that are read.
const ZONES_MAX: usize = 65_536;

/// The texts of a drive folder.
#[derive(Clone, Copy, Debug)]
pub struct DriveTexts<'a> {
    /// The name of the folder, for faults.
    pub folder: &'a str,
    /// `drive.toml`.
    pub drive: &'a str,
    /// `seek.csv`.
    pub seek: &'a str,
    /// `extents.csv`.
    pub extents: &'a str,
}

/// Keys of `drive.toml` that say nothing about time.
const IGNORED: &[&str] = &[
    "name",
    "vendor",
    "product",
    "interface",
    "sector_bytes",
    "requests",
    "year",
    "seek",
    "extents",
    "zone",
    "mechanics",
    "buffer",
    "bus",
    "overhead_ms",
];

/// Parses a drive folder.
pub fn parse_drive(texts: &DriveTexts) -> Result<Parameters, Fault> {
    let file = format!("{}/drive.toml", texts.folder);
    let table: Table = texts.drive.parse().map_err(|error: toml::de::Error| {
        Fault::new(file.clone(), Problem::Toml(error.to_string()))
    })?;
    let name = table.get("name").and_then(Value::as_str);
    let mut parameters = Parameters {
        name: name.unwrap_or(texts.folder).to_owned(),
        kind: Kind::by_name("mechanical").expect("a row of the table"),
        year: table
            .get("year")
            .and_then(Value::as_integer)
            .and_then(|year| u16::try_from(year).ok()),
        numbers: BTreeMap::new(),
        switches: BTreeMap::new(),
        zones: Vec::new(),
        extents: Vec::new(),
        seek: Vec::new(),
    };
    take_keys(&mut parameters, &file, &table, "", "")?;
    for (section, prefix, suffix) in [
        ("mechanics", "", ""),
        ("buffer", "", ""),
        ("bus", "", ""),
        ("overhead_ms", "overhead_", "_ms"),
    ] {
        let place = format!("{file}: [{section}]");
        let keys = table.get(section).and_then(Value::as_table);
        let expected = "a table of numbers";
        let keys = keys.ok_or_else(|| Fault::new(&place, Problem::Missing { expected }))?;
        take_keys(&mut parameters, &place, keys, prefix, suffix)?;
    }
    parameters.zones = zones(&file, &table)?;
    parameters.seek = seek(texts)?;
    parameters.extents = extents(texts, &parameters.zones)?;
    check_extents(texts, &parameters)?;
    Ok(parameters)
}

fn take_keys(
    parameters: &mut Parameters,
    place: &str,
    table: &Table,
    prefix: &str,
    suffix: &str,
) -> Result<(), Fault> {
    const SOURCE: &str = "the drive's folder";
    for (key, value) in table {
        if IGNORED.contains(&key.as_str()) {
            continue;
        }
        let full = format!("{prefix}{key}{suffix}");
        let place = || format!("{place}: {key}");
        if let Some(rule) = parameters
            .kind
            .switches
            .iter()
            .find(|rule| rule.key == full)
        {
            let word = match value {
                Value::Boolean(false) | Value::Integer(0) => "off",
                Value::Boolean(true) | Value::Integer(_) => "on",
                Value::String(word) => word.as_str(),
                _ => "",
            };
            if !rule.words.contains(&word) {
                let problem = Problem::UnknownWord {
                    found: value.to_string(),
                    known: rule.words.join(", "),
                };
                return Err(Fault::new(place(), problem));
            }
            let switch = Switch {
                value: word.to_owned(),
                or: Vec::new(),
                how: How::Extracted,
                source: SOURCE.to_owned(),
            };
            parameters.switches.insert(full, switch);
            continue;
        }
        if let Some(rule) = parameters.kind.numbers.iter().find(|rule| rule.key == full) {
            let value = number(value).ok_or_else(|| {
                let expected = rule.about.to_owned();
                Fault::new(place(), Problem::Expected { expected })
            })?;
            if !(rule.least..=rule.most).contains(&value) {
                let problem = Problem::Range {
                    value,
                    least: rule.least,
                    most: rule.most,
                };
                return Err(Fault::new(place(), problem));
            }
            parameters
                .numbers
                .insert(full, Number::extracted(value, SOURCE));
            continue;
        }
        let numbers = parameters.kind.numbers.iter().map(|rule| rule.key);
        let known = numbers.chain(parameters.kind.switches.iter().map(|rule| rule.key));
        let nearest = nearest(&full, known);
        return Err(Fault::new(place(), Problem::UnknownKey { nearest }));
    }
    Ok(())
}

/// A number; a boolean counts as 0 or 1.
#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of drives are far below 2^53"
)]
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Float(value) if value.is_finite() => Some(*value),
        Value::Boolean(value) => Some(f64::from(u8::from(*value))),
        _ => None,
    }
}

fn zones(file: &str, table: &Table) -> Result<Vec<Zone>, Fault> {
    let rows = table
        .get("mechanics")
        .and_then(|mechanics| mechanics.get("zone"))
        .and_then(Value::as_array);
    let place = format!("{file}: [[mechanics.zone]]");
    let expected = "the zones of the drive";
    let rows = rows.ok_or_else(|| Fault::new(&place, Problem::Missing { expected }))?;
    if rows.len() > ZONES_MAX {
        return Err(Fault::new(place, Problem::TooMany { most: ZONES_MAX }));
    }
    let mut zones: Vec<Zone> = Vec::with_capacity(rows.len());
    for (row, index) in rows.iter().zip(0_u32..) {
        let place = || format!("{place} {index}");
        let zone: Zone = row.clone().try_into().map_err(|error: toml::de::Error| {
            Fault::new(place(), Problem::Toml(error.to_string()))
        })?;
        check_zone(&zone, zones.last()).map_err(|problem| Fault::new(place(), problem))?;
        zones.push(zone);
    }
    if zones.is_empty() {
        return Err(Fault::new(place, Problem::Missing { expected }));
    }
    Ok(zones)
}

/// Zones rise and do not overlap. A drive may leave cylinders out between them.
fn check_zone(zone: &Zone, before: Option<&Zone>) -> Result<(), Problem> {
    let least = before.map_or(0, |before| u64::from(before.last_cylinder) + 1);
    if u64::from(zone.first_cylinder) < least || zone.last_cylinder < zone.first_cylinder {
        return Err(Problem::Zones {
            found: zone.first_cylinder.into(),
            before: before.map_or(-1, |before| before.last_cylinder.into()),
            expected: least,
        });
    }
    let range = |value: f64, least: f64, most: f64| {
        if (least..=most).contains(&value) {
            Ok(())
        } else {
            Err(Problem::Range { value, least, most })
        }
    };
    let per_track = f64::from(zone.sectors_per_track);
    range(f64::from(zone.last_cylinder), 0.0, 2e6)?;
    range(per_track, 1.0, 1e5)?;
    range(f64::from(zone.used_sectors_per_track), 1.0, per_track)?;
    for angle in [
        zone.first_angle_sectors,
        zone.track_skew_sectors,
        zone.cylinder_skew_sectors,
    ] {
        range(angle, -1e6, 1e6)?;
    }
    Ok(())
}

/// The rows of a table with a header, as fields, with the line of each.
fn rows<'a>(
    file: &'a str,
    text: &'a str,
    header: &'static str,
) -> Result<impl Iterator<Item = Result<(String, Vec<&'a str>), Fault>>, Fault> {
    let mut lines = text.lines();
    let found = lines.next().map(str::trim);
    if found != Some(header) {
        let expected = format!("the header {header}");
        return Err(Fault::new(
            format!("{file}: line 1"),
            Problem::Expected { expected },
        ));
    }
    let count = header.split(',').count();
    let numbered = lines
        .zip(2_usize..)
        .filter(|(line, _)| !line.trim().is_empty());
    Ok(numbered.map(move |(line, number)| {
        let place = format!("{file}: line {number}");
        if number > ROWS_MAX {
            return Err(Fault::new(place, Problem::TooMany { most: ROWS_MAX }));
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != count {
            let expected = format!("{count} fields: {header}");
            return Err(Fault::new(place, Problem::Expected { expected }));
        }
        Ok((place, fields))
    }))
}

fn field<T: std::str::FromStr>(place: &str, field: &str, what: &str) -> Result<T, Fault> {
    field.parse().map_err(|_| {
        let expected = format!("{what}, not '{field}'");
        Fault::new(place, Problem::Expected { expected })
    })
}

fn seek(texts: &DriveTexts) -> Result<Vec<(u32, f64)>, Fault> {
    let file = format!("{}/seek.csv", texts.folder);
    let mut points: Vec<(u32, f64)> = Vec::new();
    for row in rows(&file, texts.seek, "cylinders,ms")? {
        let (place, fields) = row?;
        let cylinders: u32 = field(&place, fields[0], "a number of cylinders")?;
        let ms: f64 = field(&place, fields[1], "milliseconds")?;
        if !(0.0..=1e4).contains(&ms) {
            let (least, most) = (0.0, 1e4);
            return Err(Fault::new(
                place,
                Problem::Range {
                    value: ms,
                    least,
                    most,
                },
            ));
        }
        if points.last().is_some_and(|last| cylinders <= last.0) {
            let expected = "more cylinders than the line before".to_owned();
            return Err(Fault::new(place, Problem::Expected { expected }));
        }
        points.push((cylinders, ms));
    }
    if points.first().is_some_and(|point| point.0 == 0) {
        points.remove(0);
    }
    if points.is_empty() {
        let expected = "at least one point";
        return Err(Fault::new(file, Problem::Missing { expected }));
    }
    Ok(points)
}

fn extents(texts: &DriveTexts, zones: &[Zone]) -> Result<Vec<Extent>, Fault> {
    let file = format!("{}/extents.csv", texts.folder);
    let mut extents: Vec<Extent> = Vec::new();
    for row in rows(&file, texts.extents, "first_sector,sectors,zone,place")? {
        let (place, fields) = row?;
        let extent = Extent {
            first_sector: field(&place, fields[0], "a sector")?,
            sectors: field(&place, fields[1], "a number of sectors")?,
            zone: field(&place, fields[2], "a zone")?,
            place: field(&place, fields[3], "a place in the zone")?,
        };
        let expected = extents
            .last()
            .map_or(0, |last| last.first_sector + last.sectors);
        if extent.first_sector != expected {
            let problem = Problem::Sectors {
                found: extent.first_sector,
                expected,
                from: "the extents before",
            };
            return Err(Fault::new(place, problem));
        }
        let most = 1 << 40;
        let is_known = usize::try_from(extent.zone).is_ok_and(|zone| zone < zones.len());
        if !is_known || extent.sectors == 0 || extent.sectors > most || extent.place > most {
            let expected = format!("a zone below {} and 1 to {most} sectors", zones.len());
            return Err(Fault::new(place, Problem::Expected { expected }));
        }
        extents.push(extent);
    }
    Ok(extents)
}

/// Every extent lies within its zone, and the map holds all sectors.
fn check_extents(texts: &DriveTexts, parameters: &Parameters) -> Result<(), Fault> {
    let number = |key: &str| {
        parameters
            .numbers
            .get(key)
            .map_or(0.0, |number| number.value)
    };
    let surfaces = crate::parameters::whole(number("surfaces"));
    let file = format!("{}/extents.csv", texts.folder);
    for (extent, line) in parameters.extents.iter().zip(2..) {
        let zone = &parameters.zones[usize::try_from(extent.zone).expect("checked")];
        let cylinders = u64::from(zone.last_cylinder - zone.first_cylinder) + 1;
        // Spare tracks at the end of a zone may carry sectors of the zone.
        let places = (cylinders + 1) * surfaces * u64::from(zone.used_sectors_per_track);
        if extent.place + extent.sectors > places {
            let problem = Problem::Sectors {
                found: extent.place + extent.sectors,
                expected: places,
                from: "the cylinders of the zone",
            };
            return Err(Fault::new(format!("{file}: line {line}"), problem));
        }
    }
    let sectors = crate::parameters::whole(number("sectors"));
    let mapped = parameters
        .extents
        .last()
        .map_or(0, |last| last.first_sector + last.sectors);
    if mapped < sectors {
        let problem = Problem::Sectors {
            found: mapped,
            expected: sectors,
            from: "sectors of drive.toml",
        };
        return Err(Fault::new(file, problem));
    }
    Ok(())
}

/// A measured request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// True for a write.
    pub is_write: bool,
    /// The first sector.
    pub first_sector: u64,
    /// The number of sectors.
    pub sectors: u64,
    /// The response of the real drive.
    pub response_us: f64,
    /// The time from the answer to the next request.
    pub gap_us: f64,
}

/// Parses `requests.csv`.
pub fn parse_requests(file: &str, text: &str) -> Result<Vec<Measured>, Fault> {
    let header = "operation,first_sector,sectors,response_us,gap_us";
    let mut requests = Vec::new();
    for row in rows(file, text, header)? {
        let (place, fields) = row?;
        let is_write = match fields[0] {
            "R" => false,
            "W" => true,
            _ => {
                let expected = "R or W".to_owned();
                return Err(Fault::new(place, Problem::Expected { expected }));
            }
        };
        let time = |text: &str| -> Result<f64, Fault> {
            let value: f64 = field(&place, text, "microseconds")?;
            if (0.0..=1e12).contains(&value) {
                return Ok(value);
            }
            let (least, most) = (0.0, 1e12);
            Err(Fault::new(
                place.clone(),
                Problem::Range { value, least, most },
            ))
        };
        requests.push(Measured {
            is_write,
            first_sector: field(&place, fields[1], "a sector")?,
            sectors: field(&place, fields[2], "a number of sectors")?,
            response_us: time(fields[3])?,
            gap_us: time(fields[4])?,
        });
    }
    Ok(requests)
}
