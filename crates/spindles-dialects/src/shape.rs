//! Arrays as dialects write them, and what a dialect has no words for.

use crate::expressions::Tree;
use crate::fault::Fault;
use crate::sizes::SECTOR_BYTES;
use crate::text::is_control;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use spindles_block::BlockSize;
use spindles_layout::{Expression, Layout, Level, Slice, chunk_blocks};

/// An array as a dialect can write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its name; `None` if the text gives none.
    pub name: Option<String>,
    /// Its levels and devices.
    pub expression: Expression,
    /// Its chunk size; `None` if it has none or the text does not say it.
    pub chunk_bytes: Option<u64>,
    /// Its spares.
    pub spares: Vec<String>,
    /// The device of its journal.
    pub journal: Option<String>,
    /// True if all members end at the smallest, though the level would use all of each.
    pub is_uniform: bool,
    /// True if data begins at the first sector of each device, though the system usually keeps some
    /// sectors before it.
    pub no_offset: bool,
}

impl Shape {
    /// Creates the shape of an array. `at` is the offset for errors.
    pub(crate) fn new(tree: &Tree, chunk_bytes: Option<u64>, at: usize) -> Result<Self, Fault> {
        Ok(Self {
            name: None,
            expression: tree.shape(at)?,
            chunk_bytes,
            spares: Vec::new(),
            journal: None,
            is_uniform: false,
            no_offset: false,
        })
    }

    /// Returns the chunk size in sectors, by default the level's.
    pub(crate) fn chunk_sectors(&self, level: &Level) -> Result<u64, Unsayable> {
        let bytes = self.chunk_bytes.unwrap_or(level.chunk_bytes.into());
        match chunk_blocks(bytes, BlockSize::B512) {
            Ok(sectors) => Ok(sectors.into()),
            Err(_) => Err(Unsayable::new(format!("a chunk of {bytes} bytes"))),
        }
    }

    /// Returns an error if the shape has a journal.
    pub(crate) fn without_journal(&self) -> Result<(), Unsayable> {
        match &self.journal {
            None => Ok(()),
            Some(_) => Err(Unsayable::new("a journal")),
        }
    }

    /// Returns an error if the shape has spares.
    pub(crate) fn without_spares(&self) -> Result<(), Unsayable> {
        match self.spares.first() {
            None => Ok(()),
            Some(_) => Err(Unsayable::new("a spare")),
        }
    }

    /// Returns the name as a comment line, for dialects without names.
    pub(crate) fn name_comment(&self) -> String {
        let name = self.name.as_ref();
        name.map_or_else(String::new, |name| format!("# {}\n", name.escape_debug()))
    }
}

/// A shape that a dialect has no words for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsayable {
    /// The part that can't be said.
    pub what: String,
}

/// Returns a name as one word without quotes.
pub(crate) fn plain_word(name: &str) -> Result<&str, Unsayable> {
    let is_plain = |c: char| !c.is_whitespace() && !is_control(c) && !"*?[]{}'\"\\".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) && !name.starts_with('#') {
        return Ok(name);
    }
    Err(Unsayable::new(format!(
        "the name '{}'",
        name.escape_debug()
    )))
}

/// Returns a component as one word. A slice from the sector where a system's data begins is the
/// device itself.
pub(crate) fn component(name: &str, start_sectors: u64) -> Result<String, Unsayable> {
    if !Slice::is_text(name) {
        return plain_word(name).map(ToOwned::to_owned);
    }
    match Slice::parse(name) {
        Ok(slice)
            if slice.length_bytes.is_none()
                && slice.start_bytes == start_sectors * SECTOR_BYTES =>
        {
            plain_word(&slice.device).map(ToOwned::to_owned)
        }
        _ => Err(Unsayable::new(format!("{name}, a part of a device"))),
    }
}

impl Unsayable {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }

    /// Names an array by its level, its layout and its members.
    pub(crate) fn array(level: &'static Level, layout: Option<Layout>, members: usize) -> Self {
        let layout = layout.unwrap_or_else(|| level.layout_default()).to_string();
        let layout = match layout.as_str() {
            "" => layout,
            name => format!(":{name}").replace(' ', ""),
        };
        let plural = if members == 1 { "" } else { "s" };
        Self::new(format!(
            "{}{layout} of {members} member{plural}",
            level.name
        ))
    }
}

impl fmt::Display for Unsayable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl core::error::Error for Unsayable {}
