//! Gives a thread its own descriptor table.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};

/// The first descriptor after the standard streams.
const FIRST: RawFd = 3;

/// Gives the calling thread its own descriptor table, as a process has, with the standard streams
/// and `kept` in it. A shared table costs time in every system call: the kernel counts the users of
/// a file and locks its position. That takes a tenth of a `read` of 8 KiB from memory (Linux,
/// `fs/file.c`, `fdget_pos`).
///
/// Files that this thread opens afterwards exist only in its own table, and files of other threads
/// are invisible to it. So no descriptor may be passed between this thread and another. The kernel
/// closes the remaining descriptors when the thread ends.
///
/// # Errors
///
/// If memory is short, or the kernel is older than 5.9. The thread continues with the shared table.
pub fn use_own_descriptors(kept: BorrowedFd<'_>) -> io::Result<()> {
    let kept = kept.as_raw_fd();
    let behind = FIRST.max(kept + 1);
    close_range(behind, RawFd::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    // Otherwise files closed by other threads, such as connections, would stay open here.
    if kept > FIRST {
        close_range(FIRST, kept - 1, 0)?;
    }
    Ok(())
}

#[expect(unsafe_code, reason = "no crate here has this system call")]
fn close_range(first: RawFd, last: RawFd, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: no memory is touched. The call closes descriptors in a table that only this thread
    // uses; other threads keep their descriptors in their own table.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::Read as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Barrier;

    #[test]
    fn an_own_descriptor_table_holds_kept_and_newly_opened_files() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let (mut here, there) = UnixStream::pair().expect("a pair");
        let is_open = |of: &str, number: RawFd| {
            let open = fs::read_link(format!("/proc/{of}/fd/{number}"));
            open.is_ok_and(|path| path == file.path())
        };
        let (begun, ended) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                use_own_descriptors(file.as_file().as_fd()).expect("a table");
                assert!(is_open("thread-self", file.as_file().as_raw_fd()));
                let opened = File::open(file.path()).expect("it is there");
                assert!(is_open("thread-self", opened.as_raw_fd()));
                assert!(!is_open("self", opened.as_raw_fd()));
                begun.wait();
                ended.wait();
            });
            begun.wait();
            // The file really closes here, because the thread with the separate table holds no
            // copy.
            drop(there);
            here.set_read_timeout(Some(std::time::Duration::from_secs(5)))
                .expect("a time");
            let end = here.read(&mut [0]).ok();
            ended.wait();
            assert_eq!(end, Some(0));
        });
    }
}
