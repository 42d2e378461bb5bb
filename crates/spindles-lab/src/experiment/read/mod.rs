//! Reads experiment files. Mistakes are reported with the file, the line and the remedy.

mod head;
mod nodes;
mod raw;
mod reader;
mod sweep;
mod systems;
mod workloads;

use crate::experiment::spec::{Experiment, ExperimentError, SystemSpec, Tuning, WorkloadSpec};
use crate::experiment::systems::Members;
use head::scaled_how;
use raw::{RawFile, RawWorkload};
use reader::Reader;
use std::cell::RefCell;
use toml::Spanned;

impl Experiment {
    /// Reads an experiment unchanged; `source` is the user's name of the file.
    ///
    /// # Errors
    /// All mistakes, with the line and the remedy.
    pub fn parse(source: &str, text: &str) -> Result<Self, ExperimentError> {
        Self::parse_tuned(source, text, &Tuning::default())
    }

    /// Reads an experiment with the settings of the command line.
    ///
    /// # Errors
    /// All mistakes, with the line and the remedy.
    pub fn parse_tuned(source: &str, text: &str, tuning: &Tuning) -> Result<Self, ExperimentError> {
        let reader = Reader {
            source,
            text,
            tuning,
            mistakes: RefCell::default(),
        };
        let read = Self::read(&reader);
        reader.end(read)
    }

    /// Reads as much as possible; further mistakes are collected in the reader.
    fn read(reader: &Reader<'_>) -> Result<Self, ExperimentError> {
        let mut raw: RawFile =
            toml::from_str(reader.text).map_err(|error| reader.not_toml(&error))?;
        reader.keep(reader.name(&raw.name));
        // Stop here, because each workload would repeat this mistake.
        reader.check_scale(&raw)?;
        // Stop here too, because options depend on the arrays.
        let mut remarks = reader.shapes(&mut raw)?;
        let (raw_workloads, left_to_lab) = reader.raw_workloads(&raw);
        remarks.extend(left_to_lab);
        let size = |value: &Option<_>, key| reader.keep(reader.size(value.as_ref(), key)).flatten();
        let (size_bytes, chunk) = (size(&raw.size, "size"), size(&raw.chunk, "chunk"));
        let workloads: Vec<WorkloadSpec> = raw_workloads
            .iter()
            .filter_map(|raw| reader.keep(reader.workload(raw, size_bytes)))
            .collect();
        let members = reader.keep(reader.members(raw.members.as_ref(), raw.host.as_ref()));
        let members = members.unwrap_or(Members::Files);
        let systems: Vec<SystemSpec> = raw
            .system
            .iter()
            .filter_map(|one| reader.keep(reader.system(one, chunk, &raw, &members)))
            .collect();
        reader.options_of_all(&raw, &members);
        reader.check_sections(&raw);
        let names = raw.system.iter().map(|system| system.get_ref().name());
        let names: Vec<&str> = names.collect();
        reader.check_baselines(&raw, &names);
        let spans = raw.system.iter().map(Spanned::span);
        reader.keep(reader.unique("system", spans, &names));
        let workload_names: Vec<&str> = raw_workloads.iter().map(RawWorkload::name).collect();
        let spans = raw_workloads.iter().map(|raw| raw.kind.span());
        reader.keep(reader.unique("workload", spans, &workload_names));
        let weights = reader.keep(reader.weights(raw.weights.as_ref(), &workload_names));
        reader.check_systems_of(&raw_workloads, &names);
        let first = names.first().copied().unwrap_or_default();
        let baseline = raw.baseline.as_ref().map_or(first, |one| one.get_ref());
        let nodes = reader.keep(reader.nodes(&raw)).flatten();
        let count = nodes.as_ref().map_or(0, |nodes| nodes.names.len());
        let (workloads, left_out) = reader.with_enough_nodes(workloads, count);
        let empty_caches = reader.empties_caches(&raw);
        let repetitions = reader.repetitions(&raw);
        Ok(Self {
            name: raw.name.get_ref().clone(),
            summary: raw.summary.unwrap_or_default(),
            source: reader.source.to_owned(),
            definition: reader.text.to_owned(),
            seed: repetitions.seed,
            blocks: repetitions.blocks,
            blocks_max: repetitions.blocks_max,
            warmup_operations: repetitions.warmup_operations,
            empty_caches,
            confirm: raw.confirm.unwrap_or(false),
            scale_min: raw.scale_min.as_ref().map(|scale_min| *scale_min.get_ref()),
            time_limit: repetitions.time_limit,
            scaled_how: scaled_how(raw.scaled.unwrap_or_default(), reader.tuning),
            members,
            folder: raw.folder,
            systems,
            baseline: baseline.to_owned(),
            weights: weights.unwrap_or_default(),
            control: raw.control.unwrap_or(true),
            workloads,
            nodes,
            left_out,
            notes: remarks,
        })
    }
}
