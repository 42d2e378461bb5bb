//! What a loop device stands on, also where its file is mounted nowhere any more and so has no path.

use rustix::fs::{major, minor};
use rustix::io::Errno;
use rustix::ioctl::{Getter, ioctl};
use std::fs::File;
use std::io;
use std::path::Path;

/// `LOOP_GET_STATUS64`.
const GET_STATUS: rustix::ioctl::Opcode = 0x4C05;

/// The kernel's `struct loop_info64`, of which only the beginning matters.
#[repr(C)]
struct LoopInfo {
    /// The number of the file system that the file is on.
    device: u64,
    _others: [u64; 28],
}

const _: () = assert!(size_of::<LoopInfo>() == 232);

/// The number of the file system that the file of a loop device is on, as the kernel's table of mounts has it: `0:55`.
/// Whoever serves that file system may be asked.
///
/// # Errors
///
/// This user may not know, or it is none.
#[expect(unsafe_code, reason = "no crate here has that ioctl")]
pub fn file_system_of_loop(device: &Path) -> io::Result<String> {
    let device = File::open(device)?;
    // SAFETY: the kernel fills all 232 bytes of the structure, or answers an error; any bytes are a value of it.
    let info = unsafe { ioctl(&device, Getter::<GET_STATUS, LoopInfo>::new()) };
    let info = info.map_err(|errno: Errno| io::Error::from(errno))?;
    Ok(format!("{}:{}", major(info.device), minor(info.device)))
}
