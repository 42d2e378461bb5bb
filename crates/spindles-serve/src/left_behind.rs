//! Sockets left behind by servers that were not stopped cleanly.

use spindles_device::sockets::connect_to;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// A file, removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Fleeting(pub(crate) PathBuf);

impl Drop for Fleeting {
    fn drop(&mut self) {
        // Ignore errors: another process may have removed the file.
        drop(std::fs::remove_file(&self.0));
    }
}

/// Removes a socket file without a listener; leaves everything else.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let is_socket = path.symlink_metadata();
    let is_socket = is_socket.is_ok_and(|found| found.file_type().is_socket());
    let refuses = |path| {
        connect_to(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    if is_socket && refuses(path) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
