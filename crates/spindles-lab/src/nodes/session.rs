//! One controller at an agent. The session's thread alone writes to the connection and knows how far things
//! are; one thread beside it reads requests, another one does the work.
//!
//! ```text
//!           Prepare          Prepared          Arm          Armed          Start
//! Greeted ──────────▶ Preparing ──▶ Prepared ──────▶ Arming ──▶ Armed ──────▶ Running
//!                                      ▲                                        │ Ended
//!                                      │ Done                                   ▼
//!                                      └───────────────────────────────────── Ended
//! ```
//!
//! A `Ping` may come at any time, everything else only there. The end of the connection ends the task at any
//! time, and removes its files.

use super::link::Link;
use super::task::{Brake, Site, carry_out, prepare};
use super::wire::{Done, FRAME_BYTES_MAX, Reply, Request, SoFar, Task, receive, send};
use crate::clock;
use crate::execute::Failure;
use crate::recorder::Collector;
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How often the controller hears of it.
const ALIVE: Duration = Duration::from_secs(1);
/// How often it is looked whether all is to end.
const LOOK: Duration = Duration::from_millis(50);
/// How long a run may take to go away.
const TURN_TIME: Duration = Duration::from_secs(10);
/// The furthest ahead that a start may be.
const START_MAX: Duration = Duration::from_mins(1);

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeted,
    Preparing,
    Prepared,
    Arming,
    Armed,
    Running,
    Ended,
}

/// What moves a session on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Prepare,
    Prepared,
    Arm,
    Armed,
    Start,
    Ended,
    Done,
}

impl Stage {
    /// All legal moves. `None`: out of turn.
    fn next(self, step: Step) -> Option<Self> {
        Some(match (self, step) {
            (Self::Greeted, Step::Prepare) => Self::Preparing,
            (Self::Preparing, Step::Prepared) | (Self::Ended, Step::Done) => Self::Prepared,
            (Self::Prepared, Step::Arm) => Self::Arming,
            (Self::Arming, Step::Armed) => Self::Armed,
            (Self::Armed, Step::Start) => Self::Running,
            (Self::Running, Step::Ended) => Self::Ended,
            _ => return None,
        })
    }
}

/// Orders for the worker.
enum Order {
    Prepare(Task),
    Arm(usize),
    Start(Instant),
}

/// What the session's thread hears.
enum Event {
    Said(Request),
    Gone(String),
    Prepared,
    Armed,
    Ended,
    Done(Box<Done>),
    Failed(Failure),
}

/// What sessions of one agent share.
pub(super) struct Shop<'a> {
    /// Folders of tasks are made here.
    pub(super) folder: &'a Path,
    /// Devices that may be written.
    pub(super) devices: &'a [String],
    /// Held by who does something: two at once would disturb each other.
    pub(super) turn: Mutex<()>,
    /// Set when the agent ends.
    pub(super) interrupt: &'a AtomicBool,
}

/// Serves a controller that has shown who it is, until it goes.
///
/// # Errors
/// Why it ended early.
pub(super) fn serve(stream: &TcpStream, shop: &Shop<'_>) -> Result<(), String> {
    let brake = Brake::default();
    let reading = stream.try_clone().map_err(|error| error.to_string())?;
    let link = stream.local_addr().ok();
    let site = Site {
        folder: shop.folder,
        devices: shop.devices,
        base: Instant::now(),
        link: link.and_then(|address| Link::of(address.ip())),
        brake: &brake,
    };
    let (events, heard) = channel();
    let (orders, ordered) = channel();
    let live = Live::default();
    std::thread::scope(|scope| {
        let said = events.clone();
        scope.spawn(move || read(reading, &said));
        let (live, site) = (&live, &site);
        scope.spawn(move || work(&ordered, &events, live, site, &shop.turn));
        let mut session = Session {
            stream,
            stage: Stage::Greeted,
            orders,
            site,
            live,
        };
        let ended = session.go_on(&heard, shop.interrupt);
        if let Err(why) = &ended {
            // It may be gone already.
            let _gone = session.say(&Reply::Failed { why: why.clone() });
        }
        brake.pull();
        drop(session);
        // The reader ends with it.
        let _gone = stream.shutdown(Shutdown::Both);
        ended
    })
}

