//! The thread that owns an array: it waits for clients and members in one place, and passes
//! requests from clients to the array.

use crate::client::{Budget, Client, MayTake, Turn};
use crate::events::{EventBus, ServerEvent};
use crate::guard::Guard;
use crate::numbers::{ClientNumbers, Served, ServerNumbers};
use crate::paces::Paces;
use crate::polling::Polling;
use crate::server_handle::{
    Call, Exchange, ExportFacts, Message, ServerHandle, SharedFacts, description_of,
};
use crate::stopper::Stopper;
use crate::wake::{Ticker, Waker};
use spindles_array::export::{Export, ExportLimits, tap_of};
use spindles_array::{ArraySnapshot, Target};
use spindles_device::{CloseError, OpenError, Readiness, Watch, WatchId};
use spindles_engine::Event;
use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::io;
use std::os::fd::RawFd;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Longest access, in bytes. A longer request is split into several.
const ACCESS_BYTES_MAX: u32 = 1 << 20;
/// Watch IDs of the waker and the ticker.
const WOKEN: WatchId = WatchId(0);
const TICKED: WatchId = WatchId(1);
/// First watch ID of the connections.
const CONNECTIONS: usize = 2;
/// First watch ID of watched processes, above those of all connections.
const GUARDS: u32 = 1 << 30;
/// After this many busy turns, the server polls the descriptors of quiet connections.
const TURNS_UNHEARD: u32 = 16;
/// Ticks per `ServerLimits::stuck_timeout`.
const TICKS: u32 = 10;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Most connections; further ones are closed.
    pub connections: usize,
    /// Slot budget: most accesses in progress, over all clients. Each takes 1 MiB of memory. At
    /// least 32, for the longest request.
    pub accesses: u16,
    /// A client that holds slots and moves nothing for this long is disconnected if another waits
    /// for slots, or if the server is stopping.
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

/// An error that ends the server or keeps it from starting.
#[derive(Debug, Error)]
pub enum ServerError {
    /// A system call failed.
    #[error("can't serve: {0}")]
    Io(#[from] io::Error),
    /// The target can't poll descriptors.
    #[error(transparent)]
    Watch(#[from] OpenError),
    /// The array was closed for a change, and could not be reopened.
    #[error("it was closed to be changed, and can't be opened again: {0}")]
    Lost(String),
}

/// Polling state of a connection's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookout {
    /// Not polled: the connection is in the run queue, or waits for slots.
    No,
    /// To be polled before the server sleeps: the connection is in `Server::quiet`.
    Soon,
    Yes,
}

/// A connection and its state.
#[derive(Debug)]
struct Connection {
    client: Box<dyn Client>,
    /// Polling for requests, and for room for replies.
    reads: Lookout,
    writes: Lookout,
    /// Result of the last receive: more to receive, or waiting for slots of the export.
    turn: Turn,
    /// True if the connection is in the run queue, `Server::run_queue`.
    is_queued: bool,
    /// Number of ticks for which the client has held slots and moved nothing.
    stuck_ticks: u32,
    /// When it connected, in seconds since 1970.
    since_s: u64,
}

/// Returns the current time, in seconds since 1970.
fn seconds_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Serves one array.
pub struct Server {
    export: Export,
    connections: Vec<Option<Connection>>,
    /// The run queue: connections with something to receive, send or settle, in order of arrival.
    run_queue: VecDeque<usize>,
    /// Connections that may become readable or writable at any time, and are not polled yet.
    quiet: Vec<usize>,
    polling: Polling,
    /// Connections out of slot budget, in order of arrival.
    waiting: VecDeque<usize>,
    /// True if connections wait for slots while others hold slots and move nothing.
    is_hindered: bool,
    received: Receiver<Message>,
    stopper: Stopper,
    ticker: Ticker,
    limits: ServerLimits,
    served: Served,
    /// When serving began, in seconds since 1970.
    since_s: u64,
    /// Speed of jobs.
    paces: Paces,
    /// The target's arrays after the last event.
    arrays: Vec<ArraySnapshot>,
    /// True if their state may have changed without an event.
    looks: bool,
    /// True until the first tick after the target was opened, which reads its lists meanwhile.
    is_new: bool,
    facts: SharedFacts,
    bus: EventBus,
    /// Processes that transports depend on, until they end.
    guards: Vec<Option<Guard>>,
    /// Events not of the target, and not published yet.
    own_events: Vec<ServerEvent>,
    /// Pending exchanges of the target, in order of arrival. Clients take no requests until the
    /// last one is done.
    exchanges: VecDeque<Exchange>,
    /// Calls that other threads wait for.
    calls: Vec<Call>,
}

impl Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({:?})", self.export)
    }
}

