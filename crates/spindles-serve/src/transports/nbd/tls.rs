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
