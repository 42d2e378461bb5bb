//! Memory that requests read into and write from. It is mapped by the page, so aligned for direct
//! I/O, and never moves.
//!
//! The kernel and the threads of the pool access this memory by address while an operation is in
//! flight. This module does not prevent such accesses. The effect is the same as if another process
//! shared the memory. By the contract of `Target`, such bytes read as any mixture of old and new
//! meanwhile.

#![expect(
    unsafe_code,
    reason = "memory shared with the kernel has no owner that Rust knows"
)]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use spindles_block::{BlockSize, BufferId, BufferSlice, Piece};
use std::{io, ptr, ptr::NonNull, slice};

/// Size of the buffer of zeros: as long as the longest operation.
const ZEROS_BYTES: usize = 64 << 20;
/// Large pages are worth requesting from this size on.
const LARGE_PAGES_FROM_BYTES: usize = 2 << 20;

/// Mapped memory, zeros at first.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region owns its memory, as a box does; the pointer is passed on only under the contract
// above.
unsafe impl Send for Region {}

impl Region {
    /// Maps `bytes` of zeros. Memory is allocated only when touched.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let region = Self::map(bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        if bytes >= LARGE_PAGES_FROM_BYTES {
            // Without large pages it is only slower.
            // SAFETY: the range is exactly the mapping made above, and the advice does not change
            // what it holds.
            let advised =
                unsafe { madvise(region.start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
            debug_assert!(advised.is_ok() || advised == Err(rustix::io::Errno::INVAL));
        }
        Ok(region)
    }

    /// Maps `bytes` of read-only zeros.
    fn zeros(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, ProtFlags::READ)
    }

    fn map(bytes: usize, protection: ProtFlags) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so no other memory is replaced.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes.max(1), protection, flags) }?;
        Ok(Self {
            start: NonNull::new(start.cast()).expect("the kernel maps nothing at zero"),
            bytes,
        })
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped, readable and initialised (zeros) for `bytes`, until `self` is dropped.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Returns the bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; writable, because read-only regions are only reached through
        // `Buffers::zeros`, which never calls this.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`, which is no longer borrowed.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes.max(1)) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A part of a buffer, for the kernel or a thread of the pool.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Address of its first byte.
    pub(crate) start: NonNull<u8>,
    /// The buffer that contains the memory. Its number selects the registered buffer, if there is
    /// one.
    pub(crate) buffer: BufferId,
}

// SAFETY: only an address; its users keep the contract of this module.
unsafe impl Send for Memory {}

impl Memory {
    /// For operations without data.
    pub const NONE: Self = Self {
        start: NonNull::dangling(),
        buffer: BufferId::NONE,
    };
}

/// Several pieces of memory that one write takes one after another, for the kernel or a thread of
/// the pool: a list, unchanged until the write is done.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    first: NonNull<libc::iovec>,
    count: usize,
}

// SAFETY: as `Memory`; the list is only read.
unsafe impl Send for Pieces {}

/// The rest of pieces after some bytes of them are written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rest {
    /// Whole pieces.
    Whole(Pieces),
    /// The rest of one piece: its address and its length in bytes.
    Part(NonNull<u8>, u64),
}

impl Pieces {
    /// Returns the pieces, each with its length.
    pub(crate) fn list(&self) -> &[libc::iovec] {
        // SAFETY: the list is in its place, and unchanged, until the write is done.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }

    /// Returns what is left after `done` bytes.
    pub(crate) fn rest(self, done: u64) -> Rest {
        let mut left = usize::try_from(done).expect("64 bits");
        for (at, piece) in self.list().iter().enumerate() {
            if left == 0 {
                return Rest::Whole(Self {
                    first: NonNull::from(piece),
                    count: self.count - at,
                });
            }
            if left < piece.iov_len {
                let start = piece.iov_base.cast::<u8>().wrapping_add(left);
                let start = NonNull::new(start).expect("memory does not wrap around");
                let bytes = piece.iov_len - left;
                return Rest::Part(start, u64::try_from(bytes).expect("64 bits"));
            }
            left -= piece.iov_len;
        }
        panic!("nothing is left after {done} bytes");
    }

    /// Returns the places of `bytes` bytes from byte `from` on.
    pub(crate) fn places(&self, from: usize, bytes: usize) -> impl Iterator<Item = libc::iovec> {
        let (mut skipped, mut left) = (from, bytes);
        self.list().iter().filter_map(move |piece| {
            let before = skipped.min(piece.iov_len);
            skipped -= before;
            let length = (piece.iov_len - before).min(left);
            left -= length;
            (length > 0).then(|| libc::iovec {
                iov_base: piece.iov_base.cast::<u8>().wrapping_add(before).cast(),
                iov_len: length,
            })
        })
    }
}

/// The list of pieces of one write at a time.
#[derive(Debug)]
pub struct PieceList(Vec<libc::iovec>);

// SAFETY: as `Memory`.
unsafe impl Send for PieceList {}

impl PieceList {
    /// Returns a list with room for this many pieces.
    #[must_use]
    pub fn with_capacity(pieces_max: usize) -> Self {
        Self(Vec::with_capacity(pieces_max))
    }

