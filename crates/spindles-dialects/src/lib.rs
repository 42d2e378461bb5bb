//! Array configurations in the words of other systems. A [`Dialect`] reads a text and returns our
//! expressions; some write one too. Text in, values out: no files, no devices.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod commands;
mod devices;
mod dialect;
mod dialects;
mod expressions;
mod fault;
mod shape;
mod sizes;
mod text;
mod vinum;
mod writing;

pub use dialect::{Dialect, DialectError, Note, Source, Translated, Translation, Write, decode};
pub use dialects::DIALECTS;
pub use shape::{Shape, Unsayable};
pub use writing::Writing;

/// Returns the dialect that recognises a text; `None` for bytes that are no text.
pub fn recognise(text: &str) -> Option<&'static Dialect> {
    if text.contains('\0') {
        return None;
    }
    let mut dialects = DIALECTS.iter().copied();
    dialects.find(|dialect| dialect.recognises(text))
}

/// Returns the dialect of this name.
pub fn named(name: &str) -> Option<&'static Dialect> {
    DIALECTS
        .iter()
        .copied()
        .find(|dialect| dialect.name == name)
}

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_dialects;
#[cfg(test)]
#[path = "../tests/dialects/main.rs"]
mod public;
