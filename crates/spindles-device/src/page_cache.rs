//! Measures how much of a file the page cache holds: `cachestat(2)`, since Linux 6.5.

#![expect(
    unsafe_code,
    reason = "neither rustix nor libc has cachestat, which fills a structure in"
)]

use std::fs::File;
use std::os::fd::AsRawFd as _;

/// The number of the system call, the same on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;

/// A range of a file; a length of 0 extends to its end.
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// In pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Returns the bytes of a file that the page cache holds, in whole pages. `None` if the kernel
/// can't say.
pub fn cached_bytes(file: &File) -> Option<u64> {
    let range = Range {
        offset: 0,
        length: 0,
    };
    let mut pages = Pages::default();
    // SAFETY: both structures live through the call and have the kernel's layout, and no flags are
    // set.
    let answer = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut pages,
            0,
        )
    };
    let page = u64::try_from(rustix::param::page_size()).ok()?;
    (answer == 0).then(|| pages.cached * page)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

    use super::*;
    use std::io::Write as _;

    #[test]
    fn freshly_written_data_is_in_the_page_cache() {
        let mut file = tempfile::tempfile().unwrap();
        let Some(nothing) = cached_bytes(&file) else {
            return println!(
                "SKIPPED freshly_written_data_is_in_the_page_cache: the kernel has no cachestat"
            );
        };
        assert_eq!(nothing, 0);
        file.write_all(&vec![1; 1 << 20]).unwrap();
        assert_eq!(cached_bytes(&file), Some(1 << 20));
    }
}
