//! Finding the one rotten chunk of a group, among the chunks that are there.
//!
//! A chunk is the rotten one if all others fit together without it. Where at least two more chunks
//! are there than the data need, no more than one chunk can be that.

use crate::{Code, map, solve};

/// What is wrong with the chunks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// Nothing: the chunks fit together.
    None,
    /// The chunk at this place among those given, and nothing else, explains every difference.
    Chunk(usize),
    /// The chunks do not fit together, and no single chunk, or more than one, explains it.
    Unknown,
}

/// Bytes looked at in one go.
const STEP_BYTES: usize = 2048;

/// Which one of the chunks is rotten. `chunks` are (index, bytes) of any of the group, at least
/// `data_chunks`; of copies every index is 0.
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
        return Located::Unknown; // Each chunk would explain it.
    }
    // Before `from` they agree with this chunk, so the others agree without it too.
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

/// Where the chunks, `without` one of them, first do not fit together, about: from `from` on, in
/// whole steps.
fn disagreement(
    code: &Code,
    data_chunks: u8,
    chunks: &[(u8, &[u8])],
    without: Option<usize>,
    from: usize,
) -> Option<usize> {
    let bytes = chunks[0].1.len();
    let mut buffers = [[0; STEP_BYTES]; map::TARGETS_MAX];
    (from..bytes).step_by(STEP_BYTES).find(|&from| {
        let range = from..bytes.min(from + STEP_BYTES);
        let mut others = (chunks.iter().enumerate())
            .filter(|(place, _)| Some(*place) != without)
            .map(|(_, (index, chunk))| (*index, &chunk[range.clone()]));
        let mut sources: [(u8, &[u8]); map::SOURCES_MAX] = [(0, &[]); map::SOURCES_MAX];
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
        let mut held: [&[u8]; map::TARGETS_MAX] = [&[]; map::TARGETS_MAX];
        let mut spare = 0;
        for (index, chunk) in others {
            (targets[spare].0, held[spare]) = (index, chunk);
            spare += 1;
        }
        let targets = &mut targets[..spare];
        solve(code, data_chunks, &sources[..count], targets);
        targets
            .iter()
            .zip(held)
            .any(|((_, is), held)| **is != *held)
    })
}
