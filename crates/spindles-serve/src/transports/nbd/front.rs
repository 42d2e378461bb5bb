//! Listens, and shakes hands with those who come: each in a thread of its own, with blocking calls and a limit on
//! time, until it has chosen an export. Then its socket goes to the server of that.

use super::address::Address;
use super::socket::{Listener, Socket};
use crate::wake::Waker;
use spindles_nbd::Violation;
use spindles_nbd::handshake::{Agreed, Export, Server, Step, Tls};
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// So many clients may be in the handshake at once; others wait to be accepted.
const HANDSHAKES_MAX: usize = 64;
/// So long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// After an error that keeps clients from being accepted, as where the process has too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// A client that has chosen an export.
#[derive(Debug)]
pub(crate) struct Joining {
    pub(crate) socket: Socket,
    pub(crate) agreed: Agreed,
    /// Bytes of requests that came with the end of the handshake.
    pub(crate) received: Vec<u8>,
}

/// An export, and where clients who choose it go.
#[derive(Clone, Debug)]
pub struct Offer {
    pub(crate) export: Export,
    pub(crate) joining: Sender<Joining>,
    pub(crate) waker: Waker,
}

/// Clients who have chosen an export.
pub(crate) fn joining(export: Export, waker: &Waker) -> (Offer, Receiver<Joining>) {
    let (joining, joined) = channel();
    let waker = waker.clone();
    (
        Offer {
            export,
            joining,
            waker,
        },
        joined,
    )
}

/// It can't listen.
#[derive(Debug, Error)]
#[error("can't listen on {address}: {source}")]
pub struct FrontError {
    address: Address,
    source: io::Error,
}

/// Listens on one address.
#[derive(Debug)]
pub struct Front {
    listener: Listener,
    address: Address,
}

impl Front {
    /// Listens there.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn bind(asked: &Address) -> Result<Self, FrontError> {
        let failed = |source| FrontError {
            address: asked.clone(),
            source,
        };
        let listener = Listener::bind(asked).map_err(failed)?;
        let address = listener.address(asked).map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it listens: with the port that the system chose, where it was to.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Lets clients in from now on, until the process ends. The first export is the one without a name too.
    ///
    /// # Errors
    ///
    /// There can be no thread for it.
    pub fn open(self, offers: Vec<Offer>) -> io::Result<()> {
        let offers: Arc<[Offer]> = offers.into();
        let front = thread::Builder::new().name("spindles-front".to_owned());
        let listener = self.listener;
        front.spawn(move || accept(&listener, &offers))?;
        Ok(())
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
    let Ok(Some(joining)) = shake_hands(socket, offers) else {
        return;
    };
    let chosen = offers
        .iter()
        .find(|offer| offer.export.name == joining.agreed.export);
    let offer = chosen.expect("it was found by that name");
    // It fails where the server of that has ended.
    if offer.joining.send(joining).is_ok() {
        offer.waker.wake();
    }
}

#[derive(Debug, Error)]
enum Failed {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Violation(#[from] Violation),
}

fn shake_hands(mut socket: Socket, offers: &[Offer]) -> Result<Option<Joining>, Failed> {
    let exports: Vec<Export> = offers.iter().map(|offer| offer.export.clone()).collect();
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
                return Ok(Some(Joining {
                    socket,
                    agreed,
                    received: buffer[used..count].to_vec(),
                }));
            }
        }
    }
}
