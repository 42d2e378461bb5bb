//! Sockets of both kinds.

use super::address::Address;
use crate::left_behind;
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// So much of the replies, in bytes, may be on its way to a client on this machine. Over a network the system
/// finds out by itself.
const SEND_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Listener {
    /// Listens there. A socket that a server left behind which did not end in order is replaced.
    pub(crate) fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => {
                left_behind::remove(path)?;
                UnixListener::bind(path).map(Self::Unix)
            }
            Address::Tcp(address) => TcpListener::bind(address).map(Self::Tcp),
        }
    }

    /// Where it listens: with the port that the system chose, where it was to.
    pub(crate) fn address(&self, asked: &Address) -> io::Result<Address> {
        match self {
            Self::Unix(_) => Ok(asked.clone()),
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
        }
    }

    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(listener) => {
                let (socket, _) = listener.accept()?;
                // As much as the system allows: with less it is slower.
                set_socket_send_buffer_size(&socket, SEND_BYTES).ok();
                Ok(Socket::Unix(socket))
            }
            Self::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nodelay(true)?;
                Ok(Socket::Tcp(socket))
            }
        }
    }
}

impl Socket {
    pub(crate) fn descriptor(&self) -> RawFd {
        match self {
            Self::Unix(socket) => socket.as_raw_fd(),
            Self::Tcp(socket) => socket.as_raw_fd(),
        }
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.set_nonblocking(true),
            Self::Tcp(socket) => socket.set_nonblocking(true),
        }
    }

    /// How long one call may wait.
    pub(crate) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Unix(socket) => {
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))
            }
            Self::Tcp(socket) => {
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))
            }
        }
    }

    /// Ends the connection; whoever looks out for the descriptor finds it ready.
    pub(crate) fn shutdown(&self) {
        // The other side may have gone first.
        let ended = match self {
            Self::Unix(socket) => socket.shutdown(Shutdown::Both),
            Self::Tcp(socket) => socket.shutdown(Shutdown::Both),
        };
        drop(ended);
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.read(buffer),
            Self::Tcp(socket) => socket.read(buffer),
        }
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.read_vectored(buffers),
            Self::Tcp(socket) => socket.read_vectored(buffers),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.write(buffer),
            Self::Tcp(socket) => socket.write(buffer),
        }
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.write_vectored(buffers),
            Self::Tcp(socket) => socket.write_vectored(buffers),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
