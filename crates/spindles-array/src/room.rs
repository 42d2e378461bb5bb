//! Checks that a new device has enough room. All commands that take a device share this check and
//! its message.

use spindles_block::SizeBytes;
use spindles_format::TooSmall as Lack;
use thiserror::Error;

/// The reason for the size of a spare for members of several sizes.
pub const FOR_ALL: &str = " to have a spare for any member";

/// A new device is too small.
#[derive(Clone, Debug, Error)]
#[error(
    "{device} is too small{part}: it has {}, and needs {}; take a larger device{or}",
    SizeBytes(lack.device_bytes), SizeBytes(lack.needed_bytes)
)]
pub struct TooSmall {
    /// The device.
    pub(crate) device: String,
    /// Its size and the size needed.
    pub(crate) lack: Lack,
    /// Its role, if that is not obvious: " for a journal".
    part: String,
    /// Another remedy: " or a smaller --chunk".
    or: &'static str,
}

impl TooSmall {
    /// Adds the name of the device that lacks room.
    pub fn of(device: &str) -> impl FnOnce(Lack) -> Self {
        let device = device.to_owned();
        |lack| Self {
            device,
            lack,
            part: String::new(),
            or: "",
        }
    }

    /// Describes a device, its size and the size it needs.
    pub fn new(device: &str, device_bytes: u64, needed_bytes: u64) -> Self {
        Self::of(device)(Lack {
            device_bytes,
            needed_bytes,
        })
    }

    /// Adds the device's role, and a remedy other than a larger device.
    #[must_use]
    pub fn with_part(self, part: String, or: &'static str) -> Self {
        Self { part, or, ..self }
    }
}
