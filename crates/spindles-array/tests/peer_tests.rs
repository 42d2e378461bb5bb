//! Tests exports against scripted servers, which disconnect, stay silent, answer wrongly, forget or
//! refuse.

use super::scripted::{Act, BLOCK, MIB, Served, flags, usual};
use crate::{Target, open_device};
use spindles_block::{BlockIndex, BufferSlice, Operation, Reply, Request, RequestError};
use spindles_device::{IoChoice, OpenOptions, PeerTimeouts};
use spindles_nbd::TransmissionFlags as Flags;
use spindles_nbd::handshake::{BlockSizes, Export};
use spindles_nbd::transmission::{Command, Failure, Request as Asked};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Servers here answer at once, unless a test wants otherwise.
const TIMEOUTS: PeerTimeouts = PeerTimeouts {
    connect: Duration::from_secs(10),
    reconnect: Duration::from_secs(10),
    silence: Duration::from_secs(10),
};

/// For servers that never answer.
const SHORT_TIMEOUTS: PeerTimeouts = PeerTimeouts {
    connect: Duration::from_millis(400),
    reconnect: Duration::from_millis(400),
    silence: Duration::from_millis(300),
};

fn options(io: IoChoice) -> OpenOptions {
    OpenOptions {
        peer_timeouts: TIMEOUTS,
        io,
        ..OpenOptions::default()
    }
}

fn open(served: &Served, io: IoChoice) -> Box<dyn Target> {
    open_device(&served.url(), &options(io)).unwrap()
}

/// Submits one request and waits for its reply.
fn ask(
    target: &mut dyn Target,
    operation: Operation,
    block: u64,
    blocks: u32,
    fill: u8,
) -> Result<Vec<u8>, RequestError> {
    let buffer = target.allocate(blocks.max(1));
    target.buffer_mut(buffer).fill(fill);
    let request = Request {
        token: 7,
        operation,
        block: BlockIndex(block),
        blocks,
        buffer: BufferSlice {
            buffer,
            first_block: 0,
        },
    };
    target.submit(request).unwrap();
    let Reply { result, .. } = target.poll(true).unwrap();
    result.map(|()| target.buffer(buffer).to_vec())
}

const WRITE: Operation = Operation::Write { fua: false };
const WRITE_FUA: Operation = Operation::Write { fua: true };
const BOTH: [IoChoice; 2] = [IoChoice::Uring, IoChoice::Threads];

