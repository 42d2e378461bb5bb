//! A buffer does not change while a disk writes it, and a disk fills only buffers lent to it.

use super::{Checker, Seen, Stateless};

pub(super) static CHECKER: Checker = Checker {
    name: "buffers",
    about: "the bytes of a write do not change until the disk has answered, and no late read fills \
        memory that clients have back",
    start: || {
        Box::new(Stateless(|_, seen| match *seen {
            Seen::DiskWrote {
                disk,
                buffer_changed: true,
            } => Err(format!("the buffer changed while disk {disk} wrote it")),
            Seen::DiskRead {
                disk,
                clients: true,
            } => Err(format!(
                "disk {disk} filled memory that is a client's again"
            )),
            _ => Ok(()),
        }))
    },
};
