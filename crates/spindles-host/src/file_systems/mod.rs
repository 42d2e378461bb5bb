//! File systems: one file each, one row in the table. A file system keeps sizes and places, and
//! returns the steps of each action.

mod bare;
mod ffs;
mod files; // Not a row: the places of files, for several rows.
mod options; // Not a row: the options of all rows.

use crate::block::Block;
use crate::effect::Effects;
use crate::error::HostError;
use alloc::boxed::Box;
use core::fmt::Debug;
pub use options::Options;
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
    /// Parses the arguments of its mkfs, and its mount options.
    pub options: fn(&[&str], &str) -> Result<Options, &'static str>,
    pub(crate) make: Make,
}

/// Makes an empty file system on a device of that size; true if it spreads folders over groups.
type Make = fn(u64, &Options, bool) -> Result<Box<dyn FileSystem>, HostError>;

/// Every file system.
pub static ROWS: &[&Row] = &[&bare::ROW, &ffs::ROW];

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
    /// Returns the steps that make the inode of a file durable, after its data.
    fn sync(&mut self, file: FileId, effects: &mut Effects);
    /// Returns true if data is written before a write is answered.
    fn is_sync(&self) -> bool;
}
