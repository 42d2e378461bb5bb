//! The stamp of the log's own device. Each opening that logs on the device stamps it before
//! superblocks count on that log, so that an old copy of the device has another stamp. The log then
//! begins with headers without entries, one in the journal of each position. So a log that is
//! absent or has a gap is known to be damaged. It counts as lost, and so does a log that can't be
//! read completely.
//!
//! Blocks are written one after another, so that a crash tears at most one block.
//!
//! A log ended by a stamp is no longer needed: every logged block is durably in place.

use crate::system_io::Place;
use spindles_block::{BlockIndex, BlockSize, MemberIndex, MemberSet};
use spindles_format::JournalDevice;

/// Progress of stamping the device on which a new log lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Not begun: superblocks wait for it.
    Wanted,
    /// The stamp is written if `stamps`; the journals of the positions `left` have no header yet.
    UnderWay { stamps: bool, left: MemberSet },
    /// The device is stamped, or the log lies on the members.
    Done,
}

/// The next block to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The device's stamp.
    Stamp,
    /// The first header of the journal of a position.
    Header(MemberIndex),
    /// None: superblocks may count on the log.
    Nothing,
}

/// The stamp on the device, and the progress of writing it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    device: Option<JournalDevice>,
    /// The buffer in which it is encoded.
    page: Place,
    progress: Progress,
}

impl Stamp {
    pub(super) fn new(device: Option<JournalDevice>, page: Place) -> Self {
        Self {
            device,
            page,
            progress: Progress::Done,
        }
    }

    /// Wants a new log's device to be stamped.
    pub(super) fn want(&mut self) {
        self.progress = Progress::Wanted;
    }

    /// Begins to stamp the device, if that is wanted. `counted_on` is the nonce of the log that the
    /// superblocks count on. Returns true if it begins.
    pub(super) fn begin(&mut self, nonce: u64, counted_on: u64, positions: MemberSet) -> bool {
        if self.progress != Progress::Wanted {
            return false;
        }
        let device = self.device.as_mut().expect("the log lies on a device");
        let stamps = device.nonce != nonce;
        if stamps {
            *device = device.stamped(nonce, counted_on);
        }
        self.progress = Progress::UnderWay {
            stamps,
            left: positions,
        };
        true
    }

    /// Returns the next block to write. If the device `is_lost`, none is written after the stamp.
    pub(super) fn next(&mut self, is_lost: bool) -> Next {
        let Progress::UnderWay { stamps, left } = self.progress else {
            panic!("stamped in state {:?}", self.progress);
        };
        let (next, progress) = match left.first().filter(|_| !is_lost) {
            _ if stamps => (
                Next::Stamp,
                Progress::UnderWay {
                    stamps: false,
                    left,
                },
            ),
            Some(member) => (
                Next::Header(member),
                Progress::UnderWay {
                    stamps,
                    left: left.without(member),
                },
            ),
            None => (Next::Nothing, Progress::Done),
        };
        self.progress = progress;
        next
    }

    /// Returns true if no stamp is wanted or being written.
    pub(super) fn is_done(&self) -> bool {
        self.progress == Progress::Done
    }

    /// Returns true while blocks are written.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.progress, Progress::UnderWay { .. })
    }

    /// Returns the device as it is stamped; `None` if the log has no device of its own.
    pub(super) fn device(&self) -> Option<&JournalDevice> {
        self.device.as_ref()
    }

    /// Returns the buffer in which the stamp is encoded.
    pub(super) fn page(&self) -> Place {
        self.page
    }

    /// Returns the place of the stamp on the device.
    pub(super) fn place(&self, block_size: BlockSize) -> Option<(BlockIndex, u32)> {
        let device = self.device?;
        Some((device.slot_block(block_size), self.page.blocks))
    }
}
