//! Why copies fail.

use spindles_block::SizeBytes;
use thiserror::Error;

fn room_remedy(is_file: bool) -> &'static str {
    if is_file {
        "remove the file first, or name a new one"
    } else {
        "take something larger"
    }
}

/// Why a copy failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CopyError {
    /// More bytes are to be copied than the source holds.
    #[error(
        "{name} holds {}, less than the {} to be copied: ask for less",
        SizeBytes(*bytes),
        SizeBytes(*wanted)
    )]
    TooShort {
        /// The source.
        name: String,
        /// Its size.
        bytes: u64,
        /// Bytes asked for.
        wanted: u64,
    },
    /// The target is too small.
    #[error(
        "{name} has room for {}, and {} are to be copied: {}",
        SizeBytes(*bytes),
        SizeBytes(*wanted),
        room_remedy(*is_file)
    )]
    NoRoom {
        /// The target.
        name: String,
        /// Its size.
        bytes: u64,
        /// Bytes to be copied.
        wanted: u64,
        /// True if it is a plain file.
        is_file: bool,
    },
    /// The target already holds data.
    #[error("{name} holds {what}; use --force to overwrite it, or take another")]
    Occupied {
        /// The target.
        name: String,
        /// The data on the target, with an article.
        what: String,
    },
    /// Both ends are on the same device.
    #[error("{device} is on both sides: a copy onto itself would ruin it, take another target")]
    SameDevice {
        /// The device.
        device: String,
    },
    /// A read failed.
    #[error("{name}: can't read at byte {offset_bytes}: {reason}")]
    Read {
        /// The end that failed.
        name: String,
        /// The offset of the failure.
        offset_bytes: u64,
        /// The reason.
        reason: String,
        /// True if the array lists this block as lost.
        is_lost: bool,
    },
    /// A write failed.
    #[error("{name}: can't write at byte {offset_bytes}: {reason}")]
    Write {
        /// The end that failed.
        name: String,
        /// Where the request begins.
        offset_bytes: u64,
        /// The reason.
        reason: String,
    },
    /// The copied bytes may not be durable.
    #[error("{name}: the copied bytes may not be durable: {reason}")]
    Flush {
        /// The end that failed.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The bytes read back differ from the copied ones.
    #[error("{to} differs from {from} at byte {offset_bytes}")]
    Differs {
        /// One end.
        from: String,
        /// The other end.
        to: String,
        /// The first byte that differs.
        offset_bytes: u64,
    },
    /// The caller interrupted the copy.
    #[error("interrupted after {}", SizeBytes(*bytes).rounded())]
    Interrupted {
        /// Bytes copied so far.
        bytes: u64,
    },
}
