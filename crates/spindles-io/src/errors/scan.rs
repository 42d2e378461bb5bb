//! Why it is not known which devices a user means.

use super::lists::{few, lines};
use spindles_format::Uuid;
use spindles_layout::ExpressionError;
use std::fmt;
use thiserror::Error;

/// An array that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundArray {
    /// Its name; `None` where only arrays inside it were found, and it can't be read off them.
    pub name: Option<String>,
    /// Its identity.
    pub uuid: Uuid,
    /// What belongs to it, as people call it.
    pub devices: Vec<String>,
}

impl fmt::Display for FoundArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "'{name}'"),
            None => f.write_str("one whose name can't be read, as too much of it is missing"),
        }?;
        write!(f, " ({}: {})", self.uuid, few(&self.devices))
    }
}

/// Why it is not known which devices are meant.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ScanError {
    /// What was typed is no list of devices.
    #[error(transparent)]
    List(#[from] ExpressionError),
    /// No such device, and no such array.
    #[error(
        "'{name}' is neither a file nor a block device, nor the name of an array in {places}: check the name, give the devices of the array, or say with --scan where they are{}{}",
        listed(found),
        lines("\nNot looked at:", skipped)
    )]
    Unknown {
        /// What was typed.
        name: String,
        /// Where was looked.
        places: String,
        /// What is there.
        found: Vec<FoundArray>,
        /// Where could not be looked, and why.
        skipped: Vec<String>,
    },
    /// That is an array inside another.
    #[error("'{name}' is an array inside {array}: commands are given that one, or its devices")]
    Inside {
        /// What was typed.
        name: String,
        /// The one that is no member of another.
        array: FoundArray,
    },
    /// Several arrays of that name.
    #[error(
        "{} arrays are called '{name}': give the UUID of the one you mean in place of the name{}",
        found.len(), listed(found)
    )]
    Ambiguous {
        /// The name.
        name: String,
        /// Those that have it.
        found: Vec<FoundArray>,
    },
    /// Another array has the name that one shall get.
    #[error(
        "there is an array '{name}' already, and commands that are given a name could not tell them apart: \
         take another name, call that one otherwise by spindles rename, or make its devices nobody's by \
         spindles wipe{}",
        listed(found)
    )]
    Taken {
        /// The name.
        name: String,
        /// Those that have it.
        found: Vec<FoundArray>,
    },
}

fn listed(arrays: &[FoundArray]) -> String {
    lines("\nFound:", arrays)
}
