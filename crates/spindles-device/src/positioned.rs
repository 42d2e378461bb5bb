//! Retries system calls that the kernel postpones (EAGAIN) or interrupts (EINTR), up to a limit: a
//! device that answers nothing else has failed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two attempts.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(5);
/// Most attempts in a row without progress.
const RETRIES_MAX: u32 = 1000;
/// Longest time without progress.
const RETRY_TIME: Duration = Duration::from_secs(5);

/// Counts the attempts without progress, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Retries {
    count: u32,
    since: Option<Instant>,
}

impl Retries {
    /// Counts a failed attempt. Returns true to try again.
    pub(crate) fn again(&mut self) -> bool {
        self.count += 1;
        let since = self.since.get_or_insert_with(Instant::now);
        self.count <= RETRIES_MAX && since.elapsed() < RETRY_TIME
    }
}

/// Repeats `call` until `bytes` are moved. Each call gets the number moved so far, and moves some
/// more.
fn move_all(bytes: usize, mut call: impl FnMut(usize) -> io::Result<usize>) -> io::Result<()> {
    let (mut done, mut retries) = (0, Retries::default());
    while done < bytes {
        match call(done) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(moved) => {
                done += moved;
                retries = Retries::default();
            }
            Err(error) if !is_put_off(&error) || !retries.again() => return Err(error),
            Err(_) => thread::sleep(RETRY_DELAY),
        }
    }
    Ok(())
}

fn is_put_off(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
}

/// Returns the file offset at which to continue.
fn at(offset: u64, done: usize) -> u64 {
    offset + u64::try_from(done).expect("64 bits")
}

/// Fills the buffer.
pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    move_all(bytes.len(), |done| {
        file.read_at(&mut bytes[done..], at(offset, done))
    })
}

/// Writes all bytes.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    move_all(bytes.len(), |done| {
        file.write_at(&bytes[done..], at(offset, done))
    })
}
