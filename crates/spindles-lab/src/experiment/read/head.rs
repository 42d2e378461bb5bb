//! Reads the head of an experiment file: repetitions, caches, and the names of its parts.

use super::raw::{RawFile, RawWorkload};
use super::reader::Reader;
use super::{nodes, sweep};
use crate::experiment::spec::{ExperimentError, Tuning, WorkloadSpec};
use spindles_measure::Stage;
use std::collections::BTreeMap;
use std::time::Duration;
use toml::{Spanned, Value};

/// The most repetition blocks.
const BLOCKS_MAX: u64 = 1000;

/// How often the workloads of an experiment run, and within what limits.
pub(super) struct Repetitions {
    pub(super) seed: u64,
    pub(super) blocks: u32,
    pub(super) blocks_max: u32,
    pub(super) warmup_operations: u32,
    pub(super) time_limit: Option<Duration>,
}

/// Returns how the sizes and times are scaled, in words; empty if they are not.
pub(super) fn scaled_how(said: String, tuning: &Tuning) -> String {
    match (said, tuning.scale) {
        (said, scale) if scale >= 1.0 => said,
        (said, scale) if said.is_empty() => {
            format!("all sizes and times at a scale of {scale}")
        }
        (said, scale) => format!("{said}; and all at a scale of {scale}"),
    }
}

