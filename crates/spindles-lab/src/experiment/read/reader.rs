//! Reads values of an experiment file, and locates the mistakes in them.

use super::raw::{RawWorkload, span_of};
use crate::experiment::spec::{ExperimentError, ExperimentMistake, Tuning, parameter_of};
use spindles_block::SizeBytes;
use spindles_workload::file;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::Range;
use toml::{Spanned, Value};

/// Larger sizes would overflow 64 bits when something is added to them.
const SIZE_BYTES_MAX: u64 = 1 << 60;
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
        mistakes.retain(|mistake| seen.insert((mistake.line, mistake.what.clone())));
        match read {
            Some(read) if mistakes.is_empty() => Ok(read),
            _ => Err(ExperimentError {
                file: self.source.to_owned(),
                mistakes,
            }),
        }
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
                    "\"{text}\" is not a valid name: use letters, digits, '-', '_', '+', '.' and \
                     spaces, none of them at an end"
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
            format!("{what} \"{name}\" is not a system of the experiment: use one of {names}"),
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
        by_name: impl Fn(&str) -> Option<T>,
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

    /// Looks up one of a few words.
    pub(super) fn word<T: Copy>(
        &self,
        name: Option<&Spanned<String>>,
        what: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, ExperimentError> {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.named(name, what, &names, |name| {
            let found = words.iter().find(|(word, _)| *word == name);
            found.map(|(_, meaning)| *meaning)
        })
    }

    /// Refuses the first of these keys that is given.
    pub(super) fn refuse(
        &self,
        keys: impl IntoIterator<Item = (&'static str, Option<Range<usize>>)>,
        what: impl Fn(&str) -> String,
    ) -> Result<(), ExperimentError> {
        let mut given = keys
            .into_iter()
            .filter_map(|(key, span)| Some((key, span?)));
        let refused = given.next().map(|(key, span)| self.at(&span, what(key)));
        refused.map_or(Ok(()), Err)
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

    pub(super) fn line_of(&self, span: &Range<usize>) -> usize {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        1 + before.matches('\n').count()
    }
}

/// Refuses a key of workloads on blocks for a workload on files, which has parameters instead.
pub(super) fn not_for_files(kind: &str, parameters: &[file::Parameter], key: &str) -> String {
    let names: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
    format!(
        "{kind} works on files, and `{key}` is for workloads on blocks: give `parameters = {{ .. \
         }}` with any of {}",
        names.join(", ")
    )
}

/// Refuses a key of workloads on blocks for a workload of another program.
pub(super) fn not_for_programs(raw: &RawWorkload, key: &str) -> String {
    format!(
        "`{key}` is for workloads on blocks, and {} takes `parameters = {{ .. }}`: leave `{key}` \
         out",
        raw.kind.get_ref()
    )
}

/// Returns the keys of workloads on blocks, and where the text gives each.
pub(super) fn keys_of_blocks(
    raw: &RawWorkload,
) -> impl IntoIterator<Item = (&'static str, Option<Range<usize>>)> {
    let values = [
        ("size", &raw.size),
        ("chunk", &raw.chunk),
        ("in_flight", &raw.in_flight),
        ("operations", &raw.operations),
        ("reads", &raw.reads),
        ("seconds", &raw.seconds),
        ("arrivals", &raw.arrivals),
    ];
    let values = values.map(|(key, value)| (key, span_of(value.as_ref())));
    values
        .into_iter()
        .chain([("steady", span_of(raw.steady.as_ref()))])
}
