//! Keeps the kernel from waiting for this process while this process waits for the kernel.
//!
//! A file system on the array has pages that are to be written. When memory is short the kernel writes them, to this
//! process. If that then needed memory, or a page of its own that was taken away, it would wait for what waits for it.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, configure_io_flusher_behavior, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// From now on nothing that this process has in memory is taken away, and what it asks the kernel for is not waited for
/// by writing to it: as far as it may ask for that, which root may. Threads that begin later have it from this one.
/// Whether that takes `CAP_IPC_LOCK` to the end, since a limit stays.
pub(crate) fn prevent_deadlock() -> bool {
    // It needs CAP_SYS_RESOURCE. Without it there is no remedy.
    configure_io_flusher_behavior(true).ok();
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    let is_unlimited = setrlimit(Resource::Memlock, unlimited).is_ok();
    let is_exempt =
        capabilities(None).is_ok_and(|may| may.effective.contains(CapabilitySet::IPC_LOCK));
    // With a limit that counts, a mapping that is too long would fail later.
    if is_unlimited || is_exempt {
        // What is never touched takes no memory.
        let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
        mlockall(all).ok();
    }
    is_exempt && !is_unlimited
}