    /// Lists the pieces of a write. The list stays as it is until the write is done.
    pub fn fill(&mut self, buffers: &Buffers, pieces: &[Piece]) -> Pieces {
        self.0.clear();
        self.0.extend(pieces.iter().map(|piece| {
            let (start, bytes) = buffers.place(piece.buffer, piece.blocks);
            libc::iovec {
                iov_base: start.as_ptr().cast(),
                iov_len: bytes,
            }
        }));
        Pieces {
            first: NonNull::from(&self.0[..]).cast(),
            count: self.0.len(),
        }
    }
}

/// All buffers of a target.
#[derive(Debug)]
pub struct Buffers {
    block_size: BlockSize,
    regions: Vec<Region>,
    zeros: Region,
}

impl Buffers {
    /// Returns no buffers, for blocks of this size.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn new(block_size: BlockSize) -> io::Result<Self> {
        Ok(Self {
            block_size,
            regions: Vec::new(),
            zeros: Region::zeros(ZEROS_BYTES)?,
        })
    }

    /// Returns the size of blocks.
    #[must_use]
    pub fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Adds a buffer of zeros.
    pub fn allocate(&mut self, blocks: u32) -> io::Result<BufferId> {
        let id = BufferId(u32::try_from(self.regions.len()).expect("few buffers"));
        self.regions.push(Region::new(self.offset(blocks))?);
        Ok(id)
    }

    /// Replaces the memory of a buffer that is not in use yet.
    pub fn replace(&mut self, id: BufferId, blocks: u32) -> io::Result<()> {
        let region = Region::new(self.offset(blocks))?;
        self.regions[index(id)] = region;
        Ok(())
    }

    /// Returns a whole buffer.
    pub fn buffer(&self, id: BufferId) -> &[u8] {
        self.regions[index(id)].bytes()
    }

    /// Returns a whole buffer, for writing.
    pub fn buffer_mut(&mut self, id: BufferId) -> &mut [u8] {
        self.regions[index(id)].bytes_mut()
    }

    fn offset(&self, blocks: u32) -> usize {
        usize::try_from(u64::from(blocks) * u64::from(self.block_size.bytes())).expect("64 bits")
    }

    /// Returns the address and length of a slice; panics if the buffer is too short for it.
    fn place(&self, place: BufferSlice, blocks: u32) -> (NonNull<u8>, usize) {
        let bytes = self.offset(blocks);
        let (region, first) = match place.buffer {
            BufferId::ZEROS => (&self.zeros, 0),
            id => (&self.regions[index(id)], self.offset(place.first_block)),
        };
        assert!(
            first <= region.bytes && bytes <= region.bytes - first,
            "{blocks} blocks at {place:?} are not in the buffer"
        );
        // SAFETY: `first` is within the region, as just asserted.
        (unsafe { region.start.add(first) }, bytes)
    }

    /// Returns the bytes of a slice.
    pub fn slice(&self, place: BufferSlice, blocks: u32) -> &[u8] {
        let (start, bytes) = self.place(place, blocks);
        // SAFETY: `place` lies within a region, which lives as long as `self`.
        unsafe { slice::from_raw_parts(start.as_ptr(), bytes) }
    }

    /// Returns the bytes of a slice, for writing.
    pub fn slice_mut(&mut self, place: BufferSlice, blocks: u32) -> &mut [u8] {
        assert_ne!(place.buffer, BufferId::ZEROS, "zeros are not written to");
        let (start, bytes) = self.place(place, blocks);
        // SAFETY: `place` lies within a writable region, and `self` is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }

    /// Returns the address and length of a slice that may be written.
    pub fn extent_of(&self, place: BufferSlice, blocks: u32) -> (NonNull<u8>, usize) {
        assert_ne!(place.buffer, BufferId::ZEROS, "zeros are not written to");
        self.place(place, blocks)
    }

    /// Returns the memory of a slice, for an operation that may `fill` it.
    pub fn memory(&self, place: BufferSlice, blocks: u32, fill: bool) -> Memory {
        if place.buffer == BufferId::NONE {
            return Memory::NONE;
        }
        assert!(
            !fill || place.buffer != BufferId::ZEROS,
            "zeros are not read into"
        );
        Memory {
            start: self.place(place, blocks).0,
            buffer: place.buffer,
        }
    }

    /// Returns all buffers.
    pub fn ids(&self) -> impl Iterator<Item = BufferId> + use<> {
        let count = u32::try_from(self.regions.len()).expect("few buffers");
        (0..count).map(BufferId)
    }

    /// Returns the address and length of a buffer, for registration with the kernel.
    pub fn extent(&self, id: BufferId) -> (NonNull<u8>, usize) {
        let region = &self.regions[index(id)];
        (region.start, region.bytes)
    }
}

fn index(id: BufferId) -> usize {
    usize::try_from(id.0).expect("64 bits")
}