impl Server {
    /// Creates a server for a target, and the export to handle to clients.
    ///
    /// # Errors
    ///
    /// A system call failed.
    pub fn new(
        target: Box<dyn Target>,
        name: &str,
        description: String,
        limits: ServerLimits,
    ) -> Result<(Self, ServerHandle), ServerError> {
        let waker = Waker::new()?;
        let export = Export::new(
            target,
            ExportLimits {
                slots: limits.accesses.max(32),
                access_bytes_max: ACCESS_BYTES_MAX,
            },
        );
        let arrays = export.target().snapshot();
        let stopper = Stopper::new(waker);
        let facts = ExportFacts::of(&export, name, description);
        let facts = Arc::new(Mutex::new(facts));
        let (handle, received) = ServerHandle::new(&facts, tap_of(&export), &stopper);
        let ticker = Ticker::new(limits.stuck_timeout / TICKS)?;
        let server = Self {
            ticker,
            export,
            connections: Vec::new(),
            run_queue: VecDeque::new(),
            quiet: Vec::new(),
            polling: Polling::new(),
            waiting: VecDeque::new(),
            is_hindered: false,
            received,
            stopper,
            limits,
            served: Served::default(),
            since_s: seconds_now(),
            paces: Paces::default(),
            arrays,
            looks: false,
            is_new: true,
            facts,
            bus: EventBus::default(),
            guards: Vec::new(),
            own_events: Vec::new(),
            exchanges: VecDeque::new(),
            calls: Vec::new(),
        };
        Ok((server, handle))
    }

    /// The name of the export.
    #[must_use]
    pub fn name(&self) -> String {
        let facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        facts.name.clone()
    }

    /// Returns a handle that stops the server.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// The state of the target's arrays.
    #[must_use]
    pub fn arrays(&self) -> &[ArraySnapshot] {
        &self.arrays
    }

    fn numbers(&self) -> ServerNumbers {
        let mut served = self.served;
        let connections = || self.connections.iter().flatten();
        connections().for_each(|connection| served.add(connection.client.moved()));
        let over_ring = connections().filter(|connection| connection.client.is_over_ring());
        let clients = connections().map(|connection| {
            let moved = connection.client.moved();
            ClientNumbers {
                origin: connection.client.origin(),
                since_s: connection.since_s,
                requests: moved.requests,
                read_bytes: moved.read_bytes,
                written_bytes: moved.payload_bytes,
            }
        });
        ServerNumbers {
            clients: clients.collect(),
            paces: self.paces.known(&self.arrays_now()),
            over_ring: u64::try_from(over_ring.count()).expect("64 bits"),
            since_s: self.since_s,
            served,
            latencies: self.export.latencies(),
        }
    }

    fn arrays_now(&self) -> Vec<ArraySnapshot> {
        self.export.target().snapshot()
    }

    /// Restarts the I/O threads of the members, so that they take over the sandbox of the calling
    /// thread.
    ///
    /// # Errors
    ///
    /// The threads can't be started.
    pub fn restart_threads(&mut self) -> io::Result<()> {
        self.export.target_mut().restart_threads()
    }

