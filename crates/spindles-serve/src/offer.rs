//! An export that is offered to clients, and the way by which those who come reach its server.

use crate::client::Client;
use crate::guard::Guard;
use crate::numbers::ServerNumbers;
use crate::stopper::Stopper;
use spindles_io::Target;
use spindles_io::export::Export;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// What clients are told of an export before they have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportFacts {
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// What it has in common with itself when another server has it, and with nothing else; `None` for what is gone with
    /// its server.
    pub identity: Option<u64>,
    /// Its size in bytes.
    pub bytes: u64,
    /// The smallest that is read or written without reading more, in bytes.
    pub block_bytes: u32,
    /// Nothing is written.
    pub read_only: bool,
    /// The longest access, in bytes.
    pub access_bytes_max: u32,
    /// Accesses at once, of all clients.
    pub accesses_max: u16,
}

/// Describes an array to clients: `raid5 of 3`.
#[must_use]
pub fn description_of(level: &str, members: usize) -> String {
    format!("{level} of {members}")
}

impl ExportFacts {
    pub(crate) fn of(export: &Export, name: &str, description: String) -> Self {
        let facts = export.target().facts();
        Self {
            name: name.to_owned(),
            description,
            identity: None,
            bytes: facts.bytes(),
            block_bytes: facts.block_size.bytes(),
            read_only: facts.read_only,
            access_bytes_max: export.limits().access_bytes_max,
            accesses_max: export.limits().slots,
        }
    }
}

/// What the thread of a server is asked from outside.
pub(crate) enum Arrival {
    /// A client has come.
    Client(Box<dyn Client>),
    /// A process is to be looked out for.
    Guard(Guard),
    /// Somebody does something with the target.
    Call(Call),
    /// Somebody wants to know what the server did.
    Numbers(Sender<ServerNumbers>),
    /// Somebody puts another target in the place of this one. Clients wait.
    Exchange(Exchange),
}

/// Something to be done with a target, on its thread.
pub(crate) type Call = Box<dyn FnOnce(&mut dyn Target) + Send>;

/// Returns true if the target may be exchanged now.
pub(crate) type Decide = Box<dyn FnOnce(&mut dyn Target) -> bool + Send>;

/// Puts another target in the place of one.
pub(crate) struct Exchange {
    /// Whether the target may be exchanged now, when nothing is under way on it.
    pub(crate) decide: Decide,
    /// Gives another target for it, or says why there is none any more.
    pub(crate) exchange: ExchangeTarget,
}

pub(crate) type ExchangeTarget =
    Box<dyn FnOnce(Box<dyn Target>) -> Result<Box<dyn Target>, String> + Send>;

/// What clients are told, which changes when the target is exchanged.
pub(crate) type SharedFacts = Arc<Mutex<ExportFacts>>;

/// An export, and the way to its server.
#[derive(Clone, Debug)]
pub struct Offer {
    export: SharedFacts,
    arrivals: Sender<Arrival>,
    stopper: Stopper,
}

impl Offer {
    pub(crate) fn new(export: &SharedFacts, stopper: &Stopper) -> (Self, Receiver<Arrival>) {
        let (arrivals, arrived) = channel();
        let offer = Self {
            export: Arc::clone(export),
            arrivals,
            stopper: stopper.clone(),
        };
        (offer, arrived)
    }

    /// What clients are told now.
    #[must_use]
    pub fn export(&self) -> ExportFacts {
        let facts = self.export.lock();
        facts.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It is an array with that identity, which other servers had and will have.
    pub fn identify(&self, array: [u8; 16]) {
        let half = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let (first, second) = array.split_at(8);
        let mut facts = self.export.lock().unwrap_or_else(PoisonError::into_inner);
        facts.identity = Some(half(first) ^ half(second));
    }

    /// Puts another target in the place of this one as soon as nothing is under way, if `decide` lets it then. Whether
    /// there is a server for that.
    pub(crate) fn exchange(
        &self,
        decide: impl FnOnce(&mut dyn Target) -> bool + Send + 'static,
        exchange: impl FnOnce(Box<dyn Target>) -> Result<Box<dyn Target>, String> + Send + 'static,
    ) -> bool {
        let sent = self.arrivals.send(Arrival::Exchange(Exchange {
            decide: Box::new(decide),
            exchange: Box::new(exchange),
        }));
        self.stopper.wake();
        sent.is_ok()
    }

    /// Whether clients can still come.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.stopper.is_stopping()
    }

    /// What ends the server, or wakes it.
    pub(crate) fn stopper(&self) -> &Stopper {
        &self.stopper
    }

    /// A client has come. Where the server has ended it is dropped.
    pub(crate) fn join(&self, client: Box<dyn Client>) {
        if self.arrivals.send(Arrival::Client(client)).is_ok() {
            self.stopper.wake();
        }
    }

    /// A process that a door depends on: when it ends, that is news.
    pub(crate) fn look_out(&self, guard: Guard) {
        if self.arrivals.send(Arrival::Guard(guard)).is_ok() {
            self.stopper.wake();
        }
    }

    /// Does that with the target, on the thread that has it, and waits until it is done. `None` where the server
    /// has ended.
    pub fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut dyn Target) -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = channel();
        let call: Call = Box::new(move |target| {
            // Who asked may be gone.
            drop(done.send(call(target)));
        });
        self.arrivals.send(Arrival::Call(call)).ok()?;
        self.stopper.wake();
        result.recv().ok()
    }

    /// What the server did until now. `None` where it has ended.
    #[must_use]
    pub fn numbers(&self) -> Option<ServerNumbers> {
        let (done, result) = channel();
        self.arrivals.send(Arrival::Numbers(done)).ok()?;
        self.stopper.wake();
        result.recv().ok()
    }
}
