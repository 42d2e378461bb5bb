//! One operation on one file as a chain of system calls: which call comes next, and what its result
//! means. Both queues run these.

use crate::buffers::{Memory, Pieces, Rest};
use crate::positioned::Retries;
use crate::waiting::waits_for_space;
use rustix::fs::{FileType, SeekFrom, fstat, seek};
use rustix::io::Errno;
use spindles_block::{MemberError, MemberResult, Operation};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

/// A file of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIndex(pub u16);

/// The driver's name for a transfer; returned with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub u64);

/// A file that a queue works on.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) descriptor: OwnedFd,
    /// Size of a block device when it was opened; 0 for other files.
    device_bytes: u64,
}

impl OpenFile {
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        Self {
            device_bytes: device_bytes(&descriptor),
            descriptor,
        }
    }

    /// Returns true if the file is a device that became shorter, such as one that was pulled out.
    fn is_cut_off(&self) -> bool {
        device_bytes(&self.descriptor) < self.device_bytes
    }
}

/// Returns the size of a block device; 0 if it reports none, and for other files.
fn device_bytes(file: &OwnedFd) -> u64 {
    let is_device =
        fstat(file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_block_device());
    if is_device {
        seek(file, SeekFrom::End(0)).unwrap_or(0)
    } else {
        0
    }
}

/// Calls that a file supports besides reads and writes, learned from its refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Punching holes.
    pub(crate) punch: bool,
    /// Zeroing a range.
    pub(crate) zero_range: bool,
}

impl Abilities {
    /// All calls, until the file refuses one.
    pub(crate) const ALL: Self = Self {
        punch: true,
        zero_range: true,
    };
}

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Read `bytes` at `offset` into the memory from `done` on.
    Read,
    /// Write `bytes` at `offset` from the memory; if `durable`, with `RWF_DSYNC`.
    Write {
        /// True if the write is durable when it is answered.
        durable: bool,
    },
    /// Write zeros.
    WriteZeros,
    /// Make earlier writes durable.
    Fdatasync,
    /// Free the space of a range, which reads as zeros then.
    PunchHole,
    /// Zero a range and keep its space.
    ZeroRange,
}

/// What to do after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Make the call that `call` returns now.
    Again,
    /// Make the call that `call` returns, after a short pause.
    Later,
    /// The transfer is complete.
    Done(MemberResult),
}

/// An operation in progress.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub(crate) tag: Tag,
    /// The file.
    pub file: FileIndex,
    pub(crate) memory: Memory,
    /// The memory of a write with several pieces, in place of `memory`.
    pieces: Option<Pieces>,
    /// The operation.
    pub operation: Operation,
    offset_bytes: u64,
    bytes: u64,
    done_bytes: u64,
    call: Call,
    retries: Retries,
}

/// Most bytes of one call. The kernel's own limit is just below 2 GiB.
const CALL_BYTES_MAX: u64 = 1 << 30;
/// Most zeros written by one call, in bytes.
pub const ZEROS_BYTES_MAX: u64 = 4 << 20;

impl Transfer {
    /// Begins a transfer of `bytes` bytes at `offset_bytes`.
    pub fn new(
        tag: Tag,
        file: FileIndex,
        operation: Operation,
        offset_bytes: u64,
        bytes: u64,
        memory: Memory,
    ) -> Self {
        let call = match operation {
            Operation::Read => Call::Read,
            Operation::Write { fua } => Call::Write { durable: fua },
            Operation::Flush => Call::Fdatasync,
            Operation::Discard => Call::PunchHole,
            Operation::WriteZeroes { .. } => Call::ZeroRange,
        };
        Self {
            tag,
            file,
            memory,
            pieces: None,
            operation,
            offset_bytes,
            bytes,
            done_bytes: 0,
            call,
            retries: Retries::default(),
        }
    }

    /// Takes the memory of a write from these pieces, if any.
    #[must_use]
    pub fn with_pieces(mut self, pieces: Option<Pieces>) -> Self {
        if pieces.is_some() {
            let writes = matches!(self.operation, Operation::Write { .. });
            assert!(
                writes && self.bytes <= CALL_BYTES_MAX,
                "one call writes all"
            );
        }
        self.pieces = pieces;
        self
    }

