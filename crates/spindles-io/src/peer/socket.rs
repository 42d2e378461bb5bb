//! A socket that never blocks: who wants to wait says so, and until when.

#![expect(unsafe_code, reason = "system calls on memory that is shared")]

use super::address::Server;
use crate::queues::Readiness;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{connect, shutdown, socket_with, sockopt};
use std::io;
use std::net::ToSocketAddrs as _;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};

/// A connected socket.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

/// Between two attempts where a server has no room for one who waits.
const PAUSE: Duration = Duration::from_millis(10);
/// A machine that says nothing for so long is asked whether it is there, and again after `ASKS_AGAIN`.
const ASKS: Duration = Duration::from_secs(5);
const ASKS_AGAIN: Duration = Duration::from_secs(1);
/// A machine that confirms nothing for so long is gone. Its kernel does that, however long its disks take.
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
                    match connect(&socket.0, &address) {
                        Ok(()) => return Ok(socket),
                        // Others wait before us.
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
        Ok(Self(socket_with(family, SocketType::STREAM, flags, None)?))
    }

    fn connect_to(address: std::net::SocketAddr, until: Instant) -> io::Result<Self> {
        let family = match address {
            std::net::SocketAddr::V4(_) => AddressFamily::INET,
            std::net::SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = Self::new(family)?;
        match connect(&socket.0, &address) {
            Ok(()) => {}
            Err(Errno::INPROGRESS) => {
                socket.wait(Readiness::Write, until)?;
                sockopt::socket_error(&socket.0)??;
            }
            Err(errno) => return Err(errno.into()),
        }
        sockopt::set_tcp_nodelay(&socket.0, true)?;
        sockopt::set_socket_keepalive(&socket.0, true)?;
        sockopt::set_tcp_keepidle(&socket.0, ASKS)?;
        sockopt::set_tcp_keepintvl(&socket.0, ASKS_AGAIN)?;
        sockopt::set_tcp_user_timeout(&socket.0, GONE_MS)?;
        Ok(socket)
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Ends the connection; whoever looks out for the descriptor finds it ready.
    pub(super) fn shutdown(&self) {
        // The other side may have gone first.
        shutdown(&self.0, rustix::net::Shutdown::Both).ok();
    }

    /// Waits until it is ready.
    pub(super) fn wait(&self, readiness: Readiness, until: Instant) -> io::Result<()> {
        let events = match readiness {
            Readiness::Read => PollFlags::IN,
            Readiness::Write => PollFlags::OUT,
        };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.0, events)], Some(&left)) {
                Ok(0) => return Err(timed_out()),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sends from these places one after the other, as much as goes without waiting.
    ///
    /// # Safety
    ///
    /// Each is memory that can be read.
    pub(super) unsafe fn send(&self, places: &mut [libc::iovec]) -> io::Result<usize> {
        let message = message(places);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the message names the places, which the caller vouches for, and nothing else.
        let moved = unsafe { libc::sendmsg(self.descriptor(), &raw const message, flags) };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error())
    }

    /// Receives into these places one after the other, as much as is there. 0 when the other side has ended.
    ///
    /// # Safety
    ///
    /// Each is memory that can be written.
    pub(super) unsafe fn receive(&self, places: &mut [libc::iovec]) -> io::Result<usize> {
        let mut message = message(places);
        // SAFETY: as above.
        let moved =
            unsafe { libc::recvmsg(self.descriptor(), &raw mut message, libc::MSG_DONTWAIT) };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error())
    }

    /// Sends all, and waits for that.
    pub(super) fn send_all(&self, mut bytes: &[u8], until: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            let place = libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            };
            // SAFETY: it is a slice, and is only read.
            match unsafe { self.send(&mut [place]) } {
                Ok(moved) => bytes = &bytes[moved..],
                Err(error) if is_passing(&error) => self.wait(Readiness::Write, until)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives something, and waits for it.
    pub(super) fn receive_some(&self, into: &mut [u8], until: Instant) -> io::Result<usize> {
        loop {
            let place = libc::iovec {
                iov_base: into.as_mut_ptr().cast(),
                iov_len: into.len(),
            };
            // SAFETY: it is a slice that may be written.
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

/// Whether it is to be tried again when the socket is ready.
pub(super) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}

/// The server ended the connection.
pub(super) fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it ended the connection")
}

/// The server says something that has no end.
pub(super) fn endless() -> io::Error {
    io::Error::other("its reply is longer than any")
}
