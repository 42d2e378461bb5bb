//! Non-blocking Unix and TCP sockets, with or without TLS.

use super::address::Address;
use crate::certificates::subject_of;
use crate::left_behind;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustls::ServerConnection;
use spindles_device::sockets::process_behind;
use spindles_device::tls::Session;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};

/// Send buffer size for clients on this machine, in bytes. For network clients the system tunes it
/// by itself.
const SEND_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// The transport of the bytes.
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
    /// Subject of the client's certificate; `None` if it has none.
    subject: Option<String>,
}

impl Listener {
    /// Listens on an address. Replaces a socket file left behind by a dead server.
    pub(crate) fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => {
                left_behind::remove(path)?;
                UnixListener::bind(path).map(Self::Unix)
            }
            Address::Tcp(address) => TcpListener::bind(address).map(Self::Tcp),
        }
    }

    /// Returns the actual address, with the port that the system chose if the given one was 0.
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
                // As large as the system permits; a smaller buffer is slower.
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

impl Stream {
    /// Names the peer in messages.
    pub(crate) fn peer(&self) -> String {
        match self {
            Self::Unix(_) => "of the socket".to_owned(),
            Self::Tcp(socket) => socket
                .peer_addr()
                .map_or_else(|_| "that is gone".to_owned(), |peer| peer.to_string()),
        }
    }
}

impl Socket {
    pub(crate) fn plain(stream: Stream) -> Self {
        Self {
            stream,
            session: None,
            subject: None,
        }
    }

    pub(crate) fn encrypted(stream: Stream, connection: ServerConnection) -> Self {
        let shown = connection.peer_certificates();
        let subject = shown
            .and_then(<[_]>::first)
            .and_then(|certificate| subject_of(certificate));
        Self {
            stream,
            session: Some(Box::new(Session::new(connection))),
            subject,
        }
    }

    /// Returns the peer's address or process, for messages.
    pub(crate) fn peer(&self) -> String {
        match &self.stream {
            Stream::Unix(socket) => process_behind(socket).map_or_else(
                || self.stream.peer(),
                |pid| match fs::read_to_string(format!("/proc/{pid}/comm")) {
                    Ok(program) => format!("pid {pid}, {}", program.trim_end()),
                    Err(_) => format!("pid {pid}"),
                },
            ),
            Stream::Tcp(_) => self.stream.peer(),
        }
    }

    /// Returns the subject of the client's certificate.
    pub(crate) fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// Returns the underlying stream.
    ///
    /// # Panics
    ///
    /// If TLS has started.
    pub(crate) fn into_plain(self) -> Stream {
        assert!(self.session.is_none(), "TLS began already");
        self.stream
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }

    /// Ends the connection, which makes the descriptor ready for any poll.
    pub(crate) fn shutdown(&mut self) {
        if let Some(session) = &mut self.session {
            session.end(&mut self.stream);
        }
        // The peer may have disconnected first.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::{Certificates, Clients};
    use rustls::crypto::ring;
    use rustls::pki_types::CertificateDer;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
    use std::io::ErrorKind;
    use std::sync::Arc;

    /// Returns a blocking client, and the server's non-blocking socket.
    fn pair() -> (StreamOwned<ClientConnection, UnixStream>, Socket) {
        let folder = tempfile::tempdir().expect("a folder");
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
        let own = own.expect("a certificate");
        let write = |name: &str, text: String| {
            std::fs::write(folder.path().join(name), text).expect("it is written");
        };
        write("server-cert.pem", own.cert.pem());
        write("server-key.pem", own.signing_key.serialize_pem());
        let certificates = Certificates::read(folder.path(), Clients::Any).expect("they fit");
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from(own.cert))
            .expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions();
        let config = config.expect("versions").with_root_certificates(roots);
        let config = Arc::new(config.with_no_client_auth());
        let name = "localhost".try_into().expect("a name");
        let client = ClientConnection::new(config, name).expect("a client");
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let client = std::thread::spawn(move || {
            let mut client = StreamOwned::new(client, ours);
            client
                .conn
                .complete_io(&mut client.sock)
                .expect("it agrees");
            client
        });
        let mut connection = certificates.connection().expect("a connection");
        let mut stream = theirs;
        connection.complete_io(&mut stream).expect("it agrees");
        stream.set_nonblocking(true).expect("it can");
        let socket = Socket::encrypted(Stream::Unix(stream), connection);
        (client.join().expect("it ends"), socket)
    }

