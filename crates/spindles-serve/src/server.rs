//! The thread that has an array: it waits for clients and members in one place, and carries requests from the ones to
//! the others.

use crate::client::{Client, Desk, MayTake, Turn};
use crate::guard::Guard;
use crate::news::{News, Newsroom};
use crate::numbers::{ClientNumbers, Served, ServerNumbers};
use crate::offer::{Arrival, Exchange, ExportFacts, Offer, SharedFacts, description_of};
use crate::paces::Paces;
use crate::polling::Polling;
use crate::stopper::Stopper;
use crate::wake::{Ticker, Waker};
use spindles_engine::Event;
use spindles_io::export::{Export, ExportLimits};
use spindles_io::{ArraySnapshot, CloseError, OpenError, Readiness, Target, Watch, WatchId};
use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::io;
use std::os::fd::RawFd;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Longest access, in bytes: longer requests have several.
const ACCESS_BYTES_MAX: u32 = 1 << 20;
/// The watches of the waker and the ticker.
const WOKEN: WatchId = WatchId(0);
const TICKED: WatchId = WatchId(1);
/// The first watch of the first client.
const GUESTS: usize = 2;
/// The watch of the first process that a door depends on: there are fewer clients.
const GUARDS: u32 = 1 << 30;
/// After so many turns with something to do, those are looked out for that were quiet.
const TURNS_UNHEARD: u32 = 16;
/// So many ticks are as long as `ServerLimits::stuck_timeout`.
const TICKS: u32 = 10;

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

/// Whether a client is looked out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookout {
    /// It need not be: it has a turn, or waits for one.
    No,
    /// Before the server sleeps: it is in `Server::quiet`.
    Soon,
    Yes,
}

/// A client, and what is waited for.
#[derive(Debug)]
struct Guest {
    client: Box<dyn Client>,
    /// For what it asks, and for room for replies.
    reads: Lookout,
    writes: Lookout,
    /// How far it came: it has more to be taken, or waits for room in the export.
    turn: Turn,
    /// It is in `Server::due`.
    due: bool,
    /// For so many ticks it has held room and moved nothing.
    stuck_ticks: u32,
    /// When it came, in seconds since 1970.
    since_s: u64,
}