    /// Adapts the transfer to what its file supports. Only a discard punches a hole: zeros keep
    /// the space that was reserved for them.
    pub(crate) fn limited_to(mut self, abilities: Abilities) -> Self {
        if matches!(self.call, Call::PunchHole | Call::ZeroRange) {
            self.call = match (self.operation, abilities.punch, abilities.zero_range) {
                (Operation::Discard, true, _) => Call::PunchHole,
                (_, _, true) => Call::ZeroRange,
                (_, _, false) => Call::WriteZeros,
            };
        }
        self
    }

    /// Returns the call to make now.
    pub fn call(&self) -> Call {
        self.call
    }

    /// Returns the offset in the file where the transfer continues.
    pub(crate) fn offset(&self) -> u64 {
        self.offset_bytes + self.done_bytes
    }

    /// Returns how many bytes of the memory are done.
    pub(crate) fn done(&self) -> u64 {
        self.done_bytes
    }

    /// Returns the pieces that the next call writes; `None` if it has one piece of memory. After a
    /// call that ended within a piece, the next call writes the rest of that piece.
    pub(crate) fn pieces(&self) -> Option<Pieces> {
        match self.pieces?.rest(self.done_bytes) {
            Rest::Whole(pieces) => Some(pieces),
            Rest::Part(..) => None,
        }
    }

    /// Returns the address of the memory of the next call, if that has one piece. It is only an
    /// address until it is accessed.
    pub(crate) fn start(&self) -> NonNull<u8> {
        if let Some(pieces) = self.pieces
            && let Rest::Part(start, _) = pieces.rest(self.done_bytes)
        {
            return start;
        }
        let done = usize::try_from(self.done_bytes).expect("64 bits");
        let start = self.memory.start.as_ptr().wrapping_add(done);
        NonNull::new(start).expect("memory does not wrap around")
    }

    /// Returns the length of the next call, in bytes.
    pub(crate) fn length(&self) -> u64 {
        let left = self.bytes - self.done_bytes;
        let bytes_max = match (self.call, self.pieces) {
            (Call::WriteZeros, _) => ZEROS_BYTES_MAX,
            (_, Some(pieces)) if left > 0 => match pieces.rest(self.done_bytes) {
                Rest::Whole(_) => CALL_BYTES_MAX,
                Rest::Part(_, bytes) => bytes,
            },
            _ => CALL_BYTES_MAX,
        };
        left.min(bytes_max)
    }

    /// Takes the call's result: the bytes it moved, or its error.
    pub(crate) fn advance(
        &mut self,
        result: Result<u64, Errno>,
        file: &OpenFile,
        abilities: &mut Abilities,
    ) -> After {
        match result {
            Ok(moved) => {
                self.retries = Retries::default();
                self.moved(moved)
            }
            Err(Errno::INTR | Errno::AGAIN) if self.retries.again() => After::Later,
            // The device returns nothing but this error.
            Err(Errno::INTR | Errno::AGAIN) => After::Done(Err(MemberError::Gone)),
            Err(errno) => self.failed(errno, file, abilities),
        }
    }

    fn moved(&mut self, moved: u64) -> After {
        match self.call {
            Call::Read | Call::Write { .. } | Call::WriteZeros => {
                self.done_bytes += moved.min(self.length());
                if self.done_bytes < self.bytes {
                    return match (moved, self.call) {
                        // The end of a truncated file: the blocks behind it are lost.
                        (0, Call::Read) => After::Done(Err(MemberError::Medium)),
                        (0, _) => After::Done(Err(MemberError::Gone)),
                        _ => After::Again,
                    };
                }
                if self.call == Call::WriteZeros {
                    return self.zeroed();
                }
            }
            Call::PunchHole | Call::ZeroRange => {
                self.done_bytes += self.length();
                if self.done_bytes < self.bytes {
                    return After::Again;
                }
                return self.zeroed();
            }
            Call::Fdatasync => {}
        }
        After::Done(Ok(()))
    }

    /// Completes a zeroing whose zeros are in place; with FUA a call that makes them durable comes
    /// first.
    fn zeroed(&mut self) -> After {
        if self.operation == (Operation::WriteZeroes { fua: true }) {
            self.call = Call::Fdatasync;
            return After::Again;
        }
        After::Done(Ok(()))
    }

