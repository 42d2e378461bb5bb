//! Options for opening devices.

use crate::Locks;
use spindles_block::BlockSize;
use std::time::Duration;

/// Options for opening a target. The default suits most uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// The unit of requests. `None` selects 4096 bytes, or 512 if the size requires that.
    pub block_size: Option<BlockSize>,
    /// Refuse writes; open the device for reading only.
    pub read_only: bool,
    /// With `read_only`: read files even if another program has locked them and may be writing.
    pub unlocked: bool,
    /// Most requests in flight.
    pub requests_max: u32,
    /// What performs the I/O of files and devices.
    pub io: IoChoice,
    /// Whether to bypass the page cache.
    pub direct: Direct,
    /// Ignore flushes, to measure their cost: devices get none, and a write with FUA is a plain
    /// write. **A crash may then lose data that was answered as durable.**
    pub ignore_flushes: bool,
    /// How long to wait for a busy device. After a program was killed, the kernel completes its I/O
    /// before others get the devices, which takes seconds on a slow disk.
    pub busy_timeout: Duration,
    /// The locks that stay held between two openings.
    pub locks: Locks,
    /// Timeouts for servers of devices.
    pub peer_timeouts: PeerTimeouts,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            block_size: None,
            read_only: false,
            unlocked: false,
            requests_max: 32,
            io: IoChoice::Auto,
            direct: Direct::Auto,
            ignore_flushes: false,
            busy_timeout: Duration::from_secs(5),
            locks: Locks::default(),
            peer_timeouts: PeerTimeouts::default(),
        }
    }
}

impl OpenOptions {
    /// Returns the locks that this opening takes over and gives back: none if the opening is
    /// read-only, or if another slice of the device has them.
    pub(crate) fn own_locks(&self) -> Locks {
        if self.read_only || self.locks.is_locked() {
            Locks::default()
        } else {
            self.locks.clone()
        }
    }

    /// Returns options for inspecting a device, even while another program has it open.
    pub fn looking() -> Self {
        Self {
            read_only: true,
            unlocked: true,
            busy_timeout: Duration::ZERO,
            ..Self::default()
        }
    }
}

/// Timeouts for the server of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerTimeouts {
    /// For the answer to a new client.
    pub connect: Duration,
    /// For restoring a lost connection. After that the device is dropped.
    pub reconnect: Duration,
    /// For the answer to a pending request. A server that sends nothing for this long counts as
    /// gone.
    pub silence: Duration,
}

impl Default for PeerTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            reconnect: Duration::from_secs(5),
            silence: Duration::from_secs(30),
        }
    }
}

/// What performs the I/O of files and devices. For `Auto`, the environment variable `SPINDLES_IO`
/// (`io_uring` or `threads`) decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoChoice {
    /// `io_uring`, or threads if the system forbids it.
    #[default]
    Auto,
    /// `io_uring` or an error.
    Uring,
    /// A pool of threads.
    Threads,
}

/// Whether I/O bypasses the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// If the file system allows it.
    #[default]
    Auto,
    /// Always; otherwise an error.
    Always,
    /// Through the page cache.
    Never,
}
