//! Experiment files: systems × workloads × repetition blocks, in TOML. Whatever is wrong with one
//! is said with the file, the line and the remedy.

use crate::jobs::{JOBS, Job};
use crate::targets::{self, Commands, FILE_SYSTEMS, FileSystem, Mounting};
use serde::Deserialize;
use spindles_block::SizeBytes;
use spindles_engine::{POLICIES, Policy};
use spindles_format::ChecksumKind;
use spindles_io::{BACKENDS, Backend};
use spindles_measure::Stage;
use spindles_workload::file::{self, FileKind, FilePlan};
use spindles_workload::{KINDS, Kind, Params, Streams};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use toml::{Spanned, Value};

/// What is to be measured, checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name: `quickstart`.
    pub name: String,
    /// One sentence for the reader of the report.
    pub summary: String,
    /// Where it was read from.
    pub source: String,
    /// The file as it was read.
    pub definition: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// How many times every workload runs on every system.
    pub blocks: u32,
    /// Operations before each timed window, thrown away.
    pub warmup_operations: u32,
    /// Whether the caches of the machine are emptied before each phase on files, where that may be done.
    pub empty_caches: bool,
    /// No further block is begun when it would end later than this.
    pub time_limit: Option<Duration>,
    /// How sizes are smaller than the workloads define them, in plain words; empty when not.
    pub scaled_how: String,
    /// What systems are made of where they count their members.
    pub members: Members,
    /// Where files are made; the system's temporary folder when not said.
    pub folder: Option<PathBuf>,
    /// The systems in the order of the report.
    pub systems: Vec<SystemSpec>,
    /// Name of the system that all others are compared with.
    pub baseline: String,
    /// Whether the baseline runs once more as another system (the A/A pair).
    pub control: bool,
    /// The workloads in the order in which they run.
    pub workloads: Vec<WorkloadSpec>,
}

/// What systems are made of where they count their members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// Files in a temporary folder.
    Files,
    /// New devices of a backend whose devices end with the process.
    Fresh(&'static Backend),
    /// These devices or files, in this order. What they hold is lost.
    Devices(Vec<String>),
}

impl Members {
    /// The word for `Files`.
    pub const FILES: &str = "files";

    /// Each word for members of a kind, and what they are.
    pub fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
        let fresh = fresh().map(|backend| (backend.facts.name, backend.summary));
        std::iter::once((Self::FILES, "files in a temporary folder")).chain(fresh)
    }

    /// What a word means.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        if word == Self::FILES {
            return Some(Self::Files);
        }
        fresh()
            .find(|backend| backend.facts.name == word)
            .map(Self::Fresh)
    }
}

/// Backends whose devices end with the process.
fn fresh() -> impl Iterator<Item = &'static Backend> {
    let backends = BACKENDS.iter().copied();
    backends.filter(|backend| !backend.facts.outlives_process)
}

/// One side of the comparison.
#[derive(Clone, Debug)]
pub struct SystemSpec {
    /// Unique name.
    pub name: String,
    /// What it is: see [`targets::KINDS`].
    pub target: String,
    /// Chunk of the array; `None` for the level's own.
    pub chunk_bytes: Option<u64>,
    /// What is done about crashes; `None` for the level's own.
    pub consistency: Option<&'static Policy>,
    /// How blocks are summed up; `None` for as `create` does.
    pub checksum: Option<ChecksumKind>,
    /// A device or file of its own for the journal of the array. What it holds is lost.
    pub journal: Option<String>,
    /// What jobs are guaranteed, in bytes of each member per second; `None` for what the command
    /// line says.
    pub rebuild_rate: Option<u64>,
    /// The file system that is made on it and mounted, if any.
    pub mounting: Option<Mounting>,
    /// The commands that make it and take it down, if it is not ours to make.
    pub commands: Option<Commands>,
    /// Name of the system that it is compared with besides the baseline of the experiment.
    pub baseline: Option<String>,
    /// Its line in the file.
    pub line: usize,
}

