//! The disks of one life of a client, which lose power together. They answer late and out of order
//! and fail as drawn, and the client is killed at some request.

use crate::torture::disk::medium::{Loss, Medium, Write};
use crate::torture::random::Random;
use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The way a client is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The disks keep their caches.
    Process,
    /// The disks lose their caches.
    Power,
}

/// A fault of a disk.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) disk: usize,
    /// The bytes it covers; flushes are in all ranges.
    pub(crate) range: Range<usize>,
    pub(crate) of: Of,
    /// The number of this disk's requests served before.
    pub(crate) after: u64,
    /// The number of times it occurs.
    pub(crate) times: u64,
    pub(crate) how: How,
}

/// The requests that a fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Reads,
    Changes,
    All,
}

/// The effect of a fault on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The request fails with this error.
    Fails(i32),
    /// The request gets no answer while the client lives.
    Hangs,
    /// The answer comes after this many microseconds.
    Stalls(u64),
}

/// The events planned for a client.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The write or flush, counted over all disks, at which it is killed.
    pub(crate) crash: Option<(u64, Crash)>,
    pub(crate) loss: Loss,
    /// The share of requests that are answered late, in percent.
    pub(crate) late_percent: u64,
    /// The longest delay, in microseconds.
    pub(crate) late_us_max: u64,
    pub(crate) faults: Vec<Fault>,
}

impl Plan {
    /// Draws a plan: a crash in most cases, and disks that answer late.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let crash = match random.below(10) {
            0 => None,
            1..4 => Some(Crash::Process),
            _ => Some(Crash::Power),
        };
        Self {
            crash: crash.map(|crash| (random.doubling(1, 1500), crash)),
            loss: Loss::draw(random),
            late_percent: *random.choose(&[0, 5, 30, 90]),
            late_us_max: random.doubling(50, 1000),
            faults: Vec::new(),
        }
    }

    /// A plan without events.
    pub(crate) fn calm() -> Self {
        Self {
            crash: None,
            loss: Loss::Nothing,
            late_percent: 0,
            late_us_max: 0,
            faults: Vec::new(),
        }
    }
}

/// A request to a disk.
#[derive(Debug)]
pub(crate) enum Ask {
    Read {
        offset: usize,
        bytes: usize,
    },
    Write {
        write: Write,
        durable: bool,
    },
    /// Makes every write before the mark durable.
    Flush {
        mark: u64,
    },
}

/// The destination of the answer.
#[derive(Debug)]
pub(crate) enum Reply {
    Data(ReplyData),
    Written(ReplyWrite),
    Empty(ReplyEmpty),
}

impl Reply {
    fn fail(self, code: i32) {
        let errno = Errno::from_i32(code);
        match self {
            Self::Data(reply) => reply.error(errno),
            Self::Written(reply) => reply.error(errno),
            Self::Empty(reply) => reply.error(errno),
        }
    }
}

/// The disks and the life of one client.
#[derive(Debug)]
pub(crate) struct Machine {
    state: Mutex<State>,
    late: Arc<Late>,
    plan: Plan,
}

#[derive(Debug)]
struct State {
    disks: Vec<Medium>,
    random: Random,
    client: Option<Pid>,
    /// Writes and flushes so far.
    changes: u64,
    /// The number of requests so far, by disk.
    asked: Vec<u64>,
    /// The number of times that each fault may still occur.
    faults_left: Vec<u64>,
    /// Requests without an answer yet.
    flying: BTreeMap<u64, Flight>,
    next: u64,
    crashed: Option<Crash>,
    /// True if the power is lost and the client is dead.
    dark: bool,
    /// True after the end: later requests fail.
    ended: bool,
    tally: Tally,
}

/// Counts of the requests to the disks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// Writes with FUA.
    pub(crate) durable: u64,
    pub(crate) flushes: u64,
    /// Requests that hit a fault.
    pub(crate) faults: u64,
    /// The most requests in flight on one disk.
    pub(crate) at_once: u64,
}

impl Tally {
    fn count(&mut self, ask: &Ask) {
        match ask {
            Ask::Read { .. } => self.reads += 1,
            Ask::Write { durable, .. } => {
                self.writes += 1;
                self.durable += u64::from(*durable);
            }
            Ask::Flush { .. } => self.flushes += 1,
        }
    }
}

#[derive(Debug)]
struct Flight {
    disk: usize,
    ask: Ask,
    /// `None` once the client is dead.
    reply: Option<Reply>,
    hangs: bool,
}

