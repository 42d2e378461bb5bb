//! A non-blocking socket, with or without TLS. Callers that wait pass a deadline.

#![expect(unsafe_code, reason = "system calls on memory that is shared")]

use super::address::Server;
use crate::queues::Readiness;
use crate::tls::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{connect, shutdown, socket_with, sockopt};
use rustls::ClientConnection;
use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::ToSocketAddrs as _;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::time::{Duration, Instant};
use std::{ptr, slice};

/// A connected socket.
#[derive(Debug)]
pub(super) struct Socket {
    descriptor: OwnedFd,
    session: Option<Box<RefCell<Session>>>,
}

/// The transport of a TLS session.
struct Carrier<'a>(&'a OwnedFd);

impl Read for Carrier<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, into)?)
    }
}

impl Write for Carrier<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, from, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A transport that waits for the socket until a deadline.
pub(super) struct Waiting<'a> {
    socket: &'a Socket,
    until: Instant,
}

impl Read for Waiting<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.receive_some(into, self.until)
    }
}

impl Write for Waiting<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.socket.send_all(from, self.until)?;
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Pause between two attempts while the server's backlog is full.
const PAUSE: Duration = Duration::from_millis(10);
/// A peer that is silent this long gets a keepalive probe, then one every `ASKS_AGAIN`.
const ASKS: Duration = Duration::from_secs(5);
const ASKS_AGAIN: Duration = Duration::from_secs(1);
/// A peer that acknowledges nothing for this long is gone. Even with slow disks, the kernel of a
/// live peer acknowledges.
const GONE_MS: u32 = 10_000;

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it does not answer")
}

impl Socket {
    /// Connects to a server.
    pub(super) fn connect(server: &Server, until: Instant) -> io::Result<Self> {
        match server {
            Server::Socket(path) => {
                let address = SocketAddrUnix::new(path.as_path())?;
                loop {
                    let socket = Self::new(AddressFamily::UNIX)?;
                    match connect(&socket.descriptor, &address) {
                        Ok(()) => return Ok(socket),
                        // The backlog is full.
                        Err(Errno::AGAIN) if Instant::now() < until => std::thread::sleep(PAUSE),
                        Err(Errno::AGAIN) => return Err(timed_out()),
                        Err(errno) => return Err(errno.into()),
                    }
                }
            }
            Server::Host { name, port } => {
                let mut failed = io::Error::new(io::ErrorKind::NotFound, "it has no address");
                for address in (name.as_str(), *port).to_socket_addrs()? {
                    match Self::connect_to(address, until) {
                        Ok(socket) => return Ok(socket),
                        Err(error) => failed = error,
                    }
                }
                Err(failed)
            }
        }
    }

