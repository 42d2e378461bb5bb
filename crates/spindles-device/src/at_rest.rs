//! Blocking access to a device, used for superblocks and labels.

use crate::{positioned, zeros};
use rustix::fs::{SeekFrom, ioctl_blksszget, seek};
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::ops::Range;

/// The access a device is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading.
    Read,
    /// For writing. Reads too: a copy is read back for comparison.
    Write,
}

/// A device whose operations block until done, at any offset and of any length.
pub trait AtRest: Debug {
    /// Returns its length.
    fn bytes(&self) -> io::Result<u64>;
    /// Fills the buffer.
    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all bytes.
    fn write(&self, from: &[u8], offset: u64) -> io::Result<()>;
    /// Zeroes a range, as cheaply as possible.
    fn make_zeros(&self, from: u64, bytes: u64) -> io::Result<()>;
    /// Makes written data durable.
    fn sync(&self) -> io::Result<()>;
    /// Returns the regular file that it is or lies in, and the offset of its first byte there.
    fn in_file(&self) -> Option<(&File, u64)>;
    /// Returns true if a range is zeros without a read; `None` if only its file can tell.
    fn is_hole(&self, _from: u64, _to: u64) -> Option<bool> {
        None
    }
}

/// A part of a device.
#[derive(Debug)]
pub(crate) struct SliceAtRest {
    pub(crate) whole: Box<dyn AtRest>,
    pub(crate) bytes: Range<u64>,
}

impl SliceAtRest {
    /// Returns where a range of the part lies in the device.
    fn at(&self, offset: u64, bytes: u64) -> io::Result<u64> {
        let end = offset.checked_add(bytes);
        match end.filter(|end| *end <= self.bytes.end - self.bytes.start) {
            Some(_) => Ok(self.bytes.start + offset),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl AtRest for SliceAtRest {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes.end - self.bytes.start)
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.whole.read(into, self.at(offset, length(into))?)
    }

    fn write(&self, from: &[u8], offset: u64) -> io::Result<()> {
        self.whole.write(from, self.at(offset, length(from))?)
    }

    fn make_zeros(&self, from: u64, bytes: u64) -> io::Result<()> {
        self.whole.make_zeros(self.at(from, bytes)?, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.whole.sync()
    }

    fn in_file(&self) -> Option<(&File, u64)> {
        let (file, start) = self.whole.in_file()?;
        Some((file, start + self.bytes.start))
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("64 bits")
}

impl AtRest for File {
    fn bytes(&self) -> io::Result<u64> {
        let bytes = seek(self, SeekFrom::End(0))?;
        // A block device may end within a sector, which can't be read. Files have no sectors.
        let sector_bytes = ioctl_blksszget(self).map_or(1, u64::from);
        Ok(bytes - bytes % sector_bytes.max(1))
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        positioned::read_exact_at(self, into, offset)
    }

    fn write(&self, from: &[u8], offset: u64) -> io::Result<()> {
        positioned::write_all_at(self, from, offset)
    }

    fn make_zeros(&self, from: u64, bytes: u64) -> io::Result<()> {
        zeros::make(self, from, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn in_file(&self) -> Option<(&File, u64)> {
        let is_file = self.metadata().is_ok_and(|metadata| metadata.is_file());
        is_file.then_some((self, 0))
    }
}
