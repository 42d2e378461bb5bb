//! A socket with TLS, which is used as one without.
//!
//! What makes it so: a read takes all that there is, since nobody who looks out for the descriptor would hear of what
//! lies deciphered here already; and a write says that bytes are sent when the last of their cipher text is, so that
//! who still has bytes to send is who looks out for room.

use super::socket::Stream;
use rustls::ServerConnection;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read as _, Write as _};

/// A connection with TLS.
#[derive(Debug)]
pub(crate) struct Session {
    connection: ServerConnection,
    /// Bytes that were enciphered, and of which nobody was told yet that they are sent.
    untold: usize,
}

impl Session {
    /// TLS has begun on that connection.
    pub(crate) fn new(connection: ServerConnection) -> Self {
        assert!(!connection.is_handshaking());
        Self {
            connection,
            untold: 0,
        }
    }

    /// Fills the places, as far as bytes are there. No bytes are the end.
    pub(crate) fn read_vectored(
        &mut self,
        stream: &mut Stream,
        places: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        let mut count = 0;
        for place in places {
            let mut filled = 0;
            while filled < place.len() {
                // Nothing more now, or ever: it is said again when nothing is left before it.
                let is_last =
                    |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::UnexpectedEof);
                filled += match self.read(stream, &mut place[filled..]) {
                    Ok(0) => return Ok(count + filled),
                    Err(error) if is_last(error.kind()) && count + filled > 0 => {
                        return Ok(count + filled);
                    }
                    Err(error) => return Err(error),
                    Ok(bytes) => bytes,
                };
            }
            count += filled;
        }
        Ok(count)
    }

    /// What is deciphered, or comes.
    fn read(&mut self, stream: &mut Stream, place: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(place) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
            match self.connection.read_tls(stream) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            };
            let processed = self.connection.process_new_packets();
            // There may be something to tell the other side: of an error, or of new keys. Where the socket takes
            // it not now, it goes before whatever is sent next.
            let told = self.flush(stream);
            processed.map_err(io::Error::other)?;
            told?;
        }
    }

    /// Sends from the pieces. Bytes of which this does not say that they were sent must come again, at the beginning.
    pub(crate) fn write_vectored(
        &mut self,
        stream: &mut Stream,
        pieces: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let mut pieces = pieces.to_vec();
        let mut rest = &mut pieces[..];
        let mut sent = 0;
        while self.flush(stream)? {
            let told = std::mem::take(&mut self.untold);
            sent += told;
            IoSlice::advance_slices(&mut rest, told);
            if rest.is_empty() {
                return Ok(sent);
            }
            self.untold = self.connection.writer().write_vectored(rest)?;
        }
        if sent == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(sent)
    }

    /// Sends cipher text. Whether all is sent.
    fn flush(&mut self, stream: &mut Stream) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Nothing more is sent, and the other side is told.
    pub(crate) fn end(&mut self, stream: &mut Stream) {
        self.connection.send_close_notify();
        // It may be gone, or read nothing.
        drop(self.flush(stream));
    }
}

#[cfg(test)]
mod tests {
    use super::super::socket::Socket;
    use super::*;
    use crate::certificates::{Certificates, Clients};
    use rustls::crypto::ring;
    use rustls::pki_types::CertificateDer;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    /// A client that waits, and the server's socket, which does not.
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

    fn pattern(bytes: usize) -> Vec<u8> {
        let word = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let words = u64::try_from(bytes / 8).expect("64 bits");
        (0..words).flat_map(word).collect()
    }

    /// Less than there was room for means: there is no more, in the socket or behind it.
    #[test]
    fn a_read_takes_all_that_there_is() {
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
        // The end is told after what came before it.
        client.write_all(b"end").expect("it fits");
        client.conn.send_close_notify();
        client.flush().expect("it goes");
        assert_eq!(socket.read(&mut [0; 9]).expect("three bytes"), 3);
        assert_eq!(socket.read(&mut [0; 9]).expect("the end"), 0);
    }

    /// What counts as sent has left this process: nobody has to come back for it.
    #[test]
    fn what_is_told_to_be_sent_needs_nobody_any_more() {
        let (mut client, mut socket) = pair();
        let all = pattern(3_000_000);
        let mut sent = 0;
        let mut received: Vec<u8> = Vec::new();
        while sent < all.len() {
            // In pieces, as replies are: a head, and what was read.
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
        assert!(received == all, "it is not what was sent");
        socket.shutdown();
        client.sock.set_nonblocking(false).expect("it can");
        assert_eq!(client.read(&mut [0; 9]).expect("it ends in order"), 0);
    }

    #[test]
    fn what_is_no_tls_ends_it() {
        let (mut client, mut socket) = pair();
        client.sock.write_all(&[99; 100]).expect("it fits");
        let error = socket.read(&mut [0; 9]).expect_err("it is none");
        assert_ne!(error.kind(), ErrorKind::WouldBlock);
    }
}
