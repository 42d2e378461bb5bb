//! The driver's buffers, and the computations that the engines ask for over them.

use crate::world::{World, index};
use spindles_block::{BufferId, BufferSlice, Compute, ComputeResult, Operand, Step, StepId};
use spindles_parity::Located;

impl World {
    /// The bytes at a place in a buffer.
    pub(crate) fn bytes(&self, array: usize, slice: BufferSlice, bytes: usize) -> Vec<u8> {
        if slice.buffer == BufferId::ZEROS {
            return vec![0; bytes];
        }
        let at = index(slice.first_block) * self.stack.block_bytes;
        let number = index(slice.buffer.0);
        // The metadata of this array. That of one above was copied when it was handed down: what is
        // read for it, and may have to be written to other members as well, lies there too.
        if slice.buffer == Self::metadata_of(array) {
            return self.engine(array).metadata()[at..at + bytes].to_vec();
        }
        self.buffers[number][at..at + bytes].to_vec()
    }

    pub(crate) fn bytes_mut(&mut self, slice: BufferSlice, bytes: usize) -> &mut [u8] {
        let at = index(slice.first_block) * self.stack.block_bytes;
        &mut self.buffers[index(slice.buffer.0)][at..at + bytes]
    }

    pub(crate) fn compute(&mut self, array: usize, id: StepId) -> ComputeResult {
        let step = self.engine(array).step(id);
        let bytes = index(step.blocks) * self.stack.block_bytes;
        let (result, computed) = carry_out(&step, |slice| self.bytes(array, slice, bytes));
        for (slice, bytes) in computed {
            self.bytes_mut(slice, bytes.len()).copy_from_slice(&bytes);
        }
        result
    }
}

/// What a step of computation finds, and what it computes, each with its place. `load` brings the
/// bytes of a place.
pub(crate) fn carry_out(
    step: &Step<'_>,
    load: impl Fn(BufferSlice) -> Vec<u8>,
) -> (ComputeResult, Vec<(BufferSlice, Vec<u8>)>) {
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
    (result, computed.collect())
}
