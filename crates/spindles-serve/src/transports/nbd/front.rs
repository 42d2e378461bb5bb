//! Listens and negotiates with clients. Each handshake has its own thread and a time limit. Once
//! the client has chosen an export, the socket goes to the server of the export.

use super::address::Address;
use super::connection::{Connection, PAYLOAD_BYTES_MAX};
use super::socket::{self, Socket, Stream};
use crate::certificates::Certificates;
use crate::left_behind::Fleeting;
use crate::listening::{next_client, path_failed, port_failed};
use crate::server_handle::{ExportFacts, ServerHandle};
use crate::transports::{Listener, ListenerOptions};
use crate::under_way::UnderWay;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use spindles_device::tls::{explain, explain_io};
use spindles_nbd::handshake::{HandshakeStep, Server, Tls};
use spindles_nbd::{TransmissionFlags, Violation, handshake};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Most handshakes in progress; further clients wait to be accepted.
const HANDSHAKES_MAX: usize = 64;
/// Time limit of a handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Shortest interval between two log lines about refused clients: strangers must not fill the log.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// An error of a listening socket.
#[derive(Debug, Error)]
#[error("{}", match address {
    Address::Unix(path) => path_failed(path, source),
    Address::Tcp(address) => port_failed(*address, source),
})]
pub(super) struct FrontError {
    address: Address,
    source: io::Error,
}

/// A listener on one address.
#[derive(Debug)]
pub(super) struct Front {
    /// `None` once it is opened.
    listener: Option<socket::Listener>,
    /// The socket file, until it is closed. Also removed if serving never begins.
    socket: Option<Fleeting>,
    address: Address,
    certificates: Option<Certificates>,
    tell: Option<fn(&str)>,
}

impl Front {
    /// Listens on an address.
    pub(super) fn bind(asked: &Address, options: &ListenerOptions) -> Result<Self, FrontError> {
        let failed = |source| FrontError {
            address: asked.clone(),
            source,
        };
        let listener = socket::Listener::bind(asked).map_err(failed)?;
        let address = listener.address(asked).map_err(failed)?;
        let listener = Some(listener);
        Ok(Self {
            listener,
            socket: address.socket(),
            address,
            certificates: options.certificates.clone(),
            tell: options.tell,
        })
    }
}

impl Listener for Front {
    fn address(&self, export: &str) -> String {
        self.address.uri(export, self.certificates.as_ref())
    }

    /// Accepts clients. With certificates, clients of a TCP port must use TLS. Clients of a Unix
    /// socket need not: a Unix socket is as safe as its folder.
    fn open(&mut self, servers: &[ServerHandle]) -> io::Result<()> {
        let certificates = self.certificates.clone();
        let tls = match (&certificates, &self.address) {
            (None, _) => Tls::Never,
            (Some(_), Address::Unix(_)) => Tls::Offered,
            (Some(_), Address::Tcp(_)) => Tls::Required,
        };
        let gate = Arc::new(Gate {
            servers: servers.into(),
            tls,
            certificates,
            refused: Refused::new(self.tell),
        });
        let front = thread::Builder::new().name("spindles-front".to_owned());
        let listener = self.listener.take().expect("it is opened once");
        front.spawn(move || accept(&listener, &gate))?;
        Ok(())
    }

    fn close(&mut self) -> Option<String> {
        self.socket = None;
        None
    }

    fn folder(&self) -> Option<&Path> {
        self.address.folder()
    }
}

/// Settings of a listener for its handshakes.
#[derive(Debug)]
struct Gate {
    servers: Vec<ServerHandle>,
    tls: Tls,
    certificates: Option<Certificates>,
    refused: Refused,
}

/// Reports refused clients in the log, in at most one line for each interval.
#[derive(Debug)]
struct Refused {
    tell: Option<fn(&str)>,
    /// Time of the last line, and the number of refused clients since.
    since: Mutex<Option<(Instant, u64)>>,
}

impl Refused {
    fn new(tell: Option<fn(&str)>) -> Self {
        Self {
            tell,
            since: Mutex::default(),
        }
    }

    fn add(&self, peer: &str, why: &Failed) {
        let line = self.line(peer, why, Instant::now());
        if let (Some(tell), Some(line)) = (self.tell, line) {
            tell(&line);
        }
    }

    /// Returns the line to log now, if any.
    fn line(&self, peer: &str, why: &Failed, now: Instant) -> Option<String> {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let others = match &mut *since {
            Some((last, others)) if now.duration_since(*last) < TELL_INTERVAL => {
                *others += 1;
                return None;
            }
            Some((_, others)) => *others,
            None => 0,
        };
        *since = Some((now, 0));
        let others = match others {
            0 => String::new(),
            others => format!("; {others} more since the last such message"),
        };
        Some(format!("client {peer} is refused: {why}{others}"))
    }
}

fn accept(listener: &socket::Listener, gate: &Arc<Gate>) {
    let under_way = UnderWay::new(HANDSHAKES_MAX);
    loop {
        while !under_way.begin(HANDSHAKE_MAX) {}
        let stream = next_client(|| listener.accept());
        let gate = Arc::clone(gate);
        let thread = thread::Builder::new().name("spindles-hand".to_owned());
        // A client for which no thread starts is disconnected.
        drop(under_way.spawn(thread.stack_size(256 << 10), move || join(stream, &gate)));
    }
}

