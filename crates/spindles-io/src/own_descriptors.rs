//! A table of open files for one thread.

use std::io;

/// Gives the calling thread a table of descriptors of its own, as a process has. Threads that share one pay for it in every
/// system call: the kernel counts who uses a file, and locks its position, which costs a tenth of a `read` of 8 KiB from
/// memory (Linux, `fs/file.c`, `fdget_pos`).
///
/// What was open before is open in both tables. What this thread opens from now on is open in its own alone, so a
/// descriptor must not be handed from or to another thread afterwards; what is still open at its end is closed then.
///
/// # Errors
///
/// There is no memory for it. The thread goes on with the table that it shares.
#[expect(unsafe_code, reason = "descriptors mean different files in two tables")]
pub fn use_own_descriptors() -> io::Result<()> {
    // SAFETY: no memory is touched, and callers keep what they open to the thread.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FILES) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::fd::AsRawFd as _;

    #[test]
    fn what_the_thread_opens_is_open_in_its_own_table() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let is_open = |of: &str, number: i32| {
            let open = fs::read_link(format!("/proc/{of}/fd/{number}"));
            open.is_ok_and(|path| path == file.path())
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                use_own_descriptors().expect("a table");
                assert!(is_open("self", file.as_file().as_raw_fd()));
                let opened = File::open(file.path()).expect("it is there");
                assert!(is_open("thread-self", opened.as_raw_fd()));
                assert!(!is_open("self", opened.as_raw_fd()));
            });
        });
    }
}
