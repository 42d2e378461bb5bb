//! Copy-on-write memory over the devices of arrays that are open read-only.
//!
//! Such an array recovers like any other, but its writes must not reach a device. They stay in
//! memory, and reads return them instead of the blocks below. Flushes return at once. Closing the
//! target discards everything.
//!
//! Memory is bounded. A write beyond the bound finds no space, as on a full device: the engine
//! keeps the member, and blocks that need the write answer errors.

use crate::device_io::{DeviceIndex, DeviceIo};
use spindles_block::{BlockSize, MemberError, MemberResult, Operation};
use spindles_device::buffers::Buffers;
use spindles_device::transfer::Tag;
use std::collections::BTreeMap;

/// Memory for the written blocks of all devices. The logs of 16 members, of at most 32 MiB each,
/// take half of it; settled rows and metadata take the rest.
const BYTES_MAX: usize = 1 << 30;
/// Memory for an entry of the map, apart from the bytes of its block.
const ENTRY_BYTES: usize = 64;

/// A device, and a block of it.
type Place = (DeviceIndex, u64);

/// The rest of a read from a device, which continues when the operation with this tag is done.
type Rest = (Tag, DeviceIndex, DeviceIo);

/// The blocks written to the devices of a target.
#[derive(Debug)]
pub(crate) struct Overlay {
    block_bytes: usize,
    /// The bytes of each written block; `None` for zeros.
    blocks: BTreeMap<Place, Option<Box<[u8]>>>,
    bytes: usize,
    bytes_max: usize,
    /// Reads of several runs of blocks, of which one is under way on the device.
    rests: Vec<Rest>,
    /// Set once a write found no memory left.
    is_full: bool,
}

impl Overlay {
    pub(crate) fn new(block_size: BlockSize) -> Self {
        Self {
            block_bytes: usize::try_from(block_size.bytes()).expect("64 bits"),
            blocks: BTreeMap::new(),
            bytes: 0,
            bytes_max: BYTES_MAX,
            rests: Vec::new(),
            is_full: false,
        }
    }

    /// Returns true once a write found no memory left.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns true if nothing was written.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Keeps a write in memory. A write that finds no room changes no block.
    pub(crate) fn write(
        &mut self,
        device: DeviceIndex,
        io: &DeviceIo,
        buffers: &Buffers,
    ) -> MemberResult {
        let data = match io.operation {
            Operation::Flush => return Ok(()),
            Operation::Read => panic!("a read is no write"),
            Operation::Write { .. } => Some(buffers.slice(io.buffer, io.blocks)),
            Operation::Discard | Operation::WriteZeroes { .. } => None,
        };
        self.put(device, io.block.0, io.blocks, data)
    }

    fn put(
        &mut self,
        device: DeviceIndex,
        first: u64,
        blocks: u32,
        data: Option<&[u8]>,
    ) -> MemberResult {
        let count = usize::try_from(blocks).expect("64 bits");
        let held = data.map_or(0, <[u8]>::len) + count * ENTRY_BYTES;
        if self.bytes + held > self.bytes_max {
            self.is_full = true;
            return Err(MemberError::NoSpace);
        }
        let all = first..first + u64::from(blocks);
        let mut contents = data.map(|data| data.chunks_exact(self.block_bytes));
        for block in all {
            let bytes = contents.as_mut().map(|contents| {
                let bytes = contents.next().expect("as many blocks as the write has");
                Box::from(bytes)
            });
            self.bytes += Self::memory_of(bytes.as_deref());
            if let Some(old) = self.blocks.insert((device, block), bytes) {
                self.bytes -= Self::memory_of(old.as_deref());
            }
        }
        Ok(())
    }

    fn memory_of(bytes: Option<&[u8]>) -> usize {
        ENTRY_BYTES + bytes.map_or(0, <[u8]>::len)
    }

    /// Fills the leading blocks of a read that are in memory, and takes them off the read. Returns
    /// the number of blocks after them that the device has to read; 0 at the end.
    pub(crate) fn fill(
        &self,
        device: DeviceIndex,
        read: &mut DeviceIo,
        buffers: &mut Buffers,
    ) -> u32 {
        let end = read.block.0 + u64::from(read.blocks);
        for (&(_, block), bytes) in self.blocks.range((device, read.block.0)..(device, end)) {
            if block != read.block.0 {
                let run = block - read.block.0;
                return u32::try_from(run).expect("less than the read");
            }
            let out = buffers.slice_mut(read.buffer, 1);
            match bytes {
                Some(bytes) => out.copy_from_slice(bytes),
                None => out.fill(0),
            }
            read.advance(1);
        }
        read.blocks
    }

    /// Keeps the rest of a read until the operation with this tag is done.
    pub(crate) fn keep_rest(&mut self, tag: Tag, device: DeviceIndex, rest: DeviceIo) {
        if rest.blocks > 0 {
            self.rests.push((tag, device, rest));
        }
    }

