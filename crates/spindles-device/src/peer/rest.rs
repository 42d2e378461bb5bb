//! An export for synchronous use: one request at a time.

use super::link::Link;
use super::socket::endless;
use crate::at_rest::AtRest;
use spindles_nbd::replies::{ARRIVAL_BYTES_MAX, Arrival, Asked, Awaited, Receiver};
use spindles_nbd::transmission::{Command, Failure, Request};
use spindles_nbd::{CommandFlags, TransmissionFlags};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// Zeros written at once if the server can't make them, in bytes.
const ZEROS_BYTES: usize = 1 << 20;

/// An export at rest.
#[derive(Debug)]
pub(crate) struct Rest {
    link: Link,
    /// Longest time for one request.
    timeout: Duration,
    state: RefCell<Receiving>,
}

#[derive(Debug)]
struct Receiving {
    receiver: Receiver,
    cookie: u64,
    /// Bytes received but not parsed yet.
    received: Vec<u8>,
}

struct One(u64, Awaited);

impl Asked for One {
    fn awaited(&mut self, cookie: u64) -> Option<&mut Awaited> {
        (cookie == self.0).then_some(&mut self.1)
    }
}

fn error_of(failure: Failure) -> io::Error {
    let errno = match failure {
        Failure::Permission => libc::EPERM,
        Failure::Io => libc::EIO,
        Failure::Memory => libc::ENOMEM,
        Failure::NoSpace => libc::ENOSPC,
        Failure::NotSupported => libc::EOPNOTSUPP,
        Failure::Shutdown => libc::ESHUTDOWN,
        Failure::Invalid | Failure::Overflow | Failure::Unknown(_) => libc::EINVAL,
    };
    io::Error::from_raw_os_error(errno)
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("64 bits")
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("64 bits")
}

impl Rest {
    pub(crate) fn new(link: Link, timeout: Duration) -> Self {
        let receiver = Receiver::new(link.terms.headers);
        Self {
            link,
            timeout,
            state: RefCell::new(Receiving {
                receiver,
                cookie: 0,
                received: Vec::new(),
            }),
        }
    }

    /// Returns the connection, for other use.
    pub(super) fn into_link(self) -> Link {
        self.link
    }

    /// Sends one request, in whole blocks of the server, and waits for its reply.
    fn ask(
        &self,
        command: Command,
        (offset_bytes, bytes): (u64, u64),
        from: &[u8],
        into: &mut [u8],
    ) -> io::Result<()> {
        let until = Instant::now() + self.timeout;
        let mut state = self.state.borrow_mut();
        let Receiving {
            receiver,
            cookie,
            received,
        } = &mut *state;
        *cookie += 1;
        let request = Request {
            flags: CommandFlags::default(),
            command,
            cookie: *cookie,
            offset_bytes,
            bytes,
        };
        let mut message = Vec::new();
        request.encode(self.link.terms.headers, &mut message);
        self.link.socket.send_all(&message, until)?;
        self.link.socket.send_all(from, until)?;
        let mut asked = One(*cookie, Awaited::new(command, offset_bytes, bytes));
        loop {
            let next = receiver.next(received, &mut asked);
            let (used, arrival) = next.map_err(io::Error::other)?;
            received.drain(..used);
            match arrival {
                Some(Arrival::Data {
                    from_bytes, bytes, ..
                }) => {
                    let part = &mut into[index(from_bytes)..index(from_bytes + bytes)];
                    let there = part.len().min(received.len());
                    let (now, mut later) = part.split_at_mut(there);
                    now.copy_from_slice(&received[..there]);
                    received.drain(..there);
                    while !later.is_empty() {
                        let moved = self.link.socket.receive_some(later, until)?;
                        later = &mut later[moved..];
                    }
                }
                Some(Arrival::Zeros {
                    from_bytes, bytes, ..
                }) => into[index(from_bytes)..index(from_bytes + bytes)].fill(0),
                Some(Arrival::Over { result, .. }) => return result.map_err(error_of),
                None if received.len() > ARRIVAL_BYTES_MAX => return Err(endless()),
                None => {
                    let mut more = [0; 4096];
                    let moved = self.link.socket.receive_some(&mut more, until)?;
                    received.extend(&more[..moved]);
                }
            }
        }
    }

    /// Returns the start and end of the server's whole blocks around a range.
    fn around(&self, offset: u64, bytes: usize) -> io::Result<(u64, u64)> {
        let block = u64::from(self.link.terms.min_bytes);
        let end = offset.checked_add(count(bytes));
        let end = end.filter(|end| *end <= self.link.terms.bytes);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((offset / block * block, end.next_multiple_of(block)))
    }

    fn read_blocks(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        let most = index(self.link.terms.bytes_max(Command::Read));
        let mut at = from;
        for part in into.chunks_mut(most) {
            let bytes = count(part.len());
            self.ask(Command::Read, (at, bytes), &[], part)?;
            at += bytes;
        }
        Ok(())
    }

    fn write_blocks(&self, from: u64, bytes: &[u8]) -> io::Result<()> {
        let most = index(self.link.terms.bytes_max(Command::Write));
        let mut at = from;
        for part in bytes.chunks(most) {
            let bytes = count(part.len());
            self.ask(Command::Write, (at, bytes), part, &mut [])?;
            at += bytes;
        }
        Ok(())
    }
}

impl AtRest for Rest {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.link.terms.bytes)
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let (from, end) = self.around(offset, into.len())?;
        let mut blocks = vec![0; index(end - from)];
        self.read_blocks(from, &mut blocks)?;
        into.copy_from_slice(&blocks[index(offset - from)..][..into.len()]);
        Ok(())
    }

    fn write(&self, from: &[u8], offset: u64) -> io::Result<()> {
        let (first, end) = self.around(offset, from.len())?;
        if end - first == count(from.len()) {
            return self.write_blocks(first, from);
        }
        let mut blocks = vec![0; index(end - first)];
        self.read_blocks(first, &mut blocks)?;
        blocks[index(offset - first)..][..from.len()].copy_from_slice(from);
        self.write_blocks(first, &blocks)
    }

    fn make_zeros(&self, from: u64, bytes: u64) -> io::Result<()> {
        let end = from + bytes;
        let block = u64::from(self.link.terms.min_bytes);
        let can = self.link.terms.has(TransmissionFlags::SEND_WRITE_ZEROES);
        let most = self.link.terms.bytes_max(Command::WriteZeroes);
        let mut at = from;
        if can && from.is_multiple_of(block) && end.is_multiple_of(block) {
            while at < end {
                let part = (at, (end - at).min(most));
                match self.ask(Command::WriteZeroes, part, &[], &mut []) {
                    Ok(()) => at += part.1,
                    Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        let zeros = vec![0; ZEROS_BYTES];
        while at < end {
            let part = index((end - at).min(count(ZEROS_BYTES)));
            self.write(&zeros[..part], at)?;
            at += count(part);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.ask(Command::Flush, (0, 0), &[], &mut [])
    }

    fn in_file(&self) -> Option<(&File, u64)> {
        None
    }
}
