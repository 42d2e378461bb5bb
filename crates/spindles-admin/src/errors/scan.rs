//! Why the devices that a user means could not be determined.

use spindles_array::lists::{few, lines};
use spindles_format::Uuid;
use spindles_layout::ExpressionError;
use std::fmt;
use thiserror::Error;

/// An array that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundArray {
    /// Its name; `None` if only inner arrays were found and the name can't be read from them.
    pub name: Option<String>,
    /// Its identity.
    pub uuid: Uuid,
    /// Names of the array's devices.
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

/// Why the devices that a user means could not be determined.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The argument is no valid list of devices.
    #[error(transparent)]
    List(#[from] ExpressionError),
    /// The word names neither a device nor an array.
    #[error(
        "'{name}' is neither a file nor a block device, nor the name of an array in {places}: \
         check the name, give the devices of the array, or say with --scan where they are{}{}",
        listed(found),
        lines("\nNot looked at:", skipped)
    )]
    Unknown {
        /// The word given.
        name: String,
        /// The places searched.
        places: String,
        /// The arrays found there.
        found: Vec<FoundArray>,
        /// Places that could not be searched, each with the reason.
        skipped: Vec<String>,
    },
    /// The name belongs to an inner array.
    #[error("'{name}' is an array inside {array}: commands are given that one, or its devices")]
    Inside {
        /// The word given.
        name: String,
        /// The outermost array around it.
        array: FoundArray,
    },
    /// Several arrays have that name.
    #[error(
        "{} arrays are called '{name}': give the UUID of the one you mean in place of the name{}",
        found.len(), listed(found)
    )]
    Ambiguous {
        /// The name.
        name: String,
        /// The arrays with that name.
        found: Vec<FoundArray>,
    },
    /// Another array already has the new name.
    #[error(
        "there is an array '{name}' already, and commands that are given a name could not tell \
         them apart: take another name, rename that one, or wipe its devices{}",
        listed(found)
    )]
    Taken {
        /// The name.
        name: String,
        /// The arrays with that name.
        found: Vec<FoundArray>,
    },
}

fn listed(arrays: &[FoundArray]) -> String {
    lines("\nFound:", arrays)
}
