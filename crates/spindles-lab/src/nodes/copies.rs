//! The streams of a copy: a file or memory at each end, with transfers of [`BUFFER_BYTES`]. A
//! stream begins with a ticket that the agent got over ssh; a connection without one is closed.

use super::wire::{SAME, Ticket, in_words};
use crate::machine::clock;
use crate::measure::failure::Failure;
use crate::measure::schedule::Draw;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::rand::{GetRandomFlags, getrandom};
use spindles_block::Instant as Moment;
use spindles_workload::network::BUFFER_BYTES;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a stream may take to present its ticket.
const TICKET_TIME: Duration = Duration::from_secs(2);
/// The signal byte: ticket accepted, begin, or everything received.
const GOOD: u8 = b'+';

/// Why a stream ended early.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The file at this end failed; only this end knows the reason.
    Endpoint(String),
    /// The connection failed; the other end may know the real reason.
    Connection(String),
}

impl Trouble {
    /// Describes the trouble.
    pub(super) fn why(self) -> String {
        match self {
            Self::Endpoint(why) | Self::Connection(why) => why,
        }
    }

    /// Describes the trouble at the server's end of the stream of a node.
    pub(super) fn at_server(&self, node: &str) -> String {
        match self {
            Self::Endpoint(why) => format!("copy of node {node}, server side: {why}"),
            Self::Connection(why) => format!("node {node}: {why}"),
        }
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self::Failed(trouble.why())
    }
}

/// The source or destination of the bytes at one end of a stream.
pub(super) enum Endpoint {
    /// A buffer that is sent repeatedly, or received bytes that are dropped.
    Memory,
    /// An open file.
    File(File, PathBuf),
}

impl Endpoint {
    /// Creates a file of that name in a folder; without a folder, uses memory.
    pub(super) fn to_write(folder: Option<&Path>, name: &str) -> Result<Self, Failure> {
        let Some(folder) = folder else {
            return Ok(Self::Memory);
        };
        let path = folder.join(name);
        let file = File::create(&path).map_err(|error| at(&path, &error))?;
        Ok(Self::File(file, path))
    }

