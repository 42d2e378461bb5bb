//! Export descriptions for clients, and the channel by which accepted connections reach their
//! server.

use crate::client::Client;
use crate::guard::Guard;
use crate::numbers::ServerNumbers;
use crate::stopper::Stopper;
use spindles_array::Target;
use spindles_array::export::Export;
use spindles_array::tap::Tap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Description of an export for clients that have not chosen it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportFacts {
    /// Name of the export.
    pub name: String,
    /// Human-readable description.
    pub description: String,
    /// Identity of the export, the same on every server that serves it, and unique; `None` for an
    /// export that ends with its server.
    pub identity: Option<u64>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Block size in bytes: shorter accesses read a whole block.
    pub block_bytes: u32,
    /// True if the export is read-only.
    pub read_only: bool,
    /// Longest access, in bytes.
    pub access_bytes_max: u32,
    /// Most accesses in progress, over all clients.
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

/// A message from another thread to the server's thread.
pub(crate) enum Message {
    /// An accepted connection.
    Client(Box<dyn Client>),
    /// A process to watch.
    Guard(Guard),
    /// A function to call with the target, and after each turn until it returns true.
    Call(Call),
    /// A request for the server's counters.
    Numbers(Sender<ServerNumbers>),
    /// A request to exchange the target. Clients wait meanwhile.
    Exchange(Exchange),
}

/// A function to call with a target, on its thread. Returns true with its last call.
pub(crate) type Call = Box<dyn FnMut(&mut dyn Target) -> bool + Send>;

/// Returns true if the target may be exchanged now.
pub(crate) type Decide = Box<dyn FnOnce(&mut dyn Target) -> bool + Send>;

/// Exchanges the target.
pub(crate) struct Exchange {
    /// Called when no access is in progress; returns true if the target may be exchanged now.
    pub(crate) decide: Decide,
    /// Returns the new target, or the reason why there is none.
    pub(crate) exchange: ExchangeTarget,
}

pub(crate) type ExchangeTarget =
    Box<dyn FnOnce(Box<dyn Target>) -> Result<Box<dyn Target>, String> + Send>;

/// The shared description of an export, which changes when the target is exchanged.
pub(crate) type SharedFacts = Arc<Mutex<ExportFacts>>;

/// An export and the channel to its server.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    export: SharedFacts,
    messages: Sender<Message>,
    stopper: Stopper,
    tap: Tap,
}

impl ServerHandle {
    pub(crate) fn new(
        export: &SharedFacts,
        tap: Tap,
        stopper: &Stopper,
    ) -> (Self, Receiver<Message>) {
        let (messages, received) = channel();
        let handle = Self {
            export: Arc::clone(export),
            messages,
            stopper: stopper.clone(),
            tap,
        };
        (handle, received)
    }

    /// Returns the place at which a recording of its accesses attaches.
    pub(crate) fn tap(&self) -> Tap {
        self.tap.clone()
    }

    /// Returns the current description.
    #[must_use]
    pub fn export(&self) -> ExportFacts {
        let facts = self.export.lock();
        facts.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Derives the export's identity from the UUID of its array, which stays the same on other
    /// servers.
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

    /// Exchanges the target once no access is in progress, if `decide` agrees then. Returns false
    /// if the server has ended.
    pub(crate) fn exchange(
        &self,
        decide: impl FnOnce(&mut dyn Target) -> bool + Send + 'static,
        exchange: impl FnOnce(Box<dyn Target>) -> Result<Box<dyn Target>, String> + Send + 'static,
    ) -> bool {
        let sent = self.messages.send(Message::Exchange(Exchange {
            decide: Box::new(decide),
            exchange: Box::new(exchange),
        }));
        self.stopper.wake();
        sent.is_ok()
    }

    /// Returns true while clients can connect.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.stopper.is_stopping()
    }

    /// Returns the handle that stops or wakes the server.
    pub(crate) fn stopper(&self) -> &Stopper {
        &self.stopper
    }

    /// Passes an accepted connection to the server; drops it if the server has ended.
    pub(crate) fn join(&self, client: Box<dyn Client>) {
        if self.messages.send(Message::Client(client)).is_ok() {
            self.stopper.wake();
        }
    }

    /// Watches a process that a transport depends on: its end becomes an event.
    pub(crate) fn look_out(&self, guard: Guard) {
        if self.messages.send(Message::Guard(guard)).is_ok() {
            self.stopper.wake();
        }
    }

    /// Calls `call` with the target, on the target's thread, and waits for the result. `None` if
    /// the server has ended.
    pub fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut dyn Target) -> T + Send + 'static,
    ) -> Option<T> {
        let mut call = Some(call);
        self.call_until(move |target| Some(call.take()?(target)))
    }

    /// Like `call`, but calls again after each turn of the server until there is a result.
    pub(crate) fn call_until<T: Send + 'static>(
        &self,
        mut call: impl FnMut(&mut dyn Target) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let (done, result) = channel();
        let call: Call = Box::new(move |target| {
            // The caller may be gone.
            call(target).map(|result| done.send(result).ok()).is_some()
        });
        self.messages.send(Message::Call(call)).ok()?;
        self.stopper.wake();
        result.recv().ok()
    }

    /// Returns the server's counters; `None` if the server has ended.
    #[must_use]
    pub fn numbers(&self) -> Option<ServerNumbers> {
        let (done, result) = channel();
        self.messages.send(Message::Numbers(done)).ok()?;
        self.stopper.wake();
        result.recv().ok()
    }
}
