//! A doubt about the figures of an analysis.

use serde::Serialize;

/// A doubt with its evidence, ready to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Name of the doubt's kind.
    pub kind: String,
    /// Short description.
    pub title: String,
    /// Suggested remedy.
    pub remedy: String,
    /// The evidence, one sentence each.
    pub details: Vec<String>,
}

impl Finding {
    pub(crate) fn new(kind: &str, title: &str, remedy: &str, details: Vec<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            title: title.to_owned(),
            remedy: remedy.to_owned(),
            details,
        }
    }
}
