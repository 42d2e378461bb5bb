//! Listens, and shakes hands with those who come: each in a thread of its own, with blocking calls and a limit on
//! time, until it has chosen an export. Then its socket goes to the server of that.

use super::address::Address;
use super::connection::{Connection, PAYLOAD_BYTES_MAX};
use super::socket::{Listener, Socket};
use crate::offer::{ExportFacts, Offer};
use crate::transports::Door;
use spindles_nbd::handshake::{Server, Step, Tls};
use spindles_nbd::{TransmissionFlags, Violation, handshake};
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// So many clients may be in the handshake at once; others wait to be accepted.
const HANDSHAKES_MAX: usize = 64;
/// So long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// After an error that keeps clients from being accepted, as where the process has too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// It can't listen.
#[derive(Debug, Error)]
#[error("can't listen on {address}: {source}")]
pub(super) struct FrontError {
    address: Address,
    source: io::Error,
}

/// Listens on one address.
#[derive(Debug)]
pub(super) struct Front {
    /// Until it is opened.
    listener: Option<Listener>,
    address: Address,
}

impl Front {
    /// Listens there.
    pub(super) fn bind(asked: &Address) -> Result<Self, FrontError> {
        let failed = |source| FrontError {
            address: asked.clone(),
            source,
        };
        let listener = Listener::bind(asked).map_err(failed)?;
        let address = listener.address(asked).map_err(failed)?;
        let listener = Some(listener);
        Ok(Self { listener, address })
    }
}

impl Door for Front {
    fn address(&self, export: &str) -> String {
        self.address.uri(export)
    }

    fn open(&mut self, offers: &[Offer]) -> io::Result<()> {
        let offers: Arc<[Offer]> = offers.into();
        let front = thread::Builder::new().name("spindles-front".to_owned());
        let listener = self.listener.take().expect("it is opened once");
        front.spawn(move || accept(&listener, &offers))?;
        Ok(())
    }

    fn close(&mut self) -> Option<String> {
        self.address.remove();
        None
    }
}

fn accept(listener: &Listener, offers: &Arc<[Offer]>) {
    let under_way = Arc::new(AtomicUsize::new(0));
    loop {
        if under_way.load(Ordering::Acquire) >= HANDSHAKES_MAX {
            thread::sleep(PAUSE);
            continue;
        }
        let Ok(socket) = listener.accept() else {
            thread::sleep(PAUSE);
            continue;
        };
        under_way.fetch_add(1, Ordering::AcqRel);
        let (offers, counted) = (Arc::clone(offers), Arc::clone(&under_way));
        let thread = thread::Builder::new().name("spindles-hand".to_owned());
        let begun = thread.stack_size(256 << 10).spawn(move || {
            join(socket, &offers);
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if begun.is_err() {
            under_way.fetch_sub(1, Ordering::AcqRel);
            thread::sleep(PAUSE);
        }
    }
}

/// Shakes hands. Who breaks the protocol, or takes too long, is left: it would not understand why.
fn join(socket: Socket, offers: &[Offer]) {
    if let Ok(Some((chosen, connection))) = shake_hands(socket, offers) {
        let offer = offers.iter().find(|offer| offer.export().name == chosen);
        if let Some(offer) = offer {
            offer.join(Box::new(connection));
        }
    }
}

#[derive(Debug, Error)]
enum Failed {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Violation(#[from] Violation),
}

fn shake_hands(
    mut socket: Socket,
    offers: &[Offer],
) -> Result<Option<(String, Connection)>, Failed> {
    let exports: Vec<_> = offers.iter().map(|offer| offered(offer.export())).collect();
    let end = Instant::now() + HANDSHAKE_MAX;
    let mut server = Server::new(Tls::Never);
    let mut buffer = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        socket.set_timeout(left)?;
        let output = std::mem::take(server.output());
        socket.write_all(&output)?;
        let count = socket.read(&mut buffer)?;
        if count == 0 {
            return Ok(None);
        }
        let (used, step) = server.receive(&exports, &buffer[..count])?;
        match step {
            Step::Receive => {}
            Step::StartTls => unreachable!("this server has no TLS"),
            Step::End => {
                socket.write_all(server.output())?;
                return Ok(None);
            }
            Step::Transmit(agreed) => {
                socket.write_all(server.output())?;
                socket.set_nonblocking()?;
                let connection = Connection::new(socket, &agreed, &buffer[used..count]);
                return Ok(Some((agreed.export, connection)));
            }
        }
    }
}

/// What clients see of an export.
fn offered(export: ExportFacts) -> handshake::Export {
    let all = [
        TransmissionFlags::SEND_FLUSH,
        TransmissionFlags::SEND_FUA,
        TransmissionFlags::SEND_TRIM,
        TransmissionFlags::SEND_WRITE_ZEROES,
        TransmissionFlags::SEND_DF,
        TransmissionFlags::CAN_MULTI_CONN,
        TransmissionFlags::SEND_CACHE,
        TransmissionFlags::SEND_FAST_ZERO,
    ];
    let none = TransmissionFlags::HAS_FLAGS;
    let mut flags = all.into_iter().fold(none, TransmissionFlags::with);
    if export.read_only {
        flags = flags.with(TransmissionFlags::READ_ONLY);
    }
    handshake::Export {
        name: export.name,
        description: export.description,
        bytes: export.bytes,
        flags,
        block_sizes: handshake::BlockSizes {
            min_bytes: 1,
            preferred_bytes: export.block_bytes.max(4096),
            payload_bytes_max: u32::try_from(PAYLOAD_BYTES_MAX).expect("32 MiB"),
        },
    }
}