/// The state that a life leaves.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) disks: Vec<Medium>,
    pub(crate) crashed: Option<Crash>,
    pub(crate) tally: Tally,
}

impl Machine {
    pub(crate) fn new(disks: Vec<Medium>, plan: Plan, late: &Arc<Late>, random: Random) -> Self {
        Self {
            state: Mutex::new(State {
                random,
                client: None,
                changes: 0,
                asked: vec![0; disks.len()],
                faults_left: plan.faults.iter().map(|fault| fault.times).collect(),
                disks,
                flying: BTreeMap::new(),
                next: 0,
                crashed: None,
                dark: false,
                ended: false,
                tally: Tally::default(),
            }),
            late: Arc::clone(late),
            plan,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the process to kill.
    pub(crate) fn set_client(&self, client: Pid) {
        let mut state = self.state();
        state.client = Some(client);
        if let Some(crash) = state.crashed {
            state.crash(crash);
        }
    }

    pub(crate) fn mark(&self, disk: usize) -> u64 {
        self.state().disks[disk].mark()
    }

    /// Serves a request, now or later.
    pub(crate) fn ask(self: &Arc<Self>, disk: usize, ask: Ask, reply: Reply) {
        let mut state = self.state();
        if state.ended || state.dark {
            return reply.fail(libc::EIO);
        }
        let number = state.next;
        state.next += 1;
        state.asked[disk] += 1;
        let is_change = !matches!(ask, Ask::Read { .. });
        state.changes += u64::from(is_change);
        let how = state.fault(&self.plan.faults, disk, &ask);
        state.tally.faults += u64::from(how.is_some());
        state.tally.count(&ask);
        if let Some(How::Fails(code)) = how {
            return reply.fail(code);
        }
        let hangs = how == Some(How::Hangs);
        let flight = Flight {
            disk,
            ask,
            reply: Some(reply),
            hangs,
        };
        state.flying.insert(number, flight);
        let at_once = state.flying.values().filter(|flight| flight.disk == disk);
        let at_once = u64::try_from(at_once.count()).expect("few");
        state.tally.at_once = state.tally.at_once.max(at_once);
        if is_change
            && let Some((at, crash)) = self.plan.crash
            && state.changes >= at
        {
            state.crash(crash);
        }
        if hangs && let Some(crash) = state.crashed {
            state.crash(crash); // The client can't exit while it waits for this request.
        }
        if hangs || state.crashed == Some(Crash::Power) {
            return;
        }
        let late_us = match how {
            Some(How::Stalls(us)) => us,
            _ if state.random.percent(self.plan.late_percent) => {
                state.random.between(1, self.plan.late_us_max)
            }
            _ => 0,
        };
        if late_us == 0 {
            state.serve(number);
        } else {
            drop(state);
            let due = Instant::now() + Duration::from_micros(late_us);
            self.late.push(due, Arc::clone(self), number);
        }
    }

    /// Kills the client now, if it was not killed before.
    pub(crate) fn crash(&self, crash: Crash) {
        self.state().crash(crash);
    }

    /// Returns true if a request hangs.
    pub(crate) fn hangs(&self) -> bool {
        self.state().flying.values().any(|flight| flight.hangs)
    }

    /// Ends the life after the client's exit. In-flight requests complete or not, and the power is
    /// lost if planned.
    pub(crate) fn end(&self) -> Remains {
        let mut state = self.state();
        while state.crashed != Some(Crash::Power) && state.flying.values().any(|f| !f.hangs) {
            drop(state);
            std::thread::sleep(Duration::from_micros(200));
            state = self.state();
        }
        state.ended = true;
        let flying: Vec<u64> = state.flying.keys().copied().collect();
        let mut lost: Vec<Vec<Write>> = state.disks.iter().map(|_| Vec::new()).collect();
        for number in flying {
            if state.crashed != Some(Crash::Power) && state.random.percent(50) {
                state.serve(number);
            } else if let Some(flight) = state.flying.remove(&number)
                && let Ask::Write { write, .. } = flight.ask
            {
                lost[flight.disk].push(write);
            }
        }
        let state = &mut *state;
        let mut disks = std::mem::take(&mut state.disks);
        if state.crashed == Some(Crash::Power) {
            for (disk, flying) in disks.iter_mut().zip(lost) {
                disk.lose_power(flying, self.plan.loss, &mut state.random);
            }
        }
        Remains {
            disks,
            crashed: state.crashed,
            tally: state.tally,
        }
    }
}

impl State {
    /// Returns the fault that the next request of a disk hits.
    fn fault(&mut self, faults: &[Fault], disk: usize, ask: &Ask) -> Option<How> {
        let (range, is_change) = match ask {
            Ask::Read { offset, bytes } => (*offset..offset + bytes, false),
            Ask::Write { write, .. } => (write.offset..write.offset + write.bytes.len(), true),
            Ask::Flush { .. } => (0..usize::MAX, true),
        };
        let asked = self.asked[disk];
        let meets = |fault: &Fault| {
            fault.disk == disk
                && asked > fault.after
                && range.start < fault.range.end
                && fault.range.start < range.end
                && match fault.of {
                    Of::Reads => !is_change,
                    Of::Changes => is_change,
                    Of::All => true,
                }
        };
        let mut all = faults.iter().zip(&mut self.faults_left);
        let (fault, left) = all.find(|(fault, left)| **left > 0 && meets(fault))?;
        *left -= 1;
        Some(fault.how)
    }

    /// Carries out a request and answers it.
    fn serve(&mut self, number: u64) {
        let Some(flight) = self.flying.remove(&number) else {
            return;
        };
        let disk = &mut self.disks[flight.disk];
        let done = match &flight.ask {
            Ask::Read { .. } => Ok(()),
            Ask::Write { write, durable } => disk.write(write.clone(), *durable),
            Ask::Flush { mark } => {
                disk.flush(*mark);
                Ok(())
            }
        };
        match (flight.ask, flight.reply) {
            (_, None) => {}
            (_, Some(reply)) if done.is_err() => reply.fail(libc::ENOSPC),
            (Ask::Read { offset, bytes }, Some(Reply::Data(reply))) => {
                reply.data(&disk.read(offset, bytes));
            }
            (Ask::Write { write, .. }, Some(Reply::Written(reply))) => {
                reply.written(u32::try_from(write.bytes.len()).expect("a request is small"));
            }
            (_, Some(Reply::Empty(reply))) => reply.ok(),
            (_, Some(reply)) => reply.fail(libc::EIO),
        }
    }

    /// Kills the client. The first crash decides what is lost. Another one only answers hanging
    /// requests, so that the client can exit.
    fn crash(&mut self, crash: Crash) {
        self.crashed.get_or_insert(crash);
        if let Some(client) = self.client {
            kill(client);
            self.lights_out();
        }
    }

    /// Lets the dead client's calls return, so that it can exit.
    fn lights_out(&mut self) {
        self.dark = self.crashed == Some(Crash::Power);
        let dark = self.dark;
        for flight in self.flying.values_mut().filter(|f| dark || f.hangs) {
            if let Some(reply) = flight.reply.take() {
                reply.fail(libc::EIO);
            }
        }
    }
}

fn kill(client: Pid) {
    // Fails only if the client has already exited.
    kill_process(client, Signal::KILL).unwrap_or_default();
}

/// Serves delayed requests, each when it is due.
#[derive(Debug, Default)]
pub(crate) struct Late {
    due: Mutex<BinaryHeap<Due>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Due {
    at: Instant,
    machine: Arc<Machine>,
    number: u64,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    /// The earliest is the greatest, since the heap pops the greatest first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.at.cmp(&self.at)
    }
}

impl Late {
    /// Starts a thread that serves until the process ends.
    pub(crate) fn start() -> std::io::Result<Arc<Self>> {
        let late = Arc::new(Self::default());
        let serves = Arc::clone(&late);
        std::thread::Builder::new()
            .name("late".to_owned())
            .spawn(move || serves.serve())?;
        Ok(late)
    }

    fn push(&self, at: Instant, machine: Arc<Machine>, number: u64) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.push(Due {
            at,
            machine,
            number,
        });
        self.changed.notify_one();
    }

    fn serve(&self) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            match due.peek().map(|first| first.at) {
                None => {
                    let wait = self.changed.wait(due);
                    due = wait.unwrap_or_else(PoisonError::into_inner);
                }
                Some(at) if at > now => {
                    let wait = self.changed.wait_timeout(due, at - now);
                    due = wait.unwrap_or_else(PoisonError::into_inner).0;
                }
                Some(_) => {
                    let Some(first) = due.pop() else { continue };
                    drop(due);
                    let mut state = first.machine.state();
                    if state.crashed != Some(Crash::Power) {
                        state.serve(first.number);
                    }
                    drop(state);
                    due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}
