//! Sockets of both kinds, with TLS or without. None of them ever waits.

use super::address::Address;
use super::tls::Session;
use crate::left_behind;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustls::ServerConnection;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};

/// So much of the replies, in bytes, may be on its way to a client on this machine. Over a network the system
/// finds out by itself.
const SEND_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// What carries the bytes.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A client's socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    session: Option<Box<Session>>,
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

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener) => {
                let (socket, _) = listener.accept()?;
                // As much as the system allows: with less it is slower.
                set_socket_send_buffer_size(&socket, SEND_BYTES).ok();
                socket.set_nonblocking(true)?;
                Ok(Stream::Unix(socket))
            }
            Self::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nonblocking(true)?;
                socket.set_nodelay(true)?;
                Ok(Stream::Tcp(socket))
            }
        }
    }
}

impl Socket {
    pub(crate) fn plain(stream: Stream) -> Self {
        Self {
            stream,
            session: None,
        }
    }

    pub(crate) fn encrypted(stream: Stream, connection: ServerConnection) -> Self {
        Self {
            stream,
            session: Some(Box::new(Session::new(connection))),
        }
    }

    /// What carries its bytes.
    ///
    /// # Panics
    ///
    /// If they are enciphered.
    pub(crate) fn into_plain(self) -> Stream {
        assert!(self.session.is_none(), "TLS began already");
        self.stream
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }

    /// Ends the connection; whoever looks out for the descriptor finds it ready.
    pub(crate) fn shutdown(&mut self) {
        if let Some(session) = &mut self.session {
            session.end(&mut self.stream);
        }
        // The other side may have gone first.
        let ended = match &self.stream {
            Stream::Unix(socket) => socket.shutdown(Shutdown::Both),
            Stream::Tcp(socket) => socket.shutdown(Shutdown::Both),
        };
        drop(ended);
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Read for Stream {
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

impl Write for Stream {
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

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match &mut self.session {
            None => self.stream.read_vectored(buffers),
            Some(session) => session.read_vectored(&mut self.stream, buffers),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buffer)])
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.session {
            None => self.stream.write_vectored(buffers),
            Some(session) => session.write_vectored(&mut self.stream, buffers),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
