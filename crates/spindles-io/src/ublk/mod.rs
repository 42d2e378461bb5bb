//! The kernel's ublk driver, which makes a block device of what a process answers.
//!
//! ```text
//!  program ──▶ /dev/ublkbN ──▶ driver ──▶ queue: requests ──▶ whoever serves
//!                                ▲  ▲                            │
//!                   control ─────┘  └──── payload, answers ◀─────┘
//! ```
//!
//! The *control* makes, starts, takes over and deletes devices; a *queue* is where one thread gets the requests of a
//! device and answers them. Everything goes by `io_uring`; what it says is in `messages`. Payload is read and written
//! by the requester's own calls (`UBLK_F_USER_COPY`), so that the kernel never has an address in this process.

mod control;
mod messages;
mod operations;
mod queue;

pub use control::Control;
pub use messages::{Ask, DeviceInfo, DeviceState, NewDevice, Parameters, features};
pub use queue::{Arrived, Queue};

/// The device that programs open.
#[must_use]
pub fn block_device(number: u32) -> String {
    format!("/dev/ublkb{number}")
}
