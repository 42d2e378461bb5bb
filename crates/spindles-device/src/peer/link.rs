//! A connection after the handshake, with no request in flight.

use super::route::Route;
use super::socket::Socket;
use crate::tls::explain_io;
use spindles_nbd::handshake::{Agreed, Client, Progress, Wanted};
use spindles_nbd::transmission::{Command, Headers, Request};
use spindles_nbd::{CommandFlags, TransmissionFlags};
use std::io;
use std::time::Instant;

/// Longest payload if the server does not state a limit, in bytes.
const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// Largest export, in bytes; the limit is that of a file.
const BYTES_MAX: u64 = i64::MAX.unsigned_abs();
/// Longest request without a payload, in bytes: far more than one operation asks for.
const LENGTH_BYTES_MAX: u64 = 1 << 30;

/// Optional features that we use if the server offers them.
const USED: TransmissionFlags = TransmissionFlags::SEND_FLUSH
    .with(TransmissionFlags::SEND_FUA)
    .with(TransmissionFlags::SEND_WRITE_ZEROES);

/// Terms that hold for all requests on an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Size of the export, rounded down to whole `min_bytes`.
    pub(crate) bytes: u64,
    pub(crate) flags: TransmissionFlags,
    pub(crate) headers: Headers,
    /// The unit of all offsets and lengths, in bytes.
    pub(crate) min_bytes: u32,
    /// Longest payload, in bytes.
    pub(crate) payload_bytes_max: u32,
}

impl Terms {
    fn of(agreed: &Agreed) -> Result<Self, String> {
        let sizes = agreed.block_sizes;
        let min_bytes = sizes.map_or(1, |sizes| sizes.min_bytes);
        let most = sizes.map_or(PAYLOAD_BYTES_MAX, |sizes| sizes.payload_bytes_max);
        if !min_bytes.is_power_of_two() || min_bytes > 64 << 10 || most < min_bytes {
            return Err(format!(
                "its server takes requests of {min_bytes} to {most} bytes, which the protocol \
                 forbids"
            ));
        }
        if agreed.bytes > BYTES_MAX {
            return Err(format!(
                "its server reports an impossible size, {} bytes",
                agreed.bytes
            ));
        }
        Ok(Self {
            bytes: agreed.bytes / u64::from(min_bytes) * u64::from(min_bytes),
            flags: agreed.flags,
            headers: agreed.headers,
            min_bytes,
            payload_bytes_max: most / min_bytes * min_bytes,
        })
    }

    /// Returns true if the server offers all these features.
    pub(crate) fn has(&self, flags: TransmissionFlags) -> bool {
        self.flags.contains(flags)
    }

    /// Returns the longest request of a command, in bytes.
    pub(crate) fn bytes_max(&self, command: Command) -> u64 {
        match command {
            Command::Read | Command::Write => self.payload_bytes_max.into(),
            _ => LENGTH_BYTES_MAX,
        }
    }

    /// Returns why an export with these terms can't replace one with the terms `before`; `None` if
    /// it can.
    pub(super) fn differ(&self, before: &Self) -> Option<&'static str> {
        let needed = TransmissionFlags(before.flags.0 & USED.0);
        if self.bytes != before.bytes {
            Some("it has another size than before")
        } else if self.min_bytes > before.min_bytes {
            Some("its shortest request is longer than before")
        } else if self.payload_bytes_max < before.payload_bytes_max {
            Some("its longest request is shorter than before")
        } else if self.headers != before.headers {
            Some("its server uses other headers than before")
        } else if self.has(TransmissionFlags::READ_ONLY)
            && !before.has(TransmissionFlags::READ_ONLY)
            || !self.has(needed)
        {
            Some("it allows less than before")
        } else {
            None
        }
    }
}

/// A connection to an export.
#[derive(Debug)]
pub(crate) struct Link {
    pub(super) socket: Socket,
    pub(crate) terms: Terms,
}

/// Connects to an export. The error is a message for the user.
pub(crate) fn connect(route: &Route, until: Instant) -> Result<Link, String> {
    let address = &route.address;
    let server = &address.server;
    let mut socket = Socket::connect(server, until).map_err(|error| {
        format!(
            "its server at {server} can't be reached: {error}: check that it runs, and the address"
        )
    })?;
    let mut client = Client::new(Wanted {
        export: address.export.clone(),
        tls: route.has_tls(),
        headers: Headers::Extended,
    });
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::TimedOut => format!(
            "its server at {server} does not answer: it may take no more clients (qemu-nbd has \
             --shared for that), or be no NBD server"
        ),
        io::ErrorKind::UnexpectedEof if route.has_tls() => format!(
            "its server at {server} ended the connection: it may want a client-cert.pem of an \
             authority that it knows"
        ),
        _ => format!(
            "the connection to its server at {server} failed: {}",
            explain_io(&error)
        ),
    };
    loop {
        let mut bytes = [0; 4096];
        let output = std::mem::take(client.output());
        socket.send_all(&output, until).map_err(failed)?;
        let received = socket.receive_some(&mut bytes, until).map_err(failed)?;
        let progress = client.receive(&bytes[..received]);
        let (used, progress) = progress
            .map_err(|error| format!("its server at {server} does not speak NBD: {error}"))?;
        match progress {
            Progress::Receive => {}
            Progress::StartTls | Progress::Transmit(_) if used < received => {
                return Err(format!("its server at {server} answers before any request"));
            }
            Progress::StartTls => {
                let encrypted = route.encrypt(socket, until);
                socket = encrypted.map_err(|error| {
                    let why = explain_io(&error);
                    format!("the TLS handshake with its server at {server} failed: {why}")
                })?;
                client.encrypted();
            }
            Progress::Refused(why) => {
                let export = &address.export;
                return Err(format!("its server does not give '{export}': {why}"));
            }
            Progress::Transmit(agreed) => {
                let terms = Terms::of(&agreed)?;
                return Ok(Link { socket, terms });
            }
        }
    }
}

impl Link {
    /// Sends a disconnect request, if the socket takes it at once, and ends the connection.
    pub(super) fn disconnect(&self) {
        let mut bytes = Vec::with_capacity(Request::encoded_bytes(Headers::Extended));
        let request = Request {
            flags: CommandFlags::default(),
            command: Command::Disconnect,
            cookie: 0,
            offset_bytes: 0,
            bytes: 0,
        };
        request.encode(self.terms.headers, &mut bytes);
        drop(self.socket.send_all(&bytes, Instant::now()));
        self.socket.shutdown();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.disconnect();
    }
}