    /// Creates a file of incompressible bytes; without a folder, uses memory.
    pub(super) fn to_read(
        folder: Option<&Path>,
        name: &str,
        (bytes, seed): (u64, u64),
        interrupt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let Self::File(mut file, path) = Self::to_write(folder, name)? else {
            return Ok(Self::Memory);
        };
        let mut draw = Draw::new(seed, 6, 0);
        let mut buffer = buffer();
        for piece in pieces(bytes) {
            if interrupt.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            draw.fill(&mut buffer[..piece]);
            let written = file.write_all(&buffer[..piece]);
            written.map_err(|error| at(&path, &error))?;
        }
        file.sync_all().map_err(|error| at(&path, &error))?;
        let file = File::open(&path).map_err(|error| at(&path, &error))?;
        Ok(Self::File(file, path))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Trouble> {
        match self {
            Self::Memory => Ok(()),
            Self::File(file, path) => file.read_exact(buffer).map_err(|error| at(path, &error)),
        }
    }

    fn keep(&mut self, buffer: &[u8]) -> Result<(), Trouble> {
        match self {
            Self::Memory => Ok(()),
            Self::File(file, path) => file.write_all(buffer).map_err(|error| at(path, &error)),
        }
    }

    /// Makes the written bytes durable.
    pub(super) fn sync(&self) -> Result<(), Trouble> {
        match self {
            Self::Memory => Ok(()),
            Self::File(file, path) => file.sync_all().map_err(|error| at(path, &error)),
        }
    }
}

fn at(path: &Path, error: &io::Error) -> Trouble {
    Trouble::Endpoint(format!("{}: {error}", path.display()))
}

fn broken(error: &io::Error) -> Trouble {
    Trouble::Connection(format!("the data connection broke: {}", in_words(error)))
}

/// Returns a buffer of incompressible bytes.
pub(super) fn buffer() -> Vec<u8> {
    let mut buffer = vec![0; usize::try_from(BUFFER_BYTES).expect("32 bits fit")];
    Draw::new(0, 6, 1).fill(&mut buffer);
    buffer
}

/// Splits `bytes` into the lengths of its pieces.
fn pieces(bytes: u64) -> impl Iterator<Item = usize> {
    let whole = bytes / u64::from(BUFFER_BYTES);
    let piece = |bytes: u64| usize::try_from(bytes).expect("at most a buffer");
    let rest = bytes % u64::from(BUFFER_BYTES);
    let all = (0..whole).map(move |_| piece(BUFFER_BYTES.into()));
    all.chain((rest > 0).then(|| piece(rest)))
}

/// Moves `bytes` through a buffer, piece by piece, and calls `moved` after each.
fn carry(
    bytes: u64,
    moved: &mut dyn FnMut(Moment, usize),
    mut one: impl FnMut(&mut [u8]) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let mut buffer = buffer();
    for piece in pieces(bytes) {
        let began = clock::now();
        one(&mut buffer[..piece])?;
        moved(began, piece);
    }
    Ok(())
}

/// Sends `bytes` from a place, and calls `moved` after each piece.
pub(super) fn send(
    mut stream: &TcpStream,
    from: &mut Endpoint,
    bytes: u64,
    moved: &mut dyn FnMut(Moment, usize),
) -> Result<(), Trouble> {
    carry(bytes, moved, |piece| {
        from.fill(piece)?;
        stream.write_all(piece).map_err(|error| broken(&error))
    })
}

/// Receives `bytes` into a place, and calls `moved` after each piece.
pub(super) fn receive(
    mut stream: &TcpStream,
    into: &mut Endpoint,
    bytes: u64,
    moved: &mut dyn FnMut(Moment, usize),
) -> Result<(), Trouble> {
    carry(bytes, moved, |piece| {
        stream.read_exact(piece).map_err(|error| broken(&error))?;
        into.keep(piece)
    })
}

/// Signals the other end that this end is ready for the next step.
pub(super) fn signal(mut stream: &TcpStream) -> Result<(), Trouble> {
    stream.write_all(&[GOOD]).map_err(|error| broken(&error))
}

/// Waits for the signal of the other end.
pub(super) fn await_signal(mut stream: &TcpStream) -> Result<(), Trouble> {
    let mut said = [0];
    let read = stream.read_exact(&mut said);
    read.map_err(|error| broken(&error))?;
    if said == [GOOD] {
        return Ok(());
    }
    Err(Trouble::Connection(format!(
        "the data connection carries something unknown: {SAME}"
    )))
}

/// Opens a stream to a server, with its ticket.
pub(super) fn connect(
    server: &str,
    ticket: &Ticket,
    limit: Duration,
) -> Result<TcpStream, Failure> {
    let wrong = |error: &io::Error| {
        Failure::Failed(format!(
            "no data connection to the server at {server}: {}: give `listen` the address at which \
             nodes reach it",
            in_words(error)
        ))
    };
    let address = server.parse::<SocketAddr>();
    let address = address.map_err(|error| wrong(&io::Error::other(error)))?;
    let stream = TcpStream::connect_timeout(&address, limit).map_err(|error| wrong(&error))?;
    let prepared = stream
        .set_nodelay(true)
        .and_then(|()| stream.set_read_timeout(Some(limit)))
        .and_then(|()| (&stream).write_all(ticket));
    prepared.map_err(|error| wrong(&error))?;
    let admitted = await_signal(&stream);
    admitted.map_err(|trouble| {
        let why = trouble.why();
        Failure::Failed(format!("the server at {server} refuses the data: {why}"))
    })?;
    let unlimited = stream.set_read_timeout(None);
    unlimited.map_err(|error| wrong(&error))?;
    Ok(stream)
}

/// Accepts the streams of a run, one for each ticket.
pub(super) struct Door {
    listener: TcpListener,
    /// The ticket of each stream.
    tickets: Vec<Ticket>,
}

impl Door {
    /// Listens on that address, at any free port.
    pub(super) fn open(address: IpAddr, streams: u32) -> Result<Self, String> {
        let listener = TcpListener::bind((address, 0)).map_err(|error| {
            format!(
                "can't listen for data connections on {address}: {error}: give `listen` an address \
                of this machine"
            )
        })?;
        let ticket = |_| {
            let mut ticket = Ticket::default();
            // This few bytes are never returned partially.
            let drawn = getrandom(&mut ticket, GetRandomFlags::empty());
            drawn.map_err(|error| format!("can't get random numbers: {error}"))?;
            Ok(ticket)
        };
        Ok(Self {
            listener,
            tickets: (0..streams).map(ticket).collect::<Result<_, String>>()?,
        })
    }

    /// Returns the address where it listens.
    pub(super) fn address(&self) -> Result<SocketAddr, String> {
        let address = self.listener.local_addr();
        address.map_err(|error| error.to_string())
    }

    /// Returns the ticket of a stream.
    pub(super) fn ticket(&self, stream: usize) -> Ticket {
        self.tickets[stream]
    }

