//! Reads the parts of an experiment file, and locates the mistakes in it.

use super::raw::{RawFile, RawSystem, RawWorkload};
use super::{
    BlockWork, ExperimentError, ExperimentMistake, Members, NEWFS, SystemSpec, Tuning, Work,
    WorkloadSpec, parameter_of,
};
use crate::archive::{self, ARCHIVE, ARCHIVE_FOLDER};
use crate::fio::{FIO, FioWork, Source, jobfile, rivals};
use crate::jobs::{JOBS, Job};
use crate::targets::options::{self, Subject, SystemOption};
use crate::targets::{self, Commands, FILE_SYSTEMS, FileSystem, Mounting, names};
use spindles_block::SizeBytes;
use spindles_engine::{POLICIES, Policy, READ_POLICIES, ReadPolicy};
use spindles_format::ChecksumKind;
use spindles_measure::Stage;
use spindles_workload::file::{self, FileKind, FilePlan, Tree};
use spindles_workload::network::COPY;
use spindles_workload::{KINDS, Kind};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use toml::{Spanned, Value};

/// Larger sizes would overflow 64 bits when something is added to them.
const SIZE_BYTES_MAX: u64 = 1 << 60;
/// Bytes that workloads on blocks work on by default.
const SIZE_BYTES_DEFAULT: u64 = 256 << 20;

/// Lists each option of systems with its place in the file. The fields are the same for a system
/// and for the head of the file.
macro_rules! given {
    ($raw:expr) => {
        [
            (&options::CHUNK, $raw.chunk.as_ref().map(Spanned::span)),
            (
                &options::CONSISTENCY,
                $raw.consistency.as_ref().map(Spanned::span),
            ),
            (
                &options::CHECKSUM,
                $raw.checksum.as_ref().map(Spanned::span),
            ),
            (&options::JOURNAL, $raw.journal.as_ref().map(Spanned::span)),
            (
                &options::REBUILD_RATE,
                $raw.rebuild_rate.as_ref().map(Spanned::span),
            ),
            (
                &options::READ_POLICY,
                $raw.read_policy.as_ref().map(Spanned::span),
            ),
            (&options::FLUSHES, $raw.flushes.as_ref().map(Spanned::span)),
            (&options::THROUGH, $raw.through.as_ref().map(Spanned::span)),
        ]
    };
}
/// Reads an experiment file and locates mistakes in its text.
pub(super) struct Reader<'a> {
    pub(super) source: &'a str,
    pub(super) text: &'a str,
    pub(super) tuning: &'a Tuning,
    /// Mistakes so far. Reading continues after a mistake, so that one report lists them all.
    pub(super) mistakes: RefCell<Vec<ExperimentMistake>>,
}

