//! Queues that carry transfers on files and devices to the kernel and back: `io_uring`, or a pool
//! of threads if that is forbidden.

mod queue;
mod threads;
mod uring;

pub use queue::{Queue, Wait};
pub use queue::{Readiness, Watch, WatchId};

use crate::buffers::Memory;
use crate::{IoChoice, OpenError};

/// A queue, and the reason if it is not `io_uring`.
#[derive(Debug)]
pub struct Chosen {
    /// The queue.
    pub queue: Box<dyn Queue>,
    /// The reason for threads.
    pub reason: Option<String>,
}

/// Opens the requested queue, or with `Auto` the best available one. `zeros` is memory with the
/// most zeros that one call writes.
pub fn open(choice: IoChoice, zeros: Memory) -> Result<Chosen, OpenError> {
    let (choice, asked_by) = match choice {
        IoChoice::Auto => (from_environment()?, "SPINDLES_IO"),
        choice => (choice, "the caller"),
    };
    let threads = |reason| Chosen {
        queue: Box::new(threads::Threads::new(zeros)),
        reason: Some(reason),
    };
    if choice == IoChoice::Threads {
        return Ok(threads(format!("{asked_by} asks for threads")));
    }
    match uring::Uring::new(zeros) {
        Ok(ring) => Ok(Chosen {
            reason: ring.has_threads().then(|| uring::STALL.to_owned()),
            queue: Box::new(ring),
        }),
        Err(source) if choice == IoChoice::Uring => Err(OpenError::NoUring { source }),
        Err(source) => Ok(threads(format!("io_uring is not available: {source}"))),
    }
}

fn from_environment() -> Result<IoChoice, OpenError> {
    let Some(value) = std::env::var_os("SPINDLES_IO") else {
        return Ok(IoChoice::Auto);
    };
    match value.to_str() {
        Some("") => Ok(IoChoice::Auto),
        Some("io_uring") => Ok(IoChoice::Uring),
        Some("threads") => Ok(IoChoice::Threads),
        _ => Err(OpenError::Environment {
            value: value.to_string_lossy().into_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::{Buffers, PieceList};
    use crate::transfer::{Tag, Transfer};
    use spindles_block::{BlockSize, BufferSlice, MemberError, MemberResult, Operation, Piece};
    use std::fs::{self, File};
    use std::os::fd::OwnedFd;

    /// The most pieces of a write of the engine, and a few more.
    const PIECES: u32 = 110;
    const BLOCK: usize = 512;

    /// Both queues, as far as the kernel has them.
    fn queues() -> Vec<Chosen> {
        let open = |choice| open(choice, Memory::NONE);
        let threads = open(IoChoice::Threads).unwrap();
        [open(IoChoice::Uring).ok(), Some(threads)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Writes pieces of one, two and three blocks in turn, from the end of a buffer to its start.
    /// Returns the result, and the bytes that the file must have then.
    fn write(
        queue: &mut dyn Queue,
        file: OwnedFd,
        offset: u64,
        fua: bool,
    ) -> (MemberResult, Vec<u8>) {
        let file = queue.add_file(file).unwrap();
        let mut buffers = Buffers::new(BlockSize::B512).unwrap();
        let buffer = buffers.allocate(4 * PIECES).unwrap();
        let blocks = buffers.buffer_mut(buffer).chunks_exact_mut(BLOCK);
        for (block, bytes) in (0..).zip(blocks) {
            bytes.fill(u8::try_from(block % 251).unwrap());
        }
        let pieces: Vec<Piece> = (0..PIECES)
            .map(|piece| Piece {
                buffer: BufferSlice {
                    buffer,
                    first_block: 4 * (PIECES - 1 - piece),
                },
                blocks: 1 + piece % 3,
            })
            .collect();
        let bytes = |piece: &Piece| buffers.slice(piece.buffer, piece.blocks).to_vec();
        let expected: Vec<u8> = pieces.iter().flat_map(bytes).collect();
        let mut list = PieceList::with_capacity(pieces.len());
        let pieces = list.fill(&buffers, &pieces);
        let bytes = u64::try_from(expected.len()).unwrap();
        let (tag, write) = (Tag(3), Operation::Write { fua });
        let transfer = Transfer::new(tag, file, write, offset, bytes, Memory::NONE);
        queue.start(transfer.with_pieces(Some(pieces)));
        let done = loop {
            queue.turn(Wait::Forever);
            if let Some(done) = queue.next_done() {
                break done;
            }
        };
        assert_eq!(done.0, tag);
        (done.1, expected)
    }

    #[test]
    fn pieces_are_written_one_after_another() {
        let folder = tempfile::tempdir().unwrap();
        for (number, chosen) in queues().iter_mut().enumerate() {
            for fua in [false, true] {
                let path = folder.path().join(format!("{number}-{fua}"));
                File::create_new(&path).unwrap().set_len(1 << 20).unwrap();
                let options = crate::OpenOptions::default();
                let opened = crate::backends::open(path.to_str().unwrap(), &options).unwrap();
                let crate::backends::Medium::File(file) = opened.medium else {
                    panic!("a file");
                };
                let queue = &mut *chosen.queue;
                let (result, expected) = write(queue, file, 4096, fua);
                assert_eq!(result, Ok(()), "{}", queue.name());
                let mut before = vec![0; 4096];
                before.extend(expected);
                before.resize(1 << 20, 0);
                assert!(fs::read(&path).unwrap() == before, "{}", queue.name());
            }
        }
    }

    #[test]
    fn a_failed_write_of_pieces_fails_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        fs::write(&path, vec![0; 1 << 20]).unwrap();
        for chosen in &mut queues() {
            // Only open for reading.
            let file = File::open(&path).unwrap().into();
            let (result, _) = write(&mut *chosen.queue, file, 0, true);
            assert_eq!(result, Err(MemberError::Gone), "{}", chosen.queue.name());
        }
    }
}