/// The figures of the part that is under way.
#[derive(Default)]
struct Live(Mutex<Arc<Collector>>);

impl Live {
    fn renew(&self) -> Arc<Collector> {
        let new = Arc::new(Collector::default());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&new);
        new
    }

    fn so_far(&self) -> SoFar {
        let collector = Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let (operations, bytes, latency) = collector.so_far();
        SoFar {
            operations,
            bytes,
            latency,
        }
    }
}

/// Reads requests until the connection ends.
fn read(mut stream: TcpStream, events: &Sender<Event>) {
    loop {
        match receive(&mut stream, FRAME_BYTES_MAX) {
            Ok(request) => {
                if events.send(Event::Said(request)).is_err() {
                    return;
                }
            }
            Err(error) => {
                // Whoever listened may have ended first.
                let _nobody = events.send(Event::Gone(error.to_string()));
                return;
            }
        }
    }
}

/// Does what is ordered until nobody orders any more.
fn work(
    orders: &Receiver<Order>,
    events: &Sender<Event>,
    live: &Live,
    site: &Site<'_>,
    turn: &Mutex<()>,
) {
    let Ok(Order::Prepare(task)) = orders.recv() else {
        return;
    };
    // The session may have ended first: then nobody is to hear it.
    let tell = |event| drop(events.send(event));
    let Some(_turn) = take(turn, site.brake) else {
        let why = "its agent is busy with another run: wait for that".to_owned();
        return tell(Event::Failed(Failure::Failed(why)));
    };
    let mut job = match prepare(&task, site) {
        Ok(job) => job,
        Err(failure) => return tell(Event::Failed(failure)),
    };
    tell(Event::Prepared);
    for part in 0..job.parts() {
        match orders.recv() {
            Ok(Order::Arm(asked)) if asked == part => {}
            Ok(_) => {
                let why = "it is asked for its parts out of turn".to_owned();
                return tell(Event::Failed(Failure::Failed(why)));
            }
            Err(_) => return,
        }
        let armed = || {
            tell(Event::Armed);
            match orders.recv() {
                Ok(Order::Start(at)) => Ok(at),
                Ok(_) | Err(_) => Err(Failure::Interrupted),
            }
        };
        let collector = live.renew();
        let ended = || tell(Event::Ended);
        match carry_out(job.as_mut(), part, &collector, site, &armed, &ended) {
            Ok(done) => tell(Event::Done(Box::new(done))),
            Err(failure) => return tell(Event::Failed(failure)),
        }
    }
    // Its files stay until the controller has what it wants.
    drop(orders.recv());
}