/// The time, in seconds since 1970.
fn seconds_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Serves one array.
pub struct Server {
    export: Export,
    guests: Vec<Option<Guest>>,
    /// Those that have something to be received or sent, or to be settled, the first first.
    due: VecDeque<usize>,
    /// Those that may ask at any time, or take replies, and are not looked out for yet.
    quiet: Vec<usize>,
    polling: Polling,
    /// Those that wait for room in the export, the first first.
    starved: VecDeque<usize>,
    /// Meanwhile others hold room and move nothing.
    is_hindered: bool,
    arrived: Receiver<Arrival>,
    stopper: Stopper,
    ticker: Ticker,
    limits: ServerLimits,
    served: Served,
    /// When it began, in seconds since 1970.
    since_s: u64,
    /// How fast jobs are.
    paces: Paces,
    /// The arrays of the target after the last news.
    arrays: Vec<ArraySnapshot>,
    facts: SharedFacts,
    news: Newsroom,
    /// Processes that doors depend on, until they end.
    guards: Vec<Option<Guard>>,
    /// News that are not of the target, and not told yet.
    own_news: Vec<News>,
    /// Nothing more is taken until this is done.
    /// In the order in which they came.
    exchanges: VecDeque<Exchange>,
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
        let arrays = export.target().snapshot();
        let stopper = Stopper::new(waker);
        let facts = ExportFacts::of(&export, name, description);
        let facts = Arc::new(Mutex::new(facts));
        let (offer, arrived) = Offer::new(&facts, &stopper);
        let ticker = Ticker::new(limits.stuck_timeout / TICKS)?;
        let server = Self {
            ticker,
            export,
            guests: Vec::new(),
            due: VecDeque::new(),
            quiet: Vec::new(),
            polling: Polling::new(),
            starved: VecDeque::new(),
            is_hindered: false,
            arrived,
            stopper,
            limits,
            served: Served::default(),
            since_s: seconds_now(),
            paces: Paces::default(),
            arrays,
            facts,
            news: Newsroom::default(),
            guards: Vec::new(),
            own_news: Vec::new(),
            exchanges: VecDeque::new(),
        };
        Ok((server, offer))
    }

    /// The name under which it is offered.
    #[must_use]
    pub fn name(&self) -> String {
        let facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        facts.name.clone()
    }

    /// What ends it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// How the arrays of the target are.
    #[must_use]
    pub fn arrays(&self) -> &[ArraySnapshot] {
        &self.arrays
    }

    fn numbers(&self) -> ServerNumbers {
        let mut served = self.served;
        let guests = || self.guests.iter().flatten();
        guests().for_each(|guest| served.add(guest.client.moved()));
        let over_ring = guests().filter(|guest| guest.client.is_over_ring());
        let clients = guests().map(|guest| {
            let moved = guest.client.moved();
            ClientNumbers {
                origin: guest.client.origin(),
                since_s: guest.since_s,
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

    /// Serves until it is stopped. `told` gets what happens to the target, and how its arrays are after that.
    ///
    /// # Errors
    ///
    /// The target can't look out for clients, or is lost.
    pub fn run(self, told: impl FnMut(&News, &[ArraySnapshot])) -> Result<Self, ServerError> {
        let stopper = self.stopper();
        let ended = self.serve_until_stopped(told);
        // Whoever comes by a door that is open for others finds nothing here any more.
        stopper.stop();
        ended
    }

    fn serve_until_stopped(
        mut self,
        mut told: impl FnMut(&News, &[ArraySnapshot]),
    ) -> Result<Self, ServerError> {
        self.watch_own()?;
        let mut ends = false;
        let mut turns = 0;
        loop {
            let mut idle = true;
            while let Some(answer) = self.export.poll(false) {
                idle = false;
                let user = self.export.user(answer.slot);
                let guest = self.guests[user].as_mut().expect("it has requests");
                let export = &mut self.export;
                guest.client.answered(answer, &mut Desk { export, user });
                self.is_due(user);
            }
            while let Some(id) = self.export.next_ready() {
                idle = false;
                self.ready(id, &mut told)?;
            }
            for _ in 0..self.due.len() {
                let user = self.due.pop_front().expect("so many there are");
                idle &= !self.serve(user);
            }
            idle &= !self.feed();
            self.tell_news(&mut told);
            if self.stopper.is_stopping() {
                if !ends {
                    (ends, idle) = (true, false);
                    self.begin_end();
                }
                if self.guests.iter().all(Option::is_none) {
                    // Whoever comes now is sent away, and does not wait.
                    self.arrived = channel().1;
                    return Ok(self);
                }
            }
            if !self.exchanges.is_empty() && self.is_quiet() {
                idle = false;
                self = self.exchanged()?;
            }
            if !idle || !self.due.is_empty() {
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

    /// Hands the events of the target to all listeners.
    fn tell_news(&mut self, told: &mut impl FnMut(&News, &[ArraySnapshot])) {
        let mut all_news = News::of(self.export.target_mut(), &mut self.arrays);
        all_news.append(&mut self.own_news);
        for news in all_news {
            if let News::Event {
                event: Event::Grown { .. },
                ..
            } = &news
            {
                self.tell_facts();
            }
            told(&news, &self.arrays);
            self.news.tell(&news);
        }
    }

    /// Tries those again that may have asked meanwhile, or have room.
    fn look_again(&mut self) {
        while let Some(user) = self.quiet.pop() {
            let Some(guest) = &mut self.guests[user] else {
                continue;
            };
            if guest.reads == Lookout::Soon {
                guest.reads = Lookout::No;
                guest.turn = Turn::More;
            }
            if guest.writes == Lookout::Soon {
                guest.writes = Lookout::No;
            }
            self.is_due(user);
        }
        std::hint::spin_loop();
    }

    /// Whoever asks from now on, or has room, is heard of by the target.
    fn look_out_for_all(&mut self) -> Result<(), ServerError> {
        while let Some(user) = self.quiet.pop() {
            let Some(guest) = &mut self.guests[user] else {
                continue;
            };
            let reads = guest.reads == Lookout::Soon;
            let writes = guest.writes == Lookout::Soon;
            if reads {
                guest.reads = Lookout::Yes;
            }
            if writes {
                guest.writes = Lookout::Yes;
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

    /// It gets its turn.
    fn is_due(&mut self, user: usize) {
        if let Some(guest) = &mut self.guests[user]
            && !std::mem::replace(&mut guest.due, true)
        {
            self.due.push_back(user);
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
        self.watch(self.stopper.waker().descriptor(), WOKEN)?;
        self.watch(self.ticker.descriptor(), TICKED)?;
        (0..self.guards.len()).try_for_each(|at| self.watch_guard(at))
    }

    fn watch_guard(&mut self, at: usize) -> Result<(), ServerError> {
        let Some(guard) = &self.guards[at] else {
            return Ok(()); // It has ended.
        };
        let id = GUARDS + u32::try_from(at).expect("few");
        self.watch(guard.descriptor(), WatchId(id))
    }

    /// Whether nothing of any client is under way.
    fn is_quiet(&self) -> bool {
        self.export.free_slots() == usize::from(self.export.limits().slots)
    }

    /// Another target is served from now on, to the same clients.
    fn exchanged(mut self) -> Result<Self, ServerError> {
        let Some(exchange) = self.exchanges.pop_front() else {
            return Ok(self);
        };
        let is_decided = (exchange.decide)(self.export.target_mut());
        if is_decided {
            self.export = (self.export.exchange(exchange.exchange)).map_err(ServerError::Lost)?;
            self.watch_own()?;
            let now = self.export.target().snapshot();
            self.own_news.extend(News::not_back(&self.arrays, &now));
            self.arrays = now;
            let grow = self.arrays.iter().filter(|it| it.status.growth.is_some());
            self.own_news
                .extend(grow.map(|it| News::Grows(it.name.clone())));
        }
        for user in 0..self.guests.len() {
            let Some(guest) = &mut self.guests[user] else {
                continue;
            };
            if is_decided {
                (guest.reads, guest.writes) = (Lookout::No, Lookout::No);
            }
            if guest.turn == Turn::Drained {
                guest.turn = Turn::More;
            }
            self.is_due(user);
        }
        self.tell_facts();
        Ok(self)
    }

    /// Clients who come from now on are told what it is now.
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
        told: &mut impl FnMut(&News, &[ArraySnapshot]),
    ) -> Result<(), ServerError> {
        if id == WOKEN {
            self.stopper.waker().heard();
            self.watch(self.stopper.waker().descriptor(), WOKEN)?;
            // Who wakes it may have ended a client.
            (0..self.guests.len()).for_each(|user| self.is_due(user));
            while let Ok(arrival) = self.arrived.try_recv() {
                match arrival {
                    Arrival::Client(client) => self.join(client),
                    Arrival::Guard(guard) => {
                        self.guards.push(Some(guard));
                        self.watch_guard(self.guards.len() - 1)?;
                    }
                    Arrival::Call(call) => {
                        // A caller that finds a job ended must already have the events of its end.
                        self.tell_news(told);
                        call(self.export.target_mut());
                    }
                    // Who asked may be gone.
                    Arrival::Numbers(asked) => drop(asked.send(self.numbers())),
                    // One at a time: who asks waits for it.
                    Arrival::Exchange(exchange) => self.exchanges.push_back(exchange),
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
            self.own_news.extend(guard.and_then(|guard| {
                Some(News::Unguarded {
                    array: outermost.unwrap_or_else(|| self.name()),
                    loss: guard.loss()?,
                })
            }));
            return Ok(());
        }
        let number = usize::try_from(id.0).expect("64 bits") - GUESTS;
        let (at, writes) = (number / 2, number % 2 == 1);
        let guest = self.guests[at].as_mut().expect("it is looked out for");
        if writes {
            guest.writes = Lookout::No;
        } else {
            guest.reads = Lookout::No;
            if guest.turn == Turn::Drained {
                guest.turn = Turn::More;
            }
        }
        self.is_due(at);
        Ok(())
    }

    fn look_out(&mut self, user: usize, readiness: Readiness) -> Result<(), ServerError> {
        let guest = self.guests[user].as_ref().expect("it is there");
        let which = match readiness {
            Readiness::Read => 0,
            Readiness::Write => 1,
        };
        let id = GUESTS + 2 * user + which;
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
            reads: Lookout::No,
            writes: Lookout::No,
            turn: Turn::More,
            due: false,
            stuck_ticks: 0,
            since_s: seconds_now(),
        };
        if at == self.guests.len() {
            self.guests.push(None);
        }
        self.guests[at] = Some(guest);
        self.is_due(at);
    }

    /// Receives from a client and sends to it, as far as both go. Whether anything was moved.
    fn serve(&mut self, user: usize) -> bool {
        let Some(guest) = &mut self.guests[user] else {
            return false;
        };
        guest.due = false;
        let export = &mut self.export;
        let mut desk = Desk { export, user };
        let before = guest.client.moved();
        if guest.turn == Turn::More {
            let may_take = match (!self.exchanges.is_empty(), self.starved.is_empty()) {
                (false, true) => MayTake::All,
                (false, false) if self.is_hindered => MayTake::Short,
                (true, _) | (false, false) => MayTake::Nothing,
            };
            guest.turn = guest.client.receive(may_take, &mut desk);
            if guest.turn == Turn::Full {
                self.starved.push_back(user);
            }
        }
        if guest.client.has_replies()
            && guest.writes == Lookout::No
            && !guest.client.send(&mut desk)
        {
            guest.writes = Lookout::Soon;
            self.quiet.push(user);
        }
        let did = guest.client.moved() != before;
        self.settle(user);
        did
    }

    /// Those that waited for room in the export take what they waited for, one after the other. Whether one did.
    fn feed(&mut self) -> bool {
        let mut did = false;
        if !self.exchanges.is_empty() {
            return did;
        }
        while let Some(&user) = self.starved.front()
            && self.feed_one(user, MayTake::All)
        {
            did = true;
        }
        if self.is_hindered {
            // The first may wait for long.
            let waiting: Vec<usize> = self.starved.iter().copied().collect();
            for user in waiting {
                did |= self.feed_one(user, MayTake::Short);
            }
        }
        did
    }

    /// One that waited takes what it may. Whether it took anything.
    fn feed_one(&mut self, user: usize, may_take: MayTake) -> bool {
        let guest = self.guests[user].as_mut().expect("it is not over");
        let export = &mut self.export;
        let before = guest.client.moved().requests;
        let turn = guest.client.receive(may_take, &mut Desk { export, user });
        let took = guest.client.moved().requests > before;
        if turn == Turn::Full && !took {
            return false;
        }
        guest.turn = turn;
        self.starved.retain(|it| *it != user);
        if turn == Turn::Full {
            self.starved.push_back(user); // Others have their turn.
        }
        self.is_due(user);
        true
    }

    /// Forgets a client that is over, or sees to it that more of it is received.
    fn settle(&mut self, user: usize) {
        let guest = self.guests[user].as_mut().expect("it is there");
        if guest.client.is_over() {
            guest.client.shut_down();
            let is_watched = guest.reads == Lookout::Yes || guest.writes == Lookout::Yes;
            if !is_watched && guest.turn != Turn::Full {
                let moved = guest.client.moved();
                self.served.add(moved);
                self.guests[user] = None;
            }
            return;
        }
        match guest.turn {
            Turn::More => self.is_due(user),
            Turn::Drained if !guest.client.is_gone() && guest.reads == Lookout::No => {
                guest.reads = Lookout::Soon;
                self.quiet.push(user);
            }
            Turn::Drained | Turn::Full => {}
        }
    }

    /// No client gets more done than what is under way.
    fn begin_end(&mut self) {
        for user in 0..self.guests.len() {
            let Some(guest) = &mut self.guests[user] else {
                continue;
            };
            guest.client.take_no_more();
            if guest.turn == Turn::Drained {
                guest.turn = Turn::More;
            }
            self.is_due(user);
        }
    }

    /// Sends away who holds room and moves nothing, where that keeps others waiting.
    fn tick(&mut self) {
        if self.export.target().is_working() {
            self.paces.look(&self.arrays_now(), Instant::now());
        }
        let waits = !self.exchanges.is_empty() || self.stopper.is_stopping();
        let hinders = waits || !self.starved.is_empty();
        self.is_hindered = false;
        for user in 0..self.guests.len() {
            let Some(guest) = &mut self.guests[user] else {
                continue;
            };
            let stuck = guest.client.is_stuck();
            guest.stuck_ticks = if stuck { guest.stuck_ticks + 1 } else { 0 };
            self.is_hindered |= stuck && !self.starved.is_empty();
            if hinders && guest.stuck_ticks >= TICKS {
                let export = &mut self.export;
                guest.client.end(&mut Desk { export, user });
                self.is_due(user);
            }
        }
    }
}
