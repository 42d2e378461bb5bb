//! Dialects, the texts that they read, and the arrays that they return.

use crate::expressions::{MISSING, Tree, is_lost, renamed};
use crate::fault::Fault;
use crate::shape::{Shape, Unsayable};
use crate::sizes::SECTOR_BYTES;
use crate::text::is_control;
use crate::writing::Writing;
use alloc::borrow::{Cow, ToOwned};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use spindles_layout::Expression;

/// The words of one system: a row of the table.
#[derive(Debug)]
pub struct Dialect {
    /// The name for users.
    pub name: &'static str,
    /// One line for help.
    pub summary: &'static str,
    /// What it reads, for help: a file or a command.
    pub reads: &'static str,
    /// Variants with the same words and another meaning, the default first; empty if there is one.
    pub flavours: &'static [&'static str],
    pub(crate) recognises: fn(&str) -> bool,
    pub(crate) read: fn(&Source<'_>) -> Result<Draft, Fault>,
    /// Writes the array of a shape; `None` if the dialect is only read.
    pub write: Option<Write>,
}

/// Writes a shape as a text, after the others of the same [`Writing`].
pub type Write = fn(&Shape, &mut Writing<'_>) -> Result<String, Unsayable>;

/// A text and what is known of its devices.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The text; see [`decode`].
    pub text: &'a str,
    /// Returns the size of a device in bytes, if known. Some arrays need it to be exact.
    pub bytes_of: &'a dyn Fn(&str) -> Option<u64>,
    /// One of the dialect's flavours; `None` for the first.
    pub flavour: Option<&'a str>,
}

impl Source<'_> {
    /// Returns the whole sectors of a device, if known.
    pub(crate) fn sectors_of(&self, device: &str) -> Option<u64> {
        (self.bytes_of)(device).map(|bytes| bytes / SECTOR_BYTES)
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Source");
        debug.field("text", &self.text);
        debug.field("flavour", &self.flavour);
        debug.finish_non_exhaustive()
    }
}

/// Returns the text of a file. Bytes that are no UTF-8 become replacement characters: harmless in
/// comments, refused in names.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The arrays that a text describes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// In the order of the text; at least one.
    pub arrays: Vec<Translated>,
    /// Words that are understood and have no effect here.
    pub notes: Vec<Note>,
    /// Names in the expressions that stand for devices, if the text defines such.
    pub devices: BTreeMap<String, String>,
}

impl Translation {
    /// Returns an expression with the names of [`devices`](Self::devices) replaced.
    pub fn on_devices(&self, expression: &Expression) -> Expression {
        renamed(expression, &|name| {
            let device = self.devices.get(name);
            device.map_or(name, String::as_str).to_owned()
        })
    }

    /// Returns a shape with the names of [`devices`](Self::devices) replaced.
    pub fn shape_on_devices(&self, shape: &Shape) -> Shape {
        let device = |name: &String| self.devices.get(name).unwrap_or(name).clone();
        Shape {
            expression: self.on_devices(&shape.expression),
            spares: shape.spares.iter().map(device).collect(),
            journal: shape.journal.as_ref().map(device),
            ..shape.clone()
        }
    }
}

/// A translation whose notes still have bytes instead of lines.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) arrays: Vec<Translated>,
    /// The bytes that the notes are about, and their texts.
    pub(crate) notes: Vec<(usize, String)>,
    /// Texts of the notes that are only about arrays here.
    about_here: BTreeSet<String>,
    pub(crate) devices: BTreeMap<String, String>,
    /// The error of the first array that no level here can be.
    refused: Option<Fault>,
}

impl Draft {
    /// Adds an array. `at` is the offset for errors.
    pub(crate) fn add(&mut self, shape: Shape, tree: &Tree, at: usize) -> Result<(), Fault> {
        let expression = tree.in_place(at)?;
        self.note_lost(&shape, at);
        self.arrays.push(Translated {
            expression,
            in_place: true,
            unclean: false,
            shares_devices: false,
            shape,
        });
        Ok(())
    }

    /// Adds an array of which the text says only the shape.
    pub(crate) fn add_shape(&mut self, shape: Shape) {
        self.arrays.push(Translated {
            expression: shape.expression.clone(),
            in_place: false,
            unclean: false,
            shares_devices: false,
            shape,
        });
    }

    /// Adds a note that is only about arrays here, not about the words.
    pub(crate) fn note_here(&mut self, at: usize, text: impl Into<String>) {
        let text = text.into();
        self.about_here.insert(text.clone());
        self.note(at, text);
    }

    /// Turns the refusal of one array into a note.
    pub(crate) fn skip_refused(&mut self, array: Result<(), Fault>) -> Result<(), Fault> {
        match array {
            Err(fault) if fault.is_refusal() => {
                self.note(fault.at, fault.message.clone());
                self.refused.get_or_insert(fault);
                Ok(())
            }
            array => array,
        }
    }

    /// Returns an error if there is no array: the refusal of the first, or this one.
    pub(crate) fn some_array(self, at: usize, missing: &str) -> Result<Self, Fault> {
        if self.arrays.is_empty() {
            let refused = self.refused;
            return Err(refused.unwrap_or_else(|| Fault::new(at, missing)));
        }
        Ok(self)
    }

    pub(crate) fn note(&mut self, at: usize, text: impl Into<String>) {
        self.notes.push((at, text.into()));
    }

    /// Notes an array that lacks too many members.
    pub(crate) fn note_lost(&mut self, shape: &Shape, at: usize) {
        if is_lost(&shape.expression) {
            let text = "too many members are missing: the array can't be opened";
            self.note(at, text);
        }
    }

