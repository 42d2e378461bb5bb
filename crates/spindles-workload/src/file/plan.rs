//! The parameters of a workload on files, under the names of the original tool. Each has a default,
//! bounds, and a rule for shrinking.

use super::action::{FilePhase, FileWorkload};
use super::layout::EXTENT_BYTES;
use super::tree::Tree;
use super::unsynced::Unsynced;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// A workload of the table.
#[derive(Debug)]
pub struct FileKind {
    /// The name that users type.
    pub name: &'static str,
    /// Description of the workload, one line.
    pub summary: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// True if it unpacks an archive, which may be the user's.
    pub takes_archive: bool,
    /// The parameter that sets the number of actors, if any.
    pub(crate) actors: Option<&'static str>,
    /// Returns the most files that it creates on a bare target, in a [`Layout`](super::Layout), if
    /// it can run on one.
    pub(crate) files: fn(&FilePlan) -> Result<u64, NotBare>,
    /// Returns the conflict between individually valid values; `None` if the values are consistent.
    pub(crate) check: fn(&FilePlan) -> Option<String>,
    pub(crate) phases: fn(&FilePlan) -> Vec<FilePhase>,
    pub(crate) bytes: fn(&FilePlan) -> u64,
    pub(crate) start: fn(&FilePlan, usize) -> Box<dyn FileWorkload>,
}

impl FileKind {
    /// Resolves every default, shrinks by `scale` (1: unchanged) and checks the choices.
    ///
    /// # Errors
    /// If a choice is not possible, or shrinks too far.
    pub fn plan(
        &'static self,
        chosen: &BTreeMap<String, Value>,
        scale: f64,
        seed: u64,
    ) -> Result<FilePlan, ParameterError> {
        FilePlan::new(self, chosen, scale, seed)
    }
}

/// The reason why a workload on files can't run on a bare target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBare {
    /// It measures file system operations, or its files are many and small.
    NeedsFileSystem,
    /// Files grow until the workload ends.
    Grows,
}

/// A parameter that a user can choose.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name in the original tool.
    pub name: &'static str,
    /// Help text, one line.
    pub about: &'static str,
    /// Its default: a number, or the index of a word.
    pub default: u64,
    /// Its possible values.
    pub range: Range,
    /// The least value to which the scale may shrink it: below, the results are meaningless. `None`
    /// if the scale does not apply.
    pub scaled_min: Option<u64>,
}

/// The possible values of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Range {
    /// A number; both ends included.
    Count(u64, u64),
    /// Bytes; both ends included, a multiple of the third.
    Bytes(u64, u64, u64),
    /// A word from this list.
    Words(&'static [&'static str]),
}

impl Parameter {
    const fn new(name: &'static str, default: u64, range: Range, about: &'static str) -> Self {
        Self {
            name,
            about,
            default,
            range,
            scaled_min: None,
        }
    }

    /// Creates a number that the scale does not shrink.
    pub(crate) const fn count(
        name: &'static str,
        default: u64,
        least: u64,
        most: u64,
        about: &'static str,
    ) -> Self {
        Self::new(name, default, Range::Count(least, most), about)
    }

    /// Creates a number of bytes that the scale does not shrink.
    pub(crate) const fn bytes(
        name: &'static str,
        default: u64,
        least: u64,
        most: u64,
        about: &'static str,
    ) -> Self {
        Self::new(name, default, Range::Bytes(least, most, 1), about)
    }

    /// Creates a choice of words, the first by default.
    pub(crate) const fn words(
        name: &'static str,
        words: &'static [&'static str],
        about: &'static str,
    ) -> Self {
        Self::new(name, 0, Range::Words(words), about)
    }

    /// Makes it shrink with the scale, down to `least`.
    pub(crate) const fn scaled(mut self, least: u64) -> Self {
        self.scaled_min = Some(least);
        self
    }

    /// Makes it a number of bytes in multiples of `step`.
    pub(crate) const fn multiple_of(mut self, step: u64) -> Self {
        if let Range::Bytes(least, most, _) = self.range {
            self.range = Range::Bytes(least, most, step);
        }
        self
    }

    /// Returns a value of the parameter in words.
    pub fn words_of(&self, value: u64) -> String {
        match self.range {
            Range::Words(words) => usize::try_from(value)
                .ok()
                .and_then(|at| words.get(at))
                .map_or_else(String::new, |word| (*word).to_owned()),
            Range::Count(..) | Range::Bytes(..) => value.to_string(),
        }
    }
}

