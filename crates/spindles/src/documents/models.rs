//! The JSON of the commands that show models.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// All presets.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ModelList {
    pub models: Vec<ListedModel>,
}

/// A preset.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ListedModel {
    pub name: String,
    pub kind: &'static str,
    pub year: Option<u16>,
    /// Null if it is no disk.
    pub capacity_bytes: Option<u64>,
    /// The count of its numbers.
    pub numbers: usize,
    /// The count of assumed numbers.
    pub assumed: usize,
}

/// A model with its numbers, switches and sources.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ModelShown {
    pub name: String,
    pub kind: &'static str,
    pub year: Option<u16>,
    pub numbers: Vec<ModelNumber>,
    pub switches: Vec<ModelSwitch>,
    pub zones: usize,
    pub extents: usize,
    pub seek_points: usize,
    /// The parts of a file system that are not modelled.
    pub not_modelled: Vec<&'static str>,
    /// Null without measured requests.
    pub replay: Option<ModelReplay>,
}

/// A number of a model.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ModelNumber {
    pub key: String,
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub how: &'static str,
    pub source: String,
}

/// A switch of a model.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ModelSwitch {
    pub key: String,
    pub value: String,
    /// What a draw may take instead.
    pub or: Vec<String>,
    pub how: &'static str,
    pub source: String,
}

/// Measured requests, replayed on the model.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ModelReplay {
    pub all: ModelDemerit,
    /// Null without reads.
    pub reads: Option<ModelDemerit>,
    /// Null without writes.
    pub writes: Option<ModelDemerit>,
}

/// How far modelled responses lie from measured ones.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ModelDemerit {
    pub requests: usize,
    pub measured_mean_us: f64,
    pub modelled_mean_us: f64,
    pub demerit_us: f64,
    pub demerit_percent: f64,
    pub measured_p95_us: f64,
    pub modelled_p95_us: f64,
    pub measured_p99_us: f64,
    pub modelled_p99_us: f64,
}