    /// Returns the event bus.
    #[must_use]
    pub fn bus(&self) -> EventBus {
        self.bus.clone()
    }

    /// Serves until stopped. Calls the callback with each event and the state of the arrays after
    /// it.
    ///
    /// # Errors
    ///
    /// The target can't poll descriptors, or could not be reopened.
    pub fn run(
        self,
        on_event: impl FnMut(&ServerEvent, &[ArraySnapshot]),
    ) -> Result<Self, ServerError> {
        let stopper = self.stopper();
        let ended = self.serve_until_stopped(on_event);
        // The listener may stay open for other exports, but this one accepts no more connections.
        stopper.stop();
        ended
    }

    fn serve_until_stopped(
        mut self,
        mut on_event: impl FnMut(&ServerEvent, &[ArraySnapshot]),
    ) -> Result<Self, ServerError> {
        self.watch_own()?;
        let mut ends = false;
        let mut turns = 0;
        loop {
            let mut idle = true;
            while let Some(answer) = self.export.poll(false) {
                idle = false;
                let user = self.export.user(answer.slot);
                let connection = self.connections[user].as_mut().expect("it has requests");
                let export = &mut self.export;
                connection
                    .client
                    .answered(answer, &mut Budget { export, user });
                self.enqueue(user);
            }
            while let Some(id) = self.export.next_ready() {
                idle = false;
                self.ready(id, &mut on_event)?;
            }
            for _ in 0..self.run_queue.len() {
                let user = self.run_queue.pop_front().expect("the length was read");
                idle &= !self.serve(user);
            }
            idle &= !self.serve_waiting();
            self.publish_events(&mut on_event);
            self.make_calls();
            if self.stopper.is_stopping() {
                if !ends {
                    (ends, idle) = (true, false);
                    self.begin_end();
                }
                if self.connections.iter().all(Option::is_none) {
                    // Drop connections accepted from now on, instead of letting them wait.
                    self.received = channel().1;
                    return Ok(self);
                }
            }
            if !self.exchanges.is_empty() && self.is_quiet() {
                idle = false;
                self = self.exchanged()?;
            }
            if !idle || !self.run_queue.is_empty() {
                self.polling.end();
                turns += 1;
                if turns >= TURNS_UNHEARD {
                    turns = 0;
                    self.look_out_for_all()?;
                }
                continue;
            }
            turns = 0;
            if self.polling.is_left() {
                self.look_again();
            } else {
                self.look_out_for_all()?;
                self.export.wait();
            }
        }
    }

    /// Publishes the pending events to all subscribers.
    fn publish_events(&mut self, on_event: &mut impl FnMut(&ServerEvent, &[ArraySnapshot])) {
        let looks = std::mem::take(&mut self.looks);
        let mut events = ServerEvent::of(self.export.target_mut(), &mut self.arrays, looks);
        events.append(&mut self.own_events);
        for event in events {
            if let ServerEvent::Engine {
                event: Event::Grown { .. },
                ..
            } = &event
            {
                self.tell_facts();
            }
            on_event(&event, &self.arrays);
            self.bus.publish(&event);
        }
    }

    /// Calls the functions of other threads, and drops each that has its result.
    fn make_calls(&mut self) {
        let target = self.export.target_mut();
        self.calls.retain_mut(|call| !call(target));
    }

    /// Retries quiet connections, which may have become readable or writable.
    fn look_again(&mut self) {
        while let Some(user) = self.quiet.pop() {
            let Some(connection) = &mut self.connections[user] else {
                continue;
            };
            if connection.reads == Lookout::Soon {
                connection.reads = Lookout::No;
                connection.turn = Turn::More;
            }
            if connection.writes == Lookout::Soon {
                connection.writes = Lookout::No;
            }
            self.enqueue(user);
        }
        std::hint::spin_loop();
    }