/// The value that a user gave for a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, or bytes.
    Number(u64),
    /// A word.
    Word(String),
}

/// Parameter values of a workload: chosen values, and defaults for the rest.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    kind: &'static str,
    parameters: &'static [Parameter],
    /// In the order of the parameters.
    values: Vec<u64>,
}

impl Choices {
    /// Resolves every default, and shrinks parameters by `scale` (1: unchanged).
    pub(crate) fn new(
        kind: &'static str,
        parameters: &'static [Parameter],
        chosen: &BTreeMap<String, Value>,
        scale: f64,
    ) -> Result<Self, ParameterError> {
        if let Some(name) = chosen
            .keys()
            .find(|name| parameters.iter().all(|known| known.name != **name))
        {
            return Err(ParameterError::Unknown {
                kind,
                name: name.clone(),
                known: parameters.iter().map(|known| known.name).collect(),
            });
        }
        let values = parameters.iter().map(|parameter| {
            let value = match chosen.get(parameter.name) {
                None => parameter.default,
                Some(value) => checked(parameter, value)?,
            };
            shrunk(parameter, value, scale)
        });
        Ok(Self {
            kind,
            parameters,
            values: values.collect::<Result<_, _>>()?,
        })
    }

    fn place(&self, name: &str) -> usize {
        let place = self
            .parameters
            .iter()
            .position(|parameter| parameter.name == name);
        place.unwrap_or_else(|| panic!("{} has no {name}", self.kind))
    }

    pub(crate) fn value(&self, name: &str) -> u64 {
        self.values[self.place(name)]
    }

    /// Returns a value as a small number.
    pub(crate) fn small(&self, name: &str) -> u32 {
        u32::try_from(self.value(name)).expect("bounded by the kind")
    }

    /// Returns true if a parameter of words has this value.
    pub(crate) fn is(&self, name: &str, word: &str) -> bool {
        self.parameters[self.place(name)].words_of(self.value(name)) == word
    }

    /// Returns all parameters in words, by name.
    pub(crate) fn words(&self) -> BTreeMap<String, String> {
        let parameters = self.parameters.iter().zip(&self.values);
        parameters
            .map(|(parameter, value)| (parameter.name.to_owned(), parameter.words_of(*value)))
            .collect()
    }
}

/// A workload on files that can start.
#[derive(Clone, Debug)]
pub struct FilePlan {
    /// The kind.
    pub kind: &'static FileKind,
    /// The seed of everything random.
    pub seed: u64,
    choices: Choices,
    /// The files of a user's archive, if the kind unpacks one.
    pub(crate) tree: Option<Arc<Tree>>,
    /// The folder that holds the archive; `None` if it is not outside the workload's folder.
    pub(crate) archive_folder: Option<String>,
    /// Set if flushes take effect.
    syncs: bool,
}

impl FilePlan {
    /// Creates a plan with these parameters, shrunk by `scale` (1: unchanged).
    pub(crate) fn new(
        kind: &'static FileKind,
        chosen: &BTreeMap<String, Value>,
        scale: f64,
        seed: u64,
    ) -> Result<Self, ParameterError> {
        let plan = Self {
            kind,
            seed,
            choices: Choices::new(kind.name, kind.parameters, chosen, scale)?,
            tree: None,
            archive_folder: None,
            syncs: true,
        };
        match (kind.check)(&plan) {
            Some(what) => Err(ParameterError::Together {
                kind: kind.name,
                what,
            }),
            None => Ok(plan),
        }
    }

    /// Sets the files of a user's archive.
    #[must_use]
    pub fn with_tree(mut self, tree: Arc<Tree>) -> Self {
        self.tree = Some(tree);
        self
    }

