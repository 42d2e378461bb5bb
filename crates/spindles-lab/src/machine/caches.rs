//! Writes out and empties the caches between a workload on files and the devices.

use std::fs::{self, File};
use std::path::Path;

/// Writes everything to the devices, then empties the caches if `empty_caches`. Returns true if
/// they were emptied, which needs root.
pub(crate) fn make_ready(folder: &Path, empty_caches: bool) -> bool {
    sync(folder);
    empty_caches && fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Writes out the whole file system that holds the folder.
pub(crate) fn sync(folder: &Path) {
    // A file system that fails here reports the error to the workload as well.
    if let Ok(folder) = File::open(folder) {
        let _refused = rustix::fs::syncfs(folder);
    }
}
