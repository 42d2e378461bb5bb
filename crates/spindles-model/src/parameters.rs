//! Parameters of a model: numbers and switches with their sources, and tables.

use crate::draw::Draw;
use crate::fault::{Fault, Problem};
use crate::kind::{Kind, Part};
pub use crate::number::{How, Number, Switch};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The unit of places on a modelled device.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// The part with the points of the seek curve.
pub(crate) const ARM: &str = "arm";

/// A number of the arm that is a distance.
const KNEE: &str = "seek_knee_cylinders";

/// A zone: neighbouring cylinders with the same number of sectors a track.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// The first cylinder.
    pub first_cylinder: u32,
    /// The last cylinder.
    pub last_cylinder: u32,
    /// The sectors that pass in one turn.
    pub sectors_per_track: u32,
    /// The sectors of a track that hold data.
    pub used_sectors_per_track: u32,
    /// The angle of the zone's first sector, in sectors.
    pub first_angle_sectors: f64,
    /// The skew of a track after the one before it, in sectors.
    pub track_skew_sectors: f64,
    /// The skew of a cylinder's first track after the last of the cylinder before, in sectors.
    pub cylinder_skew_sectors: f64,
}

/// Sectors in a row: they lie at consecutive places of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Extent {
    /// The first sector.
    pub first_sector: u64,
    /// The number of sectors.
    pub sectors: u64,
    /// The index of the zone.
    pub zone: u32,
    /// The place of the first sector in the zone.
    pub place: u64,
}

/// A link between disks and host. Requests that share it take it in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bytes a second.
    pub bytes_per_s: u64,
    /// The time of each command.
    pub command_ns: u64,
    /// True if a request holds the link from its command to its answer.
    pub is_held: bool,
}

/// What can be drawn of a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Portrait {
    /// Distances in cylinders, and the milliseconds of a seek.
    pub seek: Vec<(f64, f64)>,
    /// Places as a share of the capacity, and MB/s of long reads there.
    pub rates: Vec<(f64, f64)>,
}

/// The numbers, switches and tables of a modelled device.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// The name of the model.
    pub name: String,
    /// The kind of device.
    pub kind: &'static Kind,
    /// The year in which it was new, if known.
    pub year: Option<u16>,
    /// Numbers by key.
    pub numbers: BTreeMap<String, Number>,
    /// Switches by key.
    pub switches: BTreeMap<String, Switch>,
    /// Zones, if the sectors per track are known.
    pub zones: Vec<Zone>,
    /// The map of sectors, if known; else sectors fill all places in order.
    pub extents: Vec<Extent>,
    /// Points of the seek curve: cylinders and milliseconds, if known.
    pub seek: Vec<(u32, f64)>,
}

impl Parameters {
    /// Returns the values of all numbers in a draw, by key.
    pub fn drawn(&self, draw: &Draw) -> BTreeMap<&str, f64> {
        self.numbers
            .iter()
            .map(|(key, number)| (key.as_str(), draw.number(&self.name, key, number)))
            .collect()
    }

    /// Returns the word of a switch in a draw; `None` if the parameters leave it out.
    pub fn drawn_word(&self, draw: &Draw, key: &str) -> Option<&str> {
        let switch = self.switches.get(key)?;
        Some(draw.switch(&self.name, key, switch))
    }

    /// Fixes a number: a draw then takes no other value.
    pub fn fix(&mut self, key: &str, value: f64, source: &str) {
        let number = Number {
            value,
            low: value,
            high: value,
            how: How::Computed,
            source: source.to_owned(),
        };
        self.numbers.insert(key.to_owned(), number);
    }

    /// Returns the words of all switches in a draw, by key.
    pub fn drawn_words(&self, draw: &Draw) -> BTreeMap<&str, &str> {
        self.switches
            .iter()
            .map(|(key, switch)| (key.as_str(), draw.switch(&self.name, key, switch)))
            .collect()
    }

    /// Returns the parameters with a part that is `factor` times as fast in every draw. `None` if
    /// they have no number of the part.
    #[must_use]
    pub fn faster(&self, part: &Part, factor: f64) -> Option<Self> {
        let is_of = |keys: &[&str], key: &str| {
            let mut keys = keys.iter();
            keys.any(|begin| key.starts_with(begin) && key != KNEE)
        };
        let mut faster = self.clone();
        let mut is_changed = false;
        for (key, number) in &mut faster.numbers {
            let by = match (is_of(part.times, key), is_of(part.rates, key)) {
                (true, _) => 1.0 / factor,
                (_, true) => factor,
                _ => continue,
            };
            is_changed |= number.value != 0.0;
            for end in [&mut number.value, &mut number.low, &mut number.high] {
                *end *= by;
            }
        }
        if part.name == ARM {
            is_changed |= !faster.seek.is_empty();
            faster.seek.iter_mut().for_each(|(_, ms)| *ms /= factor);
        }
        is_changed.then_some(faster)
    }