/// One workload with its choices.
#[derive(Clone, Debug)]
pub struct WorkloadSpec {
    /// Unique name.
    pub name: String,
    /// What runs.
    pub work: Work,
    /// On which systems; all when not said.
    pub systems: Option<Vec<String>>,
    /// The job that it runs beside, and when.
    pub beside: Option<(&'static Job, Stage)>,
}

/// What a workload does.
#[derive(Clone, Debug)]
pub enum Work {
    /// It reads and writes blocks.
    Blocks(BlockWork),
    /// It works on files in a folder.
    Files(FilePlan),
}

/// A workload on blocks with its choices.
#[derive(Clone, Copy, Debug)]
pub struct BlockWork {
    /// What runs.
    pub kind: &'static Kind,
    /// How much of the system it works on.
    pub size_bytes: u64,
    /// Size of one operation, if not the kind's own.
    pub chunk_bytes: Option<u32>,
    /// Operations in flight, if not the kind's own.
    pub in_flight: Option<u32>,
    /// Operations in all, if not the kind's own.
    pub operations: Option<u64>,
}

impl BlockWork {
    /// What the workload is asked to do on one target, or on `streams` at once.
    pub fn params(&self, seed: u64, streams: u32) -> Params {
        Params {
            size_bytes: self.size_bytes,
            seed,
            streams,
            chunk_bytes: self.chunk_bytes,
            in_flight: self.in_flight,
            operations: self.operations,
        }
    }

    /// Whether it works on one target at a time.
    pub(crate) fn on_one(&self) -> bool {
        self.kind.streams == Streams::One
    }
}

impl WorkloadSpec {
    /// What it is called in records: with its stage, where it runs beside a job.
    pub fn full_name(&self) -> String {
        match self.beside {
            None => self.name.clone(),
            Some((job, stage)) => format!("{} {} {}", self.name, stage.words(), job.name),
        }
    }

    /// Whether it runs on that system.
    pub fn runs_on(&self, system: &str) -> bool {
        let listed = |names: &Vec<String>| names.iter().any(|name| name == system);
        self.systems.as_ref().is_none_or(listed)
    }

    /// Its work, where that is on blocks.
    pub fn blocks(&self) -> Option<&BlockWork> {
        match &self.work {
            Work::Blocks(blocks) => Some(blocks),
            Work::Files(_) => None,
        }
    }

    /// Its work, where that is on files.
    pub fn files(&self) -> Option<&FilePlan> {
        match &self.work {
            Work::Blocks(_) => None,
            Work::Files(plan) => Some(plan),
        }
    }

