//! A benchmark client that does less work for each request than other clients. It keeps DEPTH
//! requests in flight at random offsets of an export. It checks that each is answered without an
//! error, and never looks at the data.
//!
//! ```text
//! load SOCKET read|write BYTES DEPTH MILLISECONDS
//! ```
//!
//! Prints the number of answered requests, the elapsed nanoseconds, and the nanoseconds of CPU
//! time.

#![expect(clippy::print_stdout, reason = "it says what it measured")]

use spindles_nbd::handshake::{Client, Progress, Wanted};
use spindles_nbd::replies::{Arrival, Asked, Awaited, Receiver};
use spindles_nbd::transmission::{Command, Headers, Request};
use spindles_nbd::{CommandFlags, TransmissionFlags};
use std::error::Error;
use std::io::{IoSlice, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Size of the receive buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// A linear congruential generator; the measurement does not depend on the quality of the
/// randomness. Multiplier and increment are Knuth's (MMIX).
struct Places {
    state: u64,
    count: u64,
}

impl Places {
    fn next(&mut self) -> u64 {
        let (multiplier, increment) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);
        self.state = self.state.wrapping_mul(multiplier).wrapping_add(increment);
        // The upper bits have the longer periods.
        (self.state >> 33) % self.count
    }
}

/// The requests in flight; the cookie is the index in the list.
struct UnderWay(Vec<Awaited>);

impl Asked for UnderWay {
    fn awaited(&mut self, cookie: u64) -> Option<&mut Awaited> {
        self.0.get_mut(usize::try_from(cookie).ok()?)
    }
}

/// Negotiates the server's default export and returns its size in bytes.
fn shake_hands(socket: &mut UnixStream) -> Result<u64, Box<dyn Error>> {
    let mut client = Client::new(Wanted {
        export: String::new(),
        tls: false,
        headers: Headers::Simple,
    });
    let mut received = [0; 4096];
    loop {
        socket.write_all(client.output())?;
        client.output().clear();
        let bytes = socket.read(&mut received)?;
        if bytes == 0 {
            return Err("the server has gone".into());
        }
        match client.receive(&received[..bytes])? {
            (_, Progress::Receive) => {}
            (_, Progress::Transmit(agreed)) => {
                let writes = !agreed.flags.contains(TransmissionFlags::READ_ONLY);
                return writes
                    .then_some(agreed.bytes)
                    .ok_or("it is read only".into());
            }
            (_, Progress::Refused(why)) => return Err(why.into()),
            (_, Progress::StartTls) => return Err("nobody asked for TLS".into()),
        }
    }
}

/// CPU time of this process, in nanoseconds.
fn processor_ns() -> Result<u64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/schedstat")?;
    let first = stat.split_whitespace().next();
    Ok(first.ok_or("there is no time")?.parse()?)
}

fn send_all(socket: &mut UnixStream, mut parts: &mut [IoSlice<'_>]) -> Result<(), Box<dyn Error>> {
    while !parts.is_empty() {
        let sent = socket.write_vectored(parts)?;
        IoSlice::advance_slices(&mut parts, sent);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, operation, bytes, depth, milliseconds] = arguments.as_slice() else {
        return Err("usage: load SOCKET read|write BYTES DEPTH MILLISECONDS".into());
    };
    let command = match operation.as_str() {
        "read" => Command::Read,
        "write" => Command::Write,
        _ => return Err("read or write".into()),
    };
    let (bytes, depth): (u64, usize) = (bytes.parse()?, depth.parse()?);
    let time = Duration::from_millis(milliseconds.parse()?);

    let mut socket = UnixStream::connect(path)?;
    let count = shake_hands(&mut socket)? / bytes;
    if count == 0 || depth == 0 {
        return Err("it would be no request".into());
    }
    let mut places = Places { state: 1, count };
    let payload = match command {
        Command::Write => vec![0xA5; usize::try_from(bytes)?],
        _ => Vec::new(),
    };
    let mut headers = vec![Vec::new(); depth];
    let mut under_way = UnderWay(vec![Awaited::new(command, 0, bytes); depth]);
    let mut free: Vec<usize> = (0..depth).collect();
    let mut replies = Receiver::new(Headers::Simple);
    let mut buffer = vec![0; BUFFER_BYTES];
    // Received bytes not parsed yet, and data bytes still to be skipped.
    let (mut kept, mut skipped) = (0, 0);
    let (mut answered, mut sent) = (0_u64, 0_u64);
    let (begun, processor) = (Instant::now(), processor_ns()?);
    loop {
        if begun.elapsed() < time {
            for &slot in &free {
                let request = Request {
                    flags: CommandFlags::default(),
                    command,
                    cookie: u64::try_from(slot)?,
                    offset_bytes: places.next() * bytes,
                    bytes,
                };
                under_way.0[slot] = Awaited::new(command, request.offset_bytes, bytes);
                headers[slot].clear();
                request.encode(Headers::Simple, &mut headers[slot]);
            }
            let parts = free.iter();
            let parts =
                parts.flat_map(|&slot| [IoSlice::new(&headers[slot]), IoSlice::new(&payload)]);
            send_all(&mut socket, &mut parts.collect::<Vec<_>>())?;
            sent += u64::try_from(free.len())?;
            free.clear();
        }
        if answered == sent {
            break;
        }
        let came = socket.read(&mut buffer[kept..])?;
        if came == 0 {
            return Err("the server has gone".into());
        }
        let end = kept + came;
        let mut at = 0;
        loop {
            let skips = skipped.min(end - at);
            at += skips;
            skipped -= skips;
            if skipped > 0 {
                break;
            }
            let (used, arrival) = replies.next(&buffer[at..end], &mut under_way)?;
            at += used;
            match arrival {
                None => break,
                Some(Arrival::Data { bytes, .. }) => skipped = usize::try_from(bytes)?,
                Some(Arrival::Zeros { .. }) => {}
                Some(Arrival::Over { cookie, result }) => {
                    result.map_err(|failure| format!("a request failed: {failure:?}"))?;
                    free.push(usize::try_from(cookie)?);
                    answered += 1;
                }
            }
        }
        buffer.copy_within(at..end, 0);
        kept = end - at;
    }
    let elapsed_ns = begun.elapsed().as_nanos();
    println!("{answered} {elapsed_ns} {}", processor_ns()? - processor);
    Ok(())
}
