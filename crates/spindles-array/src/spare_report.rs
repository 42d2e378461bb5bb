//! Spares of an array, and the places that they took.

use crate::labels::Spare;
use spindles_block::MemberIndex;
use spindles_format::SpareRecord;
use std::fmt;

/// A device that may take the place of a missing member.
#[derive(Clone, Debug)]
pub struct SpareReport {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// True if other arrays may take it too.
    pub shared: bool,
    /// Its label.
    pub record: SpareRecord,
}

impl SpareReport {
    /// Describes a spare.
    pub fn of(spare: &Spare) -> Self {
        Self {
            name: spare.name.clone(),
            bytes: spare.bytes,
            shared: spare.record.is_shared(),
            record: spare.record.clone(),
        }
    }
}

/// A spare that an array took, or tried to.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The array.
    pub array: String,
    /// The position.
    pub member: MemberIndex,
    /// The spare.
    pub device: String,
    /// Why it did not get the place; the next spare was tried then.
    pub error: Option<String>,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            array,
            member,
            device,
            error,
        } = self;
        match error {
            None => write!(
                f,
                "array '{array}': spare {device} takes the place of member {member}"
            ),
            Some(error) => write!(
                f,
                "array '{array}': spare {device} can't take the place of member {member}: {error}"
            ),
        }
    }
}
