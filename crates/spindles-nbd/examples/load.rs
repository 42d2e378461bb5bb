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
            (_, Progress::StartTls) => return Err("the client did not request TLS".into()),
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

/// The requests to send, at most one in each slot, at random offsets.
struct Requests {
    command: Command,
    bytes: u64,
    places: Places,
    headers: Vec<Vec<u8>>,
    payload: Vec<u8>,
}

impl Requests {
    /// Prepares requests of this length for this many slots.
    fn new(
        command: Command,
        bytes: u64,
        depth: usize,
        places: Places,
    ) -> Result<Self, Box<dyn Error>> {
        let payload = match command {
            Command::Write => vec![0xA5; usize::try_from(bytes)?],
            _ => Vec::new(),
        };
        Ok(Self {
            command,
            bytes,
            places,
            headers: vec![Vec::new(); depth],
            payload,
        })
    }

    /// Sends a request in each of these slots.
    fn send(
        &mut self,
        socket: &mut UnixStream,
        slots: &[usize],
        under_way: &mut UnderWay,
    ) -> Result<(), Box<dyn Error>> {
        for &slot in slots {
            let request = Request {
                flags: CommandFlags::default(),
                command: self.command,
                cookie: u64::try_from(slot)?,
                offset_bytes: self.places.next() * self.bytes,
                bytes: self.bytes,
            };
            under_way.0[slot] = Awaited::new(self.command, request.offset_bytes, self.bytes);
            self.headers[slot].clear();
            request.encode(Headers::Simple, &mut self.headers[slot]);
        }
        let parts = slots.iter().flat_map(|&slot| {
            [
                IoSlice::new(&self.headers[slot]),
                IoSlice::new(&self.payload),
            ]
        });
        send_all(socket, &mut parts.collect::<Vec<_>>())
    }
}

/// Receives replies and skips the data in them.
struct Replies {
    receiver: Receiver,
    buffer: Vec<u8>,
    /// Received bytes not parsed yet.
    kept: usize,
    /// Data bytes still to be skipped.
    skipped: usize,
}

impl Replies {
    /// Waits for bytes of the server and parses them. Adds the slots of answered requests to
    /// `free`.
    fn receive(
        &mut self,
        socket: &mut UnixStream,
        under_way: &mut UnderWay,
        free: &mut Vec<usize>,
    ) -> Result<(), Box<dyn Error>> {
        let came = socket.read(&mut self.buffer[self.kept..])?;
        if came == 0 {
            return Err("the server has gone".into());
        }
        let end = self.kept + came;
        let mut at = 0;
        loop {
            let skips = self.skipped.min(end - at);
            at += skips;
            self.skipped -= skips;
            if self.skipped > 0 {
                break;
            }
            let (used, arrival) = self.receiver.next(&self.buffer[at..end], under_way)?;
            at += used;
            match arrival {
                None => break,
                Some(Arrival::Data { bytes, .. }) => self.skipped = usize::try_from(bytes)?,
                Some(Arrival::Zeros { .. }) => {}
                Some(Arrival::Over { cookie, result }) => {
                    result.map_err(|failure| format!("a request failed: {failure:?}"))?;
                    free.push(usize::try_from(cookie)?);
                }
            }
        }
        self.buffer.copy_within(at..end, 0);
        self.kept = end - at;
        Ok(())
    }
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
    let mut requests = Requests::new(command, bytes, depth, Places { state: 1, count })?;
    let mut under_way = UnderWay(vec![Awaited::new(command, 0, bytes); depth]);
    let mut free: Vec<usize> = (0..depth).collect();
    let mut replies = Replies {
        receiver: Receiver::new(Headers::Simple),
        buffer: vec![0; BUFFER_BYTES],
        kept: 0,
        skipped: 0,
    };
    let mut answered = 0;
    let (begun, processor) = (Instant::now(), processor_ns()?);
    loop {
        if begun.elapsed() < time {
            requests.send(&mut socket, &free, &mut under_way)?;
            free.clear();
        }
        // At the end of the time, slots stay free.
        if free.len() == depth {
            break;
        }
        let free_before = free.len();
        replies.receive(&mut socket, &mut under_way, &mut free)?;
        answered += free.len() - free_before;
    }
    let elapsed_ns = begun.elapsed().as_nanos();
    println!("{answered} {elapsed_ns} {}", processor_ns()? - processor);
    Ok(())
}