    /// Returns true if it has the files of a user's archive.
    pub fn has_tree(&self) -> bool {
        self.tree.is_some()
    }

    /// Reads the archive from that folder on another disk; its path starts at the root.
    #[must_use]
    pub fn with_archive_in(mut self, folder: String) -> Self {
        self.archive_folder = Some(folder);
        self
    }

    /// Returns the folder of the archive, if it is not the workload's.
    pub fn archive_folder(&self) -> Option<&str> {
        self.archive_folder.as_deref()
    }

    /// Sets another seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of seconds.
    ///
    /// # Panics
    /// If the kind does not run for a time.
    #[must_use]
    pub fn with_seconds(mut self, seconds: u64) -> Self {
        let at = self.choices.place(SECONDS);
        self.choices.values[at] = seconds;
        self
    }

    /// Changes the number of actors by a function of the current one. `None` if it can't be chosen,
    /// or is not possible.
    pub fn with_actors(&self, number: fn(u64) -> u64) -> Option<Self> {
        let at = self.choices.place(self.kind.actors?);
        let number = Value::Number(number(self.choices.values[at]));
        let mut plan = self.clone();
        plan.choices.values[at] = checked(&self.kind.parameters[at], &number).ok()?;
        (self.kind.check)(&plan).is_none().then_some(plan)
    }

    /// Turns flushes into no-ops.
    #[must_use]
    pub fn without_syncs(mut self) -> Self {
        self.syncs = false;
        self
    }

    /// Returns the value of one of the kind's parameters.
    ///
    /// # Panics
    /// If the kind has no parameter of that name.
    pub fn value(&self, name: &str) -> u64 {
        self.choices.value(name)
    }

    /// Returns a value as a small number.
    pub(crate) fn small(&self, name: &str) -> u32 {
        self.choices.small(name)
    }

    /// Returns true if a parameter of words has this value.
    pub(crate) fn is(&self, name: &str, word: &str) -> bool {
        self.choices.is(name, word)
    }

    /// Returns all parameters in words, by name.
    pub fn words(&self) -> BTreeMap<String, String> {
        let mut words = self.choices.words();
        if let Some(tree) = &self.tree {
            words.insert("files".to_owned(), tree.files().to_string());
        }
        if let Some(folder) = &self.archive_folder {
            words.insert("archive".to_owned(), folder.clone());
        }
        words
    }

    /// Returns how long endless phases run, in seconds; 0 if the kind has none.
    pub fn seconds(&self) -> u64 {
        let timed = self
            .kind
            .parameters
            .iter()
            .any(|parameter| parameter.name == SECONDS);
        if timed { self.value(SECONDS) } else { 0 }
    }

    /// Returns its phases in order.
    pub fn phases(&self) -> Vec<FilePhase> {
        (self.kind.phases)(self)
    }

    /// Returns the approximate bytes of all its files at their largest.
    pub fn bytes(&self) -> u64 {
        (self.kind.bytes)(self)
    }

    /// Returns the bytes of a bare target that can hold its files.
    ///
    /// # Errors
    /// The reason why it can't run on one.
    pub fn bytes_bare(&self) -> Result<u64, NotBare> {
        let files = (self.kind.files)(self)?;
        // The last extent of a file may be nearly empty.
        Ok(self.bytes() + files * EXTENT_BYTES)
    }

    /// Starts a phase. All phases before it must have run in the same folder.
    pub fn start(&self, phase: usize) -> Box<dyn FileWorkload> {
        let workload = (self.kind.start)(self, phase);
        if self.syncs {
            workload
        } else {
            Box::new(Unsynced(workload))
        }
    }
}

/// The parameter that sets how long endless phases run.
pub const SECONDS: &str = "seconds";

/// The parameter of that name.
pub(crate) const HOW_LONG: Parameter =
    Parameter::count(SECONDS, 300, 1, 1 << 20, "how long it goes on").scaled(1);

