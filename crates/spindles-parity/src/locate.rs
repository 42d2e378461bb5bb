//! Finding the one rotten chunk of a group.

use crate::{Code, gf, map, solve};
use core::array;

/// What is wrong with a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// Nothing: the chunks fit together.
    None,
    /// This data chunk, and nothing else, explains every difference.
    Data(u8),
    /// This parity chunk, and nothing else, explains every difference. Of copies, the second is
    /// parity 0.
    Parity(u8),
    /// The chunks do not fit together, and no single chunk, or more than one, explains it.
    Unknown,
}

/// Bytes looked at in one go.
const STEP_BYTES: usize = 512;

/// Which one chunk of the group is rotten. `chunks` are all of it, data first, then parity; of
/// copies, all copies.
pub fn locate(code: &Code, data_chunks: u8, chunks: &[&[u8]]) -> Located {
    let bytes = chunks[0].len();
    assert!(
        chunks.iter().all(|chunk| chunk.len() == bytes),
        "chunks differ in length"
    );
    if code.parity_chunks == 0 {
        assert_eq!(data_chunks, 1, "copies are of one chunk");
        return locate_copy(chunks);
    }
    assert_eq!(chunks.len(), usize::from(data_chunks + code.parity_chunks));
    let mut located = Located::None;
    let mut from = 0;
    while from < bytes && located != Located::Unknown {
        let to = bytes.min(from + STEP_BYTES);
        let mut buffers = [[0; STEP_BYTES]; map::TARGETS_MAX];
        let differences = differences(code, data_chunks, chunks, from..to, &mut buffers);
        let byte = |at: usize| array::from_fn(|parity| differences[parity][at]);
        for difference in (0..to - from).map(byte) {
            if difference != [0; map::TARGETS_MAX] {
                located = narrow(located, explain(code, data_chunks, difference));
            }
        }
        from = to;
    }
    located
}

/// Each parity chunk as it is plus as the data say it should be.
fn differences<'b>(
    code: &Code,
    data_chunks: u8,
    chunks: &[&[u8]],
    range: core::ops::Range<usize>,
    buffers: &'b mut [[u8; STEP_BYTES]; map::TARGETS_MAX],
) -> [&'b [u8]; map::TARGETS_MAX] {
    let (data, parity) = chunks.split_at(usize::from(data_chunks));
    let mut sources: [(u8, &[u8]); map::SOURCES_MAX] = [(0, &[]); map::SOURCES_MAX];
    for ((source, chunk), index) in sources.iter_mut().zip(data).zip(0..) {
        *source = (index, &chunk[range.clone()]);
    }
    let mut index = data_chunks;
    let mut targets = buffers.each_mut().map(|buffer| {
        index += 1;
        (index - 1, &mut buffer[..range.len()])
    });
    solve(
        code,
        data_chunks,
        &sources[..data.len()],
        &mut targets[..parity.len()],
    );
    for ((_, target), chunk) in targets.iter_mut().zip(parity) {
        for (t, p) in target.iter_mut().zip(&chunk[range.clone()]) {
            *t ^= p;
        }
    }
    targets.map(|(_, target)| &*target)
}

/// Which chunk alone explains that the parities of one byte differ like this.
fn explain(code: &Code, data_chunks: u8, difference: [u8; map::TARGETS_MAX]) -> Located {
    let parities = usize::from(code.parity_chunks);
    if parities == 1 {
        return Located::Unknown; // Each chunk would explain it.
    }
    let difference = &difference[..parities];
    if difference.iter().filter(|d| **d != 0).count() == 1 {
        let parity = difference.iter().zip(0..).find(|(d, _)| **d != 0);
        return Located::Parity(parity.expect("there is one").1);
    }
    // A wrong data chunk i changes parity p by c(p, i) times its own change.
    let explains = |&data: &u8| {
        let change = gf::mul(difference[0], gf::invert((code.coefficient)(0, data)));
        difference
            .iter()
            .zip(0..)
            .all(|(d, p)| *d == gf::mul(change, (code.coefficient)(p, data)))
    };
    (0..data_chunks)
        .find(explains)
        .map_or(Located::Unknown, Located::Data)
}

fn narrow(before: Located, now: Located) -> Located {
    if before == Located::None || before == now {
        now
    } else {
        Located::Unknown
    }
}

/// The one copy that differs from all others, which are at least two and agree.
fn locate_copy(chunks: &[&[u8]]) -> Located {
    let agree = |except: usize| {
        let mut others = chunks
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != except)
            .map(|(_, c)| c);
        let first = others.next();
        others.all(|chunk| Some(chunk) == first)
    };
    if agree(usize::MAX) {
        return Located::None;
    }
    match (0u8..).zip(chunks).find(|(i, _)| agree(usize::from(*i))) {
        Some((0, _)) if chunks.len() > 2 => Located::Data(0),
        Some((i, _)) if chunks.len() > 2 => Located::Parity(i - 1),
        _ => Located::Unknown,
    }
}
