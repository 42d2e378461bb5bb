//! Reads the systems of an experiment file, and the options of all systems at its head.

use super::raw::{RawFile, RawSystem, span_of};
use super::reader::Reader;
use crate::experiment::spec::{ExperimentError, SystemSpec};
use crate::experiment::systems::modelled::{Modelled, load_controller, load_host, load_software};
use crate::experiment::systems::options::{self, Subject, SystemOption};
use crate::experiment::systems::{
    self, Commands, FILE_SYSTEMS, FileSystem, Members, ModelledFileSystem, Mounting, fresh_shape,
    names,
};
use spindles_admin::write_back::WriteBack;
use spindles_block::SizeBytes;
use spindles_engine::{POLICIES, Policy, READ_POLICIES, ReadPolicy};
use spindles_format::ChecksumKind;
use spindles_host::file_systems;
use spindles_model::Parameters;
use std::collections::BTreeSet;
use std::sync::Arc;
use toml::{Spanned, Value};

/// Lists each option of systems with its place in the file. The fields are the same for a system
/// and for the head of the file.
macro_rules! given {
    ($raw:expr) => {
        [
            (&options::CHUNK, span_of($raw.chunk.as_ref())),
            (&options::CONSISTENCY, span_of($raw.consistency.as_ref())),
            (&options::CHECKSUM, span_of($raw.checksum.as_ref())),
            (&options::JOURNAL, span_of($raw.journal.as_ref())),
            (&options::WRITE_BACK, span_of($raw.write_back.as_ref())),
            (&options::REBUILD_RATE, span_of($raw.rebuild_rate.as_ref())),
            (&options::READ_POLICY, span_of($raw.read_policy.as_ref())),
            (&options::FLUSHES, span_of($raw.flushes.as_ref())),
            (&options::THROUGH, span_of($raw.through.as_ref())),
        ]
    };
}

/// Reads `{ model = "NAME", links = ["LINK each", "LINK shared"] }`, with `start` and `length`;
/// `None` for other tables.
fn modelled(table: &toml::Table) -> Result<Option<Members>, String> {
    let Some(name) = table.get("model").and_then(Value::as_str) else {
        return Ok(None);
    };
    let known = ["model", "links", "start", "length"];
    if let Some(other) = table.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!(
            "`{other}` means nothing here: use `model`, `links`, `start` and `length`"
        ));
    }
    let mut model = Modelled::load(name)?;
    let size = |key: &str| {
        let bytes = table.get(key).map(|size| {
            let bytes = size.as_str()?.parse::<SizeBytes>().ok()?.0;
            bytes.is_multiple_of(4096).then_some(bytes)
        });
        let why = || format!("`{key}` is a size in multiples of 4096 bytes, as in \"78G\"");
        bytes.map(|bytes| bytes.ok_or_else(why)).transpose()
    };
    model.start_bytes = size("start")?.unwrap_or(0);
    model.length_bytes = size("length")?.filter(|bytes| *bytes > 0);
    let links = table.get("links").map(Value::as_array);
    let links = links.map(|links| links.ok_or("`links` is a list, as in [\"sata-600 each\"]"));
    for link in links.transpose()?.into_iter().flatten() {
        let text = link
            .as_str()
            .ok_or("a link is a text, as in \"sata-600 each\"")?;
        model.add_link(text)?;
    }
    Ok(Some(Members::Modelled(model)))
}

