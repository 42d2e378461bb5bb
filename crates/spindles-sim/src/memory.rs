//! The driver's buffers, and the computations on them that the engines request.

use spindles_block::{BufferId, BufferSlice, Computation, Compute, ComputeResult, Operand, Piece};
use spindles_parity::Located;

/// Returns an index from a small number.
pub(crate) fn index(value: u32) -> usize {
    usize::try_from(value).expect("small")
}

/// The buffers: three of each array, one of the simulator's own, then the clients'.
#[derive(Debug)]
pub(crate) struct Memory {
    buffers: Vec<Vec<u8>>,
    arrays: usize,
    block_bytes: usize,
}

impl Memory {
    pub(crate) fn new(arrays: usize, clients: u32, block_bytes: usize) -> Self {
        Self {
            buffers: vec![Vec::new(); 3 * arrays + 1 + index(clients)],
            arrays,
            block_bytes,
        }
    }

    pub(crate) fn scratch_of(array: usize) -> BufferId {
        BufferId(u32::try_from(3 * array).expect("few"))
    }

    pub(crate) fn metadata_of(array: usize) -> BufferId {
        BufferId(u32::try_from(3 * array + 1).expect("few"))
    }

    /// Returns the buffer in which the pieces of writes to arrays in an array are put together.
    pub(crate) fn together_of(array: usize) -> BufferId {
        BufferId(u32::try_from(3 * array + 2).expect("few"))
    }

    /// Returns the buffer of the simulator's own requests.
    pub(crate) fn own(&self) -> BufferId {
        BufferId(u32::try_from(3 * self.arrays).expect("few"))
    }

    /// Returns the first buffer of the clients.
    pub(crate) fn first_of_clients(&self) -> u32 {
        self.own().0 + 1
    }

    /// Returns all bytes of a buffer.
    pub(crate) fn whole(&mut self, buffer: BufferId) -> &mut Vec<u8> {
        &mut self.buffers[index(buffer.0)]
    }

    /// Makes a buffer at least that long. Added bytes are `fill`.
    pub(crate) fn extend(&mut self, buffer: BufferId, bytes: usize, fill: u8) {
        let buffer = self.whole(buffer);
        buffer.resize(buffer.len().max(bytes), fill);
    }

    /// Returns `bytes` bytes of a buffer.
    pub(crate) fn bytes(&self, slice: BufferSlice, bytes: usize) -> Vec<u8> {
        if slice.buffer == BufferId::ZEROS {
            return vec![0; bytes];
        }
        let at = index(slice.first_block) * self.block_bytes;
        self.buffers[index(slice.buffer.0)][at..at + bytes].to_vec()
    }

    /// Returns the bytes of pieces, one after another.
    pub(crate) fn bytes_of(&self, pieces: &[Piece]) -> Vec<u8> {
        let bytes =
            |piece: &Piece| self.bytes(piece.buffer, index(piece.blocks) * self.block_bytes);
        pieces.iter().map(bytes).collect::<Vec<_>>().concat()
    }

    /// Same as `bytes`, but mutable.
    pub(crate) fn bytes_mut(&mut self, slice: BufferSlice, bytes: usize) -> &mut [u8] {
        let at = index(slice.first_block) * self.block_bytes;
        &mut self.buffers[index(slice.buffer.0)][at..at + bytes]
    }

    /// Carries out a computation step on the buffers. Returns its result and its checksums.
    pub(crate) fn compute(&mut self, step: &Computation<'_>) -> (ComputeResult, Vec<u32>) {
        let bytes = index(step.blocks) * self.block_bytes;
        let carried = carry_out(step, self.block_bytes, |slice| self.bytes(slice, bytes));
        for (slice, bytes) in carried.bytes {
            self.bytes_mut(slice, bytes.len()).copy_from_slice(&bytes);
        }
        (carried.result, carried.checksums)
    }
}

/// The result of a computation step.
pub(crate) struct Carried {
    /// The result for the engine.
    pub(crate) result: ComputeResult,
    /// The computed bytes, each with its place.
    pub(crate) bytes: Vec<(BufferSlice, Vec<u8>)>,
    /// Checksums of every block of every source, if the step requests them.
    pub(crate) checksums: Vec<u32>,
}

/// Carries out a computation step. `load` returns the bytes of a slice.
pub(crate) fn carry_out(
    step: &Computation<'_>,
    block_bytes: usize,
    load: impl Fn(BufferSlice) -> Vec<u8>,
) -> Carried {
    let data_chunks = step.data_chunks;
    let code = spindles_parity::by_parity_chunks(step.parity_chunks);
    let load = |operand: &Operand| (operand.index, load(operand.slice));
    let sources: Vec<(u8, Vec<u8>)> = step.sources.iter().map(load).collect();
    let mut targets: Vec<(u8, Vec<u8>)> = step.targets.iter().map(load).collect();
    let mut out: Vec<(u8, &mut [u8])> = targets
        .iter_mut()
        .map(|(index, bytes)| (*index, &mut bytes[..]))
        .collect();
    let mut result = ComputeResult::Done;
    let mut checksums = Vec::new();
    match step.compute {
        Compute::Solve => {
            let sources: Vec<(u8, &[u8])> =
                sources.iter().map(|(i, bytes)| (*i, &bytes[..])).collect();
            spindles_parity::solve(code, data_chunks, &sources, &mut out);
        }
        Compute::Update => {
            let pairs: Vec<(u8, &[u8], &[u8])> = sources
                .chunks_exact(2)
                .map(|pair| (pair[0].0, &pair[0].1[..], &pair[1].1[..]))
                .collect();
            spindles_parity::update(code, data_chunks, &pairs, &mut out);
        }
        Compute::Compare => {
            if !sources.chunks_exact(2).all(|pair| pair[0].1 == pair[1].1) {
                result = ComputeResult::Mismatch;
            }
        }
        Compute::Locate => {
            let chunks: Vec<(u8, &[u8])> =
                sources.iter().map(|(i, bytes)| (*i, &bytes[..])).collect();
            result = match spindles_parity::locate(code, data_chunks, &chunks) {
                Located::None => ComputeResult::Done,
                Located::Chunk(place) => {
                    ComputeResult::Located(u8::try_from(place).expect("64 chunks"))
                }
                Located::Unknown => ComputeResult::Mismatch,
            };
        }
        Compute::Checksum => {
            let blocks = sources
                .iter()
                .flat_map(|(_, bytes)| bytes.chunks_exact(block_bytes));
            checksums.extend(blocks.map(spindles_format::block_checksum));
        }
        Compute::Copy => {
            for ((_, target), (_, source)) in out.iter_mut().zip(&sources) {
                target.copy_from_slice(source);
            }
        }
    }
    let places = step.targets.iter().map(|target| target.slice);
    let computed = places
        .zip(targets)
        .map(|(place, (_, bytes))| (place, bytes));
    let bytes = computed.collect();
    Carried {
        result,
        bytes,
        checksums,
    }
}
