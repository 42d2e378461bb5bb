//! Whether a new device has room for what it is to hold: one answer, in the same words, for every
//! command that takes a device.

use spindles_block::SizeBytes;
use spindles_format::TooSmall as Lack;
use thiserror::Error;

/// What a spare of members of several sizes should be.
pub(crate) const FOR_ALL: &str = " to have a spare for any member";

/// A new device has too little room.
#[derive(Clone, Debug, Error)]
#[error(
    "{device} is too small{part}: it has {}, and needs {}; take a larger device{or}",
    SizeBytes(lack.device_bytes), SizeBytes(lack.needed_bytes)
)]
pub struct TooSmall {
    /// The device.
    pub(crate) device: String,
    /// What it has and needs.
    pub(crate) lack: Lack,
    /// As what, where that is not plain: " for a journal".
    part: String,
    /// What else would help: " or a smaller --chunk".
    or: &'static str,
}

impl TooSmall {
    /// Names the device that lacks room.
    pub(crate) fn of(device: &str) -> impl FnOnce(Lack) -> Self {
        let device = device.to_owned();
        |lack| Self {
            device,
            lack,
            part: String::new(),
            or: "",
        }
    }

    /// A device, its size and the size it needs.
    pub(crate) fn new(device: &str, device_bytes: u64, needed_bytes: u64) -> Self {
        Self::of(device)(Lack {
            device_bytes,
            needed_bytes,
        })
    }

    /// Names what the device would hold, and a remedy other than a larger device.
    pub(crate) fn with_part(self, part: String, or: &'static str) -> Self {
        Self { part, or, ..self }
    }
}
