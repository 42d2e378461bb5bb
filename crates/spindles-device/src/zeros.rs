//! Zeroes long ranges of a device. Takes constant time if zeros cost nothing there.

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Zeroes a range of a device. Holes stay holes. The rest is cleared as cheaply as the file system
/// or the device can, and overwritten with zeros if neither can.
pub(crate) fn make(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    let end = from + bytes;
    let mut next = from;
    while let Some((data, data_end)) = data_from(file, next, end) {
        clear(file, data, data_end)?;
        next = data_end;
    }
    Ok(())
}

/// Returns the first range from `from` on that is no hole; everything if the file system does not
/// report holes.
fn data_from(file: &File, from: u64, end: u64) -> Option<(u64, u64)> {
    if from >= end {
        return None;
    }
    match seek(file, SeekFrom::Data(from)) {
        Ok(data) if data >= end => None,
        Ok(data) => {
            let hole = seek(file, SeekFrom::Hole(data));
            Some((data, hole.map_or(end, |hole| hole.min(end))))
        }
        Err(rustix::io::Errno::NXIO) => None,
        Err(_) => Some((from, end)),
    }
}

fn clear(file: &File, from: u64, end: u64) -> io::Result<()> {
    let mut ways = [FallocateFlags::ZERO_RANGE, FallocateFlags::PUNCH_HOLE];
    if !file.metadata()?.is_file() {
        // A file keeps its allocated space; a device is asked to discard first, which is cheaper.
        ways.reverse();
    }
    for flags in ways {
        if fallocate(file, flags | FallocateFlags::KEEP_SIZE, from, end - from).is_ok() {
            return Ok(());
        }
    }
    let zeros = vec![0; 1 << 20];
    for at in (from..end).step_by(zeros.len()) {
        let length = usize::try_from(end - at).map_or(zeros.len(), |left| left.min(zeros.len()));
        file.write_all_at(&zeros[..length], at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hole of any length takes no time; data in it and at its ends is cleared.
    #[test]
    fn zeroing_clears_the_whole_range() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        for at in [4096, 1 << 30, (1 << 39) + 4096, (1 << 40) - 8192] {
            file.write_all_at(&[0x5a; 8192], at).unwrap();
        }
        make(&file, 8192, (1 << 40) - 8192 - 4096).unwrap();
        let byte = |at: u64| {
            let mut byte = [1];
            file.read_exact_at(&mut byte, at).unwrap();
            byte[0]
        };
        for at in [1 << 30, (1 << 39) + 4096, (1 << 40) - 8192] {
            assert_eq!(byte(at), 0, "{at}");
            assert_eq!(byte(at + 4095), 0, "{at}");
        }
        assert_eq!((byte(8191), byte(8192)), (0x5a, 0));
        assert_eq!((byte((1 << 40) - 4097), byte((1 << 40) - 4096)), (0, 0x5a));
    }
}