impl Reader<'_> {
    pub(super) fn members(
        &self,
        value: Option<&Spanned<Value>>,
        host: Option<&Spanned<String>>,
    ) -> Result<Members, ExperimentError> {
        let mut members = self.members_without_host(value)?;
        if let Some(name) = host {
            let at = |why| self.at(&name.span(), why);
            let Members::Modelled(model) = &mut members else {
                let what = "`host` is for modelled members: add members = \"model:NAME\"";
                return Err(at(what.to_owned()));
            };
            model.host = Some(load_host(name.get_ref()).map_err(at)?);
        }
        Ok(members)
    }

    fn members_without_host(
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
            Value::String(word) => {
                Members::of_word(word).map_err(|why| self.at(&value.span(), why))?
            }
            Value::Table(table) => modelled(table).map_err(|why| self.at(&value.span(), why))?,
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
                    "members = {} is not possible: use {}, \"model:NAME\" for modelled disks, or a \
                     list of devices such as [\"/dev/sdb\", \"/dev/sdc\"]",
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
                    format!("{twice} is listed twice among the members: name each device once"),
                ));
            }
        }
        Ok(members)
    }

    /// Replaces targets that name configurations by the arrays of their shape. Returns notes on
    /// what the lab ignores of them.
    pub(super) fn shapes(&self, file: &mut RawFile) -> Result<Vec<String>, ExperimentError> {
        let mut notes = Vec::new();
        for system in &mut file.system {
            let system = system.get_mut();
            let Some(shape) = fresh_shape(system.target.get_ref()) else {
                continue;
            };
            let shape = shape.map_err(|why| self.at(&system.target.span(), why))?;
            *system.target.get_mut() = shape.target;
            system.described_chunk_bytes = shape.chunk_bytes;
            let name = system.name();
            notes.extend(shape.notes.iter().map(|note| format!("{name}: {note}")));
        }
        Ok(notes)
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
        let write_back = self.keep(self.write_back(raw, file)).flatten();
        let rate = raw.rebuild_rate.as_ref().or(file.rebuild_rate.as_ref());
        let rebuild_rate = self.keep(self.size(rate, "rebuild_rate")).flatten();
        let journal = raw.journal.as_ref().or(file.journal.as_ref());
        let ignore_flushes = self.keep(self.ignore_flushes(raw, file)).unwrap_or(false);
        // Options at the head apply to the systems for which they are meaningful.
        Ok(SystemSpec {
            name: name.to_owned(),
            target: target.clone(),
            chunk_bytes: (own.or(raw.described_chunk_bytes).or(chunk))
                .filter(|_| means(&options::CHUNK)),
            consistency: consistency.filter(|_| means(&options::CONSISTENCY)),
            checksum: checksum.filter(|_| means(&options::CHECKSUM)),
            journal: (journal.filter(|_| means(&options::JOURNAL)))
                .map(|journal| journal.get_ref().clone()),
            write_back: write_back.filter(|_| means(&options::WRITE_BACK)),
            rebuild_rate: rebuild_rate.filter(|_| means(&options::REBUILD_RATE)),
            price: self.keep(self.price(raw.price.as_ref())).flatten(),
            read_policy: read_policy.filter(|_| means(&options::READ_POLICY)),
            ignore_flushes: ignore_flushes && means(&options::FLUSHES),
            is_served: is_served && means(&options::THROUGH),
            modelled_fs: self.keep(self.modelled_fs(raw, members)).flatten(),
            controller: self
                .keep(self.loaded(raw.controller.as_ref(), load_controller))
                .flatten(),
            software: self
                .keep(self.loaded(raw.software.as_ref(), load_software))
                .flatten(),
            mounting: self.keep(self.mounting(raw, members)).flatten(),
            commands,
            baseline: raw
                .baseline
                .as_ref()
                .map(|baseline| baseline.get_ref().clone()),
            line: self.line_of(&span),
        })
    }

    /// Checks the target of a system. Returns the commands that set it up, if it has any.
    fn commands_for_target(&self, raw: &RawSystem) -> Result<Option<Commands>, ExperimentError> {
        let target = raw.target.get_ref();
        let wrong = |what: String| self.at(&raw.target.span(), what);
        systems::check(target).map_err(wrong)?;
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
        let words = [("served", true), ("direct", false)];
        self.word(through, "way to a system", &words)
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

    /// Reads the write-back setting of a system, or that of the head.
    fn write_back(
        &self,
        raw: &RawSystem,
        file: &RawFile,
    ) -> Result<Option<WriteBack>, ExperimentError> {
        let write_back = raw.write_back.as_ref().or(file.write_back.as_ref());
        let names = WriteBack::ALL.map(WriteBack::name);
        self.named(write_back, "write-back setting", &names, WriteBack::by_name)
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
        let words = [("honoured", false), ("ignored", true)];
        let ignored = self.word(flushes, "way with flushes", &words)?;
        Ok(ignored.unwrap_or(false))
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

    /// Reads a modelled file system; `None` for a real one.
    fn modelled_fs(
        &self,
        raw: &RawSystem,
        members: &Members,
    ) -> Result<Option<ModelledFileSystem>, ExperimentError> {
        let name = raw.fs.as_ref();
        let Some(name) = name.filter(|name| is_modelled(name.get_ref(), members)) else {
            return Ok(None);
        };
        let mkfs = raw.mkfs.as_ref().map_or(&[][..], |words| words.get_ref());
        let mount = raw.mount.as_ref().map_or("", |words| words.get_ref());
        let made = ModelledFileSystem::new(name.get_ref(), mkfs, mount).transpose();
        made.map_err(|why| self.at(&name.span(), why))
    }

    /// Reads a model that a system names.
    fn loaded(
        &self,
        name: Option<&Spanned<String>>,
        load: fn(&str) -> Result<Arc<Parameters>, String>,
    ) -> Result<Option<Arc<Parameters>>, ExperimentError> {
        let Some(name) = name else { return Ok(None) };
        let loaded = load(name.get_ref()).map(Some);
        loaded.map_err(|why| self.at(&name.span(), why))
    }

    fn mounting(
        &self,
        raw: &RawSystem,
        members: &Members,
    ) -> Result<Option<Mounting>, ExperimentError> {
        let is_modelled = |fs: &Spanned<String>| is_modelled(fs.get_ref(), members);
        if raw.fs.as_ref().is_some_and(is_modelled) {
            return Ok(None);
        }
        let modelled = file_systems::ROWS.iter().map(|row| row.name);
        let modelled = modelled.filter(|name| FileSystem::by_name(name).is_none());
        let names = FILE_SYSTEMS.iter().map(|one| one.name).chain(modelled);
        let names: Vec<_> = names.collect();
        let kind = self.named(raw.fs.as_ref(), "file system", &names, FileSystem::by_name)?;
        let Some(kind) = kind else {
            let mkfs = span_of(raw.mkfs.as_ref());
            let without = [("mkfs", mkfs), ("mount", span_of(raw.mount.as_ref()))];
            self.refuse(without, |key| {
                format!("`{key}` is for a file system: add `fs = \"ext4\"` to the system")
            })?;
            return Ok(None);
        };
        Ok(Some(Mounting {
            kind,
            mkfs: raw
                .mkfs
                .as_ref()
                .map(Spanned::get_ref)
                .cloned()
                .unwrap_or_default(),
            options: raw
                .mount
                .as_ref()
                .map(Spanned::get_ref)
                .cloned()
                .unwrap_or_default(),
        }))
    }

    fn commands(&self, raw: &RawSystem) -> Result<Option<Commands>, ExperimentError> {
        let members = self.count(raw.takes.as_ref(), "takes", 0, 64)?;
        let Some(up) = &raw.up else {
            let others = [
                ("down", span_of(raw.down.as_ref())),
                ("takes", span_of(raw.takes.as_ref())),
                ("loops", span_of(raw.loops.as_ref())),
            ];
            self.refuse(others, |key| {
                format!("`{key}` is for a system made by commands: add `up = \"..\"`")
            })?;
            return Ok(None);
        };
        Ok(Some(Commands {
            up: up.get_ref().clone(),
            down: raw.down.as_ref().map(|down| down.get_ref().clone()),
            members: usize::try_from(members.unwrap_or(0)).expect("few"),
            loops: raw.loops.as_ref().is_none_or(|loops| *loops.get_ref()),
        }))
    }
}

/// Describes a system for checking its options.
/// Returns true if a file system is a modelled one. A name that real ones have too means the
/// modelled one on modelled members.
fn is_modelled(name: &str, members: &Members) -> bool {
    let is_only_modelled = FileSystem::by_name(name).is_none();
    file_systems::by_name(name).is_some() && (is_only_modelled || members.modelled().is_some())
}

fn subject(raw: &RawSystem, members: &Members) -> Subject {
    let mut subject = Subject::new(raw.target.get_ref(), members);
    subject.is_mounted = raw.fs.is_some();
    subject.by_commands = raw.up.is_some();
    subject
}
