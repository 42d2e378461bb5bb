//! Locates the one corrupt chunk of a group among the chunks available.
//!
//! A chunk is corrupt if all others are consistent without it. If there are at least two chunks
//! more than the data chunks, at most one chunk can meet this condition.

use crate::codes::Code;
use crate::kernels::best_kernel;
use crate::linear::{SOURCES_MAX, TARGETS_MAX};
use crate::map;

/// The result of checking the chunks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// The chunks are consistent.
    None,
    /// A corrupt chunk, as an index into the chunks given: it alone explains every difference.
    Chunk(usize),
    /// The chunks are inconsistent, and not exactly one chunk explains it.
    Unknown,
}

/// Bytes compared at a time.
const STEP_BYTES: usize = 2048;

/// Finds the corrupt chunk among `chunks`: (index, bytes) of any chunks of the group, at least
/// `data_chunks`. For a code without parity, give all copies index 0.
pub fn locate(code: &Code, data_chunks: u8, chunks: &[(u8, &[u8])]) -> Located {
    let bytes = chunks[0].1.len();
    assert!(
        chunks.iter().all(|(_, chunk)| chunk.len() == bytes),
        "chunks differ in length"
    );
    let spare = chunks
        .len()
        .checked_sub(usize::from(data_chunks))
        .expect("as many chunks as data at the least");
    let Some(from) = disagreement(code, data_chunks, chunks, None, 0) else {
        return Located::None;
    };
    if spare < 2 {
        return Located::Unknown; // Any single chunk explains the difference.
    }
    // All chunks agree before `from`, so they also agree without this one.
    let explains = |&rotten: &usize| {
        let without = disagreement(code, data_chunks, chunks, Some(rotten), from);
        without.is_none()
    };
    let mut rotten = (0..chunks.len()).filter(explains);
    match (rotten.next(), rotten.next()) {
        (Some(rotten), None) => Located::Chunk(rotten),
        _ => Located::Unknown,
    }
}

/// Returns the approximate place at or after `from` of the first inconsistency of the chunks,
/// except `without`. Compares whole steps; `None` if there is none.
fn disagreement(
    code: &Code,
    data_chunks: u8,
    chunks: &[(u8, &[u8])],
    without: Option<usize>,
    from: usize,
) -> Option<usize> {
    let bytes = chunks[0].1.len();
    let mut buffers = [[0; STEP_BYTES]; TARGETS_MAX];
    (from..bytes).step_by(STEP_BYTES).find(|&from| {
        let range = from..bytes.min(from + STEP_BYTES);
        let mut others = (chunks.iter().enumerate())
            .filter(|(place, _)| Some(*place) != without)
            .map(|(_, (index, chunk))| (*index, &chunk[range.clone()]));
        let mut sources: [(u8, &[u8]); SOURCES_MAX] = [(0, &[]); SOURCES_MAX];
        let count = usize::from(data_chunks);
        for (source, chunk) in sources[..count].iter_mut().zip(&mut others) {
            *source = chunk;
        }
        if code.parity_chunks == 0 {
            return others.any(|(_, copy)| copy != sources[0].1);
        }
        let mut targets = buffers
            .each_mut()
            .map(|buffer| (0, &mut buffer[..range.len()]));
        let mut held: [&[u8]; TARGETS_MAX] = [&[]; TARGETS_MAX];
        let mut spare = 0;
        for (index, chunk) in others {
            (targets[spare].0, held[spare]) = (index, chunk);
            spare += 1;
        }
        let targets = &mut targets[..spare];
        map::solve(best_kernel(), code, data_chunks, &sources[..count], targets);
        targets
            .iter()
            .zip(held)
            .any(|((_, is), held)| **is != *held)
    })
}