    /// Returns true if a device has several parts in the arrays.
    fn shares_devices(&self) -> bool {
        let mut seen = BTreeSet::new();
        let arrays = self.arrays.iter();
        let mut devices = arrays.flat_map(|array| array.shape.expression.leaves());
        devices.any(|device| device != MISSING && !seen.insert(device))
    }

    fn finish(mut self, text: &str) -> Translation {
        let shares_devices = self.shares_devices();
        for array in &mut self.arrays {
            array.shares_devices = shares_devices;
        }
        Translation {
            arrays: self.arrays,
            notes: notes(self.notes, &self.about_here, text),
            devices: self.devices,
        }
    }
}

/// Returns the notes in the order of the text. Notes of equal text become one with all lines.
fn notes(
    mut drafted: Vec<(usize, String)>,
    about_here: &BTreeSet<String>,
    text: &str,
) -> Vec<Note> {
    drafted.sort_by_key(|(at, _)| *at);
    let (mut line, mut done) = (1, 0);
    let mut indices = BTreeMap::new();
    let mut notes: Vec<(String, Vec<usize>)> = Vec::new();
    for (at, note) in drafted {
        let at = text.floor_char_boundary(at);
        line += newlines(&text[done..at]);
        done = at;
        let index = *indices.entry(note.clone()).or_insert(notes.len());
        if index == notes.len() {
            notes.push((note, Vec::new()));
        }
        let lines = &mut notes[index].1;
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    let notes = notes.into_iter().map(|(note, lines)| {
        let others: Vec<String> = lines[1..].iter().map(usize::to_string).collect();
        let also = match others.as_slice() {
            [] => String::new(),
            [other] => format!(" (also line {other})"),
            others => format!(" (also lines {})", others.join(", ")),
        };
        Note {
            line: lines[0],
            is_about_here: about_here.contains(&note),
            text: printable(&note) + &also,
        }
    });
    notes.collect()
}

/// An array of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translated {
    /// The array where it lies, with slices of its devices.
    pub expression: Expression,
    /// False if the text doesn't say where the data lies: the expression is only the shape.
    pub in_place: bool,
    /// True if the text says that redundancy may not match the data.
    pub unclean: bool,
    /// True if arrays of the text lie on parts of one device.
    pub shares_devices: bool,
    /// The same levels on whole devices, for a new array.
    pub shape: Shape,
}

impl Translated {
    /// Returns the members of a new array: whole devices, or their parts if arrays share a device.
    #[must_use]
    pub fn for_new(&self) -> &Expression {
        if self.in_place && self.shares_devices {
            &self.expression
        } else {
            &self.shape.expression
        }
    }
}

/// Words that are understood and have no effect here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The first of its lines, from 1.
    pub line: usize,
    /// The words and their fate here, and further lines.
    pub text: String,
    /// True if it does not concern the words of another dialect.
    pub is_about_here: bool,
}

/// The first error of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialectError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The expected words, or the impossible request by its name in that dialect.
    pub message: String,
}

impl fmt::Display for DialectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            column,
            message,
        } = self;
        write!(f, "line {line}, column {column}: {message}")
    }
}

impl core::error::Error for DialectError {}

impl Dialect {
    /// Returns true if a text looks like this dialect.
    pub fn recognises(&self, text: &str) -> bool {
        (self.recognises)(text)
    }

    /// Reads a text.
    pub fn read(&self, source: &Source<'_>) -> Result<Translation, DialectError> {
        let checked = self.check(source);
        let draft = checked.and_then(|()| (self.read)(source));
        let translation = draft.map(|draft| draft.finish(source.text));
        translation.map_err(|fault| {
            let (line, column) = position(source.text, fault.at);
            DialectError {
                line,
                column,
                message: printable(&fault.message),
            }
        })
    }

    fn check(&self, source: &Source<'_>) -> Result<(), Fault> {
        if let Some(flavour) = source.flavour
            && !self.flavours.contains(&flavour)
        {
            let message = match self.flavours {
                [] => format!("{} has no flavours", self.name),
                flavours => format!("{} is {}, not {flavour}", self.name, flavours.join(" or ")),
            };
            return Err(Fault::new(0, message));
        }
        match source.text.find('\0') {
            None => Ok(()),
            Some(at) => Err(Fault::new(at, "this is not text: it contains a zero byte")),
        }
    }
}

/// The longest word and the longest message that are shown whole, in characters.
const WORD_CHARS_MAX: usize = 80;
const MESSAGE_CHARS_MAX: usize = 1000;

/// Escapes the control characters of a message, which quotes words of the text, and shortens them.
fn printable(message: &str) -> String {
    let message = cut(message, MESSAGE_CHARS_MAX, 600, 200);
    let words = message.split_inclusive(char::is_whitespace);
    let words: String = words.map(|word| cut(word, WORD_CHARS_MAX, 40, 4)).collect();
    let mut shown = String::new();
    for c in words.chars() {
        if is_control(c) {
            shown.extend(c.escape_debug());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns only the first and the last characters of a text that is longer than `chars_max`.
fn cut(text: &str, chars_max: usize, first: usize, last: usize) -> Cow<'_, str> {
    if text.chars().count() <= chars_max {
        return Cow::Borrowed(text);
    }
    let at = |index: Option<(usize, char)>| index.map_or(0, |(at, _)| at);
    let end = at(text.char_indices().nth(first));
    let start = at(text.char_indices().nth_back(last - 1));
    Cow::Owned(format!("{}…{}", &text[..end], &text[start..]))
}

/// Returns line and column of a byte of a text, both from 1. A byte of a quoted word may be
/// somewhat off.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (
        newlines(before) + 1,
        before[line_start..].chars().count() + 1,
    )
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}
