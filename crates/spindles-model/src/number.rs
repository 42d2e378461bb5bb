//! Numbers and switches of a model, each with its origin.

use serde::{Deserialize, Serialize};

/// The origin of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Stated by the text that measured.
    Stated,
    /// From a maker's data sheet.
    Sheet,
    /// Measured by others.
    Measured,
    /// Extracted from the real drive.
    Extracted,
    /// Computed from other facts.
    Computed,
    /// Inferred; the source says from what.
    Inferred,
    /// Assumed: no source at hand.
    Assumed,
}

/// A number with its bounds and its origin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Number {
    /// The nominal value.
    pub value: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// How the value is known.
    pub how: How,
    /// Where the value is from.
    pub source: String,
}

impl How {
    /// The word in presets.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stated => "stated",
            Self::Sheet => "sheet",
            Self::Measured => "measured",
            Self::Extracted => "extracted",
            Self::Computed => "computed",
            Self::Inferred => "inferred",
            Self::Assumed => "assumed",
        }
    }
}

impl Number {
    /// A number derived by a rule from other numbers: 15 % each way.
    pub(crate) fn inferred(value: f64, rule: &str) -> Self {
        let (a, b) = (value * 0.85, value * 1.15);
        Self {
            value,
            low: a.min(b),
            high: a.max(b),
            how: How::Inferred,
            source: rule.to_owned(),
        }
    }

    /// A number read from a drive's folder.
    pub(crate) fn extracted(value: f64, source: &str) -> Self {
        Self {
            value,
            low: value,
            high: value,
            how: How::Extracted,
            source: source.to_owned(),
        }
    }
}

/// A switch: a word, and the alternatives that a draw may take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Switch {
    /// The nominal word.
    pub value: String,
    /// The alternatives.
    pub or: Vec<String>,
    /// How the value is known.
    pub how: How,
    /// Where the value is from.
    pub source: String,
}
