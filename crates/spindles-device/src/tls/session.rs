//! A socket with TLS, used like a plain socket.
//!
//! A read takes all available bytes, because polling the descriptor does not show bytes that are
//! already decrypted here. A write reports bytes as sent only after the last of their ciphertext is
//! sent. So only a caller with unsent bytes polls for room.

use rustls::Connection;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};

/// A TLS connection, of either side.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    /// Encrypted bytes that are not yet reported as sent.
    unreported: usize,
}

impl Session {
    /// Starts a session on a connection after its handshake.
    ///
    /// # Panics
    ///
    /// If the handshake is not complete.
    pub fn new(connection: impl Into<Connection>) -> Self {
        let connection = connection.into();
        assert!(!connection.is_handshaking());
        Self {
            connection,
            unreported: 0,
        }
    }

    /// Fills the places with the available bytes. Returns 0 at the end of the connection.
    ///
    /// # Errors
    ///
    /// An error of the socket, including `WouldBlock`, or invalid TLS.
    pub fn read_vectored(
        &mut self,
        stream: &mut (impl Read + Write),
        places: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        let mut count = 0;
        for place in places {
            let mut filled = 0;
            while filled < place.len() {
                // No more bytes now, or ever: the next call returns the error again, if no bytes
                // precede it.
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

    /// Reads decrypted bytes; receives more if there are none.
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
            // Send any message to the other side, such as an alert or new keys. If the socket takes
            // none now, the next send begins with it.
            let flushed = self.flush(stream);
            processed.map_err(io::Error::other)?;
            flushed?;
        }
    }

    /// Sends from the pieces; returns how many bytes are sent. The rest must come again, at the
    /// start of the next call.
    ///
    /// # Errors
    ///
    /// An error of the socket, including `WouldBlock`.
    pub fn write_vectored(
        &mut self,
        stream: &mut (impl Read + Write),
        pieces: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let mut pieces = pieces.to_vec();
        let mut rest = &mut pieces[..];
        let mut sent = 0;
        while self.flush(stream)? {
            let reported = std::mem::take(&mut self.unreported);
            sent += reported;
            IoSlice::advance_slices(&mut rest, reported);
            if rest.is_empty() {
                return Ok(sent);
            }
            self.unreported = self.encipher(rest)?;
        }
        if sent == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(sent)
    }

    /// Encrypts from the pieces, as far as there is room; `flush` sends the ciphertext. Returns how
    /// many bytes it took.
    ///
    /// # Errors
    ///
    /// The other side has ended TLS.
    pub fn encipher(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.connection.writer().write_vectored(pieces)
    }

    /// Sends ciphertext. Returns true if all is sent.
    ///
    /// # Errors
    ///
    /// An error of the socket, except `WouldBlock`.
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
        // The other side may be gone, or not reading.
        drop(self.flush(stream));
    }
}
