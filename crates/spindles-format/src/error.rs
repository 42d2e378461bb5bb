//! Why bytes are no superblock.

use core::fmt;

/// Why bytes are no superblock that this version can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The superblock could not be read.
    Unreadable,
    /// Fewer bytes than a superblock: the device ends within it.
    Short {
        /// The number of bytes.
        bytes: usize,
    },
    /// No superblock of Spindles.
    NotOurs,
    /// A later version of the format.
    Version {
        /// The version.
        version: u32,
    },
    /// The checksum is wrong: torn, overwritten or corrupt.
    Checksum {
        /// As stored.
        stored: u32,
        /// As computed.
        computed: u32,
    },
    /// Features in use that this version doesn't know and must not ignore.
    Features {
        /// Their bits.
        unknown: u64,
    },
    /// The checksum is right, but the contents are impossible.
    Invalid {
        /// The broken rule.
        what: &'static str,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str("the superblock can't be read"),
            Self::Short { .. } => {
                f.write_str("there is no Spindles superblock: it is too small to have one")
            }
            Self::NotOurs => f.write_str("there is no Spindles superblock"),
            Self::Version { version } => write!(
                f,
                "the superblock has format version {version}, this program knows versions up to {}",
                crate::VERSION
            ),
            Self::Checksum { stored, computed } => write!(
                f,
                "the superblock's checksum is {stored:08x} and should be {computed:08x}"
            ),
            Self::Features { unknown } => write!(
                f,
                "the array uses features that this program doesn't know (bits {unknown:#x})"
            ),
            Self::Invalid { what } => write!(f, "the superblock is invalid: {what}"),
        }
    }
}

impl core::error::Error for DecodeError {}
