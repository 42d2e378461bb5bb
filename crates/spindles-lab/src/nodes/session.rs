//! The session of a controller at its agent. The session's thread alone writes to the controller
//! and knows the stage. A second thread reads requests, a third one does the work.
//!
//! ```text
//!           Prepare          Prepared          Arm          Armed          Start
//! Waiting ──────────▶ Preparing ──▶ Prepared ──────▶ Arming ──▶ Armed ──────▶ Running
//!                                      ▲                                        │ Ended
//!                                      │ Done                                   ▼
//!                                      └───────────────────────────────────── Ended
//! ```
//!
//! `Ping` and `Here` may come at any time, every other request only at its stage. A closed
//! pipe or a silent controller ends the task at any stage, and removes its files.

use super::link::Link;
use super::task::{Brake, Site, carry_out, prepare};
use super::wire::{Done, Outlet, Reply, Request, SAME, SoFar, Task, in_words, receive, send};
use crate::machine::clock;
use crate::measure::failure::Failure;
use crate::measure::recorder::Collector;
use spindles_block::Instant as Moment;
use std::fs;
use std::io::Read;
use std::os::linux::fs::MetadataExt as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often `Alive` is sent.
const ALIVE: Duration = Duration::from_secs(1);
/// How often interrupts and silence are checked.
const LOOK: Duration = Duration::from_millis(50);
/// How long to wait for the end of the previous run: longer than the detection of a lost
/// controller.
const TURN_TIME: Duration = Duration::from_secs(20);
/// The furthest ahead that a start may be.
const START_MAX: Duration = Duration::from_mins(1);

/// The stage of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Preparing,
    Prepared,
    Arming,
    Armed,
    Running,
    Ended,
}

/// A transition to the next stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transition {
    Prepare,
    Prepared,
    Arm,
    Armed,
    Start,
    Ended,
    Done,
}

impl Stage {
    /// Returns the stage after a legal step; `None` if the step is out of turn.
    fn next(self, step: Transition) -> Option<Self> {
        Some(match (self, step) {
            (Self::Waiting, Transition::Prepare) => Self::Preparing,
            (Self::Preparing, Transition::Prepared) | (Self::Ended, Transition::Done) => {
                Self::Prepared
            }
            (Self::Prepared, Transition::Arm) => Self::Arming,
            (Self::Arming, Transition::Armed) => Self::Armed,
            (Self::Armed, Transition::Start) => Self::Running,
            (Self::Running, Transition::Ended) => Self::Ended,
            _ => return None,
        })
    }
}

/// Orders for the worker.
enum Order {
    Prepare(Task),
    Arm(usize),
    Start(Moment),
}

/// Events for the session's thread.
enum Event {
    Said(Request),
    Gone(String),
    Prepared,
    Armed,
    Ended,
    Done(Box<Done>),
    Failed(Failure),
}

impl Stage {
    /// Describes what the agent is doing.
    const fn words(self) -> &'static str {
        match self {
            Self::Waiting => "it has no task yet",
            Self::Preparing => "it prepares for a task",
            Self::Prepared => "it waits for the next part of its task",
            Self::Arming => "it prepares for a part of its task",
            Self::Armed => "it waits for the start of a part",
            Self::Running => "a part of its task is running",
            Self::Ended => "it adds up what a part of its task did",
        }
    }
}

impl Transition {
    /// Describes the step as an action of the other end or the worker.
    const fn words(self) -> &'static str {
        match self {
            Self::Prepare => "gives it a task",
            Self::Arm => "asks for a part of a task",
            Self::Start => "starts a part of a task",
            Self::Prepared | Self::Armed | Self::Ended | Self::Done => "goes on",
        }
    }
}

/// What an agent may use, and when it ends.
pub(super) struct Shop<'a> {
    /// Parent of the folders of tasks.
    pub(super) folder: &'a Path,
    /// Devices that tasks may overwrite.
    pub(super) devices: &'a [String],
    /// The interface to the controller.
    pub(super) link: Option<Link>,
    /// How long a silent controller is presumed alive.
    pub(super) silence: Duration,
    /// Set when the agent ends.
    pub(super) interrupt: &'a AtomicBool,
}

