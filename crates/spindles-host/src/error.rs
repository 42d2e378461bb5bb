//! Actions that fail.

use core::fmt;

/// The reason why an action fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// The file system has no space left.
    Full,
    /// The file system has no inodes left.
    NoInodes,
    /// The file or folder does not exist.
    Missing,
    /// The device is too small for the file system.
    TooSmall,
    /// The device has more fragments than the file system can number.
    TooLarge,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the file system is full: choose a smaller size, or larger disks",
            Self::NoInodes => "the file system has no inodes left: choose a smaller -i in `mkfs`",
            Self::Missing => "the file does not exist",
            Self::TooSmall => "the device is too small for the file system",
            Self::TooLarge => {
                "the device is too large for the file system: choose smaller disks, or with ffs a \
                 larger -f in `mkfs`"
            }
        })
    }
}

impl core::error::Error for HostError {}
