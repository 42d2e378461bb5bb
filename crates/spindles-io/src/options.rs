//! How devices are to be opened.

use crate::Locks;
use spindles_block::BlockSize;
use spindles_engine::{READ_POLICIES, ReadPolicy};
use std::time::Duration;

/// How a target is to be opened. `Default` is right for most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// The unit of requests; `None` for 4096 bytes, or 512 where the size asks for it.
    pub block_size: Option<BlockSize>,
    /// Refuse writes; the device is opened for reading only.
    pub read_only: bool,
    /// With `read_only`: look at files that another program may have locked and be writing to.
    pub unlocked: bool,
    /// Requests in flight at most. Each costs an array scratch space for a stripe range,
    /// reserved and registered at opening: 64 KiB a chunk.
    pub requests_max: u32,
    /// What jobs such as a resync are guaranteed while there are clients, in bytes of each member per
    /// second; while no client waits they go as fast as they can.
    pub job_rate: u64,
    /// Which copy a read of a mirror takes.
    pub read_policy: &'static ReadPolicy,
    /// What carries the I/O of files and devices.
    pub io: IoChoice,
    /// Whether to go past the page cache.
    pub direct: Direct,
    /// For measurements, to know what flushes cost: members are asked for none, and a write with FUA is a write. **A
    /// crash may then lose what was answered as durable, and tear stripes.**
    pub ignore_flushes: bool,
    /// How long a busy device is waited for: the kernel ends what a program that was killed had in flight
    /// before others get its devices, and a slow disk takes seconds for that.
    pub busy_timeout: Duration,
    /// The locks of the array, which its server keeps while it closes and opens it.
    pub locks: Locks,
    /// How long servers are waited for.
    pub peer_timeouts: PeerTimeouts,
    /// What arrays draw at the opening, where that shall come to the same bytes again, as in tests:
    /// then no times are noted either, and nothing is marked ahead of writes. `None` for the kernel's randomness.
    pub drawn: Option<u64>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            block_size: None,
            read_only: false,
            unlocked: false,
            requests_max: 32,
            job_rate: spindles_engine::JOB_RATE,
            read_policy: READ_POLICIES[0],
            io: IoChoice::Auto,
            direct: Direct::Auto,
            ignore_flushes: false,
            busy_timeout: Duration::from_secs(5),
            locks: Locks::default(),
            peer_timeouts: PeerTimeouts::default(),
            drawn: None,
        }
    }
}

impl OpenOptions {
    /// Returns the locks that this opening takes over and gives back: an opening for reading holds none of its own.
    pub(crate) fn own_locks(&self) -> Locks {
        if self.read_only {
            Locks::default()
        } else {
            self.locks.clone()
        }
    }

    /// For what is only looked at, also while another program has it open.
    pub(crate) fn looking() -> Self {
        Self {
            read_only: true,
            unlocked: true,
            busy_timeout: Duration::ZERO,
            ..Self::default()
        }
    }
}

/// How long the server of a device is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerTimeouts {
    /// Until it has answered a new client.
    pub connect: Duration,
    /// Until a connection that was lost is there again. Then the device is given up.
    pub reconnect: Duration,
    /// A server that owes an answer and says nothing for so long is taken for one that is gone.
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

/// What carries the I/O of files and devices. The environment variable `SPINDLES_IO` (`io_uring`
/// or `threads`) decides where this says `Auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoChoice {
    /// `io_uring`, or threads where the system forbids it.
    #[default]
    Auto,
    /// `io_uring` or an error.
    Uring,
    /// A pool of threads.
    Threads,
}

/// Whether I/O goes past the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// Where the file system allows it.
    #[default]
    Auto,
    /// Or an error.
    Always,
    /// Through the page cache.
    Never,
}
