//! The JSON of commands that copy, measure, simulate and explain.

use super::array::Incident;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The copy.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Copied<'a> {
    pub from: &'a str,
    pub to: &'a str,
    pub bytes: u64,
    pub seconds: f64,
    pub bytes_per_second: u64,
    pub verified: bool,
    /// The backend; null if the target is no array.
    pub io: Option<&'static str>,
    pub warnings: &'a [String],
    /// Places that could not be read.
    pub left_out: Vec<Stretch>,
    pub incidents: Vec<Incident>,
}

/// A stretch of bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Stretch {
    pub offset_bytes: u64,
    pub bytes: u64,
}

/// At the end, of one export.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Served {
    pub name: String,
    pub connections: u64,
    pub requests: u64,
    /// Received to be written.
    pub payload_bytes: u64,
    /// Of the payload, not received into the members' buffers.
    pub copied_bytes: u64,
    pub read_bytes: u64,
}

/// At the end, of several exports.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct AllServed {
    pub exports: Vec<Served>,
}

/// The closed array.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Stopped {
    /// True.
    pub stopped: bool,
    pub name: String,
}

/// The table of an expression.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LayoutTable<'a> {
    pub expression: String,
    pub level: &'static str,
    /// Empty if the level has only one.
    pub layout: String,
    /// Their number.
    pub members: usize,
    pub chunk_bytes: u64,
    /// A formula.
    pub capacity: &'static str,
    /// In words.
    pub survives: &'static str,
    pub columns: &'a [String],
    /// The rows that begin a section.
    pub sections: &'a [usize],
    /// The cells of each row.
    pub rows: Vec<Vec<String>>,
    pub notes: Vec<String>,
}

/// The arrays of a text.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Translated<'a> {
    /// Null for an expression of ours.
    pub dialect: Option<&'static str>,
    pub arrays: Vec<TranslatedArray>,
    pub notes: Vec<Note<'a>>,
    /// What the words asked for with `--to` say differently, or not at all.
    pub differences: Vec<String>,
}

/// An array of a text.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct TranslatedArray {
    /// Null if the text has none.
    pub name: Option<String>,
    /// As it lies on slices of its devices; null if the text says only the shape.
    pub expression: Option<String>,
    /// The same levels on whole devices.
    pub shape: String,
    /// Null if the text says none.
    pub chunk_bytes: Option<u64>,
    pub spares: Vec<String>,
    /// Its device, or null.
    pub journal: Option<String>,
    /// The command that opens it as it lies, or null.
    pub opens: Option<String>,
    /// The command that creates a new one.
    pub creates: String,
    /// In the words asked for with `--to`, or null.
    pub words: Option<String>,
}

/// Words that are understood and have no effect here.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Note<'a> {
    /// From 1.
    pub line: usize,
    pub text: &'a str,
}

/// The measured run, with the folder of its records.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LabRun {
    pub folder: String,
    #[serde(flatten)]
    pub report: Report,
}

/// A report. [Measuring](../design/measuring.md) explains its terms.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Report {
    #[cfg_attr(test, schemars(with = "spindles_measure::Analysis"))]
    pub report: Value,
}

/// The measured workload.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct BenchRun {
    #[serde(flatten)]
    pub report: Report,
    /// Without slow members.
    pub incidents: Vec<Incident>,
}

/// With `--dry-run`: estimates.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DryRun<'a> {
    pub runs: u64,
    /// Repetition blocks, the fewest.
    pub blocks: u32,
    /// Repetition blocks, the most.
    pub max_blocks: u32,
    /// Of the fewest blocks.
    pub seconds: f64,
    /// By the fewest blocks, redundancy included.
    pub written_bytes: u64,
    /// Of the slowest member.
    pub read_bytes_per_s: f64,
    /// Of the slowest member.
    pub random_reads_per_s: f64,
    /// The rates are measured, not assumed.
    pub measured: bool,
    /// Null without files.
    pub folder: Option<String>,
    /// Null without files.
    pub file_bytes: Option<u64>,
    pub lost: Vec<Loss<'a>>,
}

/// A device or file that loses its contents.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Loss<'a> {
    pub device: &'a str,
    pub why: &'a str,
    /// Null if unknown.
    pub holds: Option<&'a str>,
}

/// The report of each folder.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Reports {
    #[cfg_attr(test, schemars(with = "Vec<spindles_measure::Analysis>"))]
    pub reports: Vec<Value>,
}

/// Two runs of one experiment, before and after a change.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Change {
    #[cfg_attr(test, schemars(with = "spindles_measure::Change"))]
    pub change: Value,
}