impl Reader<'_> {
    pub(super) fn weights(
        &self,
        weights: Option<&BTreeMap<String, Spanned<f64>>>,
        workloads: &[&str],
    ) -> Result<BTreeMap<String, f64>, ExperimentError> {
        let given = weights.into_iter().flatten();
        let checked = given.map(|(name, weight)| {
            let value = *weight.get_ref();
            if !workloads.contains(&&**name) {
                let names = workloads.join(", ");
                let what =
                    format!("weight of \"{name}\": there is no such workload: use one of {names}");
                return Err(self.at(&weight.span(), what));
            }
            if !value.is_finite() || value <= 0.0 {
                let what = format!(
                    "weight of \"{name}\": {value} is not possible: give a number above 0, or \
                     leave it out"
                );
                return Err(self.at(&weight.span(), what));
            }
            Ok((name.clone(), value))
        });
        checked.collect()
    }

    /// Checks that the scale is large enough for the figures to be meaningful.
    pub(super) fn check_scale(&self, raw: &RawFile) -> Result<(), ExperimentError> {
        let scale = self.tuning.scale;
        let Some(least) = raw
            .scale_min
            .as_ref()
            .filter(|scale_min| scale < *scale_min.get_ref())
        else {
            return Ok(());
        };
        let what = format!(
            "at a scale of {scale} the figures of this experiment would say nothing: choose at \
             least {}",
            least.get_ref()
        );
        Err(self.at(&least.span(), what))
    }

    /// Returns the workloads with job files and sweeps expanded, and notes on ignored lines of
    /// job files.
    pub(super) fn raw_workloads(&self, raw: &RawFile) -> (Vec<RawWorkload>, Vec<String>) {
        let mut notes = Vec::new();
        let mut raw_workloads: Vec<RawWorkload> = Vec::new();
        for one in &raw.workload {
            let jobs = self.keep(self.jobs_of(one.get_ref(), &mut notes));
            raw_workloads.extend(jobs.iter().flatten().flat_map(sweep::expand));
        }
        (raw_workloads, notes)
    }

    /// Reports that the file has no system or no workload.
    pub(super) fn check_sections(&self, raw: &RawFile) {
        for (section, is_missing) in [
            ("system", raw.system.is_empty()),
            ("workload", raw.workload.is_empty()),
        ] {
            if is_missing {
                let what = format!("there is no {section} in it: add a [[{section}]] section");
                self.keep::<()>(Err(self.at_line(1, what)));
            }
        }
    }

    /// Reports baselines that name no system, or the system itself; `names` are all systems.
    pub(super) fn check_baselines(&self, raw: &RawFile, names: &[&str]) {
        if let Some(baseline) = raw.baseline.as_ref().filter(|_| !names.is_empty()) {
            let known = self.one_of(baseline.get_ref(), names, "baseline", &baseline.span());
            self.keep(known);
        }
        for (raw, name) in raw.system.iter().zip(names) {
            if let Some(own) = &raw.get_ref().baseline {
                self.keep(self.one_of(own.get_ref(), names, "baseline", &own.span()));
                if own.get_ref() == name {
                    let what = format!("baseline \"{name}\" is the system itself: name another");
                    self.keep::<()>(Err(self.at(&own.span(), what)));
                }
            }
        }
    }

    /// Reports workloads whose `systems` name no system; `names` are all systems.
    pub(super) fn check_systems_of(&self, raw_workloads: &[RawWorkload], names: &[&str]) {
        for raw in raw_workloads {
            for name in raw.systems.iter().flat_map(Spanned::get_ref) {
                let span = raw.systems.as_ref().map_or(0..0, Spanned::span);
                self.keep(self.one_of(name, names, "system", &span));
            }
        }
    }

    /// Returns the workloads in their stages that `count` nodes suffice for, and a note on the
    /// others.
    pub(super) fn with_enough_nodes(
        &self,
        workloads: Vec<WorkloadSpec>,
        count: usize,
    ) -> (Vec<WorkloadSpec>, Option<String>) {
        let workloads = workloads.into_iter().flat_map(staged);
        let (workloads, left_out) = nodes::with_enough(workloads, count);
        if let (true, Some(left_out)) = (workloads.is_empty(), &left_out) {
            let what = format!("no workload is left: {left_out}");
            self.keep::<()>(Err(self.at_line(1, what)));
        }
        (workloads, left_out)
    }

    /// Returns true if the caches are emptied before each phase on files.
    pub(super) fn empties_caches(&self, raw: &RawFile) -> bool {
        let words = [("empty", true), ("keep", false)];
        let caches = self.word(raw.caches.as_ref(), "way with caches", &words);
        self.keep(caches).flatten().unwrap_or(true)
    }

    /// Reads how often the workloads run, with the settings of the command line.
    pub(super) fn repetitions(&self, raw: &RawFile) -> Repetitions {
        let tuning = self.tuning;
        let count = |value: &Option<Spanned<Value>>, key: &str, min: u64, max: u64| {
            let count = self.count(value.as_ref(), key, min, max);
            self.keep(count).flatten()
        };
        let seconds = count(&raw.time_limit_s, "time_limit_s", 1, 1 << 30);
        let blocks = count(&raw.blocks, "blocks", 1, BLOCKS_MAX);
        let max_blocks = count(&raw.max_blocks, "max_blocks", 1, BLOCKS_MAX);
        let warmup = count(&raw.warmup, "warmup", 0, 1 << 20);
        let seed = count(&raw.seed, "seed", 0, u64::MAX);
        let small = |count: u64| u32::try_from(count).expect("checked above");
        let blocks = small(blocks.unwrap_or(5)).min(tuning.blocks_max.unwrap_or(u32::MAX));
        let blocks = tuning.blocks.unwrap_or(blocks);
        // `--blocks 3` means exactly three, even if the experiment sets a larger maximum.
        let max_blocks = max_blocks.filter(|_| tuning.blocks.is_none());
        let blocks_max = tuning.blocks_max.or(max_blocks.map(small));
        Repetitions {
            seed: seed.unwrap_or(1),
            blocks,
            blocks_max: blocks_max.unwrap_or(blocks).max(blocks),
            warmup_operations: small(warmup.unwrap_or(16)),
            time_limit: seconds.map(Duration::from_secs),
        }
    }
}

/// Expands a workload alongside a job into one before, one during and one after the job.
fn staged(spec: WorkloadSpec) -> Vec<WorkloadSpec> {
    let Some((job, _)) = spec.beside else {
        return vec![spec];
    };
    let at = |stage| WorkloadSpec {
        beside: Some((job, stage)),
        ..spec.clone()
    };
    Stage::ALL.map(at).into()
}