/// Performs a handshake. A client that violates the protocol or exceeds the time limit gets no
/// message, since it would not understand one.
fn join(stream: Stream, gate: &Gate) {
    let peer = stream.peer();
    match shake_hands(stream, gate) {
        Ok(Some((chosen, connection))) => {
            let mut servers = gate.servers.iter();
            let server = servers.find(|server| server.export().name == chosen);
            if let Some(server) = server {
                server.join(Box::new(connection));
            }
        }
        Ok(None) => {}
        Err(why) if why.is_gone() => {}
        Err(why) => gate.refused.add(&peer, &why),
    }
}

#[derive(Debug, Error)]
enum Failed {
    #[error("{}", explain_io(.0))]
    Io(#[from] io::Error),
    #[error(transparent)]
    Violation(#[from] Violation),
    #[error("{}", explain(.0))]
    Tls(#[from] rustls::Error),
}

impl Failed {
    /// Returns true if the client disconnected by itself.
    fn is_gone(&self) -> bool {
        let gone = [
            ErrorKind::UnexpectedEof,
            ErrorKind::ConnectionReset,
            ErrorKind::BrokenPipe,
        ];
        matches!(self, Self::Io(error) if gone.contains(&error.kind()))
    }
}

fn shake_hands(stream: Stream, gate: &Gate) -> Result<Option<(String, Connection)>, Failed> {
    let open = gate.servers.iter().filter(|server| server.is_open());
    let exports: Vec<_> = open.map(|server| offered(server.export())).collect();
    let end = Instant::now() + HANDSHAKE_MAX;
    let mut socket = Socket::plain(stream);
    // With several exports none is the default, not even the last open one.
    let mut server = Server::new(gate.tls);
    if gate.servers.len() > 1 {
        server = server.without_default();
    }
    let mut buffer = [0; 4096];
    loop {
        let mut waited = Waited {
            socket: &mut socket,
            end,
        };
        waited.write_all(&std::mem::take(server.output()))?;
        let count = waited.read(&mut buffer)?;
        if count == 0 {
            return left(&server);
        }
        let (used, step) = server.receive(&exports, &buffer[..count])?;
        waited.write_all(&std::mem::take(server.output()))?;
        match step {
            HandshakeStep::Receive => {}
            HandshakeStep::StartTls => {
                socket = start_tls(socket.into_plain(), gate, end)?;
                server.encrypted();
            }
            HandshakeStep::End => return left(&server),
            HandshakeStep::Transmit(agreed) => {
                let connection = Connection::new(socket, &agreed, &buffer[used..count]);
                return Ok(Some((agreed.export, connection)));
            }
        }
    }
}

/// Ends a handshake: at the client's request, or because the client did not use TLS.
fn left(server: &Server) -> Result<Option<(String, Connection)>, Failed> {
    if server.lacked_tls() {
        return Err(Violation::NotEncrypted.into());
    }
    Ok(None)
}

/// Performs the TLS handshake.
fn start_tls(mut stream: Stream, gate: &Gate, end: Instant) -> Result<Socket, Failed> {
    let certificates = gate.certificates.as_ref();
    let certificates = certificates.expect("TLS begins only where there are some");
    let mut connection = certificates.connection()?;
    let socket = &mut stream;
    connection.complete_io(&mut Waited { socket, end })?;
    Ok(Socket::encrypted(stream, connection))
}

/// A socket with blocking calls and a deadline.
struct Waited<'a, T> {
    socket: &'a mut T,
    end: Instant,
}

impl<T: AsFd> Waited<'_, T> {
    fn until<R>(
        &mut self,
        readiness: PollFlags,
        mut call: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let left = self.end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            match call(self.socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(self.socket, readiness)], Some(&left)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl<T: Read + AsFd> Read for Waited<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.until(PollFlags::IN, |socket| socket.read(buffer))
    }
}

impl<T: Write + AsFd> Write for Waited<'_, T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.until(PollFlags::OUT, |socket| socket.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Describes an export to clients.
fn offered(export: ExportFacts) -> handshake::Export {
    let all = [
        TransmissionFlags::SEND_FLUSH,
        TransmissionFlags::SEND_FUA,
        TransmissionFlags::SEND_TRIM,
        TransmissionFlags::SEND_WRITE_ZEROES,
        TransmissionFlags::SEND_DF,
        TransmissionFlags::CAN_MULTI_CONN,
        TransmissionFlags::SEND_CACHE,
        TransmissionFlags::SEND_FAST_ZERO,
    ];
    let none = TransmissionFlags::HAS_FLAGS;
    let mut flags = all.into_iter().fold(none, TransmissionFlags::with);
    if export.read_only {
        flags = flags.with(TransmissionFlags::READ_ONLY);
    }
    handshake::Export {
        name: export.name,
        description: export.description,
        bytes: export.bytes,
        flags,
        block_sizes: handshake::BlockSizes {
            min_bytes: 1,
            preferred_bytes: export.block_bytes.max(4096),
            payload_bytes_max: u32::try_from(PAYLOAD_BYTES_MAX).expect("32 MiB"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_clients_are_counted_and_reported_at_intervals() {
        let refused = Refused::new(None);
        let why = Failed::Violation(Violation::NotEncrypted);
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let line = |peer, at| refused.line(peer, &why, after(at));
        let first = "client 192.0.2.7:9 is refused: TLS is required";
        assert_eq!(line("192.0.2.7:9", 0).as_deref(), Some(first));
        assert!((1..10).all(|second| line("192.0.2.8:9", second).is_none()));
        let next = "client 192.0.2.9:9 is refused: TLS is required; 9 more since the last such \
            message";
        assert_eq!(line("192.0.2.9:9", 11).as_deref(), Some(next));
        assert_eq!(line("192.0.2.7:9", 30).as_deref(), Some(first));
    }
}