    /// The nominal size of the device; `None` for a link.
    pub fn capacity_bytes(&self) -> Option<u64> {
        Some(whole(self.numbers.get("sectors")?.value) * SECTOR_BYTES)
    }

    /// Fixes a switch: a draw then takes no alternative.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Fault> {
        let place = || format!("{}: {key}", self.name);
        let Some(rule) = self.kind.switches.iter().find(|rule| rule.key == key) else {
            let known = self.kind.switches.iter().map(|rule| rule.key);
            let nearest = crate::fault::nearest(key, known);
            return Err(Fault::new(place(), Problem::UnknownKey { nearest }));
        };
        if !rule.words.contains(&value) {
            let problem = Problem::UnknownWord {
                found: value.to_owned(),
                known: rule.words.join(", "),
            };
            return Err(Fault::new(place(), problem));
        }
        let switch = Switch {
            value: value.to_owned(),
            or: Vec::new(),
            how: How::Stated,
            source: "set by the user".to_owned(),
        };
        self.switches.insert(key.to_owned(), switch);
        Ok(())
    }

    /// The link that parameters of the kind `link` describe in a draw.
    pub fn link(&self, draw: &Draw) -> Result<Link, Fault> {
        let values = self.values(draw);
        Ok(Link {
            bytes_per_s: whole(values.number("rate_mb_s")? * 1e6),
            command_ns: ns(values.find("command_ms").unwrap_or(0.0)),
            is_held: values.is_on("held", false),
        })
    }

    /// The values of a draw, for the rows of kinds.
    pub(crate) fn values<'a>(&'a self, draw: &'a Draw) -> Values<'a> {
        Values {
            parameters: self,
            draw,
            inferred: None,
        }
    }

    /// The same, which also notes the numbers that rules infer.
    pub(crate) fn values_noted<'a>(
        &'a self,
        draw: &'a Draw,
        inferred: &'a RefCell<BTreeMap<String, Number>>,
    ) -> Values<'a> {
        Values {
            inferred: Some(inferred),
            ..self.values(draw)
        }
    }
}

/// Parameters seen through a draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    pub(crate) parameters: &'a Parameters,
    draw: &'a Draw,
    /// Keeps the numbers that rules inferred.
    inferred: Option<&'a RefCell<BTreeMap<String, Number>>>,
}

impl<'a> Values<'a> {
    /// The value of a number; `None` if the parameters leave it out.
    pub(crate) fn find(&self, key: &str) -> Option<f64> {
        let number = self.parameters.numbers.get(key)?;
        Some(self.draw.number(&self.parameters.name, key, number))
    }

    /// The value of a number that must be there.
    pub(crate) fn number(&self, key: &'static str) -> Result<f64, Fault> {
        self.find(key).ok_or_else(|| {
            let place = format!("{}: {key}", self.parameters.name);
            let expected = "a number with value, how and source";
            Fault::new(place, Problem::Missing { expected })
        })
    }

    /// The value of a number, or of the number that a rule infers.
    pub(crate) fn or(&self, key: &str, rule: impl FnOnce() -> Number) -> f64 {
        self.find(key).unwrap_or_else(|| {
            let number = rule();
            let value = self.draw.number(&self.parameters.name, key, &number);
            if let Some(inferred) = self.inferred {
                inferred.borrow_mut().insert(key.to_owned(), number);
            }
            value
        })
    }

    /// The word of a switch, or its default.
    pub(crate) fn word(&self, key: &str, default: &'a str) -> &'a str {
        match self.parameters.switches.get(key) {
            Some(switch) => self.draw.switch(&self.parameters.name, key, switch),
            None => default,
        }
    }

    /// Returns true if a switch is `"on"`.
    pub(crate) fn is_on(&self, key: &str, default: bool) -> bool {
        self.word(key, if default { "on" } else { "off" }) == "on"
    }
}

/// Rounds milliseconds to nanoseconds; negative times become 0.
pub(crate) fn ns(ms: f64) -> u64 {
    whole(ms * 1e6)
}

/// Rounds to a whole number; negative numbers and NaN become 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, which is the intent"
)]
pub(crate) fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Converts a count to a float; exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}