fn checked(parameter: &Parameter, value: &Value) -> Result<u64, ParameterError> {
    let wrong = || ParameterError::Value {
        name: parameter.name,
        given: match value {
            Value::Number(number) => number.to_string(),
            Value::Word(word) => word.clone(),
        },
        range: parameter.range,
    };
    match (parameter.range, value) {
        (Range::Count(least, most), Value::Number(number)) if (least..=most).contains(number) => {
            Ok(*number)
        }
        (Range::Bytes(least, most, step), Value::Number(number))
            if (least..=most).contains(number) && number.is_multiple_of(step) =>
        {
            Ok(*number)
        }
        (Range::Words(words), Value::Word(word)) => {
            let place = words.iter().position(|known| known == word);
            place
                .and_then(|at| u64::try_from(at).ok())
                .ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// Returns the value times the scale, in whole steps.
fn shrunk(parameter: &Parameter, value: u64, scale: f64) -> Result<u64, ParameterError> {
    let Some(least) = parameter.scaled_min else {
        return Ok(value);
    };
    if scale >= 1.0 {
        return Ok(value);
    }
    let shrunk = super::sizes::times(value, scale);
    let shrunk = match parameter.range {
        Range::Bytes(_, _, step) => shrunk / step * step,
        Range::Count(..) | Range::Words(_) => shrunk,
    };
    // A value that was deliberately chosen small is not refused.
    if shrunk < least.min(value) {
        return Err(ParameterError::TooSmall {
            name: parameter.name,
            scale_permille: super::sizes::times(1000, scale),
            shrunk,
            least,
            smallest_permille: least.saturating_mul(1000).div_ceil(value.max(1)),
        });
    }
    Ok(shrunk)
}

/// The reason why a workload on files is not possible as requested.
#[derive(Clone, Debug)]
pub enum ParameterError {
    /// The kind has no parameter of that name.
    Unknown {
        /// The kind.
        kind: &'static str,
        /// The given name.
        name: String,
        /// The names of its parameters.
        known: Vec<&'static str>,
    },
    /// The value is out of bounds.
    Value {
        /// The parameter.
        name: &'static str,
        /// The given value.
        given: String,
        /// The possible values.
        range: Range,
    },
    /// The scale shrinks the value too far.
    TooSmall {
        /// The parameter.
        name: &'static str,
        /// The scale, in thousandths.
        scale_permille: u64,
        /// The shrunk value.
        shrunk: u64,
        /// The least allowed value.
        least: u64,
        /// The smallest possible scale, in thousandths.
        smallest_permille: u64,
    },
    /// Conflicting parameter values.
    Together {
        /// The kind.
        kind: &'static str,
        /// The conflict, and the remedy.
        what: String,
    },
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { kind, name, known } => {
                let known = known.join(", ");
                write!(f, "{kind} has no parameter \"{name}\": it has {known}")
            }
            Self::Value { name, given, range } => {
                write!(f, "{name} = {given} is not possible: give ")?;
                match range {
                    Range::Count(least, most) => {
                        write!(f, "a whole number from {least} to {most}")
                    }
                    Range::Bytes(least, most, 1) => {
                        write!(f, "a size from {least} to {most} bytes")
                    }
                    Range::Bytes(least, most, step) => write!(
                        f,
                        "a size from {least} to {most} bytes that is a multiple of {step}"
                    ),
                    Range::Words(words) => write!(f, "one of {}", words.join(", ")),
                }
            }
            Self::TooSmall {
                name,
                scale_permille,
                shrunk,
                least,
                smallest_permille,
            } => write!(
                f,
                "at a scale of {} the {name} would be {shrunk}, and below {least} the figures say \
                 nothing: choose a scale of at least {}",
                decimal(*scale_permille),
                decimal(*smallest_permille)
            ),
            Self::Together { kind, what } => write!(f, "{kind}: {what}"),
        }
    }
}

impl core::error::Error for ParameterError {}

/// Formats thousandths as a decimal number: `0.25`.
fn decimal(permille: u64) -> String {
    let text = alloc::format!("{}.{:03}", permille / 1000, permille % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