/// Serves a controller until it hangs up. The thread that reads `from` may outlive the session, by
/// at most the next frame.
///
/// # Errors
/// Why the session ended early.
pub(super) fn serve(
    from: impl Read + Send + 'static,
    to: Outlet,
    shop: &Shop<'_>,
) -> Result<(), String> {
    let brake = Brake::default();
    let site = Site {
        folder: shop.folder,
        devices: shop.devices,
        base: clock::now(),
        link: shop.link.clone(),
        brake: &brake,
    };
    let (events, heard) = channel();
    let (orders, ordered) = channel();
    let live = Live::default();
    let said = events.clone();
    std::thread::spawn(move || read(from, &said));
    std::thread::scope(|scope| {
        let (live, site) = (&live, &site);
        scope.spawn(move || work(&ordered, &events, live, site));
        let mut session = Session {
            to,
            stage: Stage::Waiting,
            orders,
            site,
            live,
        };
        let ended = session.go_on(&heard, shop);
        if let Err(why) = &ended {
            // The controller may be gone already.
            let _gone = session.say(&Reply::Failed { why: why.clone() });
        }
        brake.pull();
        ended
    })
}

/// The figures of the running part.
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

/// Reads requests until the controller hangs up.
fn read(mut from: impl Read, events: &Sender<Event>) {
    loop {
        match receive(&mut from) {
            Ok(request) => {
                if events.send(Event::Said(request)).is_err() {
                    return;
                }
            }
            Err(error) => {
                // The session may have ended first.
                let _unreceived = events.send(Event::Gone(error.to_string()));
                return;
            }
        }
    }
}

/// Carries out orders until the session ends.
fn work(orders: &Receiver<Order>, events: &Sender<Event>, live: &Live, site: &Site<'_>) {
    let Ok(Order::Prepare(task)) = orders.recv() else {
        return;
    };
    // The session may have ended: then the event is dropped.
    let tell = |event| drop(events.send(event));
    let _turn = match take_turn(site) {
        Ok(turn) => turn,
        Err(failure) => return tell(Event::Failed(failure)),
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
                let why = format!(
                    "the controller asks for the parts of its task in the wrong order: {SAME}"
                );
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
    // Keep the files until the controller has the results.
    drop(orders.recv());
}

/// Waits for the turn in a folder: two tasks at once would disturb each other, and the previous one
/// may still be removing its files. The turn is a name of this machine's network that ends with its
/// process; a lock file on a network file system would exclude other nodes.
fn take_turn(site: &Site<'_>) -> Result<UnixDatagram, Failure> {
    let wrong = |error: std::io::Error| {
        let folder = site.folder.display();
        Failure::Failed(format!("{folder}: can't be reserved: {error}"))
    };
    let facts = fs::metadata(site.folder).map_err(wrong)?;
    let name = format!("spindles-lab-agent-{}-{}", facts.st_dev(), facts.st_ino());
    let name = SocketAddr::from_abstract_name(name).map_err(wrong)?;
    let ends = Instant::now() + TURN_TIME;
    loop {
        match UnixDatagram::bind_addr(&name) {
            Ok(turn) => return Ok(turn),
            Err(_) if site.brake.is_pulled() => return Err(Failure::Interrupted),
            Err(_) if Instant::now() < ends => std::thread::sleep(Duration::from_millis(2)),
            Err(_) => {
                let why = "its agent is busy with another run: wait for that";
                return Err(Failure::Failed(why.to_owned()));
            }
        }
    }
}

/// The state of the session's thread.
struct Session<'a> {
    to: Outlet,
    stage: Stage,
    orders: Sender<Order>,
    site: &'a Site<'a>,
    live: &'a Live,
}

