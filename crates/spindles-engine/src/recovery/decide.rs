//! What becomes of a row of a region in doubt, decided from its checksums alone.
//!
//! A region is in doubt when a crash came while it was being written. Of each of its rows it is
//! not known which blocks are new and which are old. This module decides; `rows` fetches the
//! evidence and carries the verdict out. The rules are those of `docs/consistency.md`.
//!
//! | evidence | verdict |
//! |---|---|
//! | a copy fits the checksum of any copy | the first such copy |
//! | no copy fits, two are alike | those |
//! | otherwise | the first copy |

/// What is known of one block of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockEvidence {
    /// The checksum of what was read. `None` where nothing could be read.
    pub(crate) read: Option<u32>,
    /// The checksum that the member keeps of the block. `None` where that is lost.
    pub(crate) kept: Option<u32>,
}

/// The copy that all others shall be like. `None` where none was read.
pub(crate) fn decide_copies(copies: &[BlockEvidence]) -> Option<u8> {
    let slots = || (0..).zip(copies);
    let is_kept = |sum| copies.iter().any(|copy| copy.kept == Some(sum));
    let fits = slots().find(|(_, copy)| copy.read.is_some_and(is_kept));
    let alike = || {
        slots().find(|&(slot, copy)| {
            let same = |&(other, of): &(u8, &BlockEvidence)| other != slot && of.read == copy.read;
            copy.read.is_some() && slots().any(|other| same(&other))
        })
    };
    let first = || slots().find(|(_, copy)| copy.read.is_some());
    fits.or_else(alike).or_else(first).map(|(slot, _)| slot)
}
