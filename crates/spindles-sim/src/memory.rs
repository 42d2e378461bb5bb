//! The driver's buffers, and the computations on them that the engines request.

use crate::world::{World, index};
use spindles_block::{
    BufferId, BufferSlice, Compute, ComputeResult, MemberIo, Operand, Step, StepId,
};
use spindles_parity::Located;

impl World {
    /// Returns `bytes` bytes of a buffer.
    pub(crate) fn bytes(&self, slice: BufferSlice, bytes: usize) -> Vec<u8> {
        if slice.buffer == BufferId::ZEROS {
            return vec![0; bytes];
        }
        let at = index(slice.first_block) * self.stack.block_bytes;
        self.buffers[index(slice.buffer.0)][at..at + bytes].to_vec()
    }

    /// Copies the metadata that an engine is about to write: the engine may change it meanwhile.
    pub(crate) fn take_metadata(&mut self, array: usize, io: &MemberIo) {
        if io.buffer.buffer != Self::metadata_of(array) || !io.operation.is_write() {
            return;
        }
        let bytes = self.engine(array).metadata_of(io).to_vec();
        self.bytes_mut(io.buffer, bytes.len())
            .copy_from_slice(&bytes);
    }

    pub(crate) fn bytes_mut(&mut self, slice: BufferSlice, bytes: usize) -> &mut [u8] {
        let at = index(slice.first_block) * self.stack.block_bytes;
        &mut self.buffers[index(slice.buffer.0)][at..at + bytes]
    }

    pub(crate) fn compute(&mut self, array: usize, id: StepId) -> ComputeResult {
        let step = self.engine(array).step(id);
        let compute = step.compute;
        let bytes = index(step.blocks) * self.stack.block_bytes;
        let block_bytes = self.stack.block_bytes;
        let carried = carry_out(&step, block_bytes, |slice| self.bytes(slice, bytes));
        for (slice, bytes) in carried.bytes {
            self.bytes_mut(slice, bytes.len()).copy_from_slice(&bytes);
        }
        if compute == Compute::Checksum {
            let engine = self.engines[array].as_mut().expect("it asked");
            engine.checksums_mut(id).copy_from_slice(&carried.checksums);
        }
        carried.result
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
    step: &Step<'_>,
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
