//! Compute steps on buffers. The engine chooses the step, `spindles-parity` implements it, and this
//! module supplies the bytes.

#![expect(unsafe_code, reason = "several slices of the same buffers at once")]

use spindles_block::{BufferId, Computation, Compute, ComputeResult, Operand};
use spindles_device::buffers::Buffers;
use spindles_format::block_checksum;
use spindles_parity::{Code, Located};
use std::ops::Range;
use std::slice;
use std::sync::OnceLock;

/// Most chunks of any group, for a step that names each twice.
const CHUNKS_MAX: usize = 64;
/// Most parity chunks of any code, and most lost chunks that it can restore.
const TARGETS_MAX: usize = 3;

/// Executes a step.
pub(crate) fn run(buffers: &mut Buffers, step: &Computation<'_>) -> ComputeResult {
    match step.compute {
        Compute::Solve => match step.sources.len() {
            0..=4 => solve::<4>(buffers, step),
            5..=8 => solve::<8>(buffers, step),
            9..=16 => solve::<16>(buffers, step),
            _ => solve::<CHUNKS_MAX>(buffers, step),
        },
        Compute::Update => match step.sources.len() / 2 {
            0..=1 => update::<1>(buffers, step),
            2..=4 => update::<4>(buffers, step),
            _ => update::<CHUNKS_MAX>(buffers, step),
        },
        Compute::Compare => return compare(buffers, step),
        Compute::Locate => return locate(buffers, step),
        Compute::Copy => copy(buffers, step),
        Compute::Checksum => panic!("checksums go to the engine"),
    }
    ComputeResult::Done
}

/// Returns the checksum of every block of every source, in order.
pub(crate) fn checksums<'a>(
    buffers: &'a Buffers,
    step: &'a Computation<'_>,
    block_bytes: usize,
) -> impl Iterator<Item = u32> + 'a {
    let sources = step.sources.iter();
    sources.flat_map(move |operand| {
        let blocks = buffers
            .slice(operand.slice, step.blocks)
            .chunks_exact(block_bytes);
        blocks.map(block_checksum)
    })
}

/// Returns the checksum of a block of zeros.
pub(crate) fn checksum_of_zeros(block_bytes: u32) -> u32 {
    static SUMS: [OnceLock<u32>; 2] = [const { OnceLock::new() }; 2];
    let sum = &SUMS[usize::from(block_bytes == 512)];
    *sum.get_or_init(|| block_checksum(&vec![0; usize::try_from(block_bytes).expect("64 bits")]))
}

fn code(step: &Computation<'_>) -> &'static Code {
    spindles_parity::by_parity_chunks(step.parity_chunks)
}

fn solve<const N: usize>(buffers: &mut Buffers, step: &Computation<'_>) {
    let (sources, targets) = lend(buffers, step);
    let mut known: [(u8, &[u8]); N] = [(0, &[]); N];
    let count = sources.len();
    for (place, (operand, bytes)) in known.iter_mut().zip(sources) {
        *place = (operand.index, bytes);
    }
    let mut wanted = no_targets();
    let wanted = fill(&mut wanted, targets);
    spindles_parity::solve(code(step), step.data_chunks, &known[..count], wanted);
}

fn update<const N: usize>(buffers: &mut Buffers, step: &Computation<'_>) {
    let (mut sources, targets) = lend(buffers, step);
    let mut pairs: [(u8, &[u8], &[u8]); N] = [(0, &[], &[]); N];
    let count = step.sources.len() / 2;
    for place in &mut pairs[..count] {
        let (old, old_bytes) = sources.next().expect("pairs");
        let (new, new_bytes) = sources.next().expect("pairs");
        assert_eq!(old.index, new.index, "a pair is of one chunk");
        *place = (old.index, old_bytes, new_bytes);
    }
    let mut wanted = no_targets();
    let wanted = fill(&mut wanted, targets);
    spindles_parity::update(code(step), step.data_chunks, &pairs[..count], wanted);
}

fn compare(buffers: &Buffers, step: &Computation<'_>) -> ComputeResult {
    let bytes = |operand: &Operand| buffers.slice(operand.slice, step.blocks);
    let equal = step
        .sources
        .chunks_exact(2)
        .all(|pair| bytes(&pair[0]) == bytes(&pair[1]));
    if equal {
        ComputeResult::Done
    } else {
        ComputeResult::Mismatch
    }
}

fn locate(buffers: &Buffers, step: &Computation<'_>) -> ComputeResult {
    let mut chunks: [(u8, &[u8]); CHUNKS_MAX] = [(0, &[]); CHUNKS_MAX];
    let count = step.sources.len();
    for (chunk, operand) in chunks.iter_mut().zip(step.sources) {
        *chunk = (operand.index, buffers.slice(operand.slice, step.blocks));
    }
    match spindles_parity::locate(code(step), step.data_chunks, &chunks[..count]) {
        Located::None => ComputeResult::Done,
        Located::Chunk(place) => ComputeResult::Located(u8::try_from(place).expect("64 chunks")),
        Located::Unknown => ComputeResult::Mismatch,
    }
}

fn copy(buffers: &mut Buffers, step: &Computation<'_>) {
    for (source, target) in step.sources.iter().zip(step.targets) {
        let one = Computation {
            sources: slice::from_ref(source),
            targets: slice::from_ref(target),
            ..*step
        };
        if source.slice == target.slice {
            continue;
        }
        let (sources, targets) = lend(buffers, &one);
        for ((_, from), (_, to)) in sources.zip(targets) {
            to.copy_from_slice(from);
        }
    }
}

type Wanted<'a> = [(u8, &'a mut [u8]); TARGETS_MAX];

