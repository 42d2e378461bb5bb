//! Opens files by name, in this process or through a helper that kept the rights this one gave up.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// The error of an [`Opener`] for a file that this process should not have. No system call used
/// here returns it.
pub const REFUSED: Errno = Errno::NOTBLK;

/// Opens the file with that name and these flags.
pub type Opener = Box<dyn Fn(&str, OFlags) -> Result<OwnedFd, Errno> + Send + Sync>;

static OPENER: OnceLock<Opener> = OnceLock::new();

/// Opens all devices through `opener` from now on, so that this process can give up the right to
/// open files. Later calls have no effect.
pub fn open_devices_by(opener: Opener) {
    OPENER.get_or_init(|| opener);
}

pub(crate) fn open(name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    match OPENER.get() {
        Some(opener) => opener(name, flags),
        None => rustix::fs::open(name, flags, Mode::empty()),
    }
}