    #[test]
    fn the_subject_of_a_certificate_is_read() {
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.distinguished_name = rcgen::DistinguishedName::new();
        let name = &mut params.distinguished_name;
        name.push(rcgen::DnType::OrganizationName, "Example");
        name.push(rcgen::DnType::CommonName, "host 1");
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let subject = subject_of(certificate.der());
        assert_eq!(subject.as_deref(), Some("O=Example, CN=host 1"));
        let whole = certificate.der().to_vec();
        // Truncated certificates are not read beyond their end.
        for end in 0..whole.len() {
            subject_of(&CertificateDer::from(&whole[..end]));
        }
    }

    fn pattern(bytes: usize) -> Vec<u8> {
        let word = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let words = u64::try_from(bytes / 8).expect("64 bits");
        (0..words).flat_map(word).collect()
    }

    /// A short read means that neither the socket nor the TLS session has more data.
    #[test]
    fn a_short_read_means_no_more_data() {
        let (mut client, mut socket) = pair();
        let sent = pattern(100_000);
        for piece in sent.chunks(33_000) {
            client.write_all(piece).expect("it fits");
        }
        let mut places = [vec![0; 7], vec![0; 70_000], vec![0; 9]];
        let mut received: Vec<u8> = Vec::new();
        loop {
            let mut slices: Vec<_> = places
                .iter_mut()
                .map(|place| IoSliceMut::new(place))
                .collect();
            let count = socket.read_vectored(&mut slices).expect("there is more");
            received.extend(places.concat().iter().take(count));
            if count < 70_016 {
                break;
            }
        }
        assert!(received == sent, "{} bytes came", received.len());
        let blocked = socket.read(&mut [0; 9]).expect_err("there is no more");
        assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
        // Data received before the end comes first.
        client.write_all(b"end").expect("it fits");
        client.conn.send_close_notify();
        client.flush().expect("it goes");
        assert_eq!(socket.read(&mut [0; 9]).expect("three bytes"), 3);
        assert_eq!(socket.read(&mut [0; 9]).expect("the end"), 0);
    }

    /// Bytes reported as sent have left this process; no later call is needed.
    #[test]
    fn bytes_reported_as_sent_need_no_later_call() {
        let (mut client, mut socket) = pair();
        let all = pattern(3_000_000);
        let mut sent = 0;
        let mut received: Vec<u8> = Vec::new();
        while sent < all.len() {
            // Buffers as in replies: a head and the data.
            let (head, rest) = all[sent..].split_at(16.min(all.len() - sent));
            match socket.write_vectored(&[IoSlice::new(head), IoSlice::new(rest)]) {
                Ok(count) => sent += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            client.sock.set_nonblocking(true).expect("it can");
            let mut buffer = vec![0; 40_000];
            loop {
                match client.read(&mut buffer) {
                    Ok(count) => received.extend(&buffer[..count]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(
                received.len() >= sent,
                "{} of {sent} bytes came",
                received.len()
            );
        }
        assert!(received == all, "the received bytes differ");
        socket.shutdown();
        client.sock.set_nonblocking(false).expect("it can");
        assert_eq!(client.read(&mut [0; 9]).expect("it ends in order"), 0);
    }

    #[test]
    fn data_without_tls_ends_the_connection() {
        let (mut client, mut socket) = pair();
        client.sock.write_all(&[99; 100]).expect("it fits");
        let error = socket.read(&mut [0; 9]).expect_err("it is none");
        assert_ne!(error.kind(), ErrorKind::WouldBlock);
    }
}
