//! The controller's side of a run on nodes. All nodes begin together; if one fails or is lost, the
//! run ends for all.

use super::address::NodeAddress;
use super::agent::{SILENCE, stay_alert};
use super::handshake::{Unmet, introduce};
use super::link::{Link, LinkCounters};
use super::token::Token;
use super::wire::{
    Done, FRAME_BYTES_MAX, Reply, Request, SAME, SoFar, Task, in_words, receive, send,
};
use crate::clock::{self, MachineTicks};
use crate::evidence::{Counters, Watched};
use crate::failure::Failure;
use std::net::{IpAddr, Shutdown, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long connecting may take.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// How long to wait for a busy agent, and how often to retry.
const PLACE_TIME: Duration = Duration::from_secs(10);
const PLACE_LOOK: Duration = Duration::from_millis(100);
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
    stream: TcpStream,
    voice: Voice,
    cpus: u32,
    moment: Moment,
    /// The node's progress, as last reported.
    so_far: SoFar,
}

/// The sending end of a connection, shared by two threads; sends whole frames.
#[derive(Clone)]
struct Voice(Arc<Mutex<TcpStream>>);

impl Voice {
    fn say(&self, request: &Request) -> std::io::Result<()> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        send(&mut *stream, request)
    }
}

/// The nodes of a run.
pub(crate) struct Crew<'a> {
    nodes: Vec<Node>,
    heard: Receiver<(usize, Result<Reply, String>)>,
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
    /// Connects to these nodes.
    pub(crate) fn gather(
        addresses: &[NodeAddress],
        token: &Token,
        interrupt: &'a AtomicBool,
    ) -> Result<Self, Failure> {
        let (said, heard) = channel();
        let mut crew = Self {
            nodes: Vec::new(),
            heard,
            interrupt,
            base: Instant::now(),
        };
        for address in addresses {
            crew.check_interrupt()?;
            let name = address.to_string();
            let wrong = |why| Failure::Failed(format!("node {name}: {why}"));
            let (stream, cpus) = crew.connect(address, token)?;
            let cloned = |stream: &TcpStream| {
                let cloned = stream.try_clone();
                cloned.map_err(|error| wrong(error.to_string()))
            };
            let (reading, writing) = (cloned(&stream)?, cloned(&stream)?);
            let voice = Voice(Arc::new(Mutex::new(writing)));
            let (number, said, answering) = (crew.nodes.len(), said.clone(), voice.clone());
            // This thread ends with the connection, which is closed when the crew is dropped.
            std::thread::spawn(move || read(reading, &answering, number, &said));
            crew.nodes.push(Node {
                name,
                stream,
                voice,
                cpus,
                moment: Moment::default(),
                so_far: SoFar::default(),
            });
        }
        Ok(crew)
    }

    /// Connects to a node. Retries for a while if other controllers occupy its agent.
    fn connect(&self, address: &NodeAddress, token: &Token) -> Result<(TcpStream, u32), Failure> {
        let ends = Instant::now() + PLACE_TIME;
        let for_s = PLACE_TIME.as_secs();
        loop {
            self.check_interrupt()?;
            let why = match connect(address, token) {
                Ok(connected) => return Ok(connected),
                Err(Unmet::Busy | Unmet::Closed) if Instant::now() < ends => {
                    std::thread::sleep(PLACE_LOOK);
                    continue;
                }
                Err(Unmet::Wrong(why)) => why,
                Err(Unmet::Busy) => format!(
                    "its agent is busy, for {for_s} s others had all connections that it takes: \
                     end these, or let a firewall keep them away"
                ),
                Err(Unmet::Closed) => format!(
                    "what answers there closed each connection for {for_s} s: see that it is \
                     `spindles lab agent`, and that others don't take all its connections"
                ),
            };
            return Err(Failure::Failed(format!("node {address}: {why}")));
        }
    }

    /// Returns our address that all nodes are connected to.
    pub(super) fn our_address(&self) -> Result<IpAddr, Failure> {
        let mut addresses = self.nodes.iter().map(|node| {
            let address = node.stream.local_addr();
            address.map(|address| address.ip().to_canonical())
        });
        let unknown = || {
            let why = "nodes reach this machine at several addresses: say which with `listen`";
            Failure::Failed(why.to_owned())
        };
        let first = addresses.next().and_then(Result::ok).ok_or_else(unknown)?;
        let same = |address| matches!(address, Ok(address) if address == first);
        if addresses.all(same) {
            Ok(first)
        } else {
            Err(unknown())
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
        let slowest = self.nodes.iter().map(|it| it.moment.uncertainty_ns).max();
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
            cpus: node.cpus,
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
            // The node may have sent its reason before it closed.
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
        let Node { name, so_far, .. } = &self.nodes[node];
        let mebibytes = so_far.bytes.total() >> 20;
        let operations = so_far.operations;
        Failure::Failed(format!(
            "node {name} is lost after {operations} operations and {mebibytes} MiB of this part: \
             {why}"
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
            "node {name}: its agent answers something that it was not asked: {SAME}"
        ))
    }

    /// Waits for the next answer of any node. The failure of one node ends the run for all.
    fn hear_any(&mut self, last_heard: &mut [Instant]) -> Result<(usize, Reply), Failure> {
        loop {
            self.check_interrupt()?;
            let (node, reply) = match self.heard.recv_timeout(LOOK) {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    // From the first task on, each node sends a sign of life each second.
                    let mut silent = last_heard.iter().map(Instant::elapsed);
                    match silent.position(|silent| silent > SILENCE) {
                        Some(node) => {
                            let why =
                                format!("nothing was heard of it for {} s", SILENCE.as_secs());
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

/// Closes the connections: the agents then end their tasks.
impl Drop for Crew<'_> {
    fn drop(&mut self) {
        for node in &self.nodes {
            // The connection may be closed already.
            let _closed = node.stream.shutdown(Shutdown::Both);
        }
    }
}

/// Connects to an agent. Returns the connection and the agent's number of CPUs.
fn connect(address: &NodeAddress, token: &Token) -> Result<(TcpStream, u32), Unmet> {
    let found = (address.host.as_str(), address.port).to_socket_addrs();
    let found = found.map_err(|error| format!("its address is not known: {error}"))?;
    let mut last = "it has no address".to_owned();
    for address in found {
        match TcpStream::connect_timeout(&address, CONNECT_TIME) {
            Ok(mut stream) => {
                let cpus = introduce(&mut stream, token)?;
                stay_alert(&stream).map_err(|error| error.to_string())?;
                return Ok((stream, cpus));
            }
            Err(error) => last = error.to_string(),
        }
    }
    Err(Unmet::Wrong(format!(
        "it can't be reached: {last}: start `spindles lab agent --listen {address}` there"
    )))
}

/// Reads a node's messages until the connection ends. Answers each sign of life, so that the agent
/// hears from the controller every second, even if other threads are busy.
fn read(
    mut stream: TcpStream,
    voice: &Voice,
    node: usize,
    said: &Sender<(usize, Result<Reply, String>)>,
) {
    loop {
        let reply = receive(&mut stream, FRAME_BYTES_MAX).map_err(|error| error.to_string());
        if matches!(reply, Ok(Reply::Alive { .. })) {
            // If this fails, the connection is gone, and the next read reports it.
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
    use std::net::Ipv4Addr;

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

    /// A busy agent is asked again; the error for one that stays busy names the remedy.
    #[test]
    fn a_busy_agent_is_asked_again() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let address: NodeAddress = format!("127.0.0.1:{port}").parse().unwrap();
        let token = Token::of_bytes(&[1; 32]);
        let interrupt = AtomicBool::new(false);
        let gathered = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut busy, _) = listener.accept().unwrap();
                send(&mut busy, &Reply::Busy).unwrap();
                drop((busy, listener.accept().unwrap()));
                let (mut stream, _) = listener.accept().unwrap();
                super::super::handshake::greet(&mut stream, &token, 7, &|| true).unwrap();
            });
            let gathered = Crew::gather(&[address], &token, &interrupt);
            // Without a retry by the controller, the other side would wait for connections for
            // ever.
            let _queued = [(); 3].map(|()| TcpStream::connect(listener.local_addr().unwrap()));
            gathered.map(|crew| (crew.count(), crew.nodes[0].cpus))
        });
        assert_eq!(gathered.unwrap(), (1, 7));
    }
}
