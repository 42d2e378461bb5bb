//! The TOML structure of experiment files, before anything is checked.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use toml::{Spanned, Value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub(super) name: Spanned<String>,
    pub(super) summary: Option<String>,
    pub(super) scaled: Option<String>,
    pub(super) scale_min: Option<Spanned<f64>>,
    pub(super) size: Option<Spanned<Value>>,
    pub(super) seed: Option<Spanned<Value>>,
    pub(super) blocks: Option<Spanned<Value>>,
    pub(super) max_blocks: Option<Spanned<Value>>,
    pub(super) caches: Option<Spanned<String>>,
    pub(super) confirm: Option<bool>,
    pub(super) warmup: Option<Spanned<Value>>,
    pub(super) time_limit_s: Option<Spanned<Value>>,
    pub(super) members: Option<Spanned<Value>>,
    pub(super) host: Option<Spanned<String>>,
    pub(super) folder: Option<PathBuf>,
    pub(super) chunk: Option<Spanned<Value>>,
    pub(super) consistency: Option<Spanned<String>>,
    pub(super) checksum: Option<Spanned<String>>,
    pub(super) journal: Option<Spanned<String>>,
    pub(super) write_back: Option<Spanned<String>>,
    pub(super) rebuild_rate: Option<Spanned<Value>>,
    pub(super) read_policy: Option<Spanned<String>>,
    pub(super) flushes: Option<Spanned<String>>,
    pub(super) through: Option<Spanned<String>>,
    pub(super) baseline: Option<Spanned<String>>,
    pub(super) weights: Option<BTreeMap<String, Spanned<f64>>>,
    pub(super) control: Option<bool>,
    pub(super) nodes: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) ssh: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) listen: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) system: Vec<Spanned<RawSystem>>,
    #[serde(default)]
    pub(super) workload: Vec<Spanned<RawWorkload>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSystem {
    pub(super) name: Option<Spanned<String>>,
    pub(super) target: Spanned<String>,
    pub(super) chunk: Option<Spanned<Value>>,
    pub(super) consistency: Option<Spanned<String>>,
    pub(super) checksum: Option<Spanned<String>>,
    pub(super) journal: Option<Spanned<String>>,
    pub(super) write_back: Option<Spanned<String>>,
    pub(super) rebuild_rate: Option<Spanned<Value>>,
    pub(super) read_policy: Option<Spanned<String>>,
    pub(super) flushes: Option<Spanned<String>>,
    pub(super) through: Option<Spanned<String>>,
    pub(super) controller: Option<Spanned<String>>,
    pub(super) software: Option<Spanned<String>>,
    pub(super) fs: Option<Spanned<String>>,
    pub(super) mkfs: Option<Spanned<Vec<String>>>,
    pub(super) mount: Option<Spanned<String>>,
    pub(super) up: Option<Spanned<String>>,
    pub(super) down: Option<Spanned<String>>,
    pub(super) takes: Option<Spanned<Value>>,
    pub(super) loops: Option<Spanned<bool>>,
    pub(super) baseline: Option<Spanned<String>>,
    pub(super) price: Option<Spanned<f64>>,
    /// The chunk size in the configuration that the target names.
    #[serde(skip)]
    pub(super) described_chunk_bytes: Option<u64>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWorkload {
    pub(super) name: Option<Spanned<String>>,
    pub(super) kind: Spanned<String>,
    pub(super) size: Option<Spanned<Value>>,
    pub(super) chunk: Option<Spanned<Value>>,
    pub(super) in_flight: Option<Spanned<Value>>,
    pub(super) operations: Option<Spanned<Value>>,
    pub(super) reads: Option<Spanned<Value>>,
    pub(super) seconds: Option<Spanned<Value>>,
    pub(super) arrivals: Option<Spanned<Value>>,
    pub(super) steady: Option<Spanned<bool>>,
    pub(super) parameters: Option<Spanned<BTreeMap<String, Spanned<Value>>>>,
    pub(super) jobfile: Option<Spanned<PathBuf>>,
    pub(super) systems: Option<Spanned<Vec<String>>>,
    pub(super) beside: Option<Spanned<String>>,
    pub(super) on: Option<Spanned<String>>,
    pub(super) nodes: Option<Spanned<Value>>,
    pub(super) device: Option<Spanned<String>>,
}

impl RawSystem {
    /// Returns the name; by default the target.
    pub(super) fn name(&self) -> &str {
        self.name.as_ref().unwrap_or(&self.target).get_ref()
    }
}

impl RawWorkload {
    /// Returns the name; by default the kind.
    pub(super) fn name(&self) -> &str {
        self.name.as_ref().unwrap_or(&self.kind).get_ref()
    }

    /// Returns the place of the parameters; without any, that of the kind.
    pub(super) fn span_of_parameters(&self) -> Range<usize> {
        span_of(self.parameters.as_ref()).unwrap_or_else(|| self.kind.span())
    }
}

/// Returns the place of a value, if it is given.
pub(super) fn span_of<T>(value: Option<&Spanned<T>>) -> Option<Range<usize>> {
    value.map(Spanned::span)
}
