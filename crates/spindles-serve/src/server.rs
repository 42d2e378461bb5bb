//! The thread that has an array: it waits for clients and members in one place, and carries requests from the ones to
//! the others.

use crate::client::{Client, Desk, Turn};
use crate::news::{News, Newsroom};
use crate::offer::{Arrival, Exchange, ExportFacts, Offer, SharedFacts};
use crate::wake::{Ticker, Waker};
use spindles_io::export::{Export, ExportLimits};
use spindles_io::{CloseError, OpenError, Readiness, Target, Watch, WatchId};
use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;

/// Longest access, in bytes: longer requests have several.
const ACCESS_BYTES_MAX: u32 = 1 << 20;
/// The watches of the waker and the ticker.
const WOKEN: WatchId = WatchId(0);
const TICKED: WatchId = WatchId(1);
/// The first watch of the first client.
const GUESTS: usize = 2;
/// So many ticks are as long as `ServerLimits::stuck_timeout`.
const TICKS: u32 = 4;

/// What a server allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Clients at once; others are sent away.
    pub connections: usize,
    /// Accesses at once, of all clients: each has memory of 1 MiB. At least 32, for the longest request.
    pub accesses: u16,
    /// A client that holds room and moves nothing for so long is sent away when another waits for room, or when the
    /// server is to end.
    pub stuck_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 256,
            accesses: 128,
            stuck_timeout: Duration::from_secs(20),
        }
    }
}

/// The server can't begin.
#[derive(Debug, Error)]
pub enum ServerError {
    /// There is nothing to be woken by.
    #[error("can't serve: {0}")]
    Io(#[from] io::Error),
    /// The target can't look out for clients.
    #[error(transparent)]
    Watch(#[from] OpenError),
    /// It was closed to become something else, and could not be opened again.
    #[error("it was closed to be changed, and can't be opened again: {0}")]
    Lost(String),
}

/// Ends a server, from a signal handler or another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    waker: Waker,
    stops: Arc<AtomicBool>,
}

impl Stopper {
    /// What is under way is answered, then the server ends.
    pub fn stop(&self) {
        self.stops.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// The server looks again at what has changed.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::SeqCst)
    }
}

/// What a server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Clients.
    pub connections: u64,
    /// Their requests.
    pub requests: u64,
    /// What they sent to be written, in bytes.
    pub payload_bytes: u64,
    /// Of that, what was not received into the memory that goes to the members, but copied there.
    pub copied_bytes: u64,
}

/// A client, and what is waited for.
#[derive(Debug)]
struct Guest {
    client: Box<dyn Client>,
    reads: bool,
    writes: bool,
    /// How far it came: it has more to be taken, or waits for room in the export.
    turn: Turn,
    /// For so many ticks it has held room and moved nothing.
    stuck_ticks: u32,
}

/// Serves one array.
pub struct Server {
    export: Export,
    guests: Vec<Option<Guest>>,
    /// Those that wait for room in the export, the first first.
    starved: VecDeque<usize>,
    arrived: Receiver<Arrival>,
    stopper: Stopper,
    ticker: Ticker,
    limits: ServerLimits,
    served: Served,
    facts: SharedFacts,
    news: Newsroom,
    /// Nothing more is taken until this is done.
    exchange: Option<Exchange>,
}

impl Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({:?})", self.export)
    }
}

impl Server {
    /// A server of that target, and what clients are offered.
    ///
    /// # Errors
    ///
    /// The system has no room for it.
    pub fn new(
        target: Box<dyn Target>,
        name: &str,
        description: String,
        limits: ServerLimits,
    ) -> Result<(Self, Offer), ServerError> {
        let waker = Waker::new()?;
        let export = Export::new(
            target,
            ExportLimits {
                slots: limits.accesses.max(32),
                access_bytes_max: ACCESS_BYTES_MAX,
            },
        );
        let stopper = Stopper {
            waker,
            stops: Arc::new(AtomicBool::new(false)),
        };
        let facts = ExportFacts::of(&export, name, description);
        let facts = Arc::new(Mutex::new(facts));
        let (offer, arrived) = Offer::new(&facts, &stopper);
        let ticker = Ticker::new(limits.stuck_timeout / TICKS)?;
        let server = Self {
            ticker,
            export,
            guests: Vec::new(),
            starved: VecDeque::new(),
            arrived,
            stopper,
            limits,
            served: Served::default(),
            facts,
            news: Newsroom::default(),
            exchange: None,
        };
        Ok((server, offer))
    }

