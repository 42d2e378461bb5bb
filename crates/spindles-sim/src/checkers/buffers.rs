//! Nobody changes a buffer while a disk writes it.

use super::{Checker, Seen, Stateless};

pub(super) static CHECKER: Checker = Checker {
    name: "buffers",
    about: "the bytes of a write stay as they are until the disk has answered",
    start: || {
        Box::new(Stateless(|_, seen| match *seen {
            Seen::DiskWrote {
                disk,
                buffer_changed: true,
            } => Err(format!("the buffer changed while disk {disk} wrote it")),
            _ => Ok(()),
        }))
    },
};
