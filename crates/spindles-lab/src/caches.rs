//! What lies between a workload on files and the devices: written out, and emptied.

use std::fs::{self, File};
use std::path::Path;

/// Everything on the devices, and nothing in the caches where that is wanted and may be done: whether
/// they were emptied.
pub(crate) fn make_ready(folder: &Path, empty_caches: bool) -> bool {
    sync(folder);
    empty_caches && fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Everything of the file system on the devices.
pub(crate) fn sync(folder: &Path) {
    // A file system that refuses says so to the workload as well.
    if let Ok(folder) = File::open(folder) {
        let _refused = rustix::fs::syncfs(folder);
    }
}
