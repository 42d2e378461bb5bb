//! The controller's side of a run on nodes. All nodes begin together; if one fails or is lost, the
//! run ends for all.

use super::link::{Link, LinkCounters};
use super::ssh::Ssh;
use super::wire::{
    Done, Hello, Outlet, Reply, Request, SAME, SILENCE, SoFar, Task, VERSION, in_words, receive,
    send,
};
use crate::experiment::Nodes;
use crate::machine::clock::{self, MachineTicks};
use crate::machine::evidence::{Counters, Watched};
use crate::measure::failure::Failure;
use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an agent may take to introduce itself.
const HELLO_TIME: Duration = Duration::from_secs(30);
/// How long agents may take to remove their files and end.
const END_TIME: Duration = Duration::from_secs(5);
/// How often interrupts are checked.
const LOOK: Duration = Duration::from_millis(50);
/// Round trips of which the fastest counts.
const PINGS: u32 = 12;
/// Lead of the start, in addition to several round trips: counters are read meanwhile.
const LEAD: Duration = Duration::from_millis(40);

/// One moment on two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "names carry units")]
struct Moment {
    ours_ns: u64,
    theirs_ns: u64,
    /// The error of this pairing, at most.
    uncertainty_ns: u64,
}

impl Moment {
    /// Computes the moment from the times of question and answer on our clock and the answered
    /// time.
    fn of(asked_ns: u64, answered_ns: u64, theirs_ns: u64) -> Self {
        let took_ns = answered_ns.saturating_sub(asked_ns);
        Self {
            ours_ns: asked_ns + took_ns / 2,
            theirs_ns,
            uncertainty_ns: took_ns.div_ceil(2),
        }
    }

    /// Converts a time on our clock, not before this moment, to theirs.
    fn to_theirs(self, ours_ns: u64) -> u64 {
        self.theirs_ns
            .saturating_add(ours_ns.saturating_sub(self.ours_ns))
    }

    /// Converts a time on their clock, not before this moment, to ours.
    fn to_ours(self, theirs_ns: u64) -> u64 {
        self.ours_ns
            .saturating_add(theirs_ns.saturating_sub(self.theirs_ns))
    }
}

/// The controller's view of a node.
struct Node {
    name: String,
    ssh: Ssh,
    voice: Voice,
    /// `None` until the agent has introduced itself.
    hello: Option<Hello>,
    moment: Moment,
    /// The node's progress, as last reported.
    so_far: SoFar,
}

/// The pipe to an agent, shared by two threads; sends whole frames. `None` once it is closed.
#[derive(Clone)]
struct Voice(Arc<Mutex<Option<Outlet>>>);

impl Voice {
    fn say(&self, request: &Request) -> io::Result<()> {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        send(pipe, request)
    }

    fn hang_up(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The nodes of a run.
pub(crate) struct Crew<'a> {
    nodes: Vec<Node>,
    heard: Receiver<(usize, Result<Reply, String>)>,
    /// How long a silent node is presumed alive.
    silence: Duration,
    interrupt: &'a AtomicBool,
    base: Instant,
}

/// A node's result of a part, on our clock.
pub(super) struct NodeDone {
    pub(super) name: String,
    pub(super) cpus: u32,
    pub(super) begin_ns: u64,
    pub(super) uncertainty_ns: u64,
    pub(super) elapsed_ns: u64,
    pub(super) done: Done,
}

/// Counters of this machine while the nodes ran a part.
pub(super) struct Seen {
    pub(super) counters: (Counters, Counters),
    pub(super) ticks: MachineTicks,
    pub(super) link: Option<(LinkCounters, LinkCounters)>,
}

impl<'a> Crew<'a> {
    /// Starts the agents of the first `count` nodes; `agent` is the command by default.
    pub(crate) fn gather(
        nodes: &Nodes,
        agent: &str,
        count: usize,
        interrupt: &'a AtomicBool,
    ) -> Result<Self, Failure> {
        Self::gather_within(HELLO_TIME, nodes, agent, count, interrupt)
    }

    fn gather_within(
        time: Duration,
        nodes: &Nodes,
        agent: &str,
        count: usize,
        interrupt: &'a AtomicBool,
    ) -> Result<Self, Failure> {
        let (said, heard) = channel();
        let mut crew = Self {
            nodes: Vec::new(),
            heard,
            silence: time,
            interrupt,
            base: Instant::now(),
        };
        for (number, name) in nodes.names[..count].iter().enumerate() {
            let agent = nodes.agent.as_deref().unwrap_or(agent);
            let started = Ssh::start(&nodes.ssh, agent, name);
            let (ssh, from, to) = started.map_err(|error| {
                Failure::Failed(format!("node {name}: ssh can't be run: {error}"))
            })?;
            let voice = Voice(Arc::new(Mutex::new(Some(to))));
            let (said, answering) = (said.clone(), voice.clone());
            // This thread ends with ssh, which ends when the crew is dropped.
            std::thread::spawn(move || read(from, &answering, number, &said));
            crew.nodes.push(Node {
                name: name.clone(),
                ssh,
                voice,
                hello: None,
                moment: Moment::default(),
                so_far: SoFar::default(),
            });
        }
        crew.greet()?;
        crew.silence = SILENCE;
        Ok(crew)
    }

