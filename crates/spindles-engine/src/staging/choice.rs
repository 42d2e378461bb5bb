//! Which parts of rows are staged, by the mode.
//!
//! ```text
//! mode   a part of a row                              is staged
//! on     any                                          below 95 % of the fill
//! auto   goes on where a write ended, or its row has  below 95 % of the fill
//!        a staged block
//! auto   any other                                    below a quarter, until it was full; then
//!                                                     again when the stage was empty
//! ```
//!
//! In `auto` a burst is absorbed and placed when clients are idle. Sustained writes at random would
//! only be written twice more: they go straight to their places.

use super::pace::FILL_TO_REFUSE;
use crate::config::WriteBackMode;
use spindles_block::BlockIndex;

/// The fill up to which single writes at random are staged, in 256ths.
const FILL_OF_BURSTS: u32 = 64;
/// Streams of writes that are known at once.
const STREAMS: usize = 8;

/// What decides about the next write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    mode: WriteBackMode,
    /// Where the last writes ended.
    ends: [BlockIndex; STREAMS],
    next_end: usize,
    /// True if single writes at random met a stage that was full for them.
    is_spent: bool,
}

impl Choice {
    pub(crate) fn new(mode: WriteBackMode) -> Self {
        Self {
            mode,
            ends: [BlockIndex(u64::MAX); STREAMS],
            next_end: 0,
            is_spent: false,
        }
    }

    /// The mode.
    pub(crate) fn mode(&self) -> WriteBackMode {
        self.mode
    }

    /// Notes that the stage is empty.
    pub(crate) fn emptied(&mut self) {
        self.is_spent = false;
    }

    /// Decides about a part of a row of this many blocks. `joins`: its row has a staged block.
    pub(crate) fn stages(
        &mut self,
        block: BlockIndex,
        blocks: u32,
        fill: u32,
        joins: impl FnOnce() -> bool,
    ) -> bool {
        match self.mode {
            WriteBackMode::Off => false,
            WriteBackMode::On => fill < FILL_TO_REFUSE,
            WriteBackMode::Auto => {
                let goes_on = self.goes_on(block, blocks);
                if goes_on || joins() {
                    return fill < FILL_TO_REFUSE;
                }
                self.is_spent |= fill >= FILL_OF_BURSTS;
                !self.is_spent
            }
        }
    }

    /// Returns true if one of the last writes ended where this one begins. Notes its end.
    fn goes_on(&mut self, block: BlockIndex, blocks: u32) -> bool {
        let end = block.plus(blocks.into());
        let stream = self.ends.iter().position(|end| *end == block);
        let at = stream.unwrap_or_else(|| {
            self.next_end = (self.next_end + 1) % STREAMS;
            self.next_end
        });
        self.ends[at] = end;
        stream.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_stages_bursts_and_streams() {
        let mut choice = Choice::new(WriteBackMode::Auto);
        let mut stages =
            |block, fill, joins: bool| choice.stages(BlockIndex(block), 2, fill, move || joins);
        assert!(stages(100, 0, false) && stages(500, 63, false), "a burst");
        assert!(stages(102, 200, false), "goes on");
        assert!(!stages(900, 64, false), "the burst is over");
        assert!(!stages(700, 10, false), "and stays so");
        assert!(stages(104, 200, false) && stages(300, 200, true));
        assert!(!stages(106, 243, false) && !stages(400, 243, true));
        choice.emptied();
        assert!(choice.stages(BlockIndex(10), 2, 0, || false));
    }

    #[test]
    fn on_stages_all_below_its_limit_and_off_nothing() {
        for (mode, fill, expected) in [
            (WriteBackMode::On, 242, true),
            (WriteBackMode::On, 243, false),
            (WriteBackMode::Off, 0, false),
        ] {
            let mut choice = Choice::new(mode);
            assert_eq!(choice.stages(BlockIndex(1), 1, fill, || false), expected);
        }
    }
}