    /// Accepts streams until all tickets are used or `stop` is set. Returns them in the order of
    /// their tickets; a ticket is valid once.
    pub(super) fn streams(&self, stop: &AtomicBool) -> Vec<Option<TcpStream>> {
        let mut all: Vec<Option<TcpStream>> = self.tickets.iter().map(|_| None).collect();
        while all.iter().any(Option::is_none) && !stop.load(Ordering::Relaxed) {
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            let wait = Timespec {
                tv_sec: 0,
                tv_nsec: 20_000_000,
            };
            let Ok(1..) = poll(&mut fds, Some(&wait)) else {
                continue;
            };
            let Ok((stream, _)) = self.listener.accept() else {
                continue;
            };
            if let Some(number) = self.number_of(&stream)
                && all[number].is_none()
                && signal(&stream).is_ok()
            {
                all[number] = Some(stream);
            }
        }
        all
    }

    /// Reads the ticket of a stream and returns the stream's number.
    fn number_of(&self, mut stream: &TcpStream) -> Option<usize> {
        stream.set_nodelay(true).ok()?;
        let mut shown = Ticket::default();
        let ends = Instant::now() + TICKET_TIME;
        let mut read = 0;
        while read < shown.len() {
            let rest = ends.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return None;
            }
            stream.set_read_timeout(Some(rest)).ok()?;
            match stream.read(&mut shown[read..]) {
                Ok(more @ 1..) => read += more,
                Ok(0) | Err(_) => return None,
            }
        }
        stream.set_read_timeout(None).ok()?;
        // Looks at every byte, so that the time says nothing about the ticket.
        let is_shown = |ticket: &Ticket| {
            let differ = ticket
                .iter()
                .zip(&shown)
                .fold(0, |all, (a, b)| all | (a ^ b));
            differ == 0
        };
        self.tickets.iter().position(is_shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn only_unused_tickets_admit_a_connection() {
        let door = Door::open(Ipv4Addr::LOCALHOST.into(), 2).unwrap();
        let server = door.address().unwrap().to_string();
        let stop = AtomicBool::new(false);
        let limit = Duration::from_secs(5);
        let (tried, streams) = std::thread::scope(|scope| {
            let streams = scope.spawn(|| door.streams(&stop));
            let tickets = [[7; 32], door.ticket(1), door.ticket(1), door.ticket(0)];
            let tried = tickets.map(|ticket| connect(&server, &ticket, limit).ok());
            stop.store(true, Ordering::Relaxed);
            (tried, streams.join().unwrap())
        });
        let [stranger, second, again, first] = tried;
        assert!(stranger.is_none() && again.is_none());
        for (far, near) in streams.into_iter().zip([first, second]) {
            let far = far.unwrap().peer_addr().unwrap();
            assert_eq!(far, near.unwrap().local_addr().unwrap());
        }
        assert_eq!(door.streams(&AtomicBool::new(true)).len(), 2);
    }

    #[test]
    fn copy_errors_name_the_failing_end() {
        let why = at(Path::new("/srv/a"), &io::ErrorKind::StorageFull.into());
        let why = why.at_server("n:1");
        assert!(
            why.starts_with("copy of node n:1, server side: /srv/a: "),
            "{why}"
        );
        let why = broken(&io::ErrorKind::TimedOut.into()).at_server("n:1");
        let words = "node n:1: the data connection broke: the other end no longer answers";
        assert_eq!(why, words);
    }

    #[test]
    fn a_copy_transfers_a_file_between_nodes() {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        // Not a multiple of the buffer.
        let bytes = 3 * u64::from(BUFFER_BYTES) + 5000;
        let no = AtomicBool::new(false);
        let mut from = Endpoint::to_read(Some(folder.path()), "a", (bytes, 1), &no).unwrap();
        let mut into = Endpoint::to_write(Some(folder.path()), "b").unwrap();
        let mut moved = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                send(&near, &mut from, bytes, &mut |_, _| {}).unwrap();
                await_signal(&near).unwrap();
            });
            receive(&far, &mut into, bytes, &mut |_, piece| moved.push(piece)).unwrap();
            into.sync().unwrap();
            signal(&far).unwrap();
        });
        assert_eq!(moved, [65_536, 65_536, 65_536, 5000]);
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        assert_eq!(read("a").len(), 201_608);
        assert!(read("a") == read("b"));
        drop(near);
        let error = receive(&far, &mut Endpoint::Memory, 1, &mut |_, _| {}).unwrap_err();
        let words = "the data connection broke: the other end closed it";
        assert!(
            matches!(&error, Trouble::Connection(why) if why == words),
            "{error:?}"
        );
    }
}
