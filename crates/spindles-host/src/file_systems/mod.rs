//! File systems: one file each, one row in the table. A file system keeps sizes and places, and
//! returns the steps of each action.

mod bare;
mod ext2;
mod ext4;
mod ffs;
mod files; // Not a row: the places of files, for several rows.
mod grouped; // Not a row: groups and folders, for several rows.
mod options; // Not a row: the options of all rows.
mod zfs;

use crate::block::{Block, RequestKind};
use crate::effect::Effects;
use crate::error::HostError;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;
pub use options::{Options, Placement};
use spindles_workload::file::FileId;

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    /// The name that users type.
    pub name: &'static str,
    /// The year in which it was new; `None` if it is no real one.
    pub year: Option<u16>,
    /// One line for help.
    pub about: &'static str,
    /// What the row leaves out.
    pub not_modelled: &'static [&'static str],
    /// True if its blocks get new places with each write, so that it reads no block of the device
    /// that it has not written.
    pub moves_blocks: bool,
    /// Parses the arguments of its mkfs, and its mount options.
    pub options: fn(&[&str], &str) -> Result<Options, &'static str>,
    pub(crate) make: Make,
}

impl Row {
    /// Checks that a device of this size can hold the file system.
    ///
    /// # Errors
    ///
    /// The device is too small or too large.
    pub fn check(&self, device_bytes: u64, options: &Options) -> Result<(), HostError> {
        (self.make)(device_bytes, options, false).map(drop)
    }
}

/// Makes an empty file system on a device of that size; true if it spreads folders over groups.
type Make = fn(u64, &Options, bool) -> Result<Box<dyn FileSystem>, HostError>;

/// Every file system.
pub static ROWS: &[&Row] = &[&bare::ROW, &ffs::ROW, &ext2::ROW, &ext4::ROW, &zfs::ROW];

/// Returns the row of that name.
pub fn by_name(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name).copied()
}

/// A file system on a device.
pub(crate) trait FileSystem: Debug + Send {
    /// Returns the bytes of a block.
    fn block_bytes(&self) -> u32;
    /// Returns the writes that make the empty file system, in order, each waited for.
    fn make(&self) -> Effects;
    /// Creates a folder.
    fn mkdir(&mut self, path: &str, effects: &mut Effects) -> Result<(), HostError>;
    /// Creates an empty file, or empties an existing one.
    fn create(&mut self, file: FileId, path: &str, effects: &mut Effects) -> Result<(), HostError>;
    /// Looks a file up.
    fn look_up(&self, file: FileId, effects: &mut Effects) -> Result<(), HostError>;
    /// Changes only the inode of a file: its times, or with `is_mode` its permissions.
    fn set(&mut self, file: FileId, is_mode: bool, effects: &mut Effects) -> Result<(), HostError>;
    /// Removes a file.
    fn remove(&mut self, file: FileId, effects: &mut Effects) -> Result<(), HostError>;
    /// Returns the size of a file; 0 if it does not exist.
    fn bytes(&self, file: FileId) -> u64;
    /// Makes a file at least this long.
    fn grow(&mut self, file: FileId, bytes: u64, effects: &mut Effects) -> Result<(), HostError>;
    /// Returns the place of a block of a file; `None` beyond its end.
    fn place(&self, file: FileId, block: u64) -> Option<Block>;
    /// Returns the steps that find a block's place, without the inode.
    fn find(&self, file: FileId, block: u64, effects: &mut Effects);
    /// Takes note that a file was closed.
    fn closed(&mut self, _file: FileId, _effects: &mut Effects) {}
    /// Returns the blocks that name the blocks of a file, which fsync writes if they are changed.
    fn pointers(&self, _file: FileId) -> Vec<Block> {
        Vec::new()
    }
    /// Returns true if full clusters of a file are written at once, false if all changes wait for
    /// the system to write them by age and share.
    fn writes_clusters(&self) -> bool {
        true
    }
    /// Returns the steps that make the inode of a file durable, after its data.
    fn sync(&mut self, file: FileId, effects: &mut Effects);
    /// Returns true if data is written before a write is answered.
    fn is_sync(&self) -> bool;
    /// If changes are written all at once, as a transaction: the bytes that go out together.
    fn transactions(&self) -> Option<u64> {
        None
    }
    /// Gives changed blocks the places that their writing would.
    fn lay_out(&mut self, _blocks: &[Block]) {}
    /// If metadata goes through a journal before its places, and blocks get theirs when they are
    /// written: the nanoseconds between commits.
    fn journal(&self) -> Option<u64> {
        None
    }
    /// Returns the requests that make changes durable: a number of bytes in an intent log, or those
    /// of a journal. Each group waits for the answers to the one before.
    fn log(&mut self, _bytes: u64) -> Vec<Vec<Piece>> {
        Vec::new()
    }
    /// Ends a commit of the journal. Returns the blocks of metadata that may go to their places.
    fn committed(&mut self) -> Vec<Block> {
        Vec::new()
    }
    /// Returns the blocks that must go to their places, as the journal needs room.
    fn overdue(&mut self) -> Vec<Block> {
        Vec::new()
    }
    /// Returns the requests to the device for blocks, which are neighbours unless there are
    /// transactions.
    fn requests(&mut self, kind: RequestKind, blocks: &[Block]) -> Vec<Piece> {
        vec![Piece {
            kind,
            offset_bytes: blocks[0].place_bytes,
            bytes: blocks.iter().map(|block| u64::from(block.bytes)).sum(),
        }]
    }
}

/// A request to the device, without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) kind: RequestKind,
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: u64,
}

impl Piece {
    pub(crate) const FLUSH: Self = Self {
        kind: RequestKind::Flush,
        offset_bytes: 0,
        bytes: 0,
    };
}
