//! A socket with TLS, which is used as one without.
//!
//! What makes it so: a read takes all that there is, since nobody who looks out for the descriptor would hear of what
//! lies deciphered here already; and a write says that bytes are sent when the last of their cipher text is, so that
//! who still has bytes to send is who looks out for room.

use rustls::Connection;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};

/// A connection with TLS, of either side.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    /// Bytes that were enciphered, and of which nobody was told yet that they are sent.
    untold: usize,
}

impl Session {
    /// TLS has begun on that connection.
    ///
    /// # Panics
    ///
    /// If both sides have not agreed yet.
    pub fn new(connection: impl Into<Connection>) -> Self {
        let connection = connection.into();
        assert!(!connection.is_handshaking());
        Self {
            connection,
            untold: 0,
        }
    }

    /// Fills the places, as far as bytes are there. No bytes are the end.
    ///
    /// # Errors
    ///
    /// What the socket says, `WouldBlock` among it, or that it is no TLS.
    pub fn read_vectored(
        &mut self,
        stream: &mut (impl Read + Write),
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
    fn read(&mut self, stream: &mut (impl Read + Write), place: &mut [u8]) -> io::Result<usize> {
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
    ///
    /// # Errors
    ///
    /// What the socket says, `WouldBlock` among it.
    pub fn write_vectored(
        &mut self,
        stream: &mut (impl Read + Write),
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
            self.untold = self.encipher(rest)?;
        }
        if sent == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(sent)
    }

    /// Enciphers from the pieces, as far as there is room; `flush` sends it.
    ///
    /// # Errors
    ///
    /// The other side has ended TLS.
    pub fn encipher(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.connection.writer().write_vectored(pieces)
    }

    /// Sends cipher text. Whether all is sent.
    ///
    /// # Errors
    ///
    /// What the socket says, but for `WouldBlock`.
    pub fn flush(&mut self, stream: &mut (impl Read + Write)) -> io::Result<bool> {
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

    /// Sends the notice that the connection ends (`close_notify`).
    pub fn end(&mut self, stream: &mut (impl Read + Write)) {
        self.connection.send_close_notify();
        // It may be gone, or read nothing.
        drop(self.flush(stream));
    }
}