    /// Whether it writes to what it runs on.
    pub(crate) fn writes(&self) -> bool {
        let writes = |work: &BlockWork| work.kind.writes;
        self.beside.is_some() || self.blocks().is_none_or(writes)
    }
}

impl Experiment {
    /// One workload on one system, without a comparison: what `bench` runs.
    pub fn of_one(target: &str, workload: WorkloadSpec, chunk_bytes: Option<u64>) -> Self {
        Self {
            name: "bench".to_owned(),
            summary: format!("{} on {target}", workload.name),
            source: "bench".to_owned(),
            definition: String::new(),
            seed: 1,
            blocks: 5,
            warmup_operations: 16,
            empty_caches: true,
            time_limit: None,
            scaled_how: String::new(),
            members: Members::Files,
            folder: None,
            systems: vec![SystemSpec {
                name: target.to_owned(),
                target: target.to_owned(),
                chunk_bytes,
                consistency: None,
                checksum: None,
                journal: None,
                rebuild_rate: None,
                mounting: None,
                commands: None,
                baseline: None,
                line: 0,
            }],
            baseline: target.to_owned(),
            control: false,
            workloads: vec![workload],
        }
    }
}

/// What is wrong with an experiment file, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {what}")]
pub struct ExperimentError {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, and the remedy.
    pub what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    name: Spanned<String>,
    summary: Option<String>,
    scaled: Option<String>,
    size: Option<Spanned<Value>>,
    seed: Option<Spanned<Value>>,
    blocks: Option<Spanned<Value>>,
    caches: Option<Spanned<String>>,
    warmup: Option<Spanned<Value>>,
    time_limit_s: Option<Spanned<Value>>,
    members: Option<Spanned<Value>>,
    folder: Option<PathBuf>,
    chunk: Option<Spanned<Value>>,
    consistency: Option<Spanned<String>>,
    checksum: Option<Spanned<String>>,
    journal: Option<String>,
    rebuild_rate: Option<Spanned<Value>>,
    baseline: Option<Spanned<String>>,
    control: Option<bool>,
    #[serde(default)]
    system: Vec<Spanned<RawSystem>>,
    #[serde(default)]
    workload: Vec<Spanned<RawWorkload>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSystem {
    name: Option<Spanned<String>>,
    target: Spanned<String>,
    chunk: Option<Spanned<Value>>,
    consistency: Option<Spanned<String>>,
    checksum: Option<Spanned<String>>,
    journal: Option<String>,
    rebuild_rate: Option<Spanned<Value>>,
    fs: Option<Spanned<String>>,
    mkfs: Option<Spanned<Vec<String>>>,
    mount: Option<Spanned<String>>,
    up: Option<Spanned<String>>,
    down: Option<Spanned<String>>,
    takes: Option<Spanned<Value>>,
    loops: Option<Spanned<bool>>,
    baseline: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkload {
    name: Option<Spanned<String>>,
    kind: Spanned<String>,
    size: Option<Spanned<Value>>,
    chunk: Option<Spanned<Value>>,
    in_flight: Option<Spanned<Value>>,
    operations: Option<Spanned<Value>>,
    parameters: Option<Spanned<BTreeMap<String, Spanned<Value>>>>,
    systems: Option<Spanned<Vec<String>>>,
    beside: Option<Spanned<String>>,
}

/// The most repetition blocks.
const BLOCKS_MAX: u64 = 1000;

impl Experiment {
    /// Reads an experiment; `source` is what the user called the file.
    ///
    /// # Errors
    /// What is wrong, with the line and the remedy.
    pub fn parse(source: &str, text: &str) -> Result<Self, ExperimentError> {
        let reader = Reader { source, text };
        let raw: RawFile = toml::from_str(text).map_err(|error| reader.not_toml(&error))?;
        reader.name(&raw.name)?;
        let size_bytes = reader.size_or(raw.size.as_ref(), "size", 256 << 20)?;
        let chunk = reader.size(raw.chunk.as_ref(), "chunk")?;
        let workloads = raw
            .workload
            .iter()
            .map(|raw| reader.workload(raw.get_ref(), size_bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let systems = raw
            .system
            .iter()
            .map(|one| reader.system(one, chunk, &raw))
            .collect::<Result<Vec<_>, _>>()?;
        let (Some(first), Some(_)) = (systems.first(), workloads.first()) else {
            let missing = if systems.is_empty() {
                "system"
            } else {
                "workload"
            };
            return Err(reader.at_line(
                1,
                format!("there is no {missing} in it: add a [[{missing}]] section"),
            ));
        };
        let names: Vec<&str> = systems.iter().map(|system| system.name.as_str()).collect();
        let baseline = match &raw.baseline {
            None => first.name.clone(),
            Some(baseline) => {
                reader.one_of(baseline.get_ref(), &names, "baseline", &baseline.span())?;
                baseline.get_ref().clone()
            }
        };
        for (raw, name) in raw.system.iter().zip(&names) {
            if let Some(own) = &raw.get_ref().baseline {
                reader.one_of(own.get_ref(), &names, "baseline", &own.span())?;
                if own.get_ref() == name {
                    let what = format!("baseline \"{name}\" is the system itself: name another");
                    return Err(reader.at(&own.span(), what));
                }
            }
        }
        reader.unique("system", raw.system.iter().map(Spanned::span), &names)?;
        let workload_names: Vec<&str> = workloads.iter().map(|spec| spec.name.as_str()).collect();
        let spans = raw.workload.iter().map(Spanned::span);
        reader.unique("workload", spans, &workload_names)?;
        for raw in &raw.workload {
            if let Some(listed) = &raw.get_ref().systems {
                for name in listed.get_ref() {
                    reader.one_of(name, &names, "system", &listed.span())?;
                }
            }
        }
        let workloads = workloads.into_iter().flat_map(staged).collect();
        let caches = |word: &str| match word {
            "empty" => Some(true),
            "keep" => Some(false),
            _ => None,
        };
        let caches = reader.named(
            raw.caches.as_ref(),
            "way with caches",
            &["empty", "keep"],
            caches,
        )?;
        let seconds = reader.count(raw.time_limit_s.as_ref(), "time_limit_s", 1, 1 << 30)?;
        let blocks = reader.count(raw.blocks.as_ref(), "blocks", 1, BLOCKS_MAX)?;
        let warmup = reader.count(raw.warmup.as_ref(), "warmup", 0, 1 << 20)?;
        let small = |count: u64| u32::try_from(count).expect("checked above");
        Ok(Self {
            name: raw.name.get_ref().clone(),
            summary: raw.summary.unwrap_or_default(),
            source: source.to_owned(),
            definition: text.to_owned(),
            seed: reader
                .count(raw.seed.as_ref(), "seed", 0, u64::MAX)?
                .unwrap_or(1),
            blocks: small(blocks.unwrap_or(5)),
            warmup_operations: small(warmup.unwrap_or(16)),
            empty_caches: caches.is_none_or(|empty| empty),
            time_limit: seconds.map(Duration::from_secs),
            scaled_how: raw.scaled.unwrap_or_default(),
            members: reader.members(raw.members.as_ref())?,
            folder: raw.folder,
            systems,
            baseline,
            control: raw.control.unwrap_or(true),
            workloads,
        })
    }
}

/// A workload beside a job runs before, during and after it.
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

/// Says where in the text something is wrong.
struct Reader<'a> {
    source: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn at_line(&self, line: usize, what: String) -> ExperimentError {
        ExperimentError {
            file: self.source.to_owned(),
            line,
            what,
        }
    }

    fn line_of(&self, span: &Range<usize>) -> usize {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        1 + before.matches('\n').count()
    }

    fn at(&self, span: &Range<usize>, what: impl Display) -> ExperimentError {
        self.at_line(self.line_of(span), what.to_string())
    }

    fn not_toml(&self, error: &toml::de::Error) -> ExperimentError {
        let message = error.message().replace('\n', ", ");
        let what = match message.strip_prefix("missing field ") {
            Some(field) => format!("{field} is missing: add it"),
            None => message,
        };
        self.at(&error.span().unwrap_or(0..0), what)
    }

    fn name(&self, name: &Spanned<String>) -> Result<(), ExperimentError> {
        let text = name.get_ref();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_. +".contains(c);
        if text.is_empty() || !text.chars().all(plain) || text.starts_with('.') {
            return Err(self.at(
                &name.span(),
                format!(
                    "\"{text}\" is no name: use letters, digits, '-', '_', '+', '.' and spaces"
                ),
            ));
        }
        Ok(())
    }

    fn unique(
        &self,
        what: &str,
        spans: impl Iterator<Item = Range<usize>>,
        names: &[&str],
    ) -> Result<(), ExperimentError> {
        let mut seen = BTreeSet::new();
        for (span, name) in spans.zip(names) {
            if !seen.insert(name) {
                return Err(self.at(
                    &span,
                    format!(
                        "there are two {what}s called \"{name}\": give one of them another \
                         `name`"
                    ),
                ));
            }
        }
        Ok(())
    }

    fn one_of(
        &self,
        name: &str,
        names: &[&str],
        what: &str,
        span: &Range<usize>,
    ) -> Result<(), ExperimentError> {
        if names.contains(&name) {
            return Ok(());
        }
        let names = names.join(", ");
        Err(self.at(
            span,
            format!("{what} \"{name}\" is none of the systems: use one of {names}"),
        ))
    }

    fn count(
        &self,
        value: Option<&Spanned<Value>>,
        key: &str,
        min: u64,
        max: u64,
    ) -> Result<Option<u64>, ExperimentError> {
        let Some(value) = value else { return Ok(None) };
        let count = match value.get_ref() {
            Value::Integer(integer) => u64::try_from(*integer).ok(),
            _ => None,
        };
        match count.filter(|count| (min..=max).contains(count)) {
            Some(count) => Ok(Some(count)),
            None => Err(self.at(
                &value.span(),
                format!(
                    "{key} = {} is not possible: give a whole number from {min} to {max}",
                    value.get_ref()
                ),
            )),
        }
    }

    fn size(
        &self,
        value: Option<&Spanned<Value>>,
        key: &str,
    ) -> Result<Option<u64>, ExperimentError> {
        let Some(value) = value else { return Ok(None) };
        let wrong = |why: &dyn Display| {
            self.at(&value.span(), format!("{key} = {}: {why}", value.get_ref()))
        };
        let bytes = match value.get_ref() {
            Value::Integer(integer) => u64::try_from(*integer)
                .map_err(|_| wrong(&"a size can't be negative: give a whole number above 0"))?,
            Value::String(text) => text.parse::<SizeBytes>().map_err(|why| wrong(&why))?.0,
            _ => return Err(wrong(&"give a size such as \"64M\"")),
        };
        if bytes == 0 {
            return Err(wrong(
                &"a size must be above 0: give a size such as \"64M\"",
            ));
        }
        Ok(Some(bytes))
    }

    fn size_or(
        &self,
        value: Option<&Spanned<Value>>,
        key: &str,
        default: u64,
    ) -> Result<u64, ExperimentError> {
        Ok(self.size(value, key)?.unwrap_or(default))
    }

    /// What goes by that name.
    fn named<T>(
        &self,
        name: Option<&Spanned<String>>,
        what: &str,
        names: &[&str],
        by_name: fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ExperimentError> {
        let Some(name) = name else { return Ok(None) };
        match by_name(name.get_ref()) {
            Some(found) => Ok(Some(found)),
            None => Err(self.at(
                &name.span(),
                format!(
                    "there is no {what} \"{}\": use one of {}",
                    name.get_ref(),
                    names.join(", ")
                ),
            )),
        }
    }

    fn members(&self, value: Option<&Spanned<Value>>) -> Result<Members, ExperimentError> {
        let Some(value) = value else {
            return Ok(Members::Files);
        };
        let paths = |list: &Vec<Value>| {
            let paths: Option<Vec<String>> = list
                .iter()
                .map(|path| path.as_str().map(str::to_owned))
                .collect();
            paths.filter(|paths| !paths.is_empty())
        };
        let members = match value.get_ref() {
            Value::String(word) => Members::of_word(word),
            Value::Array(list) => paths(list).map(Members::Devices),
            _ => None,
        };
        let Some(members) = members else {
            let words: Vec<String> = Members::words()
                .map(|(word, _)| format!("\"{word}\""))
                .collect();
            return Err(self.at(
                &value.span(),
                format!(
                    "members = {} is not possible: use {} or a list of devices such as \
                     [\"/dev/sdb\", \"/dev/sdc\"]",
                    value.get_ref(),
                    words.join(", ")
                ),
            ));
        };
        if let Members::Devices(paths) = &members {
            let mut seen = BTreeSet::new();
            if let Some(twice) = paths.iter().find(|path| !seen.insert(*path)) {
                return Err(self.at(
                    &value.span(),
                    format!("{twice} is twice among the members: name each device once"),
                ));
            }
        }
        Ok(members)
    }

    fn system(
        &self,
        raw: &Spanned<RawSystem>,
        chunk: Option<u64>,
        file: &RawFile,
    ) -> Result<SystemSpec, ExperimentError> {
        let span = raw.span();
        let raw = raw.get_ref();
        if let Some(name) = &raw.name {
            self.name(name)?;
        }
        let target = raw.target.get_ref();
        let wrong = |what: String| self.at(&raw.target.span(), what);
        targets::check(target).map_err(wrong)?;
        let own = self.size(raw.chunk.as_ref(), "chunk")?;
        let consistency = raw.consistency.as_ref().or(file.consistency.as_ref());
        let policies: Vec<_> = POLICIES.iter().map(|policy| policy.name).collect();
        let consistency = self.named(
            consistency,
            "consistency policy",
            &policies,
            Policy::by_name,
        )?;
        let checksum = raw.checksum.as_ref().or(file.checksum.as_ref());
        let kinds: Vec<_> = ChecksumKind::NAMES.iter().map(|(_, name)| *name).collect();
        let checksum = self.named(checksum, "checksum", &kinds, ChecksumKind::by_name)?;
        let rate = raw.rebuild_rate.as_ref().or(file.rebuild_rate.as_ref());
        let rebuild_rate = self.size(rate, "rebuild_rate")?;
        let name = raw.name.as_ref().map_or(target, Spanned::get_ref);
        Ok(SystemSpec {
            name: name.clone(),
            target: target.clone(),
            chunk_bytes: own.or(chunk),
            consistency,
            checksum,
            journal: raw.journal.as_ref().or(file.journal.as_ref()).cloned(),
            rebuild_rate,
            mounting: self.mounting(raw)?,
            commands: self.commands(raw)?,
            baseline: raw.baseline.as_ref().map(|it| it.get_ref().clone()),
            line: self.line_of(&span),
        })
    }

    fn mounting(&self, raw: &RawSystem) -> Result<Option<Mounting>, ExperimentError> {
        let names: Vec<_> = FILE_SYSTEMS.iter().map(|one| one.name).collect();
        let kind = self.named(raw.fs.as_ref(), "file system", &names, FileSystem::by_name)?;
        let without = [
            ("mkfs", raw.mkfs.as_ref().map(Spanned::span)),
            ("mount", raw.mount.as_ref().map(Spanned::span)),
        ];
        let Some(kind) = kind else {
            for (key, span) in without {
                if let Some(span) = span {
                    let what =
                        format!("`{key}` is of a file system: add `fs = \"ext4\"` to the system");
                    return Err(self.at(&span, what));
                }
            }
            return Ok(None);
        };
        Ok(Some(Mounting {
            kind,
            mkfs: raw
                .mkfs
                .as_ref()
                .map_or_else(Vec::new, |it| it.get_ref().clone()),
            options: raw
                .mount
                .as_ref()
                .map_or_else(String::new, |it| it.get_ref().clone()),
        }))
    }

    fn commands(&self, raw: &RawSystem) -> Result<Option<Commands>, ExperimentError> {
        let members = self.count(raw.takes.as_ref(), "takes", 0, 64)?;
        let Some(up) = &raw.up else {
            let others = [
                ("down", raw.down.as_ref().map(Spanned::span)),
                ("takes", raw.takes.as_ref().map(Spanned::span)),
                ("loops", raw.loops.as_ref().map(Spanned::span)),
            ];
            for (key, span) in others {
                if let Some(span) = span {
                    let what =
                        format!("`{key}` is of a system that a command makes: add `up = \"..\"`");
                    return Err(self.at(&span, what));
                }
            }
            return Ok(None);
        };
        Ok(Some(Commands {
            up: up.get_ref().clone(),
            down: raw.down.as_ref().map(|it| it.get_ref().clone()),
            members: usize::try_from(members.unwrap_or(0)).expect("few"),
            loops: raw.loops.as_ref().is_none_or(|it| *it.get_ref()),
        }))
    }

    fn workload(&self, raw: &RawWorkload, size: u64) -> Result<WorkloadSpec, ExperimentError> {
        if let Some(name) = &raw.name {
            self.name(name)?;
        }
        let kind_name = raw.kind.get_ref();
        let work = match (
            spindles_workload::by_name(kind_name),
            file::by_name(kind_name),
        ) {
            (Some(kind), _) => Work::Blocks(self.block_work(raw, kind, size)?),
            (None, Some(kind)) => Work::Files(self.file_work(raw, kind)?),
            (None, None) => {
                let blocks = KINDS.iter().map(|kind| kind.name);
                let files = file::KINDS.iter().map(|kind| kind.name);
                let names: Vec<_> = blocks.chain(files).collect();
                return Err(self.at(
                    &raw.kind.span(),
                    format!(
                        "there is no workload \"{kind_name}\": use one of {}",
                        names.join(", ")
                    ),
                ));
            }
        };
        let jobs: Vec<_> = JOBS.iter().map(|job| job.name).collect();
        let spec = WorkloadSpec {
            name: raw.name.as_ref().unwrap_or(&raw.kind).get_ref().clone(),
            work,
            systems: raw
                .systems
                .as_ref()
                .map(|systems| systems.get_ref().clone()),
            beside: self
                .named(raw.beside.as_ref(), "job", &jobs, Job::by_name)?
                .map(|job| (job, Stage::Before)),
        };
        if spec.beside.is_some() && !spec.blocks().is_some_and(BlockWork::on_one) {
            let what = match spec.work {
                Work::Blocks(_) => "it runs on each member, and no job does: leave `beside` out",
                Work::Files(_) => {
                    "it runs on files, and jobs beside it are not possible: leave `beside` out"
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
        size: u64,
    ) -> Result<BlockWork, ExperimentError> {
        if let Some(parameters) = &raw.parameters {
            let what = format!(
                "{} works on blocks and has no parameters: give size, chunk, in_flight or operations",
                kind.name
            );
            return Err(self.at(&parameters.span(), what));
        }
        let small = |count: u64| u32::try_from(count).expect("checked");
        let chunk = match (self.size(raw.chunk.as_ref(), "chunk")?, &raw.chunk) {
            (Some(bytes), Some(value)) => Some(u32::try_from(bytes).map_err(|_| {
                let what = format!("chunk = {}: choose less than 4G", value.get_ref());
                self.at(&value.span(), what)
            })?),
            _ => None,
        };
        let work = BlockWork {
            kind,
            size_bytes: self.size_or(raw.size.as_ref(), "size", size)?,
            chunk_bytes: chunk,
            in_flight: self
                .count(raw.in_flight.as_ref(), "in_flight", 1, 1024)?
                .map(small),
            operations: self.count(raw.operations.as_ref(), "operations", 1, 1 << 40)?,
        };
        let plan = kind.plan(&work.params(0, 1));
        plan.map_err(|error| self.at(&raw.kind.span(), format!("{}: {error}", kind.name)))?;
        Ok(work)
    }

    fn file_work(
        &self,
        raw: &RawWorkload,
        kind: &'static FileKind,
    ) -> Result<FilePlan, ExperimentError> {
        let of_blocks = [
            ("size", &raw.size),
            ("chunk", &raw.chunk),
            ("in_flight", &raw.in_flight),
            ("operations", &raw.operations),
        ];
        for (key, value) in of_blocks {
            if let Some(value) = value {
                let names: Vec<_> = kind.parameters.iter().map(|it| it.name).collect();
                let what = format!(
                    "{} works on files, and `{key}` is for workloads on blocks: give `parameters = \
                     {{ .. }}` with any of {}",
                    kind.name,
                    names.join(", ")
                );
                return Err(self.at(&value.span(), what));
            }
        }
        let mut chosen = BTreeMap::new();
        let given = raw.parameters.iter().flat_map(Spanned::get_ref);
        for (name, value) in given {
            chosen.insert(name.clone(), self.parameter(name, value)?);
        }
        let span = raw
            .parameters
            .as_ref()
            .map_or(raw.kind.span(), Spanned::span);
        let plan = kind.plan(&chosen, 1.0, 0);
        plan.map_err(|error| self.at(&span, error))
    }

    /// A number, a size, or a word.
    fn parameter(
        &self,
        name: &str,
        value: &Spanned<Value>,
    ) -> Result<file::Value, ExperimentError> {
        let found = match value.get_ref() {
            Value::Integer(integer) => u64::try_from(*integer).ok().map(file::Value::Number),
            Value::Boolean(true) => Some(file::Value::Word("yes".to_owned())),
            Value::Boolean(false) => Some(file::Value::Word("no".to_owned())),
            Value::String(text) => Some(parameter_of(text)),
            _ => None,
        };
        found.ok_or_else(|| {
            let what = format!(
                "{name} = {} is not possible: give a whole number, a size such as \"64M\" or a word",
                value.get_ref()
            );
            self.at(&value.span(), what)
        })
    }
}

/// What a text means as the value of a parameter: a number or size, or else a word.
pub fn parameter_of(text: &str) -> file::Value {
    match text.parse::<SizeBytes>() {
        Ok(size) => file::Value::Number(size.0),
        Err(_) => file::Value::Word(text.to_owned()),
    }
}