fn no_targets<'a>() -> Wanted<'a> {
    std::array::from_fn(|_| (0, [].as_mut_slice()))
}

fn fill<'w, 'a>(
    wanted: &'w mut Wanted<'a>,
    targets: impl ExactSizeIterator<Item = (&'a Operand, &'a mut [u8])>,
) -> &'w mut [(u8, &'a mut [u8])] {
    let count = targets.len();
    assert!(
        count <= TARGETS_MAX,
        "a code has at most three parity chunks"
    );
    for (place, (operand, bytes)) in wanted.iter_mut().zip(targets) {
        *place = (operand.index, bytes);
    }
    &mut wanted[..count]
}

/// Returns the bytes of a step's sources and targets.
#[expect(clippy::type_complexity, reason = "no alias can hold `impl` types")]
fn lend<'a>(
    buffers: &'a mut Buffers,
    step: &'a Computation<'_>,
) -> (
    impl ExactSizeIterator<Item = (&'a Operand, &'a [u8])>,
    impl ExactSizeIterator<Item = (&'a Operand, &'a mut [u8])>,
) {
    assert_disjoint(step);
    let buffers: &'a Buffers = buffers;
    let blocks = step.blocks;
    let sources = step
        .sources
        .iter()
        .map(move |operand| (operand, buffers.slice(operand.slice, blocks)));
    let targets = step.targets.iter().map(move |operand| {
        let (start, bytes) = buffers.extent_of(operand.slice, blocks);
        // SAFETY: `extent_of` gives mapped, writable memory that lives as long as `buffers`, which
        // is borrowed mutably for as long. `assert_disjoint` ensures that no other slice lent here
        // shares a byte with it.
        (operand, unsafe {
            slice::from_raw_parts_mut(start.as_ptr(), bytes)
        })
    });
    (sources, targets)
}

