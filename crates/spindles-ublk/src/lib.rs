//! The kernel's ublk driver, which makes a block device of what a process answers.
//!
//! ```text
//!  program ──▶ /dev/ublkbN ──▶ driver ──▶ queue: requests ──▶ server
//!                                ▲  ▲                            │
//!                   control ─────┘  └──── payload, answers ◀─────┘
//! ```
//!
//! The *control* creates, starts, takes over and deletes devices. A *queue* delivers the requests
//! of a device to one thread and takes its answers. All commands go through `io_uring`; `messages`
//! encodes them. The server reads and writes payload with its own system calls
//! (`UBLK_F_USER_COPY`), so the kernel never holds an address in this process.
//!
//! The command ring is the part that other kernel interfaces, such as FUSE over `io_uring`, share.

pub mod command_ring;
mod control;
mod messages;
mod operations;
mod queue;

pub use control::Control;
pub use messages::{Ask, DeviceInfo, DeviceState, NewDevice, Parameters, features};
pub use queue::{Arrived, Queue};

/// Returns the path of the block device.
#[must_use]
pub fn block_device(number: u32) -> String {
    format!("/dev/ublkb{number}")
}