    /// Waits until every agent has introduced itself.
    fn greet(&mut self) -> Result<(), Failure> {
        let hellos = self.hear_all(|reply| match reply {
            Reply::Hello(hello) => Some(hello),
            _ => None,
        })?;
        for (node, hello) in self.nodes.iter_mut().zip(hellos) {
            if hello.version != VERSION {
                return Err(Failure::Failed(format!(
                    "node {}: its agent speaks version {} and this program {VERSION}: {SAME}",
                    node.name, hello.version
                )));
            }
            node.hello = Some(hello);
        }
        Ok(())
    }

    /// Returns the address of this machine that all nodes see.
    pub(super) fn our_address(&self) -> Result<IpAddr, Failure> {
        let hellos = self.nodes.iter().filter_map(|node| node.hello);
        let addresses: Vec<_> = hellos.map(|hello| hello.controller).collect();
        match addresses[..] {
            [Some(first), ref others @ ..] if others.iter().all(|other| *other == Some(first)) => {
                Ok(first)
            }
            _ => {
                let why = "nodes see no address of this machine, or several: give one with \
                           `listen`";
                Err(Failure::Failed(why.to_owned()))
            }
        }
    }

    /// Returns the number of nodes.
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the name of a node.
    pub(super) fn name(&self, node: usize) -> &str {
        &self.nodes[node].name
    }

    /// Lets each node prepare a task of its own.
    pub(super) fn prepare(&mut self, tasks: Vec<Task>) -> Result<(), Failure> {
        assert_eq!(tasks.len(), self.nodes.len());
        for (node, task) in tasks.into_iter().enumerate() {
            self.say(node, &Request::Prepare { task })?;
        }
        let prepared = |reply| matches!(reply, Reply::Prepared).then_some(());
        self.hear_all(prepared).map(drop)
    }

    /// Runs a part on all nodes, begun together.
    pub(super) fn run_part(
        &mut self,
        part: usize,
        watched: &Watched,
        address: Option<IpAddr>,
    ) -> Result<(Vec<NodeDone>, Seen), Failure> {
        for node in 0..self.nodes.len() {
            self.nodes[node].so_far = SoFar::default();
            self.say(node, &Request::Arm { part })?;
        }
        self.hear_all(|reply| matches!(reply, Reply::Armed).then_some(()))?;
        self.compare_clocks()?;
        let slowest = self
            .nodes
            .iter()
            .map(|node| node.moment.uncertainty_ns)
            .max();
        let lead = LEAD + Duration::from_nanos(slowest.unwrap_or(0).saturating_mul(8));
        let start = Instant::now() + lead;
        let start_ns = clock::duration_ns(start - self.base);
        for node in 0..self.nodes.len() {
            let at_ns = self.nodes[node].moment.to_theirs(start_ns);
            self.say(node, &Request::Start { at_ns })?;
        }
        let link = address.and_then(Link::of);
        let carried_before = link.as_ref().map(Link::now);
        std::thread::sleep(start.saturating_duration_since(Instant::now()));
        let before = (watched.now(), MachineTicks::now());
        let (mut ended, mut seen) = (0, None);
        let mut done: Vec<Option<Box<Done>>> = self.nodes.iter().map(|_| None).collect();
        let mut heard = self.listening();
        while done.iter().any(Option::is_none) {
            match self.hear_any(&mut heard)? {
                (_, Reply::Ended) => ended += 1,
                (node, Reply::Done { done: what }) => done[node] = Some(what),
                (node, _) => return Err(self.out_of_turn(node)),
            }
            if ended == self.nodes.len() && seen.is_none() {
                seen = Some(Seen {
                    counters: (before.0.clone(), watched.now()),
                    ticks: MachineTicks::now().since(before.1),
                    link: carried_before.clone().zip(link.as_ref().map(Link::now)),
                });
            }
        }
        let seen = seen.ok_or_else(|| self.out_of_turn(0))?;
        let done = done.into_iter().flatten();
        let done = self.nodes.iter().zip(done).map(|(node, done)| NodeDone {
            name: node.name.clone(),
            cpus: node.hello.map_or(0, |hello| hello.cpus),
            begin_ns: node.moment.to_ours(done.begin_ns),
            uncertainty_ns: node.moment.uncertainty_ns,
            elapsed_ns: done.end_ns.saturating_sub(done.begin_ns),
            done: *done,
        });
        Ok((done.collect(), seen))
    }