impl Reader<'_> {
    pub(super) fn at_line(&self, line: usize, what: String) -> ExperimentError {
        ExperimentError {
            file: self.source.to_owned(),
            mistakes: vec![ExperimentMistake { line, what }],
        }
    }

    /// Returns the value that was read; records mistakes, so that reading can continue.
    pub(super) fn keep<T>(&self, read: Result<T, ExperimentError>) -> Option<T> {
        read.map_err(|error| self.mistakes.borrow_mut().extend(error.mistakes))
            .ok()
    }

    /// Returns the result if there are no mistakes; otherwise each mistake once.
    pub(super) fn end<T>(&self, read: Result<T, ExperimentError>) -> Result<T, ExperimentError> {
        let read = self.keep(read);
        let mut mistakes = self.mistakes.take();
        mistakes.sort_by_key(|mistake| mistake.line);
        let mut seen = BTreeSet::new();
        mistakes.retain(|it| seen.insert((it.line, it.what.clone())));
        match read {
            Some(read) if mistakes.is_empty() => Ok(read),
            _ => Err(ExperimentError {
                file: self.source.to_owned(),
                mistakes,
            }),
        }
    }

    fn line_of(&self, span: &Range<usize>) -> usize {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        1 + before.matches('\n').count()
    }

    pub(super) fn at(&self, span: &Range<usize>, what: impl Display) -> ExperimentError {
        self.at_line(self.line_of(span), what.to_string())
    }

    pub(super) fn not_toml(&self, error: &toml::de::Error) -> ExperimentError {
        let message = error.message().replace('\n', ", ");
        let what = match message.strip_prefix("missing field ") {
            Some(field) => format!("{field} is missing: add it"),
            None => message,
        };
        self.at(&error.span().unwrap_or(0..0), what)
    }

    pub(super) fn name(&self, name: &Spanned<String>) -> Result<(), ExperimentError> {
        let text = name.get_ref();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_. +".contains(c);
        let at_an_end = text.starts_with(['.', ' ']) || text.ends_with(' ');
        if text.is_empty() || !text.chars().all(plain) || at_an_end {
            return Err(self.at(
                &name.span(),
                format!(
                    "\"{text}\" is no name: use letters, digits, '-', '_', '+', '.' and spaces, \
                     none of them at an end"
                ),
            ));
        }
        Ok(())
    }

    pub(super) fn unique(
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

    pub(super) fn one_of(
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

    pub(super) fn count(
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

    pub(super) fn size(
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
        if bytes > SIZE_BYTES_MAX {
            return Err(wrong(&"too large: give at most 1048576T"));
        }
        Ok(Some(bytes))
    }

    /// Looks up a name in a table.
    pub(super) fn named<T>(
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

    pub(super) fn members(
        &self,
        value: Option<&Spanned<Value>>,
    ) -> Result<Members, ExperimentError> {
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

    pub(super) fn system(
        &self,
        raw: &Spanned<RawSystem>,
        chunk: Option<u64>,
        file: &RawFile,
        members: &Members,
    ) -> Result<SystemSpec, ExperimentError> {
        let span = raw.span();
        let raw = raw.get_ref();
        if let Some(name) = &raw.name {
            self.keep(self.name(name));
        }
        let target = raw.target.get_ref();
        let commands = self.commands_for_target(raw)?;
        let name = raw.name();
        let is_served = self.is_served(raw, file);
        let mut subject = subject(raw, members);
        // Single disks are compared with arrays, and thus served in the same way by default.
        let is_served = self
            .keep(is_served)
            .flatten()
            .unwrap_or(subject.is_single());
        subject.is_served = is_served;
        for (option, given) in given!(raw) {
            if let Some(span) = given.filter(|_| !(option.means_something)(&subject)) {
                self.keep::<()>(Err(self.at(&span, option.refused_by(name))));
            }
        }
        let means = |option: &SystemOption| (option.means_something)(&subject);
        let own = self.keep(self.size(raw.chunk.as_ref(), "chunk")).flatten();
        let consistency = self.keep(self.consistency(raw, file)).flatten();
        let checksum = self.keep(self.checksum(raw, file)).flatten();
        let read_policy = self.keep(self.read_policy(raw, file)).flatten();
        let rate = raw.rebuild_rate.as_ref().or(file.rebuild_rate.as_ref());
        let rebuild_rate = self.keep(self.size(rate, "rebuild_rate")).flatten();
        let journal = raw.journal.as_ref().or(file.journal.as_ref());
        let ignore_flushes = self.keep(self.ignore_flushes(raw, file)).unwrap_or(false);
        // Options at the head apply to the systems for which they are meaningful.
        Ok(SystemSpec {
            name: name.to_owned(),
            target: target.clone(),
            chunk_bytes: own.or(chunk).filter(|_| means(&options::CHUNK)),
            consistency: consistency.filter(|_| means(&options::CONSISTENCY)),
            checksum: checksum.filter(|_| means(&options::CHECKSUM)),
            journal: (journal.filter(|_| means(&options::JOURNAL))).map(|it| it.get_ref().clone()),
            rebuild_rate: rebuild_rate.filter(|_| means(&options::REBUILD_RATE)),
            price: self.keep(self.price(raw.price.as_ref())).flatten(),
            read_policy: read_policy.filter(|_| means(&options::READ_POLICY)),
            ignore_flushes: ignore_flushes && means(&options::FLUSHES),
            is_served: is_served && means(&options::THROUGH),
            mounting: self.keep(self.mounting(raw)).flatten(),
            commands,
            baseline: raw.baseline.as_ref().map(|it| it.get_ref().clone()),
            line: self.line_of(&span),
        })
    }

    /// Checks the target of a system. Returns the commands that set it up, if it has any.
    fn commands_for_target(&self, raw: &RawSystem) -> Result<Option<Commands>, ExperimentError> {
        let target = raw.target.get_ref();
        let wrong = |what: String| self.at(&raw.target.span(), what);
        targets::check(target).map_err(wrong)?;
        let commands = self.keep(self.commands(raw)).flatten();
        match &commands {
            Some(commands) => names::check(target, commands.members),
            None => names::check_without_commands(target),
        }
        .map_err(wrong)?;
        Ok(commands)
    }

    /// Returns whether a system is served, if the file says so.
    fn is_served(&self, raw: &RawSystem, file: &RawFile) -> Result<Option<bool>, ExperimentError> {
        let through = raw.through.as_ref().or(file.through.as_ref());
        self.named(
            through,
            "way to a system",
            &["served", "direct"],
            |word| match word {
                "served" => Some(true),
                "direct" => Some(false),
                _ => None,
            },
        )
    }

    /// Reads the consistency policy of a system, or that of the head.
    fn consistency(
        &self,
        raw: &RawSystem,
        file: &RawFile,
    ) -> Result<Option<&'static Policy>, ExperimentError> {
        let consistency = raw.consistency.as_ref().or(file.consistency.as_ref());
        let policies: Vec<_> = POLICIES.iter().map(|policy| policy.name).collect();
        self.named(
            consistency,
            "consistency policy",
            &policies,
            Policy::by_name,
        )
    }

    /// Reads the checksum of a system's blocks, or that of the head.
    fn checksum(
        &self,
        raw: &RawSystem,
        file: &RawFile,
    ) -> Result<Option<ChecksumKind>, ExperimentError> {
        let checksum = raw.checksum.as_ref().or(file.checksum.as_ref());
        let kinds: Vec<_> = ChecksumKind::NAMES.iter().map(|(_, name)| *name).collect();
        self.named(checksum, "checksum", &kinds, ChecksumKind::by_name)
    }

    /// Reads the read policy of a system, or that of the head.
    fn read_policy(
        &self,
        raw: &RawSystem,
        file: &RawFile,
    ) -> Result<Option<&'static ReadPolicy>, ExperimentError> {
        let read_policy = raw.read_policy.as_ref().or(file.read_policy.as_ref());
        let names: Vec<_> = READ_POLICIES.iter().map(|policy| policy.name).collect();
        self.named(read_policy, "read policy", &names, ReadPolicy::by_name)
    }

    fn ignore_flushes(&self, raw: &RawSystem, file: &RawFile) -> Result<bool, ExperimentError> {
        let flushes = raw.flushes.as_ref().or(file.flushes.as_ref());
        let ignored = self.named(
            flushes,
            "way with flushes",
            &["honoured", "ignored"],
            |word| match word {
                "honoured" => Some(false),
                "ignored" => Some(true),
                _ => None,
            },
        );
        Ok(ignored?.unwrap_or(false))
    }

    /// Reports options at the head of the file that are meaningful for no system.
    pub(super) fn options_of_all(&self, file: &RawFile, members: &Members) {
        let systems = file.system.iter();
        let subjects: Vec<Subject> = systems.map(|one| subject(one.get_ref(), members)).collect();
        for (option, given) in given!(file) {
            let means_something = subjects.iter().any(option.means_something);
            if let Some(span) = given.filter(|_| !means_something) {
                self.keep::<()>(Err(self.at(&span, option.refused_by_all())));
            }
        }
    }

    fn price(&self, price: Option<&Spanned<f64>>) -> Result<Option<f64>, ExperimentError> {
        let Some(price) = price else { return Ok(None) };
        let value = *price.get_ref();
        if value.is_finite() && value > 0.0 {
            return Ok(Some(value));
        }
        let what = format!("price = {value} is not possible: give a number above 0");
        Err(self.at(&price.span(), what))
    }

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
                let what = format!(
                    "weight of \"{name}\": it is none of the workloads: use one of \
                        {names}"
                );
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

    pub(super) fn workload(
        &self,
        raw: &RawWorkload,
        size: Option<u64>,
    ) -> Result<WorkloadSpec, ExperimentError> {
        if let Some(name) = &raw.name {
            self.keep(self.name(name));
        }
        let kind_name = raw.kind.get_ref();
        let work = match (
            spindles_workload::by_name(kind_name),
            file::by_name(kind_name),
        ) {
            (Some(kind), _) => Work::Blocks(self.block_work(raw, kind, size)?),
            (None, Some(kind)) => Work::Files(self.file_work(raw, kind)?),
            (None, None) if kind_name == FIO => Work::Fio(self.fio(raw)?),
            (None, None) if kind_name == NEWFS => Work::Newfs(self.newfs(raw)?),
            (None, None) if kind_name == COPY => Work::Copy(self.copy(raw)?),
            (None, None) => {
                let blocks = KINDS.iter().map(|kind| kind.name);
                let files = file::KINDS.iter().map(|kind| kind.name);
                let names: Vec<_> = blocks.chain(files).chain([NEWFS, FIO, COPY]).collect();
                return Err(self.at(
                    &raw.kind.span(),
                    format!(
                        "there is no workload \"{kind_name}\": use one of {}",
                        names.join(", ")
                    ),
                ));
            }
        };
        if let Some(systems) = raw.systems.as_ref().filter(|it| it.get_ref().is_empty()) {
            let what = "`systems` names none: name some, or leave it out for all".to_owned();
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
                Work::Blocks(_) => "it runs on each member, and no job does: leave `beside` out",
                Work::Files(_) | Work::Newfs(_) | Work::Fio(_) | Work::Copy(_) => {
                    "it does not run on an open array, so no job can run beside it: leave `beside` \
                     out"
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
        };
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
                "at a scale of {} {} would work on less than {}, and its figures say nothing: \
                 choose a scale of at least {:.3}",
                self.tuning.scale,
                kind.name,
                SizeBytes(least).typed(),
                smallest_scale(least, size_bytes)
            );
            return Err(self.at(&raw.kind.span(), what));
        }
        Ok(shrunk)
    }

    /// Refuses keys of workloads on blocks for a workload on files, which has parameters instead.
    pub(super) fn no_keys_of_blocks(
        &self,
        raw: &RawWorkload,
        kind: &str,
        parameters: &[file::Parameter],
    ) -> Result<(), ExperimentError> {
        let Some((key, value)) = key_of_blocks(raw) else {
            return Ok(());
        };
        let names: Vec<_> = parameters.iter().map(|it| it.name).collect();
        let what = format!(
            "{kind} works on files, and `{key}` is for workloads on blocks: give `parameters = \
             {{ .. }}` with any of {}",
            names.join(", ")
        );
        Err(self.at(&value.span(), what))
    }

    /// Refuses the same keys for workloads that drive another program.
    fn no_keys_beside_parameters(&self, raw: &RawWorkload) -> Result<(), ExperimentError> {
        let Some((key, value)) = key_of_blocks(raw) else {
            return Ok(());
        };
        let what = format!(
            "`{key}` is for workloads on blocks, and {} takes `parameters = {{ .. }}`: leave \
             `{key}` out",
            raw.kind.get_ref()
        );
        Err(self.at(&value.span(), what))
    }

    fn file_work(
        &self,
        raw: &RawWorkload,
        kind: &'static FileKind,
    ) -> Result<FilePlan, ExperimentError> {
        self.no_keys_of_blocks(raw, kind.name, kind.parameters)?;
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
        let span = raw
            .parameters
            .as_ref()
            .map_or(raw.kind.span(), Spanned::span);
        let timed = kind.parameters.iter().any(|it| it.name == file::SECONDS);
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
            let what = format!(
                "{ARCHIVE} = \"{path}\": {error}: give an archive of tar that is not compressed"
            );
            self.at(&value.span(), what)
        })
    }

    /// Reads a workload of fio, whose options are its parameters.
    fn fio(&self, raw: &RawWorkload) -> Result<FioWork, ExperimentError> {
        self.no_keys_beside_parameters(raw)?;
        let given = raw.parameters.iter().flat_map(Spanned::get_ref);
        let options = given.map(|(name, value)| {
            let text = match value.get_ref() {
                Value::String(text) => text.clone(),
                Value::Boolean(is_set) => u8::from(*is_set).to_string(),
                other => other.to_string(),
            };
            (name.clone(), text)
        });
        let span = raw
            .parameters
            .as_ref()
            .map_or(raw.kind.span(), Spanned::span);
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
        self.no_keys_beside_parameters(raw)?;
        let span = raw
            .parameters
            .as_ref()
            .map_or(raw.kind.span(), Spanned::span);
        let parameters = raw.parameters.as_ref().map(Spanned::get_ref);
        let command = parameters.and_then(|it| it.get("command"));
        let words: Vec<String> = command
            .and_then(|it| it.get_ref().as_str())
            .map(|text| text.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default();
        let others = parameters.is_some_and(|it| it.len() > 1);
        if words.is_empty() || others {
            let what = "newfs takes one parameter, the command that gets the device as its last \
                argument: parameters = { command = \"mkfs.ext4 -q -F\" }";
            return Err(self.at(&span, what));
        }
        Ok(words)
    }

    /// Reads a number, a size, or a word.
    pub(super) fn parameter(
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
                "{name} = {} is not possible: give a whole number, a size such as \"64M\" or a \
                 word",
                value.get_ref()
            );
            self.at(&value.span(), what)
        })
    }
}

/// Returns a key of workloads on blocks that is present, if any.
fn key_of_blocks(raw: &RawWorkload) -> Option<(&'static str, &Spanned<Value>)> {
    let keys = [
        ("size", &raw.size),
        ("chunk", &raw.chunk),
        ("in_flight", &raw.in_flight),
        ("operations", &raw.operations),
        ("reads", &raw.reads),
        ("seconds", &raw.seconds),
        ("arrivals", &raw.arrivals),
    ];
    let mut given = keys.into_iter();
    given.find_map(|(key, value)| Some((key, value.as_ref()?)))
}

/// Describes a system for checking its options.
fn subject(raw: &RawSystem, members: &Members) -> Subject {
    let mut subject = Subject::new(raw.target.get_ref(), members);
    subject.is_mounted = raw.fs.is_some();
    subject.by_commands = raw.up.is_some();
    subject
}

/// Returns the smallest scale at which `size_bytes` leaves at least `least`, in thousandths rounded
/// up.
#[expect(clippy::cast_precision_loss, reason = "shown with three decimals")]
fn smallest_scale(least: u64, size_bytes: u64) -> f64 {
    (least * 1000).div_ceil(size_bytes.max(1)) as f64 / 1000.0
}