fn can_be_had(io: IoChoice) -> bool {
    let looks = OpenOptions {
        read_only: true,
        ..options(io)
    };
    match open_device("/proc/self/exe", &looks) {
        // The file was opened; its length does not matter here.
        Ok(_) | Err(spindles_device::OpenError::NotWhole { .. }) => true,
        Err(spindles_device::OpenError::NoUring { source }) => {
            eprintln!("SKIPPED: io_uring is not to be had here: {source}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn writes_read_back_whole() {
    for io in BOTH.into_iter().filter(|io| can_be_had(*io)) {
        // Each access takes several requests, because the server allows no longer ones.
        let export = |_| Export {
            block_sizes: BlockSizes {
                min_bytes: 512,
                preferred_bytes: 4096,
                payload_bytes_max: 8192,
            },
            ..usual()
        };
        let served = Served::new(export, Box::new(|_, _, _| Act::Do));
        let mut target = open(&served, io);
        ask(&mut *target, WRITE, 1, 4, 5).unwrap();
        ask(&mut *target, WRITE_FUA, 7, 1, 6).unwrap();
        ask(&mut *target, Operation::Flush, 0, 0, 0).unwrap();
        ask(&mut *target, Operation::WriteZeroes { fua: true }, 2, 1, 0).unwrap();
        ask(&mut *target, Operation::Discard, 3, 1, 0).unwrap();
        let read = ask(&mut *target, Operation::Read, 0, 8, 9).unwrap();
        let blocks: Vec<u8> = read.chunks(BLOCK).map(|block| block[17]).collect();
        assert_eq!(blocks, [1, 5, 0, 0, 5, 1, 1, 6]);
        assert_eq!(read, served.disk.lock().unwrap()[..8 * BLOCK]);
        target.close().unwrap();
        let expected = "0 write 4096+8192; 0 write 12288+8192; 0 write fua 28672+4096; 0 flush \
            0+0; 0 writezeroes fua 8192+4096; 0 writezeroes 12288+4096; 0 read 0+8192; 0 read \
            8192+8192; 0 read 16384+8192; 0 read 24576+8192; 0 flush 0+0";
        let log = served.log();
        assert!(log.ends_with(expected), "{log}");
    }
}

#[test]
fn replies_arrive_in_any_order_and_in_pieces() {
    for io in BOTH.into_iter().filter(|io| can_be_had(*io)) {
        let script = |_, at, _: &Asked| {
            if at < 18 {
                Act::Gather(16)
            } else {
                Act::Pieces
            }
        };
        let served = Served::new(|_| usual(), Box::new(script));
        for (at, byte) in served.disk.lock().unwrap().iter_mut().enumerate() {
            *byte = u8::try_from(at / BLOCK).unwrap();
        }
        let mut target = open(&served, io);
        let buffer = target.allocate(16);
        for block in 0..16 {
            let request = Request {
                token: block,
                operation: Operation::Read,
                block: BlockIndex(block * 3),
                blocks: 1,
                buffer: BufferSlice {
                    buffer,
                    first_block: u32::try_from(block).unwrap(),
                },
            };
            target.submit(request).unwrap();
        }
        let mut order = Vec::new();
        while let Some(reply) = target.poll(true) {
            reply.result.unwrap();
            order.push(reply.token);
        }
        assert_eq!(order, (0..16).rev().collect::<Vec<u64>>());
        let read = target.buffer(buffer).chunks(BLOCK);
        let read: Vec<u8> = read.map(|block| block[4095]).collect();
        assert_eq!(read, (0..16).map(|block| block * 3).collect::<Vec<u8>>());
        let read = ask(&mut *target, Operation::Read, 16, 16, 9).unwrap();
        let read: Vec<u8> = read.chunks(BLOCK).map(|block| block[4095]).collect();
        assert_eq!(read, [&[0][..], &(17..32).collect::<Vec<u8>>()].concat());
    }
}

/// A request that a server refuses is distinguished from a lost server.
#[test]
fn refusals_are_reported_as_disk_errors() {
    for (failure, of_read, of_write) in [
        (
            Failure::Io,
            RequestError::BeyondTolerance,
            RequestError::BeyondTolerance,
        ),
        (
            Failure::NoSpace,
            RequestError::BeyondTolerance,
            RequestError::NoSpace,
        ),
    ] {
        let script = move |_, at, _: &Asked| {
            if at < 4 { Act::Fail(failure) } else { Act::Do }
        };
        let served = Served::new(|_| usual(), Box::new(script));
        let mut target = open(&served, IoChoice::Auto);
        assert_eq!(ask(&mut *target, Operation::Read, 9, 1, 0), Err(of_read));
        assert_eq!(ask(&mut *target, WRITE, 9, 1, 0), Err(of_write));
        ask(&mut *target, Operation::Read, 9, 1, 0).unwrap();
        ask(&mut *target, WRITE, 9, 1, 0).unwrap();
        assert!(!served.log().contains("1 "), "the connection stays");
    }
}

/// Without FUA a flush follows. Without write-zeroes, or if it is refused after all, zeros are
/// written as data.
#[test]
fn unsupported_server_commands_are_emulated() {
    let all = [Flags::SEND_FLUSH, Flags::SEND_FUA, Flags::SEND_WRITE_ZEROES];
    for (offered, refuses, expected) in [
        (
            &all[..1],
            false,
            "write 4096+4096; flush 0+0; write 8192+8192; flush 0+0",
        ),
        (&all[..2], false, "write fua 4096+4096; write fua 8192+8192"),
        (
            &all,
            true,
            "write fua 4096+4096; writezeroes fua 8192+8192; write fua 8192+8192",
        ),
    ] {
        let export = Export {
            flags: flags(offered),
            ..usual()
        };
        let script = move |_, _, request: &Asked| match request.command {
            Command::WriteZeroes if refuses => Act::Fail(Failure::NotSupported),
            _ => Act::Do,
        };
        let served = Served::new(move |_| export.clone(), Box::new(script));
        let mut target = open(&served, IoChoice::Auto);
        ask(&mut *target, WRITE_FUA, 1, 1, 5).unwrap();
        ask(&mut *target, Operation::WriteZeroes { fua: true }, 2, 2, 0).unwrap();
        let log = served.log().replace("0 ", "").replace('\n', "");
        assert!(log.ends_with(&expected.replace("0 ", "")), "{log}");
        let disk = served.disk.lock().unwrap();
        assert_eq!(
            [
                disk[BLOCK],
                disk[2 * BLOCK],
                disk[4 * BLOCK - 1],
                disk[4 * BLOCK]
            ],
            [5, 0, 0, 1]
        );
    }
}

/// Tests the table of `backends/nbd.rs` row by row: whether the device survives the loss of its
/// connection.
#[test]
fn a_lost_connection_resumes_if_no_write_is_in_doubt() {
    use Operation::{Flush, Read};
    let close = || Act::Close;
    let after = || Act::DoAndClose;
    for io in BOTH.into_iter().filter(|io| can_be_had(*io)) {
        for (what, operations, last, goes_on) in [
            ("idle, nothing written", &[Read][..], after(), true),
            ("a read under way", &[Read], close(), true),
            (
                "a flush under way, nothing written",
                &[Read, Flush],
                close(),
                true,
            ),
            ("idle, written and flushed", &[WRITE, Flush], after(), true),
            (
                "a read under way, written and flushed",
                &[WRITE, Flush, Read],
                close(),
                true,
            ),
            ("idle, written with FUA", &[WRITE_FUA], after(), true),
            ("idle, written and not flushed", &[WRITE], after(), false),
            (
                "a read under way, written and not flushed",
                &[WRITE, Read],
                close(),
                false,
            ),
            (
                "written after the flush",
                &[WRITE, Flush, WRITE],
                after(),
                false,
            ),
            ("the flush under way", &[WRITE, Flush], close(), false),
            ("a write under way", &[WRITE], close(), false),
            ("a write with FUA under way", &[WRITE_FUA], close(), false),
            ("zeros not flushed", &[Operation::Discard], after(), false),
        ] {
            let count = operations.len();
            let script = move |connection, at, _: &Asked| {
                if connection == 0 && at == count + 1 {
                    last.clone()
                } else {
                    Act::Do
                }
            };
            let served = Served::new(|_| usual(), Box::new(script));
            let mut target = open(&served, io);
            let mut result = Ok(Vec::new());
            for operation in operations {
                let blocks = u32::from(*operation != Flush);
                result = ask(&mut *target, *operation, 20, blocks, 5);
            }
            let next = ask(&mut *target, Read, 30, 1, 9);
            let log = served.log();
            let gone = Err(RequestError::BeyondTolerance);
            if goes_on {
                assert!(result.is_ok(), "{what}: {result:?} {log}");
                assert_eq!(next.map(|bytes| bytes[0]), Ok(1), "{what}: {log}");
            } else {
                assert_eq!(next.map(|bytes| bytes[0]), gone, "{what}: {log}");
                assert!(
                    !log.contains("1 read"),
                    "{what}: nothing is asked again: {log}"
                );
            }
        }
    }
}

/// A write that starts after the server ended the connection is not sent on it, and so is not in
/// doubt.
#[test]
fn a_write_after_the_end_of_a_connection_is_not_in_doubt() {
    for io in BOTH.into_iter().filter(|io| can_be_had(*io)) {
        let script = |connection, _, _: &Asked| match connection {
            0 => Act::DoAndClose,
            _ => Act::Do,
        };
        let served = Served::on_a_port(|_| usual(), Box::new(script));
        let mut target = open(&served, io);
        ask(&mut *target, WRITE_FUA, 20, 1, 5).unwrap();
        while served.ended.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        ask(&mut *target, WRITE, 21, 1, 5).unwrap();
        assert!(
            served.log().contains("1 write 86016+4096"),
            "{}",
            served.log()
        );
    }
}

/// A flush does not cover changes that were answered after it was sent.
#[test]
fn a_flush_covers_only_previously_answered_writes() {
    for (then, goes_on) in [(Operation::Read, false), (Operation::Flush, true)] {
        let script = |connection, at, _: &Asked| match (connection, at) {
            (0, 2 | 3) => Act::Gather(2),
            (0, 4) => Act::Do,
            (0, _) => Act::Close,
            _ => Act::Do,
        };
        let served = Served::new(|_| usual(), Box::new(script));
        let mut target = open(&served, IoChoice::Auto);
        let buffer = target.allocate(1);
        for operation in [Operation::Flush, WRITE] {
            let request = Request {
                token: 0,
                operation,
                block: BlockIndex(20),
                blocks: u32::from(operation == WRITE),
                buffer: BufferSlice {
                    buffer,
                    first_block: 0,
                },
            };
            target.submit(request).unwrap();
        }
        while target.poll(true).is_some() {}
        ask(
            &mut *target,
            then,
            30,
            u32::from(then != Operation::Flush),
            0,
        )
        .unwrap();
        let read = ask(&mut *target, Operation::Read, 30, 1, 0);
        assert_eq!(read.is_ok(), goes_on, "{}", served.log());
    }
}

/// A write that is still queued when the connection is lost was never sent: it goes out on the next
/// connection.
#[test]
fn a_queued_write_is_not_in_doubt() {
    // The 128 requests in flight are reads; the write behind them is not sent.
    let script = |connection, at, _: &Asked| match (connection, at) {
        (0, 0..2) | (1.., _) => Act::Do,
        (_, 129) => Act::Close,
        _ => Act::Ignore,
    };
    let served = Served::new(|_| usual(), Box::new(script));
    let options = OpenOptions {
        requests_max: 256,
        ..options(IoChoice::Auto)
    };
    let mut target = open_device(&served.url(), &options).unwrap();
    let buffer = target.allocate(1);
    for token in 0..129 {
        let request = Request {
            token,
            operation: if token < 128 { Operation::Read } else { WRITE },
            block: BlockIndex(if token < 128 { 40 } else { 50 }),
            blocks: 1,
            buffer: BufferSlice {
                buffer,
                first_block: 0,
            },
        };
        target.submit(request).unwrap();
    }
    while let Some(reply) = target.poll(true) {
        reply.result.unwrap();
    }
    assert!(
        served.log().contains("1 write 204800+4096"),
        "{}",
        served.log()
    );
}

/// A reconnection must find the same export as before.
#[test]
fn a_different_export_at_the_same_address_is_refused() {
    let smaller = Export {
        bytes: usual().bytes / 2,
        ..usual()
    };
    let read_only = Export {
        flags: usual().flags.with(Flags::READ_ONLY),
        ..usual()
    };
    let cases: [(&str, Export, usize); 5] = [
        ("the same", usual(), MIB - 1),
        ("smaller", smaller, MIB - 1),
        ("read only", read_only, MIB - 1),
        (
            "another first superblock",
            usual(),
            usize::try_from(spindles_format::SLOT_BYTES[0]).unwrap(),
        ),
        (
            "another second superblock",
            usual(),
            usize::try_from(spindles_format::SLOT_BYTES[1]).unwrap() + 4095,
        ),
    ];
    for (what, then, changed) in cases {
        let script = |connection, _, _: &Asked| if connection == 0 { Act::Close } else { Act::Do };
        let export = move |number| if number == 0 { usual() } else { then.clone() };
        let served = Served::new(export, Box::new(script));
        let mut target = open(&served, IoChoice::Auto);
        served.disk.lock().unwrap()[changed] ^= 1;
        let read = ask(&mut *target, Operation::Read, 100, 1, 9).is_ok();
        assert_eq!(read, what == "the same", "{what}: {}", served.log());
    }
}

/// A reconnection recognizes superblocks that we wrote ourselves.
#[test]
fn written_superblocks_are_recognized_on_reconnect() {
    let script = |connection, _, request: &Asked| {
        if connection == 0 && request.command == Command::Read {
            Act::Close
        } else {
            Act::Do
        }
    };
    let served = Served::new(|_| usual(), Box::new(script));
    let mut target = open(&served, IoChoice::Auto);
    let slots = spindles_format::SLOT_BYTES.map(|at| at / 4096);
    ask(&mut *target, WRITE_FUA, slots[0], 1, 5).unwrap();
    ask(
        &mut *target,
        Operation::WriteZeroes { fua: true },
        slots[1],
        1,
        0,
    )
    .unwrap();
    let read = ask(&mut *target, Operation::Read, slots[0], 1, 9).unwrap();
    assert_eq!(read[0], 5, "{}", served.log());
}

/// A hostile server's replies are not trusted, and attempts to reconnect to it end.
#[test]
fn a_hostile_server_is_abandoned_in_time() {
    let reply = |text: &str| {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect::<Vec<u8>>()
    };
    let cases = [
        ("wrong magic", Act::Say(vec![0x55; 64])),
        (
            "an unknown cookie",
            Act::Say(reply(
                "6e8a278c 0001 0000 00000000000f4240 0000000000000000 0000000000000000",
            )),
        ),
        ("half a head", Act::Say(reply("6e8a278c 0001"))),
        (
            "an error without end",
            Act::Say(reply(
                "6e8a278c 0001 8001 0000000000010000 0000000000000000 7fffffffffffffff",
            )),
        ),
        ("silence", Act::Ignore),
        ("the end", Act::Close),
        ("it is about to end", Act::Fail(Failure::Shutdown)),
    ];
    let all = BOTH.into_iter().filter(|io| can_be_had(*io));
    let all = all.flat_map(|io| {
        cases
            .iter()
            .map(move |(what, act)| (io, *what, act.clone()))
    });
    let check = |io, what, act: Act| {
        let served = Served::new(|_| usual(), Box::new(move |_, _, _| act.clone()));
        let options = OpenOptions {
            peer_timeouts: SHORT_TIMEOUTS,
            ..options(io)
        };
        let mut target = open_device(&served.url(), &options).unwrap();
        let started = Instant::now();
        let read = ask(&mut *target, Operation::Read, 3, 1, 9);
        assert_eq!(read, Err(RequestError::BeyondTolerance), "{what}");
        // The timeout counts from the first loss; each try may end in silence.
        let most = SHORT_TIMEOUTS.reconnect + 4 * SHORT_TIMEOUTS.silence;
        assert!(started.elapsed() < most, "{what}: {:?}", started.elapsed());
        ask(&mut *target, WRITE, 3, 1, 9).unwrap_err();
        let asked = served.log();
        assert!(
            !asked.contains("write"),
            "{what}: it is out, and nothing is asked"
        );
    };
    std::thread::scope(|scope| {
        for (io, what, act) in all {
            scope.spawn(move || check(io, what, act));
        }
    });
}

/// An unsuitable server is refused before anything is used.
#[test]
fn an_unsuitable_server_is_refused() {
    let no_flush = flags(&[Flags::SEND_FUA]);
    let sizes = |min_bytes, payload_bytes_max| BlockSizes {
        min_bytes,
        preferred_bytes: 1 << 20,
        payload_bytes_max,
    };
    let coarse = sizes(8192, 32 << 20);
    let broken = sizes(768, 32 << 20);
    let cases = [
        (
            Export {
                flags: usual().flags.with(Flags::READ_ONLY),
                ..usual()
            },
            "for reading only",
        ),
        (
            Export {
                flags: no_flush,
                ..usual()
            },
            "does not flush",
        ),
        (
            Export {
                block_sizes: coarse,
                ..usual()
            },
            "sectors of 8192 bytes",
        ),
        (
            Export {
                block_sizes: broken,
                ..usual()
            },
            "which the protocol forbids",
        ),
        (
            Export {
                name: "y".to_owned(),
                ..usual()
            },
            "does not give 'x'",
        ),
        (
            Export {
                bytes: u64::MAX,
                ..usual()
            },
            "an impossible size",
        ),
        (
            Export {
                bytes: 100,
                ..usual()
            },
            "holds 100 bytes, less than one block",
        ),
    ];
    for (export, expected) in cases {
        let served = Served::new(move |_| export.clone(), Box::new(|_, _, _| Act::Do));
        let error = open_device(&served.url(), &options(IoChoice::Auto))
            .err()
            .unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let only_read = Export {
        flags: no_flush.with(Flags::READ_ONLY),
        ..usual()
    };
    let served = Served::new(move |_| only_read.clone(), Box::new(|_, _, _| Act::Do));
    let options = OpenOptions {
        read_only: true,
        ..options(IoChoice::Auto)
    };
    let mut target = open_device(&served.url(), &options).unwrap();
    ask(&mut *target, Operation::Read, 0, 1, 0).unwrap();
}

/// The server fails before the handshake is over.
#[test]
fn a_server_without_nbd_is_reported() {
    for (says, expected) in [
        (
            &b"SSH-2.0-OpenSSH_9.2 and more than that"[..],
            "does not speak NBD",
        ),
        (
            b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53and the old way",
            "does not speak NBD",
        ),
        (b"NBDMAGIC", "does not answer"),
        (b"", "does not answer"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let says = says.to_vec();
        std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            client.write_all(&says).unwrap();
            // Read what the client sent, so that it sees an end and not a reset.
            client.read_to_end(&mut Vec::new()).unwrap();
        });
        let url = format!("nbd+unix:///?socket={}", path.display());
        let refusal = refusal(&url);
        assert!(refusal.contains(expected), "{refusal}");
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("nbd+unix:///?socket={}/s", folder.path().display());
    let refusal = refusal(&url);
    assert!(
        refusal.contains("can't be reached: No such file"),
        "{refusal}"
    );
}

fn refusal(url: &str) -> String {
    let options = OpenOptions {
        peer_timeouts: SHORT_TIMEOUTS,
        ..options(IoChoice::Auto)
    };
    open_device(url, &options).err().unwrap().to_string()
}
