//! What an action on files takes: the steps that file systems return.

use crate::block::Block;
use alloc::vec::Vec;

/// A step of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Searches this many entries of a directory.
    Search(u64),
    /// Needs a block of metadata in memory; reads it if it is not cached.
    Need(Block),
    /// Changes a block in memory; it is written later.
    Change(Block),
    /// Writes a block and waits for the answer.
    WriteNow(Block),
    /// Drops a block from memory: it was freed.
    Forget(Block),
}

/// The steps of an action, in order.
pub(crate) type Effects = Vec<Effect>;