/// A prediction next to a measurement.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Prediction {
    #[cfg_attr(test, schemars(with = "spindles_measure::PredictionCheck"))]
    pub prediction: Value,
}

/// Before the first request.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LabServer {
    pub folder: String,
    pub url: String,
}

/// All that experiments can name.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LabList<'a> {
    pub workloads: Vec<Workload>,
    pub file_workloads: Vec<ToolWorkload>,
    pub network_workloads: Vec<ToolWorkload>,
    pub trace_workloads: Vec<ToolWorkload>,
    pub tool_workloads: Vec<Named<'static>>,
    pub targets: Vec<LabTarget>,
    pub experiments: Vec<LabExperiment<'a>>,
}

/// A workload on blocks.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Workload {
    pub name: &'static str,
    pub summary: String,
    pub writes: bool,
    pub chunk: String,
    pub in_flight: u32,
    pub operations: Option<u64>,
}

/// A workload with parameters.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ToolWorkload {
    pub name: &'static str,
    pub summary: &'static str,
    pub parameters: Vec<Parameter>,
}

/// A parameter of a workload.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Parameter {
    pub name: &'static str,
    pub default: String,
    pub summary: &'static str,
}

/// A name with its meaning.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Named<'a> {
    pub name: &'a str,
    pub summary: &'a str,
}

/// A kind of target.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LabTarget {
    pub name: &'static str,
    pub syntax: &'static str,
    pub summary: &'static str,
}

/// A built-in experiment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LabExperiment<'a> {
    pub name: &'a str,
    pub scale_min: Option<f64>,
    pub summary: &'a str,
}

/// The cost of the engine alone.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct EngineBench<'a> {
    pub rows: Vec<EngineRow<'a>>,
}

/// A measurement of the engine.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct EngineRow<'a> {
    pub array: &'a str,
    /// Their kind.
    pub members: &'static str,
    pub degraded: bool,
    /// `none` or `default`.
    pub promises: &'static str,
    pub in_flight: u32,
    pub work: &'static str,
    pub request_bytes: u32,
    pub requests_per_s: u64,
    pub requests_per_s_slowest: u64,
    pub requests_per_s_fastest: u64,
    pub bytes_per_s: u64,
    /// `default` to `none`, or null.
    pub ratio: Option<f64>,
}

/// The rates of parity kernels.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ParityBench<'a> {
    pub data_chunks: u8,
    pub chunk_bytes: u64,
    pub rounds: u32,
    pub memcpy_bytes_per_s: f64,
    pub rows: Vec<ParityRow>,
    /// The kernel of arrays.
    pub used: &'static str,
    /// Kernels that this processor lacks.
    pub unavailable: &'a [&'static str],
}

/// The rates of a kernel and a code.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ParityRow {
    pub kernel: &'static str,
    pub code: &'static str,
    pub encode_bytes_per_s: f64,
    pub recover_bytes_per_s: f64,
    pub update_bytes_per_s: f64,
}

/// With `--seed`: a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SimulatedStory<'a> {
    #[serde(flatten)]
    pub run: SimulatedRun<'a>,
    pub story: &'a [String],
}

/// A simulated run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SimulatedRun<'a> {
    pub seed: u64,
    pub array: &'a str,
    pub requests: u64,
    pub virtual_ns: u64,
    /// The checksum of all events.
    pub log: String,
    /// Their number.
    pub entries: u64,
    /// Counts, by name.
    pub faults: &'a BTreeMap<&'static str, u64>,
    /// Null if all promises were kept.
    pub failure: Option<SimulatedFailure<'a>>,
}

/// A broken promise.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SimulatedFailure<'a> {
    pub checker: &'a str,
    pub what: &'a str,
    pub session: u32,
    pub virtual_ns: u64,
}

/// Runs of several seeds.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SimulatedRuns<'a> {
    /// The first seed.
    pub first: u64,
    /// The seed after the last.
    pub end: u64,
    pub runs: u64,
    pub seconds: f64,
    pub requests: u64,
    pub virtual_ns: u64,
    /// Counts, by name.
    pub faults: &'a BTreeMap<&'static str, u64>,
    pub failures: Vec<SimulatedRun<'a>>,
    /// Seeds whose repetition differed.
    pub unlike: &'a [u64],
}

/// The script of a shell.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Script<'a> {
    pub script: &'a str,
}

/// A text.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ManPage<'a> {
    pub page: &'a str,
}

/// With `--out`: the written files.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ManPages {
    pub pages: Vec<String>,
}

/// With `--show`: the text of an experiment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ExperimentText<'a> {
    pub experiment: &'a str,
}