    /// Polls the descriptors of all quiet connections.
    fn look_out_for_all(&mut self) -> Result<(), ServerError> {
        while let Some(user) = self.quiet.pop() {
            let Some(connection) = &mut self.connections[user] else {
                continue;
            };
            let reads = connection.reads == Lookout::Soon;
            let writes = connection.writes == Lookout::Soon;
            if reads {
                connection.reads = Lookout::Yes;
            }
            if writes {
                connection.writes = Lookout::Yes;
            }
            if reads {
                self.look_out(user, Readiness::Read)?;
            }
            if writes {
                self.look_out(user, Readiness::Write)?;
            }
        }
        Ok(())
    }

    /// Adds a connection to the run queue.
    fn enqueue(&mut self, user: usize) {
        if let Some(connection) = &mut self.connections[user]
            && !std::mem::replace(&mut connection.is_queued, true)
        {
            self.run_queue.push_back(user);
        }
    }

    /// Makes everything durable and closes the array.
    ///
    /// # Errors
    ///
    /// Not everything became durable.
    pub fn close(self) -> Result<Served, CloseError> {
        let served = self.served;
        self.export.close()?;
        Ok(served)
    }

    fn watch_own(&mut self) -> Result<(), ServerError> {
        self.watch(self.stopper.waker().descriptor(), WOKEN)?;
        self.watch(self.ticker.descriptor(), TICKED)?;
        (0..self.guards.len()).try_for_each(|at| self.watch_guard(at))
    }

    fn watch_guard(&mut self, at: usize) -> Result<(), ServerError> {
        let Some(guard) = &self.guards[at] else {
            return Ok(()); // The process has ended.
        };
        let id = GUARDS + u32::try_from(at).expect("few");
        self.watch(guard.descriptor(), WatchId(id))
    }

    /// Returns true if no access of any client is in progress.
    fn is_quiet(&self) -> bool {
        self.export.free_slots() == usize::from(self.export.limits().slots)
    }