impl Session<'_> {
    fn say(&mut self, reply: &Reply) -> Result<(), String> {
        let sent = send(&mut self.to, reply);
        sent.map_err(|error| format!("the controller is lost: {}", in_words(&error)))
    }

    fn step(&mut self, step: Transition) -> Result<(), String> {
        let next = self.stage.next(step);
        self.stage = next.ok_or_else(|| {
            format!(
                "the controller {} while {}: {SAME}",
                step.words(),
                self.stage.words()
            )
        })?;
        Ok(())
    }

    /// Serves until the controller hangs up. Returns an error unless it ends between tasks.
    fn go_on(&mut self, events: &Receiver<Event>, shop: &Shop<'_>) -> Result<(), String> {
        let (mut last_reported, mut last_heard) = (Instant::now(), Instant::now());
        loop {
            if shop.interrupt.load(Ordering::Relaxed) {
                return Err("its agent was stopped".to_owned());
            }
            if last_reported.elapsed() >= ALIVE {
                last_reported = Instant::now();
                let so_far = self.live.so_far();
                self.say(&Reply::Alive { so_far })?;
            }
            match events.recv_timeout(LOOK) {
                Ok(Event::Gone(why)) => {
                    return match self.stage {
                        Stage::Waiting | Stage::Prepared => Ok(()),
                        _ => Err(format!("the controller is lost: {why}")),
                    };
                }
                Ok(Event::Said(request)) => {
                    last_heard = Instant::now();
                    self.hear(request)?;
                }
                Ok(Event::Prepared) => {
                    self.step(Transition::Prepared)?;
                    self.say(&Reply::Prepared)?;
                }
                Ok(Event::Armed) => {
                    self.step(Transition::Armed)?;
                    self.say(&Reply::Armed)?;
                }
                Ok(Event::Ended) => {
                    self.step(Transition::Ended)?;
                    self.say(&Reply::Ended)?;
                }
                Ok(Event::Done(done)) => {
                    self.step(Transition::Done)?;
                    self.say(&Reply::Done { done })?;
                }
                Ok(Event::Failed(failure)) => return Err(failure.to_string()),
                Err(RecvTimeoutError::Timeout) if last_heard.elapsed() > shop.silence => {
                    return Err(format!(
                        "the controller is lost: it sent nothing for {} s: it or the network has \
                         stopped",
                        shop.silence.as_secs()
                    ));
                }
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
                let now_ns = clock::now().ns_since(self.site.base);
                return self.say(&Reply::Pong { now_ns });
            }
            Request::Here => return Ok(()),
            Request::Prepare { task } => {
                self.step(Transition::Prepare)?;
                Order::Prepare(task)
            }
            Request::Arm { part } => {
                self.step(Transition::Arm)?;
                Order::Arm(part)
            }
            Request::Start { at_ns } => {
                self.step(Transition::Start)?;
                let at = self.site.base.0.checked_add(at_ns).map(Moment);
                let start_max_ns = clock::duration_ns(START_MAX);
                let soon = at.filter(|at| at.ns_since(clock::now()) <= start_max_ns);
                Order::Start(soon.ok_or_else(|| {
                    let most_s = START_MAX.as_secs();
                    format!("the controller's start time is more than {most_s} s away: {SAME}")
                })?)
            }
        };
        // A failed worker reports its error itself.
        let _failed = self.orders.send(order);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    const STAGES: [Stage; 7] = [
        Stage::Waiting,
        Stage::Preparing,
        Stage::Prepared,
        Stage::Arming,
        Stage::Armed,
        Stage::Running,
        Stage::Ended,
    ];
    const STEPS: [Transition; 7] = [
        Transition::Prepare,
        Transition::Prepared,
        Transition::Arm,
        Transition::Armed,
        Transition::Start,
        Transition::Ended,
        Transition::Done,
    ];

    /// Exactly one step is legal at each stage.
    #[test]
    fn each_stage_allows_exactly_one_step() {
        for stage in STAGES {
            let legal = STEPS.iter().filter(|step| stage.next(**step).is_some());
            assert_eq!(legal.count(), 1, "{stage:?}");
        }
    }

    /// An agent without devices.
    fn shop<'a>(folder: &'a Path, interrupt: &'a AtomicBool) -> Shop<'a> {
        Shop {
            folder,
            devices: &[],
            link: None,
            silence: Duration::from_secs(30),
            interrupt,
        }
    }

    /// Returns the controller's end, and both pipes of the agent.
    fn pipes() -> (UnixStream, UnixStream, Outlet) {
        let (near, from) = UnixStream::pair().unwrap();
        let to = Outlet::new(from.try_clone().unwrap());
        (near, from, to)
    }

    /// A controller that falls silent, because it was stopped, is dropped; a live one is not.
    #[test]
    fn an_agent_leaves_a_silent_controller() {
        let folder = tempfile::tempdir().unwrap();
        let interrupt = AtomicBool::new(false);
        let shop = Shop {
            silence: Duration::from_secs(1),
            ..shop(folder.path(), &interrupt)
        };
        let (mut near, from, to) = pipes();
        std::thread::scope(|scope| {
            let served = scope.spawn(|| serve(from, to, &shop));
            for _ in 0..8 {
                send(&mut near, &Request::Here).unwrap();
                std::thread::sleep(Duration::from_millis(250));
            }
            assert!(!served.is_finished());
            let began = Instant::now();
            while !served.is_finished() && began.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(20));
            }
            // Closing the pipe ends a session that still waits.
            near.shutdown(std::net::Shutdown::Write).unwrap();
            let why = served.join().unwrap().expect_err("it is left");
            assert!(why.contains("it sent nothing for 1 s"), "{why}");
        });
        let mut next_reply = || receive::<Reply>(&mut near);
        let last = std::iter::from_fn(|| next_reply().ok()).last();
        assert!(matches!(last, Some(Reply::Failed { .. })), "{last:?}");
    }

    /// Returns the agent's answers to these requests, its last message included.
    fn talk(requests: &[Request]) -> Vec<Reply> {
        let folder = tempfile::tempdir().unwrap();
        let (mut near, from, to) = pipes();
        // A missing answer times out.
        near.set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let interrupt = AtomicBool::new(false);
        let shop = shop(folder.path(), &interrupt);
        let replies = std::thread::scope(|scope| {
            scope.spawn(|| serve(from, to, &shop));
            let mut replies = Vec::new();
            for request in requests {
                send(&mut near, request).unwrap();
                loop {
                    match receive(&mut near) {
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

    /// A long task ends with the pipe, at any stage.
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
        let (mut near, from, to) = pipes();
        let interrupt = AtomicBool::new(false);
        let shop = shop(folder.path(), &interrupt);
        let began = Instant::now();
        std::thread::scope(|scope| {
            let served = scope.spawn(|| serve(from, to, &shop));
            let mut ask = |request: &Request, is_last: fn(&Reply) -> bool| {
                send(&mut near, request).unwrap();
                while !is_last(&receive(&mut near).unwrap()) {}
            };
            let start = Request::Start { at_ns: 0 };
            ask(&long, |reply| matches!(reply, Reply::Prepared));
            // The first part only creates its files.
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
    fn a_workload_runs_in_parts_and_leaves_no_files() {
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
    fn requests_out_of_turn_end_the_session() {
        let fio = |option: &str, device: Option<&str>| Request::Prepare {
            task: Task::Fio {
                options: [("rw", "read"), (option, "1")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
                device: device.map(str::to_owned),
            },
        };
        let late = u64::MAX / 2;
        for (requests, words) in [
            (
                vec![Request::Arm { part: 0 }],
                "asks for a part of a task while it has no task yet",
            ),
            (
                vec![Request::Start { at_ns: 0 }],
                "starts a part of a task while it has no task",
            ),
            (
                vec![files("cp"), files("cp")],
                "gives it a task while it waits for the next part",
            ),
            (
                vec![files("cp"), Request::Arm { part: 1 }],
                "in the wrong order",
            ),
            (vec![files("rm")], "has no workload \"rm\""),
            (vec![fio("exec_prerun", None)], "not allowed on nodes"),
            (vec![fio("bs", Some("/dev/sda"))], "--device /dev/sda"),
            (
                vec![
                    files("cp"),
                    Request::Arm { part: 0 },
                    Request::Start { at_ns: late },
                ],
                "more than 60 s away",
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