    fn new(family: AddressFamily) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Self {
            descriptor: socket_with(family, SocketType::STREAM, flags, None)?,
            session: None,
        })
    }

    fn connect_to(address: std::net::SocketAddr, until: Instant) -> io::Result<Self> {
        let family = match address {
            std::net::SocketAddr::V4(_) => AddressFamily::INET,
            std::net::SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = Self::new(family)?;
        match connect(&socket.descriptor, &address) {
            Ok(()) => {}
            Err(Errno::INPROGRESS) => {
                socket.wait(Readiness::Write, until)?;
                sockopt::socket_error(&socket.descriptor)??;
            }
            Err(errno) => return Err(errno.into()),
        }
        sockopt::set_tcp_nodelay(&socket.descriptor, true)?;
        sockopt::set_socket_keepalive(&socket.descriptor, true)?;
        sockopt::set_tcp_keepidle(&socket.descriptor, ASKS)?;
        sockopt::set_tcp_keepintvl(&socket.descriptor, ASKS_AGAIN)?;
        sockopt::set_tcp_user_timeout(&socket.descriptor, GONE_MS)?;
        Ok(socket)
    }

    /// Encrypts the connection from here on; `shake_hands` does the TLS handshake.
    pub(super) fn encrypt(
        self,
        shake_hands: impl FnOnce(&mut Waiting<'_>) -> io::Result<ClientConnection>,
        until: Instant,
    ) -> io::Result<Self> {
        let socket = &self;
        let connection = shake_hands(&mut Waiting { socket, until })?;
        Ok(Self {
            descriptor: self.descriptor,
            session: Some(Box::new(RefCell::new(Session::new(connection)))),
        })
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Ends the connection. The descriptor then becomes ready for every poller.
    pub(super) fn shutdown(&self) {
        if let Some(session) = &self.session {
            session.borrow_mut().end(&mut Carrier(&self.descriptor));
        }
        // The peer may have closed the connection first.
        shutdown(&self.descriptor, rustix::net::Shutdown::Both).ok();
    }

    /// Waits until the socket is ready.
    pub(super) fn wait(&self, readiness: Readiness, until: Instant) -> io::Result<()> {
        let events = match readiness {
            Readiness::Read => PollFlags::IN,
            Readiness::Write => PollFlags::OUT,
        };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.descriptor, events)], Some(&left)) {
                Ok(0) => return Err(timed_out()),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sends encrypted bytes that earlier calls left. Returns true if none are left.
    pub(super) fn flush(&self) -> io::Result<bool> {
        match &self.session {
            None => Ok(true),
            Some(session) => session.borrow_mut().flush(&mut Carrier(&self.descriptor)),
        }
    }

    /// Sends from these places in order, as much as possible without waiting. Returns the number of
    /// accepted bytes. With TLS, some of these bytes may wait for `flush`; no more are accepted
    /// until those are sent.
    ///
    /// # Safety
    ///
    /// Each place must be readable memory.
    pub(super) unsafe fn send(&self, places: &mut [libc::iovec]) -> io::Result<usize> {
        if let Some(session) = &self.session {
            let carrier = &mut Carrier(&self.descriptor);
            let mut session = session.borrow_mut();
            if !session.flush(carrier)? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let slices = places.iter().map(|place| {
                // SAFETY: the caller guarantees that the place is readable.
                IoSlice::new(unsafe { slice::from_raw_parts(place.iov_base.cast(), place.iov_len) })
            });
            let taken = session.encipher(&slices.collect::<Vec<_>>())?;
            // Ignore an error: some bytes may be sent already, and the next call returns the error
            // again.
            drop(session.flush(carrier));
            return Ok(taken);
        }
        let message = message(places);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the message refers only to the places, which the caller guarantees to be
        // readable.
        let moved = unsafe { libc::sendmsg(self.descriptor(), &raw const message, flags) };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error())
    }

    /// Receives into these places in order, as much as is available. Returns 0 if the peer has
    /// ended the connection.
    ///
    /// # Safety
    ///
    /// Each place must be writable memory.
    pub(super) unsafe fn receive(&self, places: &mut [libc::iovec]) -> io::Result<usize> {
        if let Some(session) = &self.session {
            let there = places.iter().filter(|place| place.iov_len > 0);
            let slices = there.map(|place| {
                // SAFETY: the caller guarantees that the place is writable.
                IoSliceMut::new(unsafe {
                    slice::from_raw_parts_mut(place.iov_base.cast(), place.iov_len)
                })
            });
            let mut slices: Vec<_> = slices.collect();
            let mut session = session.borrow_mut();
            let read = session.read_vectored(&mut Carrier(&self.descriptor), &mut slices);
            return read.map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => ended(),
                _ => error,
            });
        }
        let mut message = message(places);
        // SAFETY: the message refers only to the places, which the caller guarantees to be
        // writable.
        let moved =
            unsafe { libc::recvmsg(self.descriptor(), &raw mut message, libc::MSG_DONTWAIT) };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error())
    }

    /// Sends all bytes, waiting for the socket if needed.
    pub(super) fn send_all(&self, mut bytes: &[u8], until: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            let place = libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            };
            // SAFETY: the place is a slice, and is only read.
            match unsafe { self.send(&mut [place]) } {
                Ok(moved) => bytes = &bytes[moved..],
                Err(error) if is_passing(&error) => self.wait(Readiness::Write, until)?,
                Err(error) => return Err(error),
            }
        }
        while !self.flush()? {
            self.wait(Readiness::Write, until)?;
        }
        Ok(())
    }

    /// Waits until bytes arrive, and receives them.
    pub(super) fn receive_some(&self, into: &mut [u8], until: Instant) -> io::Result<usize> {
        loop {
            let place = libc::iovec {
                iov_base: into.as_mut_ptr().cast(),
                iov_len: into.len(),
            };
            // SAFETY: the place is a mutable slice.
            match unsafe { self.receive(&mut [place]) } {
                Ok(0) => return Err(ended()),
                Ok(moved) => return Ok(moved),
                Err(error) if is_passing(&error) => self.wait(Readiness::Read, until)?,
                Err(error) => return Err(error),
            }
        }
    }
}

fn message(places: &mut [libc::iovec]) -> libc::msghdr {
    libc::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: places.as_mut_ptr(),
        msg_iovlen: places.len(),
        msg_control: ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    }
}

/// Returns true if the call is to be repeated once the socket is ready.
pub(super) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}

/// Returns the error for a server that ended the connection.
pub(super) fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it ended the connection")
}

/// Returns the error for a reply longer than the protocol allows.
pub(super) fn endless() -> io::Error {
    io::Error::other("its reply is longer than any")
}
