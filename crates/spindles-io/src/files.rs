//! Opening by name: by this process, or by another one that may do what this one gave up.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// What an [`Opener`] says where it does not think that this process should have it. No system call says so here.
pub const REFUSED: Errno = Errno::NOTBLK;

/// Opens what has that name, with these flags.
pub type Opener = Box<dyn Fn(&str, OFlags) -> Result<OwnedFd, Errno> + Send + Sync>;

static OPENER: OnceLock<Opener> = OnceLock::new();

/// From now on this opens all devices of this process, which may not do so itself any more. Later calls change nothing.
pub fn open_devices_by(opener: Opener) {
    OPENER.get_or_init(|| opener);
}

pub(crate) fn open(name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    match OPENER.get() {
        Some(opener) => opener(name, flags),
        None => rustix::fs::open(name, flags, Mode::empty()),
    }
}
