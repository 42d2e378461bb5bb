//! Reads the workloads of an experiment file.

use super::raw::{RawWorkload, span_of};
use super::reader::{Reader, keys_of_blocks, not_for_files, not_for_programs};
use crate::experiment::archive::{self, ARCHIVE, ARCHIVE_FOLDER};
use crate::experiment::fio::{FIO, FioWork, Source, jobfile, rivals};
use crate::experiment::jobs::{JOBS, Job};
use crate::experiment::replay::ReplayWork;
use crate::experiment::spec::{BlockWork, ExperimentError, NEWFS, Work, WorkloadSpec};
use spindles_block::SizeBytes;
use spindles_measure::Stage;
use spindles_workload::file::{self, FileKind, FilePlan, Tree};
use spindles_workload::network::COPY;
use spindles_workload::replay::REPLAY;
use spindles_workload::{Kind, On, workload, workloads};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use toml::{Spanned, Value};

/// Bytes that workloads on blocks work on by default.
const SIZE_BYTES_DEFAULT: u64 = 256 << 20;

/// Reads a replay, whose choices are its parameters.
fn replay(reader: &Reader<'_>, raw: &RawWorkload) -> Result<ReplayWork, ExperimentError> {
    reader.refuse(keys_of_blocks(raw), |key| not_for_programs(raw, key))?;
    let given = raw.parameters.iter().flat_map(Spanned::get_ref);
    let chosen = given.map(|(name, value)| {
        let text = match value.get_ref() {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        (name.clone(), text)
    });
    let work = ReplayWork::new(&chosen.collect());
    work.map_err(|error| reader.at(&raw.span_of_parameters(), error.to_string()))
}

impl Reader<'_> {
    pub(super) fn workload(
        &self,
        raw: &RawWorkload,
        size: Option<u64>,
    ) -> Result<WorkloadSpec, ExperimentError> {
        if let Some(name) = &raw.name {
            self.keep(self.name(name));
        }
        let kind_name = raw.kind.get_ref();
        let work = match workload(kind_name) {
            Some(On::Blocks(kind)) => Work::Blocks(self.block_work(raw, kind, size)?),
            Some(On::Files(kind)) => Work::Files(self.file_work(raw, kind)?),
            None if kind_name == FIO => Work::Fio(self.fio(raw)?),
            None if kind_name == NEWFS => Work::Newfs(self.newfs(raw)?),
            None if kind_name == REPLAY => Work::Replay(replay(self, raw)?),
            None if kind_name == COPY => Work::Copy(self.copy(raw)?),
            None => {
                let names = workloads().map(On::name).chain([NEWFS, FIO, COPY, REPLAY]);
                let names: Vec<_> = names.collect();
                return Err(self.at(
                    &raw.kind.span(),
                    format!(
                        "there is no workload \"{kind_name}\": use one of {}",
                        names.join(", ")
                    ),
                ));
            }
        };
        if let Some(systems) = raw
            .systems
            .as_ref()
            .filter(|systems| systems.get_ref().is_empty())
        {
            let what = "`systems` is empty: name some systems, or leave it out for all".to_owned();
            self.keep::<()>(Err(self.at(&systems.span(), what)));
        }
        let jobs: Vec<_> = JOBS.iter().map(|job| job.name).collect();
        let spec = WorkloadSpec {
            name: raw.name().to_owned(),
            work,
            systems: raw
                .systems
                .as_ref()
                .map(|systems| systems.get_ref().clone()),
            beside: self
                .keep(self.named(raw.beside.as_ref(), "job", &jobs, Job::by_name))
                .flatten()
                .map(|job| (job, Stage::Before)),
            on_nodes: None,
            line: self.line_of(&raw.kind.span()),
        };
        let spec = WorkloadSpec {
            on_nodes: self.on_nodes(raw, &spec.work)?,
            ..spec
        };
        if spec.beside.is_some() && !spec.blocks().is_some_and(BlockWork::on_one) {
            let what = match spec.work {
                Work::Blocks(_) => {
                    "it runs on each member, where no job can run: leave `beside` out"
                }
                Work::Replay(_) => "a replay has its own times: leave `beside` out",
                Work::Files(_) | Work::Newfs(_) | Work::Fio(_) | Work::Copy(_) => {
                    "it does not run on an open array, so no job can run alongside it: leave \
                     `beside` out"
                }
            };
            return Err(self.at(&raw.kind.span(), what));
        }
        Ok(spec)
    }

    fn block_work(
        &self,
        raw: &RawWorkload,
        kind: &'static Kind,
        size: Option<u64>,
    ) -> Result<BlockWork, ExperimentError> {
        if let Some(parameters) = &raw.parameters {
            let what = format!(
                "{} works on blocks and has no parameters: give size, chunk, in_flight or \
                 operations",
                kind.name
            );
            return Err(self.at(&parameters.span(), what));
        }
        let count = |value: &Option<Spanned<Value>>, key: &str, min: u64, max: u64| {
            self.keep(self.count(value.as_ref(), key, min, max))
                .flatten()
        };
        let small = |count: u64| u32::try_from(count).expect("checked");
        let found = self.mistakes.borrow().len();
        let chunk = match (
            self.keep(self.size(raw.chunk.as_ref(), "chunk")).flatten(),
            &raw.chunk,
        ) {
            (Some(bytes), Some(value)) => self.keep(u32::try_from(bytes).map_err(|_| {
                let what = format!("chunk = {}: choose less than 4G", value.get_ref());
                self.at(&value.span(), what)
            })),
            _ => None,
        };
        let chosen = self
            .keep(self.size(raw.size.as_ref(), "size"))
            .flatten()
            .or(size);
        let size_bytes = chosen.unwrap_or(SIZE_BYTES_DEFAULT);
        let work = BlockWork {
            kind,
            size_bytes: self.shrunk(raw, kind, size_bytes)?,
            chunk_bytes: chunk,
            in_flight: count(&raw.in_flight, "in_flight", 1, 1024).map(small),
            operations: count(&raw.operations, "operations", 1, 1 << 40),
            read_percent: count(&raw.reads, "reads", 0, 100).map(small),
            seconds: self.keep(self.seconds(raw)).flatten(),
            arrivals_per_s: count(&raw.arrivals, "arrivals", 1, 10_000_000),
            steady: raw.steady.as_ref().is_some_and(|steady| *steady.get_ref()),
        };
        let why = if kind.writes {
            (raw.beside.is_some()).then_some("runs with a job, before which no stage is filled")
        } else {
            Some("only reads, so no stage fills")
        };
        if let Some(why) = why.filter(|_| work.steady) {
            let what = format!("{} {why}: leave `steady` out", kind.name);
            return Err(self.at(&span_of(raw.steady.as_ref()).unwrap_or_default(), what));
        }
        // With an invalid number, planning would fail as well.
        if self.mistakes.borrow().len() > found {
            return Ok(work);
        }
        let plan = kind.plan(&work.params(0, 1));
        let plan = plan.and_then(|plan| match chosen {
            Some(size_bytes) if size_bytes == work.size_bytes => plan.check_size(size_bytes),
            // The default size, or one reduced by the scale.
            Some(_) | None => Ok(()),
        });
        plan.map_err(|error| self.at(&raw.kind.span(), format!("{}: {error}", kind.name)))?;
        Ok(work)
    }

    /// Returns the seconds to run, scaled.
    fn seconds(&self, raw: &RawWorkload) -> Result<Option<u64>, ExperimentError> {
        let seconds = self.count(raw.seconds.as_ref(), "seconds", 1, 1 << 20)?;
        Ok(seconds.map(|seconds| match self.tuning.seconds {
            Some(chosen) => chosen,
            None => file::times(seconds, self.tuning.scale.min(1.0)).max(1),
        }))
    }

    /// Returns the size of a workload on blocks, scaled.
    fn shrunk(
        &self,
        raw: &RawWorkload,
        kind: &Kind,
        size_bytes: u64,
    ) -> Result<u64, ExperimentError> {
        /// A smaller workload ends before it can be measured.
        const LEAST: u64 = 1 << 20;
        if self.tuning.scale >= 1.0 {
            return Ok(size_bytes);
        }
        let shrunk = file::times(size_bytes, self.tuning.scale) / LEAST * LEAST;
        if shrunk < LEAST.max(u64::from(kind.chunk_bytes)) {
            let least = LEAST.max(u64::from(kind.chunk_bytes));
            let what = format!(
                "at a scale of {} {} would work on less than {}, and its figures would say \
                 nothing: choose a scale of at least {:.3}",
                self.tuning.scale,
                kind.name,
                SizeBytes(least).typed(),
                smallest_scale(least, size_bytes)
            );
            return Err(self.at(&raw.kind.span(), what));
        }
        Ok(shrunk)
    }

    fn file_work(
        &self,
        raw: &RawWorkload,
        kind: &'static FileKind,
    ) -> Result<FilePlan, ExperimentError> {
        let keys = keys_of_blocks(raw);
        self.refuse(keys, |key| not_for_files(kind.name, kind.parameters, key))?;
        let mut chosen = BTreeMap::new();
        let given = raw.parameters.iter().flat_map(Spanned::get_ref);
        let (mut tree, mut archive_folder) = (None, None);
        for (name, value) in given {
            if kind.takes_archive && name == ARCHIVE {
                tree = Some(self.archive(value)?);
                continue;
            }
            if kind.takes_archive && name == ARCHIVE_FOLDER {
                let name = value.get_ref().as_str().unwrap_or_default();
                let folder = archive::folder(name).map_err(|why| {
                    let what = format!(
                        "{ARCHIVE_FOLDER} = \"{name}\": {why}: give a folder of another disk"
                    );
                    self.at(&value.span(), what)
                });
                archive_folder = Some(folder?);
                continue;
            }
            chosen.insert(name.clone(), self.parameter(name, value)?);
        }
        let span = raw.span_of_parameters();
        let timed = kind
            .parameters
            .iter()
            .any(|parameter| parameter.name == file::SECONDS);
        let mut plan = kind.plan(&chosen, self.tuning.scale, 0);
        if let (Ok(scaled), Some(seconds), true) = (&plan, self.tuning.seconds, timed) {
            plan = Ok(scaled.clone().with_seconds(seconds));
        }
        let mut plan = plan.map_err(|error| self.at(&span, error))?;
        if let Some(tree) = tree {
            plan = plan.with_tree(Arc::new(tree));
        }
        if let Some(folder) = archive_folder {
            plan = plan.with_archive_in(folder);
        }
        Ok(plan)
    }

    /// Reads the files of the user's archive.
    fn archive(&self, value: &Spanned<Value>) -> Result<Tree, ExperimentError> {
        let path = value.get_ref().as_str().unwrap_or_default();
        archive::read(Path::new(path)).map_err(|error| {
            let what = format!("{ARCHIVE} = \"{path}\": {error}: give an uncompressed tar archive");
            self.at(&value.span(), what)
        })
    }

    /// Reads a workload of fio, whose options are its parameters.
    fn fio(&self, raw: &RawWorkload) -> Result<FioWork, ExperimentError> {
        self.refuse(keys_of_blocks(raw), |key| not_for_programs(raw, key))?;
        let given = raw.parameters.iter().flat_map(Spanned::get_ref);
        let options = given.map(|(name, value)| {
            let text = match value.get_ref() {
                Value::String(text) => text.clone(),
                Value::Boolean(is_set) => u8::from(*is_set).to_string(),
                other => other.to_string(),
            };
            (name.clone(), text)
        });
        let span = raw.span_of_parameters();
        let source = match raw.jobfile {
            Some(_) => Source::JobFile,
            None => Source::Parameters,
        };
        let tuning = self.tuning;
        let work = FioWork::new(options.collect(), source, tuning.seconds, tuning.scale);
        work.map_err(|what| self.at(&span, what))
    }

    /// Returns the workload, or one for each section of its job file. Options of the section become
    /// parameters, unless the workload sets them itself. Options that the lab chooses are left out,
    /// with a note.
    pub(super) fn jobs_of(
        &self,
        raw: &RawWorkload,
        notes: &mut Vec<String>,
    ) -> Result<Vec<RawWorkload>, ExperimentError> {
        let Some(path) = &raw.jobfile else {
            return Ok(vec![raw.clone()]);
        };
        let span = path.span();
        if raw.kind.get_ref() != FIO {
            return Err(self.at(
                &span,
                "`jobfile` is for fio: leave it out, or write kind = \"fio\"",
            ));
        }
        let sections = jobfile::read(path.get_ref()).map_err(|why| self.at(&span, why))?;
        let own = raw.parameters.as_ref();
        let of_section = |section: jobfile::Section| {
            if !section.left_out.is_empty() {
                notes.push(format!(
                    "{}, [{}]: the lab chooses {}",
                    path.get_ref().display(),
                    section.name,
                    section.left_out.join(", ")
                ));
            }
            let mut options = section.options;
            for name in own.into_iter().flat_map(|own| own.get_ref().keys()) {
                for rival in rivals(name) {
                    options.remove(&rival);
                }
            }
            let options = options.into_iter();
            let options = options
                .map(|(name, value)| (name, Spanned::new(span.clone(), Value::String(value))));
            let mut parameters: BTreeMap<_, _> = options.collect();
            parameters.extend(own.into_iter().flat_map(|own| own.get_ref().clone()));
            let own_name = raw.name.as_ref().unwrap_or(&raw.kind).get_ref();
            let plain = |c: char| {
                if c.is_ascii_alphanumeric() || "-_. +".contains(c) {
                    c
                } else {
                    '-'
                }
            };
            let name: String = section.name.trim().chars().map(plain).collect();
            let mut one = raw.clone();
            one.name = Some(Spanned::new(span.clone(), format!("{own_name} {name}")));
            one.parameters = Some(Spanned::new(span.clone(), parameters));
            one
        };
        Ok(sections.into_iter().map(of_section).collect())
    }

    /// Returns the words of the command that makes a file system.
    fn newfs(&self, raw: &RawWorkload) -> Result<Vec<String>, ExperimentError> {
        self.refuse(keys_of_blocks(raw), |key| not_for_programs(raw, key))?;
        let span = raw.span_of_parameters();
        let parameters = raw.parameters.as_ref().map(Spanned::get_ref);
        let command = parameters.and_then(|parameters| parameters.get("command"));
        let words: Vec<String> = command
            .and_then(|command| command.get_ref().as_str())
            .map(|text| text.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default();
        let others = parameters.is_some_and(|parameters| parameters.len() > 1);
        if words.is_empty() || others {
            let what = "newfs takes one parameter, the command that gets the device as its last \
                argument: parameters = { command = \"mkfs.ext4 -q -F\" }";
            return Err(self.at(&span, what));
        }
        Ok(words)
    }
}

/// Returns the smallest scale at which `size_bytes` leaves at least `least`, in thousandths rounded
/// up.
#[expect(clippy::cast_precision_loss, reason = "shown with three decimals")]
fn smallest_scale(least: u64, size_bytes: u64) -> f64 {
    (least * 1000).div_ceil(size_bytes.max(1)) as f64 / 1000.0
}