    /// What ends it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Threads that carry requests to the members begin anew: with what the calling thread may by now.
    ///
    /// # Errors
    ///
    /// There can be no threads.
    pub fn restart_threads(&mut self) -> io::Result<()> {
        self.export.target_mut().restart_threads()
    }

    /// Where news of the target are heard.
    #[must_use]
    pub fn news(&self) -> Newsroom {
        self.news.clone()
    }

    /// Serves until it is stopped. `told` gets what happens to the target.
    ///
    /// # Errors
    ///
    /// The target can't look out for clients, or is lost.
    pub fn run(mut self, mut told: impl FnMut(&News)) -> Result<Self, ServerError> {
        self.watch_own()?;
        let mut ends = false;
        loop {
            let mut idle = true;
            while let Some(answer) = self.export.poll(false) {
                idle = false;
                let user = self.export.user(answer.slot);
                let guest = self.guests[user].as_mut().expect("it has requests");
                let export = &mut self.export;
                guest.client.answered(answer, &mut Desk { export, user });
            }
            while let Some(id) = self.export.next_ready() {
                idle = false;
                self.ready(id)?;
            }
            for at in 0..self.guests.len() {
                idle &= !self.serve(at)?;
            }
            idle &= !self.feed();
            for news in News::of(self.export.target_mut()) {
                told(&news);
                self.news.tell(&news);
            }
            if self.stopper.is_stopping() {
                if !ends {
                    (ends, idle) = (true, false);
                    self.begin_end();
                }
                if self.guests.iter().all(Option::is_none) {
                    return Ok(self);
                }
            }
            if self.exchange.is_some() && self.is_quiet() {
                idle = false;
                self = self.exchanged()?;
            }
            if idle {
                self.export.wait();
            }
        }
    }

    /// Makes everything durable and closes the array.
    ///
    /// # Errors
    ///
    /// When not everything became durable.
    pub fn close(self) -> Result<Served, CloseError> {
        let served = self.served;
        self.export.close()?;
        Ok(served)
    }

    fn watch_own(&mut self) -> Result<(), ServerError> {
        self.watch(self.stopper.waker.descriptor(), WOKEN)?;
        self.watch(self.ticker.descriptor(), TICKED)
    }

    /// Whether nothing of any client is under way.
    fn is_quiet(&self) -> bool {
        self.export.free_slots() == usize::from(self.export.limits().slots)
    }

    /// Another target is served from now on, to the same clients.
    fn exchanged(mut self) -> Result<Self, ServerError> {
        let exchange = self.exchange.take().expect("there is one");
        self.export = (self.export.exchange(exchange)).map_err(ServerError::Lost)?;
        self.watch_own()?;
        for guest in self.guests.iter_mut().flatten() {
            (guest.reads, guest.writes) = (false, false);
            if guest.turn == Turn::Drained {
                guest.turn = Turn::More;
            }
        }
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        *facts = ExportFacts::of(&self.export, &facts.name, facts.description.clone());
        drop(facts);
        Ok(self)
    }

    fn watch(&mut self, descriptor: RawFd, id: WatchId) -> Result<(), ServerError> {
        Ok(self.export.watch(Watch {
            descriptor,
            readiness: Readiness::Read,
            id,
        })?)
    }

    fn ready(&mut self, id: WatchId) -> Result<(), ServerError> {
        if id == WOKEN {
            self.stopper.waker.heard();
            self.watch(self.stopper.waker.descriptor(), WOKEN)?;
            while let Ok(arrival) = self.arrived.try_recv() {
                match arrival {
                    Arrival::Client(client) => self.join(client),
                    Arrival::Call(call) => call(self.export.target_mut()),
                    // One at a time: who asks waits for it.
                    Arrival::Exchange(exchange) => self.exchange = Some(exchange),
                }
            }
            return Ok(());
        }
        if id == TICKED {
            self.ticker.heard();
            self.watch(self.ticker.descriptor(), TICKED)?;
            self.tick();
            return Ok(());
        }
        let number = usize::try_from(id.0).expect("64 bits") - GUESTS;
        let (at, writes) = (number / 2, number % 2 == 1);
        let guest = self.guests[at].as_mut().expect("it is looked out for");
        if writes {
            guest.writes = false;
        } else {
            guest.reads = false;
            if guest.turn == Turn::Drained {
                guest.turn = Turn::More;
            }
        }
        Ok(())
    }

