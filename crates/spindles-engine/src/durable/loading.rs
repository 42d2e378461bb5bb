//! Reads the list of bad blocks and the bitmaps from all members at opening, part by part.

use crate::system_io::Place;
use spindles_block::{BlockSize, MemberIndex, MemberSet};
use spindles_format::AreaKind;

/// The most that is read or written of an area at once.
const TRANSFER_BYTES: u32 = 16 << 10;

/// Returns the most blocks that are read or written at once, of an area of `blocks` blocks.
pub(crate) fn transfer_blocks(block_size: BlockSize, blocks: u64) -> u32 {
    let most = TRANSFER_BYTES / block_size.bytes();
    u32::try_from(blocks).map_or(most, |blocks| blocks.min(most))
}

/// The part of an area that is being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loading {
    pub(crate) area: AreaKind,
    pub(crate) block: u64,
    pub(crate) blocks: u32,
    /// Reads under way.
    pending: u32,
    /// Members from which these blocks could be read.
    pub(crate) read: MemberSet,
    pub(crate) place: Place,
    /// The place of bitmaps; `None` if the members have none.
    bitmaps: Option<Place>,
}

impl Loading {
    /// Begins with the first area that has a place. `None` if no area has a place.
    pub(crate) fn new(list: Option<Place>, bitmaps: Option<Place>) -> Option<Self> {
        let first = match list {
            Some(_) => AreaKind::BAD_BLOCKS,
            None => AreaKind::DIRTY_BITMAP,
        };
        Some(Self {
            area: first,
            block: 0,
            blocks: 0,
            pending: 0,
            read: MemberSet::EMPTY,
            place: list.or(bitmaps)?,
            bitmaps,
        })
    }

    /// Returns the start of the next area; `None` after the last.
    pub(crate) fn next_area(self) -> Option<Self> {
        let (area, place) = match self.area {
            AreaKind::BAD_BLOCKS => (AreaKind::DIRTY_BITMAP, self.bitmaps?),
            AreaKind::DIRTY_BITMAP => (AreaKind::WRITTEN_BITMAP, self.place),
            _ => return None,
        };
        Some(Self {
            area,
            block: 0,
            place,
            ..self
        })
    }

    /// Begins to read the next of `left` blocks from that many members.
    pub(crate) fn begin(&mut self, left: u64, members: u32) {
        self.blocks =
            u32::try_from(left).map_or(self.place.blocks, |left| left.min(self.place.blocks));
        self.pending = members;
        self.read = MemberSet::EMPTY;
    }

    /// Notes the end of the read from a member. Returns true if it was the last.
    pub(crate) fn ended(&mut self, member: MemberIndex, is_read: bool) -> bool {
        self.pending -= 1;
        if is_read {
            self.read = self.read.with(member);
        }
        self.pending == 0
    }
}