/// Asserts that no target shares a block with a source or another target.
fn assert_disjoint(step: &Computation<'_>) {
    let range = |operand: &Operand| -> (BufferId, Range<u64>) {
        let first = u64::from(operand.slice.first_block);
        (operand.slice.buffer, first..first + u64::from(step.blocks))
    };
    for (index, target) in step.targets.iter().enumerate() {
        let (buffer, blocks) = range(target);
        let others = step.targets[..index].iter().chain(step.sources);
        for other in others {
            let (other_buffer, other_blocks) = range(other);
            assert!(
                buffer != other_buffer
                    || blocks.end <= other_blocks.start
                    || other_blocks.end <= blocks.start,
                "a target overlaps another operand: {step:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::{BlockSize, BufferSlice};

    fn operand(buffer: BufferId, index: u8, block: u32) -> Operand {
        Operand {
            index,
            slice: BufferSlice {
                buffer,
                first_block: block,
            },
        }
    }

    fn buffers() -> (Buffers, BufferId) {
        let mut buffers = Buffers::new(BlockSize::B512).unwrap();
        let buffer = buffers.allocate(8).unwrap();
        for (block, bytes) in (1..).zip(buffers.buffer_mut(buffer).chunks_mut(512)) {
            bytes.fill(block);
        }
        (buffers, buffer)
    }

    /// Checks what blocks hold after a step over one block each; at first they hold 1, 2, 3, ...
    fn check(compute: Compute, sources: &[(u8, u32)], targets: &[(u8, u32)], expected: [u8; 8]) {
        let (mut buffers, buffer) = buffers();
        let operands = |list: &[(u8, u32)]| -> Vec<Operand> {
            list.iter()
                .map(|&(index, block)| match block {
                    99 => Operand {
                        index,
                        slice: BufferSlice::ZEROS,
                    },
                    block => operand(buffer, index, block),
                })
                .collect()
        };
        let (sources, targets) = (operands(sources), operands(targets));
        let step = Computation {
            compute,
            data_chunks: 3,
            parity_chunks: 1,
            blocks: 1,
            sources: &sources,
            targets: &targets,
        };
        assert_eq!(run(&mut buffers, &step), ComputeResult::Done);
        let found: Vec<u8> = buffers
            .buffer(buffer)
            .iter()
            .step_by(512)
            .copied()
            .collect();
        assert_eq!(found, expected, "{compute:?}");
    }

    #[test]
    fn steps() {
        let solve = Compute::Solve;
        check(
            solve,
            &[(0, 0), (1, 1), (2, 3)],
            &[(3, 7)],
            [1, 2, 3, 4, 5, 6, 7, 1 ^ 2 ^ 4],
        );
        check(
            solve,
            &[(0, 0), (3, 1), (2, 99)],
            &[(1, 7)],
            [1, 2, 3, 4, 5, 6, 7, 1 ^ 2],
        );
        check(
            Compute::Update,
            &[(0, 0), (0, 1), (2, 3), (2, 4)],
            &[(3, 7)],
            [1, 2, 3, 4, 5, 6, 7, 8 ^ 1 ^ 2 ^ 4 ^ 5],
        );
        check(
            Compute::Copy,
            &[(0, 0), (0, 99)],
            &[(0, 6), (0, 7)],
            [1, 2, 3, 4, 5, 6, 1, 0],
        );
        check(
            Compute::Compare,
            &[(0, 3), (0, 3)],
            &[],
            [1, 2, 3, 4, 5, 6, 7, 8],
        );
    }

    #[test]
    fn differing_blocks_are_detected() {
        let (mut buffers, buffer) = buffers();
        let sources = [0, 0, 1, 2].map(|block| operand(buffer, 0, block));
        let step = Computation {
            compute: Compute::Compare,
            data_chunks: 1,
            parity_chunks: 0,
            blocks: 1,
            sources: &sources,
            targets: &[],
        };
        assert_eq!(run(&mut buffers, &step), ComputeResult::Mismatch);
        let sources = [0, 0, 2, 0].map(|block| operand(buffer, 0, block));
        let step = Computation {
            compute: Compute::Locate,
            sources: &sources,
            ..step
        };
        assert_eq!(run(&mut buffers, &step), ComputeResult::Located(2));
        let step = Computation {
            sources: &sources[..2],
            ..step
        };
        assert_eq!(run(&mut buffers, &step), ComputeResult::Done);
        let step = Computation {
            sources: &sources[1..3],
            ..step
        };
        assert_eq!(run(&mut buffers, &step), ComputeResult::Mismatch);
    }

    #[test]
    #[should_panic(expected = "overlaps")]
    fn computation_targets_overlap_no_other_buffer() {
        let (mut buffers, buffer) = buffers();
        let step = Computation {
            compute: Compute::Solve,
            data_chunks: 1,
            parity_chunks: 1,
            blocks: 2,
            sources: &[operand(buffer, 0, 0)],
            targets: &[operand(buffer, 1, 1)],
        };
        run(&mut buffers, &step);
    }
}
