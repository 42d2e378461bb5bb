//! Hostile clients: other clients are still served, and the server frees what it allocated for
//! them.

use super::{MIB, Served, array, choose, is_served, request, serve};
use crate::world::pattern;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn hostile_clients_do_not_block_others() {
    let pool = array("raid1", "a,b", 8 * MIB);
    let served = serve(&pool, &[]);
    let mut good = served.connect();
    choose(&mut good);
    is_served(&mut good);
    // Silence, half a handshake, and noise.
    let silent: Vec<UnixStream> = (0..200).map(|_| served.connect()).collect();
    for (at, mut stream) in silent.iter().enumerate() {
        let noise = [b"IHAVEOPT".as_slice(), &[0xff; 300], &[0, 0, 0]][at % 3];
        drop(stream.write_all(noise));
    }
    is_served(&mut good);
    drop(silent);
    let begin = Instant::now();
    let evil = |message: &[u8]| {
        let mut stream = served.connect();
        choose(&mut stream);
        drop(stream.write_all(message));
        stream
    };
    // Another protocol, an impossible length, a payload that is too long, half a payload, and half
    // a header.
    let whole = request(1, 1, 0, 65536);
    let kept = [
        evil(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"),
        evil(&request(0, 1, 0, u32::MAX)),
        evil(&request(1, 1, 0, u32::MAX)),
        evil(&[&whole[..], &[1; 1000]].concat()),
        evil(&whole[..20]),
        evil(&request(99, 1, 0, 1)),
    ];
    is_served(&mut good);
    // Clients that read no replies: as many as the server has room for, and more.
    let reads: Vec<u8> = (0..300)
        .flat_map(|cookie| request(0, cookie, 0, 1 << 20))
        .collect();
    let deaf = evil(&reads);
    let others: Vec<UnixStream> = (0..4).map(|_| evil(&reads)).collect();
    drop((deaf, others, kept));
    is_served(&mut good);
    // Long writes without their payload, more than the server has room for: short requests have
    // room of their own.
    let long: Vec<UnixStream> = (0..40)
        .map(|_| evil(&[&request(1, 1, 0, 7 << 20)[..], &[1; 1000]].concat()))
        .collect();
    let waited = Instant::now();
    (0..10).for_each(|_| is_served(&mut good));
    // A long write of another client is served too: each hostile one holds the slot of one part.
    let payload = vec![5; 7 << 20];
    let write = [&request(1, 7, 0, 7 << 20)[..], &payload].concat();
    good.write_all(&write).expect("it is received");
    let mut reply = [0; 16];
    good.read_exact(&mut reply).expect("it is answered");
    assert_eq!(reply[4..8], [0; 4], "the write succeeds");
    assert!(waited.elapsed() < Duration::from_secs(15));
    drop(long);
    println!("served after {:?}", begin.elapsed());
    served.stop().prints("is closed");
}

/// The bytes of a hostile client, sent at once without waiting for replies.
const HARM: [fn() -> Vec<u8>; 13] = [
    Vec::new,
    || vec![0, 0],
    || options(&[&b"IHAVEOPT\0\0"[..]]),
    // Option data above the limit, which never comes.
    || options(&[&option(7, u32::MAX, b"")]),
    || options(&[&option(7, 16 << 20, &[0; 5000])]),
    || options(&[&option(6, 12, b"\xff\xff\xff\xff\0\0\0\0\0\0\xff\xff")]),
    // The client reads no replies to these.
    || options(&vec![&option(3, 0, b"")[..]; 5000]),
    // Requests before an export is selected.
    || [&request(0, 1, 0, 4096)[..], &options(&[])].concat(),
    || transmission(&[&request(3, 1, 0, 0), &request(1, 1, 0, 65536)[..20]]),
    || transmission(&[&request(1, 1, 0, 1 << 20), &[1; 1000]]),
    || transmission(&[&request(1, 1, 0, u32::MAX), &request(0, 2, 0, u32::MAX)]),
    // Requests with the same cookie, in an invalid order, and an extra payload.
    || {
        let write = [&request(1, 1, 0, 512)[..], &[1; 600]].concat();
        let rest = [
            request(3, 1, 0, 0),
            request(0, 1, 0, 512),
            request(2, 1, 0, 0),
        ];
        transmission(&[&rest[0], &rest[1], &rest[1], &write, &rest[2], &rest[1]])
    },
    || {
        let reads = (0..16).map(|cookie| request(0, cookie, 0, 1 << 20));
        transmission(&[&reads.collect::<Vec<_>>().concat()])
    },
];

fn option(number: u32, bytes: u32, data: &[u8]) -> Vec<u8> {
    let head = [
        &b"IHAVEOPT"[..],
        &number.to_be_bytes(),
        &bytes.to_be_bytes(),
    ];
    [&head.concat(), data].concat()
}

fn options(options: &[&[u8]]) -> Vec<u8> {
    [&3_u32.to_be_bytes()[..], &options.concat()].concat()
}

fn transmission(requests: &[&[u8]]) -> Vec<u8> {
    options(&[&option(1, 0, b""), &requests.concat()])
}

impl Served<'_> {
    /// Resident memory of the server, in bytes.
    fn resident_bytes(&self) -> usize {
        let status = std::fs::read_to_string(self.proc("status")).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1));
        1024 * kib.expect("a size").parse::<usize>().expect("a number")
    }

    /// Open files and sockets of the server.
    fn descriptors(&self) -> usize {
        let all = std::fs::read_dir(self.proc("fd"));
        all.expect("it runs").count()
    }

    fn proc(&self, file: &str) -> String {
        let server = &self.server;
        format!("/proc/{}/{file}", server.id())
    }
}

