//! Tests writes of several pieces of memory on every kind of device.

use super::scripted::{Act, BLOCK, MIB, Served, usual};
use crate::device_io::{DeviceIndex, DeviceIo};
use crate::members::Members;
use spindles_block::{
    BlockIndex, BufferId, BufferSlice, Instant, MemberError, MemberResult, Operation, Piece,
};
use spindles_device::queues::Wait;
use spindles_device::transfer::Tag;
use spindles_device::{IoChoice, OpenOptions};
use spindles_engine::PIECES_MAX;
use spindles_nbd::handshake::{BlockSizes, Export};
use spindles_nbd::transmission::{Failure, Request as Asked};
use std::fs::File;
use std::time::Duration;

const WRITE: Operation = Operation::Write { fua: false };
const WRITE_FUA: Operation = Operation::Write { fua: true };
/// Blocks of the buffer that all data is in, and of a device.
const BLOCKS: u32 = 256;

/// One device, and memory with a different byte in each block.
struct World {
    members: Members,
    device: DeviceIndex,
    buffer: BufferId,
}

impl World {
    /// `None` if this kernel does not have the queue.
    fn open(name: &str, options: &OpenOptions) -> Option<Self> {
        let mut members = Members::new(options).unwrap();
        members.prepare_pieces(1);
        let buffer = members.allocate(2 * BLOCKS);
        let blocks = members.buffers.buffer_mut(buffer).chunks_exact_mut(BLOCK);
        for (block, bytes) in (0..BLOCKS).zip(blocks) {
            bytes.fill(u8::try_from(block).unwrap());
        }
        match members.add(name, Duration::ZERO) {
            Ok(device) => Some(Self {
                members,
                device,
                buffer,
            }),
            Err(spindles_device::OpenError::NoUring { source }) => {
                eprintln!("SKIPPED: io_uring is not to be had here: {source}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn place(&self, first_block: u32) -> BufferSlice {
        BufferSlice {
            buffer: self.buffer,
            first_block,
        }
    }

    fn run(&mut self, operation: Operation, block: u64, pieces: &[Piece]) -> MemberResult {
        let io = DeviceIo {
            operation,
            block: BlockIndex(block),
            blocks: pieces.iter().map(|piece| piece.blocks).sum(),
            buffer: match pieces {
                [one] => one.buffer,
                _ => BufferSlice::PIECES,
            },
        };
        let pieces = if pieces.len() == 1 { &[] } else { pieces };
        let now = Instant(0);
        let started = (self.members).start(Tag(5), self.device, &io, pieces, now);
        started.unwrap_or_else(|| {
            loop {
                self.members.turn(Wait::Forever);
                if let Some((tag, result)) = self.members.next_done(now) {
                    assert_eq!(tag, Tag(5));
                    return result;
                }
            }
        })
    }

    /// Writes pieces, given as the first block and the number of blocks of each.
    fn write(&mut self, operation: Operation, block: u64, pieces: &[(u32, u32)]) -> MemberResult {
        let piece = |&(first, blocks): &(u32, u32)| Piece {
            buffer: self.place(first),
            blocks,
        };
        let pieces: Vec<Piece> = pieces.iter().map(piece).collect();
        self.run(operation, block, &pieces)
    }

    /// Reads all blocks of the device, and returns the byte that each is full of.
    fn read(&mut self) -> Vec<u8> {
        let buffer = self.place(BLOCKS);
        let blocks = BLOCKS;
        self.run(Operation::Read, 0, &[Piece { buffer, blocks }])
            .unwrap();
        let bytes = self.members.buffers.slice(buffer, blocks);
        let blocks = bytes.chunks_exact(BLOCK);
        blocks
            .map(|block| {
                assert!(block.iter().all(|byte| *byte == block[0]));
                block[0]
            })
            .collect()
    }
}

fn options(io: IoChoice) -> OpenOptions {
    OpenOptions {
        io,
        ..OpenOptions::default()
    }
}

const BOTH: [IoChoice; 2] = [IoChoice::Uring, IoChoice::Threads];

/// Writes the most pieces, and fewer over a part of them, and reads all back.
fn check(world: &mut World) {
    let mut expected = world.read();
    let pieces: Vec<(u32, u32)> = (0..u32::try_from(PIECES_MAX).unwrap())
        .map(|piece| (250 - 2 * piece, 1 + piece % 2))
        .collect();
    let few = [(3, 4), (100, 1), (9, 2)];
    for (operation, block, pieces) in [(WRITE_FUA, 7, &pieces[..]), (WRITE, 20, &few)] {
        assert_eq!(world.write(operation, block, pieces), Ok(()));
        let blocks = pieces
            .iter()
            .flat_map(|(first, blocks)| *first..first + blocks);
        for (at, block) in (usize::try_from(block).unwrap()..).zip(blocks) {
            expected[at] = u8::try_from(block).unwrap();
        }
        assert_eq!(world.read(), expected);
    }
}

#[test]
fn files_and_slices_take_pieces() {
    let folder = tempfile::tempdir().unwrap();
    for io in BOTH {
        for slice in [false, true] {
            let path = folder.path().join(format!("{io:?}-{slice}"));
            let bytes = u64::try_from(4 * MIB).unwrap();
            File::create_new(&path).unwrap().set_len(bytes).unwrap();
            let mut name = path.to_str().unwrap().to_owned();
            if slice {
                name = format!("slice({name},2048s,4096s)");
            }
            if let Some(mut world) = World::open(&name, &options(io)) {
                check(&mut world);
            }
        }
    }
}

#[test]
fn memory_takes_pieces() {
    let mut world = World::open("mem:1MiB", &OpenOptions::default()).unwrap();
    check(&mut world);
}

/// Writes to a device that is open read-only stay in memory.
#[test]
fn an_overlay_takes_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    std::fs::write(&path, vec![7; MIB]).unwrap();
    let read_only = OpenOptions {
        read_only: true,
        ..OpenOptions::default()
    };
    let mut world = World::open(path.to_str().unwrap(), &read_only).unwrap();
    check(&mut world);
    drop(world);
    assert!(std::fs::read(&path).unwrap() == vec![7; MIB]);
}

/// One request carries all pieces. A server that takes only short ones gets several.
#[test]
fn exports_take_pieces_in_one_request() {
    for io in BOTH {
        for payload_bytes_max in [1 << 20, 5 * 512_u32] {
            let export = move |_| Export {
                block_sizes: BlockSizes {
                    min_bytes: 512,
                    preferred_bytes: 4096,
                    payload_bytes_max,
                },
                ..usual()
            };
            let served = Served::new(export, Box::new(|_, _, _: &Asked| Act::Do));
            let Some(mut world) = World::open(&served.url(), &options(io)) else {
                continue;
            };
            check(&mut world);
            let log = served.log();
            let writes = log.split("; ").filter(|line| line.contains("write"));
            if payload_bytes_max == 1 << 20 {
                assert_eq!(writes.clone().count(), 2, "{log}");
                assert!(log.contains("write fua 28672+"), "{log}");
            } else {
                let bytes = (151 + 7) * BLOCK;
                let requests = bytes.div_ceil(usize::try_from(payload_bytes_max).unwrap());
                assert_eq!(writes.count(), requests + 1, "{log}");
            }
        }
    }
}

/// Without FUA at the server, a flush follows. Its refusal is the error of the whole write.
#[test]
fn exports_without_fua_are_flushed() {
    let without = |_| Export {
        flags: super::scripted::flags(&[spindles_nbd::TransmissionFlags::SEND_FLUSH]),
        ..usual()
    };
    let script = |_, _, asked: &Asked| match asked.command {
        spindles_nbd::transmission::Command::Write if asked.offset_bytes == 0 => {
            Act::Fail(Failure::NoSpace)
        }
        _ => Act::Do,
    };
    let served = Served::new(without, Box::new(script));
    let mut world = World::open(&served.url(), &OpenOptions::default()).unwrap();
    let pieces = [(4, 1), (9, 2)];
    assert_eq!(world.write(WRITE_FUA, 2, &pieces), Ok(()));
    let refused = world.write(WRITE_FUA, 0, &pieces);
    assert_eq!(refused, Err(MemberError::NoSpace));
    let log = served.log();
    let expected = "0 write 8192+12288; 0 flush 0+0; 0 write 0+12288";
    assert!(log.ends_with(expected), "{log}");
}