    fn failed(&mut self, errno: Errno, file: &OpenFile, abilities: &mut Abilities) -> After {
        let refused = matches!(
            errno,
            Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM
        );
        match self.call {
            // Parts that are already punched or zeroed stay. To zero a part again is harmless.
            Call::PunchHole if refused => {
                abilities.punch = false;
                *self = self.limited_to(*abilities);
                After::Again
            }
            Call::ZeroRange if refused => {
                abilities.zero_range = false;
                *self = self.limited_to(*abilities);
                After::Again
            }
            Call::Read => After::Done(Err(match errno {
                Errno::NODEV | Errno::NXIO | Errno::BADF | Errno::NOMEDIUM => MemberError::Gone,
                _ => MemberError::Medium,
            })),
            // Space may be freed soon. Also, a write past the end of a device fails with this
            // error, hence `is_cut_off`.
            _ if matches!(errno, Errno::NOSPC | Errno::DQUOT) && !file.is_cut_off() => {
                if waits_for_space() && self.retries.again() {
                    After::Later
                } else {
                    After::Done(Err(MemberError::NoSpace))
                }
            }
            _ => After::Done(Err(MemberError::Gone)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::{Buffers, PieceList};
    use spindles_block::{BlockSize, BufferSlice, Piece};
    use std::fs::File;

    fn null() -> OpenFile {
        OpenFile::new(File::open("/dev/null").unwrap().into())
    }

    /// Runs an operation of 8192 bytes at 4096 with the given results, and checks the calls that it
    /// made and how it ended.
    fn check(operation: Operation, results: &[Result<u64, Errno>], expected: &str) {
        let (file, mut abilities) = (null(), Abilities::ALL);
        let mut transfer = Transfer::new(
            Tag(1),
            FileIndex(0),
            operation,
            4096,
            if operation == Operation::Flush {
                0
            } else {
                8192
            },
            Memory::NONE,
        );
        let mut printed = Vec::new();
        for result in results {
            printed.push(format!(
                "{:?} {}+{}",
                transfer.call(),
                transfer.offset(),
                transfer.length()
            ));
            match transfer.advance(*result, &file, &mut abilities) {
                After::Again | After::Later => {}
                After::Done(end) => printed.push(format!("{end:?}")),
            }
        }
        assert_eq!(printed.join("; "), expected, "{operation:?}");
    }

    /// After a short call, the next one writes the rest of its piece, then one the other pieces.
    #[test]
    fn a_write_of_several_pieces_continues_within_them() {
        let mut buffers = Buffers::new(BlockSize::B512).unwrap();
        let buffer = buffers.allocate(16).unwrap();
        let piece = |first_block, blocks| Piece {
            buffer: BufferSlice {
                buffer,
                first_block,
            },
            blocks,
        };
        let mut list = PieceList::with_capacity(3);
        let pieces = list.fill(&buffers, &[piece(9, 2), piece(0, 1), piece(4, 3)]);
        let fua = Operation::Write { fua: true };
        let transfer = Transfer::new(Tag(1), FileIndex(0), fua, 4096, 6 * 512, Memory::NONE);
        let mut transfer = transfer.with_pieces(Some(pieces));
        let (file, mut abilities) = (null(), Abilities::ALL);
        let begin = buffers.buffer(buffer).as_ptr().addr();
        let mut printed = Vec::new();
        for (moved, after) in [
            (512, After::Again),
            (100, After::Again),
            (412, After::Again),
            (512 + 512, After::Again),
            (1000, After::Again),
            (24, After::Done(Ok(()))),
        ] {
            let length = |place: &libc::iovec| (place.iov_base.addr() - begin, place.iov_len);
            let call = if let Some(pieces) = transfer.pieces() {
                pieces.list().iter().map(length).collect()
            } else {
                let start = transfer.start().as_ptr().addr() - begin;
                vec![(start, usize::try_from(transfer.length()).unwrap())]
            };
            printed.push((transfer.offset() - 4096, call));
            assert_eq!(transfer.call(), Call::Write { durable: true });
            assert_eq!(transfer.advance(Ok(moved), &file, &mut abilities), after);
        }
        let block = |block: usize| block * 512;
        let expected = [
            (0, vec![(block(9), 1024), (0, 512), (block(4), 1536)]),
            (512, vec![(block(10), 512)]),
            (612, vec![(block(10) + 100, 412)]),
            (1024, vec![(0, 512), (block(4), 1536)]),
            (2048, vec![(block(5), 1024)]),
            (3048, vec![(block(6) + 488, 24)]),
        ];
        assert_eq!(printed, expected);
    }

    /// A call that is put off is repeated, but not forever, even if bytes moved before.
    #[test]
    fn a_device_that_only_defers_fails() {
        for errno in [Errno::AGAIN, Errno::INTR] {
            for operation in [
                Operation::Read,
                Operation::Write { fua: true },
                Operation::Flush,
                Operation::Discard,
                Operation::WriteZeroes { fua: true },
            ] {
                let bytes = if operation == Operation::Flush {
                    0
                } else {
                    8192
                };
                let (tag, file) = (Tag(1), FileIndex(0));
                let mut transfer = Transfer::new(tag, file, operation, 0, bytes, Memory::NONE);
                let (file, mut abilities) = (null(), Abilities::ALL);
                let mut advance = |result| transfer.advance(result, &file, &mut abilities);
                if matches!(operation, Operation::Read | Operation::Write { .. }) {
                    assert_eq!(advance(Err(errno)), After::Later);
                    assert_eq!(advance(Ok(512)), After::Again);
                }
                let calls = (1..100_000).find(|_| advance(Err(errno)) != After::Later);
                assert_eq!(calls, Some(1001), "{operation:?}");
                assert_eq!(advance(Err(errno)), After::Done(Err(MemberError::Gone)));
            }
        }
    }

    #[test]
    fn transfers() {
        let fua = Operation::Write { fua: true };
        let zeroes = Operation::WriteZeroes { fua: false };
        check(Operation::Read, &[Ok(8192)], "Read 4096+8192; Ok(())");
        check(
            Operation::Read,
            &[Ok(4096), Err(Errno::INTR), Ok(4096)],
            "Read 4096+8192; Read 8192+4096; Read 8192+4096; Ok(())",
        );
        check(Operation::Read, &[Ok(0)], "Read 4096+8192; Err(Medium)");
        check(
            Operation::Read,
            &[Err(Errno::IO)],
            "Read 4096+8192; Err(Medium)",
        );
        check(
            Operation::Read,
            &[Err(Errno::NODEV)],
            "Read 4096+8192; Err(Gone)",
        );
        check(
            fua,
            &[Ok(512), Ok(7680)],
            "Write { durable: true } 4096+8192; Write { durable: true } 4608+7680; Ok(())",
        );
        check(
            fua,
            &[Err(Errno::IO)],
            "Write { durable: true } 4096+8192; Err(Gone)",
        );
        check(
            fua,
            &[Err(Errno::ROFS)],
            "Write { durable: true } 4096+8192; Err(Gone)",
        );
        check(Operation::Flush, &[Ok(0)], "Fdatasync 4096+0; Ok(())");
        check(
            Operation::Flush,
            &[Err(Errno::IO)],
            "Fdatasync 4096+0; Err(Gone)",
        );
        check(Operation::Discard, &[Ok(0)], "PunchHole 4096+8192; Ok(())");
        check(
            Operation::Discard,
            &[Err(Errno::OPNOTSUPP), Err(Errno::OPNOTSUPP), Ok(8192)],
            "PunchHole 4096+8192; ZeroRange 4096+8192; WriteZeros 4096+8192; Ok(())",
        );
        check(
            Operation::Discard,
            &[Err(Errno::IO)],
            "PunchHole 4096+8192; Err(Gone)",
        );
        check(zeroes, &[Ok(0)], "ZeroRange 4096+8192; Ok(())");
        check(
            Operation::WriteZeroes { fua: true },
            &[Ok(0), Ok(0)],
            "ZeroRange 4096+8192; Fdatasync 12288+0; Ok(())",
        );
        check(
            Operation::WriteZeroes { fua: true },
            &[Err(Errno::OPNOTSUPP), Ok(4096), Ok(4096), Ok(0)],
            "ZeroRange 4096+8192; WriteZeros 4096+8192; \
             WriteZeros 8192+4096; Fdatasync 12288+0; Ok(())",
        );
    }
}