/// Writes, and reads the data back. Returns the time for both.
fn writes_and_reads(stream: &mut UnixStream, cookie: u64) -> Duration {
    let bytes = pattern(65536, cookie);
    let begin = Instant::now();
    let write = request(1, cookie, 4 << 20, 65536);
    stream.write_all(&write).expect("it reads");
    stream.write_all(&bytes).expect("it reads");
    let mut reply = vec![0; 16];
    stream.read_exact(&mut reply).expect("it answers");
    assert_eq!(reply[4..8], [0; 4]);
    let read = request(0, cookie, 4 << 20, 65536);
    stream.write_all(&read).expect("it reads");
    reply.resize(16 + 65536, 0);
    stream.read_exact(&mut reply).expect("it answers");
    assert!(reply[4..8] == [0; 4] && reply[16..] == bytes, "other bytes");
    begin.elapsed()
}

#[test]
fn a_thousand_hostile_clients_leave_nothing_behind() {
    let pool = array("raid1", "a,b", 8 * MIB);
    let served = serve(&pool, &[]);
    let connect = || {
        let mut stream = served.connect();
        choose(&mut stream);
        stream
    };
    let (mut busy, mut asks_seldom) = (connect(), connect());
    // The first write to a region takes extra time and does not count.
    writes_and_reads(&mut busy, 0);
    let (ends, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let (begin, before) = (served.resident_bytes(), served.descriptors());
    thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !ends.load(Ordering::SeqCst) {
                let cookie = answered.fetch_add(1, Ordering::SeqCst);
                longest = longest.max(writes_and_reads(&mut busy, cookie));
            }
            longest
        });
        let start = Instant::now();
        let mut count = 0;
        while count < 1000 {
            // Three clients of each kind stay below the limits for concurrent handshakes and
            // requests.
            let harm = HARM.iter().cycle().take(3 * HARM.len());
            let harm = harm.map(|says| {
                let mut stream = served.connect();
                let limit = Some(Duration::from_millis(5));
                stream.set_write_timeout(limit).expect("a limit");
                // The server may close the connection, or stop reading.
                drop(stream.write_all(&says()));
                stream
            });
            let harm: Vec<UnixStream> = harm.collect();
            is_served(&mut asks_seldom);
            // Another client gets replies while all hostile clients are connected.
            let enough = answered.load(Ordering::SeqCst) + 10;
            while answered.load(Ordering::SeqCst) < enough && !busy.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
            count += harm.len();
        }
        let took = start.elapsed();
        ends.store(true, Ordering::SeqCst);
        let longest = busy.join().expect("it is served");
        println!("{count} in {took:?}; another waited for at most {longest:?}: {answered:?}");
        assert!(longest < Duration::from_secs(5), "{longest:?}");
    });
    let last = served.resident_bytes();
    println!("{begin} bytes resident, {last} in the end");
    // Requests have room for 128 MiB, clients and their handshakes are limited in number, see
    // docs/guide/serving.md: with twenty times as many clients, memory is the same.
    assert!(last < begin + 192 * MIB, "{begin} bytes became {last}");
    let end = Instant::now() + Duration::from_secs(5);
    while served.descriptors() > before && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(served.descriptors() <= before, "sockets are left open");
    is_served(&mut asks_seldom);
    drop(asks_seldom);
    served.stop().prints("is closed");
}
