//! Keeps the kernel from waiting for this process while this process waits for the kernel.
//!
//! When memory is short, the kernel writes back dirty pages of a file system on the array, and
//! sends these writes to this process. If this process then needed memory, or an evicted page of
//! its own, it would wait for itself.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, configure_io_flusher_behavior, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// Pins the memory of this process, and keeps its allocations from waiting for write-back to
/// itself, as far as its privileges allow. Threads started later inherit both. Returns true if
/// `CAP_IPC_LOCK` must be kept, because a limit remains.
pub(crate) fn prevent_deadlock() -> bool {
    // Needs CAP_SYS_RESOURCE; without it, there is no remedy.
    configure_io_flusher_behavior(true).ok();
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    let is_unlimited = setrlimit(Resource::Memlock, unlimited).is_ok();
    let is_exempt =
        capabilities(None).is_ok_and(|may| may.effective.contains(CapabilitySet::IPC_LOCK));
    // Under an effective limit, a later long mapping would fail.
    if is_unlimited || is_exempt {
        // Untouched pages take no memory.
        let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
        mlockall(all).ok();
    }
    is_exempt && !is_unlimited
}