    /// Takes the rest of the read whose operation is done; `None` if there is no rest.
    #[inline]
    pub(crate) fn take_rest(&mut self, tag: Tag) -> Option<(DeviceIndex, DeviceIo)> {
        let at = self.rests.iter().position(|(of, ..)| *of == tag)?;
        let (_, device, rest) = self.rests.swap_remove(at);
        Some((device, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::{BlockIndex, BufferId, BufferSlice};

    const SIZE: BlockSize = BlockSize::B512;
    const DEVICE: DeviceIndex = DeviceIndex(3);

    fn io(operation: Operation, block: u64, blocks: u32, buffer: BufferId) -> DeviceIo {
        DeviceIo {
            operation,
            block: BlockIndex(block),
            blocks,
            buffer: BufferSlice {
                buffer,
                first_block: 0,
            },
        }
    }

    fn buffers() -> (Buffers, BufferId) {
        let mut buffers = Buffers::new(SIZE).expect("there is memory");
        let buffer = buffers.allocate(16).expect("there is memory");
        (buffers, buffer)
    }

    /// Writes blocks of one value.
    fn write(overlay: &mut Overlay, block: u64, blocks: u32, value: u8) -> MemberResult {
        let (mut buffers, buffer) = buffers();
        buffers.buffer_mut(buffer).fill(value);
        let write = io(Operation::Write { fua: true }, block, blocks, buffer);
        overlay.write(DEVICE, &write, &buffers)
    }

    /// Reads blocks over a device of which each block is `0xdd`; returns a value for each block.
    fn read(overlay: &Overlay, device: DeviceIndex, block: u64, blocks: u32) -> Vec<u8> {
        let (mut buffers, buffer) = buffers();
        let mut left = io(Operation::Read, block, blocks, buffer);
        loop {
            let run = overlay.fill(device, &mut left, &mut buffers);
            if run == 0 {
                break;
            }
            buffers.slice_mut(left.buffer, run).fill(0xdd);
            left.advance(run);
        }
        let bytes = buffers.buffer(buffer).chunks_exact(512);
        let blocks = usize::try_from(blocks).expect("64 bits");
        bytes.take(blocks).map(|block| block[511]).collect()
    }

    #[test]
    fn reads_see_writes_and_the_device_around_them() {
        let mut overlay = Overlay::new(SIZE);
        assert!(overlay.is_empty());
        assert_eq!(write(&mut overlay, 4, 2, 7), Ok(()));
        assert_eq!(write(&mut overlay, 8, 1, 9), Ok(()));
        assert_eq!(
            read(&overlay, DEVICE, 3, 7),
            [0xdd, 7, 7, 0xdd, 0xdd, 9, 0xdd]
        );
        assert_eq!(read(&overlay, DEVICE, 4, 2), [7, 7]);
        assert_eq!(read(&overlay, DeviceIndex(2), 4, 2), [0xdd, 0xdd]);
        assert_eq!(read(&overlay, DeviceIndex(4), 4, 2), [0xdd, 0xdd]);
    }

    #[test]
    fn the_last_write_counts_and_discarded_blocks_are_zeros() {
        let mut overlay = Overlay::new(SIZE);
        assert_eq!(write(&mut overlay, 0, 4, 1), Ok(()));
        assert_eq!(write(&mut overlay, 1, 2, 2), Ok(()));
        let (buffers, _) = buffers();
        for (operation, block) in [
            (Operation::Discard, 0),
            (Operation::WriteZeroes { fua: false }, 2),
        ] {
            let zeros = io(operation, block, 1, BufferId::NONE);
            assert_eq!(overlay.write(DEVICE, &zeros, &buffers), Ok(()));
        }
        assert_eq!(read(&overlay, DEVICE, 0, 5), [0, 2, 0, 1, 0xdd]);
        let held = 4 * ENTRY_BYTES + 2 * 512;
        assert_eq!(overlay.bytes, held);
    }

    #[test]
    fn a_write_beyond_the_bound_finds_no_space_and_changes_nothing() {
        let mut overlay = Overlay::new(SIZE);
        overlay.bytes_max = 3 * (512 + ENTRY_BYTES);
        assert_eq!(write(&mut overlay, 0, 2, 1), Ok(()));
        assert!(!overlay.is_full());
        assert_eq!(write(&mut overlay, 2, 2, 2), Err(MemberError::NoSpace));
        assert!(overlay.is_full());
        assert_eq!(read(&overlay, DEVICE, 0, 4), [1, 1, 0xdd, 0xdd]);
        assert_eq!(write(&mut overlay, 2, 1, 3), Ok(()));
        assert_eq!(read(&overlay, DEVICE, 0, 4), [1, 1, 3, 0xdd]);
    }

    #[test]
    fn the_rest_of_a_read_is_kept_until_its_first_part_is_done() {
        let mut overlay = Overlay::new(SIZE);
        overlay.keep_rest(Tag(5), DEVICE, io(Operation::Read, 9, 3, BufferId(0)));
        overlay.keep_rest(Tag(6), DEVICE, io(Operation::Read, 9, 0, BufferId(0)));
        assert!(overlay.take_rest(Tag(6)).is_none());
        let rest = overlay.take_rest(Tag(5));
        assert_eq!(rest.map(|(_, rest)| rest.blocks), Some(3));
        assert!(overlay.take_rest(Tag(5)).is_none());
    }
}