/// Waits for the turn: the run before may still be removing its files. `None`: it goes on.
fn take<'a>(turn: &'a Mutex<()>, brake: &Brake) -> Option<MutexGuard<'a, ()>> {
    let ends = Instant::now() + TURN_TIME;
    loop {
        match turn.try_lock() {
            Ok(turn) => return Some(turn),
            Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
            Err(TryLockError::WouldBlock) if brake.is_pulled() || Instant::now() > ends => {
                return None;
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// What a session's thread has.
struct Session<'a> {
    stream: &'a TcpStream,
    stage: Stage,
    orders: Sender<Order>,
    site: &'a Site<'a>,
    live: &'a Live,
}

impl Session<'_> {
    fn say(&mut self, reply: &Reply) -> Result<(), String> {
        send(&mut self.stream, reply).map_err(|error| format!("the controller is lost: {error}"))
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        let next = self.stage.next(step);
        self.stage = next.ok_or_else(|| {
            format!(
                "{step:?} is out of turn while the agent is {:?}",
                self.stage
            )
        })?;
        Ok(())
    }

    /// To the end of the connection; without an error where that comes between tasks.
    fn go_on(&mut self, events: &Receiver<Event>, interrupt: &AtomicBool) -> Result<(), String> {
        let mut told = Instant::now();
        loop {
            if interrupt.load(Ordering::Relaxed) {
                return Err("its agent was ended".to_owned());
            }
            if self.stage != Stage::Greeted && told.elapsed() >= ALIVE {
                told = Instant::now();
                let so_far = self.live.so_far();
                self.say(&Reply::Alive { so_far })?;
            }
            match events.recv_timeout(LOOK) {
                Ok(Event::Gone(why)) => {
                    return match self.stage {
                        Stage::Greeted | Stage::Prepared => Ok(()),
                        _ => Err(format!("the controller is lost: {why}")),
                    };
                }
                Ok(Event::Said(request)) => self.hear(request)?,
                Ok(Event::Prepared) => {
                    self.step(Step::Prepared)?;
                    self.say(&Reply::Prepared)?;
                }
                Ok(Event::Armed) => {
                    self.step(Step::Armed)?;
                    self.say(&Reply::Armed)?;
                }
                Ok(Event::Ended) => {
                    self.step(Step::Ended)?;
                    self.say(&Reply::Ended)?;
                }
                Ok(Event::Done(done)) => {
                    self.step(Step::Done)?;
                    self.say(&Reply::Done { done })?;
                }
                Ok(Event::Failed(failure)) => return Err(failure.to_string()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("its threads have ended".to_owned());
                }
            }
        }
    }

    fn hear(&mut self, request: Request) -> Result<(), String> {
        let order = match request {
            Request::Ping => {
                let now_ns = clock::duration_ns(self.site.base.elapsed());
                return self.say(&Reply::Pong { now_ns });
            }
            Request::Prepare { task } => {
                self.step(Step::Prepare)?;
                Order::Prepare(task)
            }
            Request::Arm { part } => {
                self.step(Step::Arm)?;
                Order::Arm(part)
            }
            Request::Start { at_ns } => {
                self.step(Step::Start)?;
                let at = self.site.base.checked_add(Duration::from_nanos(at_ns));
                let soon =
                    at.filter(|at| at.saturating_duration_since(Instant::now()) <= START_MAX);
                Order::Start(soon.ok_or("the start is too far ahead")?)
            }
            Request::Hello { .. } | Request::Proof { .. } => {
                return Err("it is greeted twice".to_owned());
            }
        };
        // A worker that has failed says so itself.
        let _failed = self.orders.send(order);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    const STAGES: [Stage; 7] = [
        Stage::Greeted,
        Stage::Preparing,
        Stage::Prepared,
        Stage::Arming,
        Stage::Armed,
        Stage::Running,
        Stage::Ended,
    ];
    const STEPS: [Step; 7] = [
        Step::Prepare,
        Step::Prepared,
        Step::Arm,
        Step::Armed,
        Step::Start,
        Step::Ended,
        Step::Done,
    ];

    /// One way leads on from each stage.
    #[test]
    fn every_other_order_is_out_of_turn() {
        for stage in STAGES {
            let legal = STEPS.iter().filter(|step| stage.next(**step).is_some());
            assert_eq!(legal.count(), 1, "{stage:?}");
        }
    }

    /// What an agent answers to these requests, its last word included.
    fn talk(requests: &[Request]) -> Vec<Reply> {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        // An answer that does not come is none.
        near.set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let interrupt = AtomicBool::new(false);
        let shop = Shop {
            folder: folder.path(),
            devices: &[],
            turn: Mutex::new(()),
            interrupt: &interrupt,
        };
        let replies = std::thread::scope(|scope| {
            scope.spawn(|| serve(&far, &shop));
            let mut replies = Vec::new();
            for request in requests {
                send(&mut near, request).unwrap();
                loop {
                    match receive(&mut near, FRAME_BYTES_MAX) {
                        Ok(Reply::Alive { .. } | Reply::Ended) => {}
                        Ok(reply) => break replies.push(reply),
                        Err(_) => break,
                    }
                }
            }
            drop(near);
            replies
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        replies
    }

    /// A task that would go on for long ends with the connection, wherever it is.
    #[test]
    fn a_lost_controller_ends_its_task() {
        let parameters = [("filesize", "1048576"), ("seconds", "60")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let long = Request::Prepare {
            task: Task::Files {
                kind: "multistreamwrite".to_owned(),
                parameters: parameters.into(),
                seed: 1,
                empty_caches: false,
            },
        };
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let interrupt = AtomicBool::new(false);
        let shop = Shop {
            folder: folder.path(),
            devices: &[],
            turn: Mutex::new(()),
            interrupt: &interrupt,
        };
        let began = Instant::now();
        std::thread::scope(|scope| {
            let served = scope.spawn(|| serve(&far, &shop));
            let mut ask = |request: &Request, is_last: fn(&Reply) -> bool| {
                send(&mut near, request).unwrap();
                while !is_last(&receive(&mut near, FRAME_BYTES_MAX).unwrap()) {}
            };
            let start = Request::Start { at_ns: 0 };
            ask(&long, |reply| matches!(reply, Reply::Prepared));
            // The first part only makes its files.
            ask(&Request::Arm { part: 0 }, |reply| {
                matches!(reply, Reply::Armed)
            });
            ask(&start, |reply| matches!(reply, Reply::Done { .. }));
            ask(&Request::Arm { part: 1 }, |reply| {
                matches!(reply, Reply::Armed)
            });
            ask(
                &start,
                |reply| matches!(reply, Reply::Alive { so_far } if so_far.operations > 0),
            );
            drop(near);
            assert!(served.join().unwrap().is_err());
        });
        assert!(began.elapsed() < Duration::from_secs(15));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    fn files(kind: &str) -> Request {
        Request::Prepare {
            task: Task::Files {
                kind: kind.to_owned(),
                parameters: [("size".to_owned(), "1048576".to_owned())].into(),
                seed: 1,
                empty_caches: false,
            },
        }
    }

    #[test]
    fn a_workload_runs_part_by_part_and_leaves_nothing() {
        let parts = [
            Request::Ping,
            files("cp"),
            Request::Arm { part: 0 },
            Request::Ping,
            Request::Start { at_ns: 0 },
            Request::Arm { part: 1 },
            Request::Start { at_ns: 0 },
        ];
        let replies = talk(&parts);
        assert!(
            matches!(
                &replies[..],
                [
                    Reply::Pong { .. },
                    Reply::Prepared,
                    Reply::Armed,
                    Reply::Pong { .. },
                    Reply::Done { done: write },
                    Reply::Armed,
                    Reply::Done { done: read },
                ] if write.run.application.written == 1 << 20
                    && read.run.application.read == 1 << 20
                    && write.begin_ns < write.end_ns
                    && write.end_ns < read.begin_ns
            ),
            "{replies:?}"
        );
    }

    #[test]
    fn whoever_asks_out_of_turn_is_sent_away() {
        let fio = |option: &str, device: Option<&str>| Request::Prepare {
            task: Task::Fio {
                options: [("rw", "read"), (option, "1")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
                device: device.map(str::to_owned),
            },
        };
        let hello = Request::Hello {
            version: 1,
            nonce: String::new(),
        };
        let late = u64::MAX / 2;
        for (requests, words) in [
            (vec![Request::Arm { part: 0 }], "Arm is out of turn"),
            (vec![Request::Start { at_ns: 0 }], "Start is out of turn"),
            (vec![files("cp"), files("cp")], "Prepare is out of turn"),
            (vec![files("cp"), Request::Arm { part: 1 }], "out of turn"),
            (vec![files("rm")], "knows no workload \"rm\""),
            (vec![hello], "greeted twice"),
            (vec![fio("exec_prerun", None)], "not for nodes"),
            (vec![fio("bs", Some("/dev/sda"))], "--device /dev/sda"),
            (
                vec![
                    files("cp"),
                    Request::Arm { part: 0 },
                    Request::Start { at_ns: late },
                ],
                "too far ahead",
            ),
        ] {
            let replies = talk(&requests);
            let Some(Reply::Failed { why }) = replies.last() else {
                panic!("{words}: {replies:?}");
            };
            assert!(why.contains(words), "{why}");
        }
    }
}
