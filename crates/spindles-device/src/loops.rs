//! Finds the file system under a loop device, even if its file is no longer mounted and so has no
//! path.

use rustix::fs::{major, minor};
use rustix::io::Errno;
use rustix::ioctl::{Getter, ioctl};
use std::fs::File;
use std::io;
use std::path::Path;

/// `LOOP_GET_STATUS64`.
const GET_STATUS: rustix::ioctl::Opcode = 0x4C05;

/// The kernel's `struct loop_info64`; only its beginning is used.
#[repr(C)]
struct LoopInfo {
    /// The number of the file's file system.
    device: u64,
    _others: [u64; 28],
}

const _: () = assert!(size_of::<LoopInfo>() == 232);

/// Returns the number of the file system under a loop device, as in the kernel's mount table:
/// `0:55`. This number finds the server of that file system.
///
/// # Errors
///
/// If this user may not know, or the device is no loop device.
#[expect(unsafe_code, reason = "no crate here has that ioctl")]
pub fn file_system_of_loop(device: &Path) -> io::Result<String> {
    let device = File::open(device)?;
    // SAFETY: the kernel fills all 232 bytes of the structure, or returns an error; any bytes are a
    // value of it.
    let info = unsafe { ioctl(&device, Getter::<GET_STATUS, LoopInfo>::new()) };
    let info = info.map_err(|errno: Errno| io::Error::from(errno))?;
    Ok(format!("{}:{}", major(info.device), minor(info.device)))
}