    fn look_out(&mut self, at: usize, readiness: Readiness) -> Result<(), ServerError> {
        let guest = self.guests[at].as_mut().expect("it is there");
        let (watched, which) = match readiness {
            Readiness::Read => (&mut guest.reads, 0),
            Readiness::Write => (&mut guest.writes, 1),
        };
        if std::mem::replace(watched, true) {
            return Ok(());
        }
        let id = GUESTS + 2 * at + which;
        Ok(self.export.watch(Watch {
            descriptor: guest.client.descriptor(),
            readiness,
            id: WatchId(u32::try_from(id).expect("few")),
        })?)
    }

    fn join(&mut self, client: Box<dyn Client>) {
        let free = self.guests.iter().position(Option::is_none);
        let at = free.unwrap_or(self.guests.len());
        if at >= self.limits.connections || self.stopper.is_stopping() {
            return; // Its descriptor is closed.
        }
        self.served.connections += 1;
        let guest = Guest {
            client,
            reads: false,
            writes: false,
            turn: Turn::More,
            stuck_ticks: 0,
        };
        if at == self.guests.len() {
            self.guests.push(None);
        }
        self.guests[at] = Some(guest);
    }

    /// Receives from a client and sends to it, as far as both go. Whether anything was done.
    fn serve(&mut self, user: usize) -> Result<bool, ServerError> {
        let Some(guest) = &mut self.guests[user] else {
            return Ok(false);
        };
        let export = &mut self.export;
        let mut desk = Desk { export, user };
        let mut did = guest.turn == Turn::More;
        if did {
            let may_take = self.starved.is_empty() && self.exchange.is_none();
            guest.turn = guest.client.receive(may_take, &mut desk);
            if guest.turn == Turn::Full {
                self.starved.push_back(user);
            }
        }
        if guest.client.has_replies() && !guest.writes {
            did = true;
            if !guest.client.send(&mut desk) {
                self.look_out(user, Readiness::Write)?;
            }
        }
        self.settle(user)?;
        Ok(did)
    }

    /// Those that waited for room in the export take what they waited for, one after the other. Whether one did.
    fn feed(&mut self) -> bool {
        let mut did = false;
        if self.exchange.is_some() {
            return did;
        }
        while let Some(&user) = self.starved.front() {
            let guest = self.guests[user].as_mut().expect("it is not over");
            let export = &mut self.export;
            let before = guest.client.moved().requests;
            let turn = guest.client.receive(true, &mut Desk { export, user });
            let took = guest.client.moved().requests > before;
            if turn == Turn::Full && !took {
                break;
            }
            did = true;
            guest.turn = turn;
            self.starved.pop_front();
            if turn == Turn::Full {
                self.starved.push_back(user); // Others have their turn.
            }
        }
        did
    }

    /// Looks out for more of a client, or forgets one that is over.
    fn settle(&mut self, at: usize) -> Result<(), ServerError> {
        let guest = self.guests[at].as_mut().expect("it is there");
        if guest.client.is_over() {
            guest.client.shut_down();
            if !guest.reads && !guest.writes && guest.turn != Turn::Full {
                let moved = guest.client.moved();
                self.served.requests += moved.requests;
                self.served.payload_bytes += moved.payload_bytes;
                self.served.copied_bytes += moved.copied_bytes;
                self.guests[at] = None;
            }
            return Ok(());
        }
        if guest.turn != Turn::Drained || guest.client.is_gone() {
            return Ok(());
        }
        self.look_out(at, Readiness::Read)
    }

    /// No client gets more done than what is under way.
    fn begin_end(&mut self) {
        for guest in self.guests.iter_mut().flatten() {
            guest.client.take_no_more();
            if guest.turn == Turn::Drained {
                guest.turn = Turn::More;
            }
        }
    }

    /// Sends away who holds room and moves nothing, where that keeps others waiting.
    fn tick(&mut self) {
        let waits = self.exchange.is_some() || self.stopper.is_stopping();
        let hinders = waits || !self.starved.is_empty();
        for (user, guest) in self.guests.iter_mut().enumerate() {
            let Some(guest) = guest else {
                continue;
            };
            let stuck = guest.client.is_stuck();
            guest.stuck_ticks = if stuck { guest.stuck_ticks + 1 } else { 0 };
            if hinders && guest.stuck_ticks >= TICKS {
                let export = &mut self.export;
                guest.client.end(&mut Desk { export, user });
            }
        }
    }
}
