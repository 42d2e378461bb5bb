//! The kernel's counters of block devices.

use crate::machine::kernel_text::read;
use spindles_measure::{DeviceUse, Requests, Traffic};
use std::path::Path;

/// Returns the kernel's counters of a block device.
pub(crate) fn stat_of(device: &str) -> String {
    read(Path::new("/sys/class/block").join(device).join("stat"))
}

/// Parses `/sys/class/block/NAME/stat`: reads merged sectors ms writes merged sectors ms in-flight
/// busy-ms queue-ms discards merged sectors ms flushes ms. A sector is 512 bytes long.
pub(crate) fn device_use(name: &str, member: bool, stat: &str) -> DeviceUse {
    let numbers: Vec<u64> = stat
        .split_ascii_whitespace()
        .map(|word| word.parse().unwrap_or(0))
        .collect();
    let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
    DeviceUse {
        name: name.to_owned(),
        member,
        busy_ns: number(9) * 1_000_000,
        queue_ns: number(10) * 1_000_000,
        flush_ns: numbers.get(16).map(|ms| ms * 1_000_000),
        requests: Requests {
            read: number(0),
            written: number(4),
            flushed: number(15),
        },
        bytes: Traffic {
            read: number(2) * 512,
            written: number(6) * 512,
        },
    }
}