    /// Compares the clock of each node with ours. The fastest of several round trips is the most
    /// accurate.
    fn compare_clocks(&mut self) -> Result<(), Failure> {
        for node in 0..self.nodes.len() {
            let mut best: Option<Moment> = None;
            for _ in 0..PINGS {
                let asked_ns = clock::duration_ns(self.base.elapsed());
                self.say(node, &Request::Ping)?;
                let now_ns = self.hear(node, |reply| match reply {
                    Reply::Pong { now_ns } => Some(now_ns),
                    _ => None,
                })?;
                let answered_ns = clock::duration_ns(self.base.elapsed());
                let moment = Moment::of(asked_ns, answered_ns, now_ns);
                if best.is_none_or(|best| moment.uncertainty_ns < best.uncertainty_ns) {
                    best = Some(moment);
                }
            }
            self.nodes[node].moment = best.unwrap_or_default();
        }
        Ok(())
    }

    fn check_interrupt(&self) -> Result<(), Failure> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        Ok(())
    }

    fn say(&mut self, node: usize, request: &Request) -> Result<(), Failure> {
        let sent = self.nodes[node].voice.say(request);
        sent.map_err(|error| {
            // The node may have sent its reason before it ended.
            let last = std::iter::from_fn(|| self.heard.recv_timeout(LOOK).ok());
            let mut whys = last.filter_map(|(from, reply)| match reply {
                Ok(Reply::Failed { why }) if from == node => Some(why),
                _ => None,
            });
            match whys.next() {
                Some(why) => Failure::Failed(format!("node {}: {why}", self.nodes[node].name)),
                None => self.lost(node, &in_words(&error)),
            }
        })
    }

    fn lost(&self, node: usize, why: &str) -> Failure {
        let node = &self.nodes[node];
        let name = &node.name;
        let words = node.ssh.last_words();
        let words = words.map_or_else(String::new, |words| format!(": {words}"));
        if node.hello.is_none() {
            let command = node.ssh.command();
            return Failure::Failed(format!(
                "node {name}: no agent answers: {why}{words}: `{command}` must start one without \
                 asking for a password, and nothing else may write to its output"
            ));
        }
        let mebibytes = node.so_far.bytes.total() >> 20;
        let operations = node.so_far.operations;
        Failure::Failed(format!(
            "node {name} is lost after {operations} operations and {mebibytes} MiB of this part: \
             {why}{words}"
        ))
    }

    /// Waits for one answer of a node.
    fn hear<T>(
        &mut self,
        node: usize,
        is_meant: impl Fn(Reply) -> Option<T>,
    ) -> Result<T, Failure> {
        let mut answers = self.hear_from(&[node], is_meant)?;
        Ok(answers.pop().expect("one for each that was asked"))
    }

    /// Waits for an answer from every node.
    fn hear_all<T>(&mut self, is_meant: impl Fn(Reply) -> Option<T>) -> Result<Vec<T>, Failure> {
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        self.hear_from(&all, is_meant)
    }

    /// Waits for an answer from every node in `asked`. Returns the answers in node order.
    fn hear_from<T>(
        &mut self,
        asked: &[usize],
        is_meant: impl Fn(Reply) -> Option<T>,
    ) -> Result<Vec<T>, Failure> {
        let mut answers: Vec<Option<T>> = self.nodes.iter().map(|_| None).collect();
        let mut heard = self.listening();
        while asked.iter().any(|node| answers[*node].is_none()) {
            let (node, reply) = self.hear_any(&mut heard)?;
            let answer = is_meant(reply).filter(|_| asked.contains(&node));
            answers[node] = Some(answer.ok_or_else(|| self.out_of_turn(node))?);
        }
        let answers = answers.into_iter().flatten();
        Ok(answers.collect())
    }

    /// Returns the initial times of the nodes' last messages: now.
    fn listening(&self) -> Vec<Instant> {
        vec![Instant::now(); self.nodes.len()]
    }

    fn out_of_turn(&self, node: usize) -> Failure {
        let name = &self.nodes[node].name;
        Failure::Failed(format!(
            "node {name}: its agent sent an unexpected answer: {SAME}"
        ))
    }