    /// Exchanges the target; the clients stay connected.
    fn exchanged(mut self) -> Result<Self, ServerError> {
        let Some(exchange) = self.exchanges.pop_front() else {
            return Ok(self);
        };
        let is_decided = (exchange.decide)(self.export.target_mut());
        if is_decided {
            self.export = (self.export.exchange(exchange.exchange)).map_err(ServerError::Lost)?;
            self.watch_own()?;
            let now = self.export.target().snapshot();
            self.own_events
                .extend(ServerEvent::not_back(&self.arrays, &now));
            self.arrays = now;
            self.is_new = true;
            let grow = self
                .arrays
                .iter()
                .filter(|array| array.status.growth.is_some());
            self.own_events
                .extend(grow.map(|grow| ServerEvent::Grows(grow.name.clone())));
        }
        for user in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[user] else {
                continue;
            };
            if is_decided {
                (connection.reads, connection.writes) = (Lookout::No, Lookout::No);
            }
            if connection.turn == Turn::Drained {
                connection.turn = Turn::More;
            }
            self.enqueue(user);
        }
        self.tell_facts();
        Ok(self)
    }

    /// Updates the export description for new clients.
    fn tell_facts(&mut self) {
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        let array = self.export.target().facts().array.as_ref();
        let description = match array.filter(|_| facts.identity.is_some()) {
            Some(array) => description_of(array.level, array.members.into()),
            None => facts.description.clone(),
        };
        *facts = ExportFacts {
            identity: facts.identity,
            ..ExportFacts::of(&self.export, &facts.name, description)
        };
    }

    fn watch(&mut self, descriptor: RawFd, id: WatchId) -> Result<(), ServerError> {
        Ok(self.export.watch(Watch {
            descriptor,
            readiness: Readiness::Read,
            id,
        })?)
    }

    fn ready(
        &mut self,
        id: WatchId,
        on_event: &mut impl FnMut(&ServerEvent, &[ArraySnapshot]),
    ) -> Result<(), ServerError> {
        if id == WOKEN {
            self.stopper.waker().heard();
            self.watch(self.stopper.waker().descriptor(), WOKEN)?;
            // The waker may have ended a client.
            (0..self.connections.len()).for_each(|user| self.enqueue(user));
            while let Ok(message) = self.received.try_recv() {
                match message {
                    Message::Client(client) => self.join(client),
                    Message::Guard(guard) => {
                        self.guards.push(Some(guard));
                        self.watch_guard(self.guards.len() - 1)?;
                    }
                    Message::Call(call) => {
                        // A caller that finds a job ended must already have the events of its end.
                        self.publish_events(on_event);
                        self.calls.push(call);
                        self.make_calls();
                    }
                    // The requester may be gone.
                    Message::Numbers(asked) => drop(asked.send(self.numbers())),
                    // Handle one at a time: each requester waits for its own.
                    Message::Exchange(exchange) => self.exchanges.push_back(exchange),
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
        if let Some(at) = id.0.checked_sub(GUARDS) {
            let guard = self.guards[usize::try_from(at).expect("64 bits")].take();
            let outermost = self.arrays.first().map(|array| array.name.clone());
            self.own_events.extend(guard.and_then(|guard| {
                Some(ServerEvent::Unguarded {
                    array: outermost.unwrap_or_else(|| self.name()),
                    loss: guard.loss()?,
                })
            }));
            return Ok(());
        }
        let number = usize::try_from(id.0).expect("64 bits") - CONNECTIONS;
        let (at, writes) = (number / 2, number % 2 == 1);
        let connection = self.connections[at].as_mut().expect("a watched connection");
        if writes {
            connection.writes = Lookout::No;
        } else {
            connection.reads = Lookout::No;
            if connection.turn == Turn::Drained {
                connection.turn = Turn::More;
            }
        }
        self.enqueue(at);
        Ok(())
    }

    fn look_out(&mut self, user: usize, readiness: Readiness) -> Result<(), ServerError> {
        let connection = self.connections[user].as_ref().expect("it is there");
        let which = match readiness {
            Readiness::Read => 0,
            Readiness::Write => 1,
        };
        let id = CONNECTIONS + 2 * user + which;
        Ok(self.export.watch(Watch {
            descriptor: connection.client.descriptor(),
            readiness,
            id: WatchId(u32::try_from(id).expect("few")),
        })?)
    }

    fn join(&mut self, client: Box<dyn Client>) {
        let free = self.connections.iter().position(Option::is_none);
        let at = free.unwrap_or(self.connections.len());
        if at >= self.limits.connections || self.stopper.is_stopping() {
            return; // Dropping the client closes its descriptor.
        }
        self.served.connections += 1;
        let connection = Connection {
            client,
            reads: Lookout::No,
            writes: Lookout::No,
            turn: Turn::More,
            is_queued: false,
            stuck_ticks: 0,
            since_s: seconds_now(),
        };
        if at == self.connections.len() {
            self.connections.push(None);
        }
        self.connections[at] = Some(connection);
        self.enqueue(at);
    }

    /// Receives from a client and sends to it, as far as possible. Returns true if anything was
    /// moved.
    fn serve(&mut self, user: usize) -> bool {
        let Some(connection) = &mut self.connections[user] else {
            return false;
        };
        connection.is_queued = false;
        let export = &mut self.export;
        let mut budget = Budget { export, user };
        let before = connection.client.moved();
        if connection.turn == Turn::More {
            let may_take = match (!self.exchanges.is_empty(), self.waiting.is_empty()) {
                (false, true) => MayTake::All,
                (false, false) if self.is_hindered => MayTake::Short,
                (true, _) | (false, false) => MayTake::Nothing,
            };
            connection.turn = connection.client.receive(may_take, &mut budget);
            if connection.turn == Turn::Full {
                self.waiting.push_back(user);
            }
        }
        if connection.client.has_replies()
            && connection.writes == Lookout::No
            && !connection.client.send(&mut budget)
        {
            connection.writes = Lookout::Soon;
            self.quiet.push(user);
        }
        let did = connection.client.moved() != before;
        self.settle(user);
        did
    }

    /// Lets connections out of slot budget take their requests, in order. Returns true if any did.
    fn serve_waiting(&mut self) -> bool {
        let mut did = false;
        if !self.exchanges.is_empty() {
            return did;
        }
        while let Some(&user) = self.waiting.front()
            && self.serve_one_waiting(user, MayTake::All)
        {
            did = true;
        }
        if self.is_hindered {
            // The first one may wait for a long time: let short requests pass.
            let waiting: Vec<usize> = self.waiting.iter().copied().collect();
            for user in waiting {
                did |= self.serve_one_waiting(user, MayTake::Short);
            }
        }
        did
    }

    /// Lets one waiting connection take the requests that `may_take` permits. Returns true if it
    /// took a request or a part of one, or waits no longer.
    fn serve_one_waiting(&mut self, user: usize, may_take: MayTake) -> bool {
        let connection = self.connections[user].as_mut().expect("it is not over");
        let export = &mut self.export;
        let before = connection.client.moved();
        let turn = connection
            .client
            .receive(may_take, &mut Budget { export, user });
        if turn == Turn::Full && connection.client.moved() == before {
            return false;
        }
        connection.turn = turn;
        self.waiting.retain(|waiting| *waiting != user);
        if turn == Turn::Full {
            self.waiting.push_back(user); // Back of the queue: others come first.
        }
        self.enqueue(user);
        true
    }

    /// Forgets a client that is over, or arranges for more to be received from it.
    fn settle(&mut self, user: usize) {
        let connection = self.connections[user].as_mut().expect("it is there");
        if connection.client.is_over() {
            connection.client.shut_down();
            let is_watched = connection.reads == Lookout::Yes || connection.writes == Lookout::Yes;
            if !is_watched && connection.turn != Turn::Full {
                let moved = connection.client.moved();
                self.served.add(moved);
                self.connections[user] = None;
            }
            return;
        }
        match connection.turn {
            Turn::More => self.enqueue(user),
            Turn::Drained if !connection.client.is_gone() && connection.reads == Lookout::No => {
                connection.reads = Lookout::Soon;
                self.quiet.push(user);
            }
            Turn::Drained | Turn::Full => {}
        }
    }

    /// Begins the end: clients finish what is in progress, and take no more requests.
    fn begin_end(&mut self) {
        for user in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[user] else {
                continue;
            };
            connection.client.take_no_more();
            if connection.turn == Turn::Drained {
                connection.turn = Turn::More;
            }
            self.enqueue(user);
        }
    }

    /// Disconnects clients that hold slots and move nothing while others wait. Looks for changes
    /// that are no events.
    fn tick(&mut self) {
        let has_lost = self.arrays.iter().any(|array| array.status.lost_blocks > 0);
        self.looks |= std::mem::take(&mut self.is_new) || has_lost;
        if self.export.target().is_working() {
            self.paces.look(&self.arrays_now(), Instant::now());
        }
        let waits = !self.exchanges.is_empty() || self.stopper.is_stopping();
        let hinders = waits || !self.waiting.is_empty();
        self.is_hindered = false;
        for user in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[user] else {
                continue;
            };
            let stuck = connection.client.is_stuck();
            connection.stuck_ticks = if stuck { connection.stuck_ticks + 1 } else { 0 };
            self.is_hindered |= stuck && !self.waiting.is_empty();
            if hinders && connection.stuck_ticks >= TICKS {
                let export = &mut self.export;
                connection.client.end(&mut Budget { export, user });
                self.enqueue(user);
            }
        }
    }
}