    /// Waits for the next answer of any node. The failure of one node ends the run for all.
    fn hear_any(&mut self, last_heard: &mut [Instant]) -> Result<(usize, Reply), Failure> {
        loop {
            self.check_interrupt()?;
            let (node, reply) = match self.heard.recv_timeout(LOOK) {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    // Each agent sends a sign of life each second.
                    let mut silent = last_heard.iter().map(Instant::elapsed);
                    match silent.position(|silent| silent > self.silence) {
                        Some(node) => {
                            let why = format!("it sent nothing for {} s", self.silence.as_secs());
                            return Err(self.lost(node, &why));
                        }
                        None => continue,
                    }
                }
            };
            last_heard[node] = Instant::now();
            match reply {
                Ok(Reply::Alive { so_far }) => self.nodes[node].so_far = so_far,
                Ok(Reply::Failed { why }) => {
                    let name = &self.nodes[node].name;
                    return Err(Failure::Failed(format!("node {name}: {why}")));
                }
                Ok(reply) => return Ok((node, reply)),
                Err(why) => return Err(self.lost(node, &why)),
            }
        }
    }
}

/// Hangs up: the agents then end their tasks, and themselves.
impl Drop for Crew<'_> {
    fn drop(&mut self) {
        for node in &self.nodes {
            node.voice.hang_up();
        }
        let at = Instant::now() + END_TIME;
        for node in &mut self.nodes {
            node.ssh.end(at);
        }
    }
}

/// Reads a node's messages until its pipe ends. Answers each sign of life, so that the agent hears
/// from the controller every second, even if other threads are busy.
fn read(
    mut from: impl Read,
    voice: &Voice,
    node: usize,
    said: &Sender<(usize, Result<Reply, String>)>,
) {
    loop {
        let reply = receive(&mut from).map_err(|error| error.to_string());
        if matches!(reply, Ok(Reply::Alive { .. })) {
            // If this fails, the agent is gone, and the next read reports it.
            let _lost = voice.say(&Request::Here);
        }
        let is_last = reply.is_err();
        if said.send((node, reply)).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_converted_between_clocks() {
        let moment = Moment::of(1_000, 1_400, 77_000);
        assert_eq!((moment.ours_ns, moment.uncertainty_ns), (1_200, 200));
        assert_eq!(moment.to_theirs(5_000), 80_800);
        assert_eq!(moment.to_ours(80_800), 5_000);
        // A clock that is behind ours.
        let moment = Moment::of(1_000_000, 1_000_001, 3);
        assert_eq!(moment.to_ours(moment.to_theirs(2_000_000)), 2_000_000);
        assert_eq!(moment.uncertainty_ns, 1);
    }

    /// Returns the error for a node with this command for ssh.
    fn error_with(ssh: &str) -> String {
        let nodes = Nodes {
            names: vec!["n".to_owned()],
            ssh: ssh.to_owned(),
            agent: None,
            listen: None,
        };
        let no = AtomicBool::new(false);
        let gathered = Crew::gather_within(Duration::from_secs(1), &nodes, "agent", 1, &no);
        let Err(error) = gathered.map(|crew| crew.count()) else {
            panic!("{ssh} is no agent");
        };
        error.to_string()
    }

    #[test]
    fn an_agent_that_does_not_start_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hello");
        let hello = |version| {
            let hello = Hello {
                version,
                cpus: 1,
                controller: None,
            };
            let mut bytes = Vec::new();
            send(&mut bytes, &Reply::Hello(hello)).unwrap();
            std::fs::write(&path, bytes).unwrap();
            format!("cat {} #", path.display())
        };
        for (ssh, words) in [
            (
                "sleep 100 #",
                "no agent answers: it sent nothing for 1 s: `sleep",
            ),
            (
                "sh -c 'echo no route >&2; exit 255'",
                "no agent answers: the connection was closed: no route: `",
            ),
            ("no-such-ssh", "no-such-ssh: not found"),
            (
                "true",
                "answers: the connection was closed: `true n agent` must start one",
            ),
            (
                "echo Welcome to n! Have a nice day.",
                "bytes at once, more than",
            ),
            (
                &hello(VERSION + 1),
                "node n: its agent speaks version 5 and this program 4: install",
            ),
        ] {
            let error = error_with(ssh);
            assert!(
                error.starts_with("node n: ") && error.contains(words),
                "{error}"
            );
        }
    }

    /// An interrupt ends the wait for an agent, and its ssh.
    #[test]
    fn an_interrupt_ends_the_wait_for_an_agent() {
        let nodes = Nodes {
            names: vec!["n".to_owned()],
            ssh: "sh -c 'cat >/dev/null' #".to_owned(),
            agent: None,
            listen: None,
        };
        let interrupt = AtomicBool::new(true);
        let began = Instant::now();
        let gathered = Crew::gather(&nodes, "agent", 1, &interrupt).map(|crew| crew.count());
        assert_eq!(gathered, Err(Failure::Interrupted));
        assert!(began.elapsed() < END_TIME);
    }
}
