//! A closed queueing network in virtual time: actors issue operations; CPUs, an engine thread, a
//! lock, links, a bus and members serve them. It counts what Linux would count and is independent
//! of the rules.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use spindles_measure::statistics::Random;
use spindles_measure::{DeviceUse, Histogram, Requests, ThreadUse, Traffic};

/// The simulated machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) actors: usize,
    /// Number of usable CPUs.
    pub(crate) cores: usize,
    /// CPU time of an operation on its actor's thread, on the engine's, and in the kernel on the
    /// actor's behalf if memory does not answer it.
    pub(crate) actor_cpu_ns: f64,
    pub(crate) engine_cpu_ns: f64,
    pub(crate) kernel_cpu_ns: f64,
    /// Share of the CPUs that other programs would use on their own. 2 means twice as many threads
    /// as CPUs, which never pause.
    pub(crate) others: f64,
    pub(crate) operation_bytes: u64,
    /// Share of operations that read; the rest write.
    pub(crate) reads: f64,
    /// Share of all operations that create a name under the lock.
    pub(crate) creates: f64,
    pub(crate) lock_ns: f64,
    /// Number of writes of an actor after which it issues an `fsync`. 0 for never.
    pub(crate) writes_per_sync: u32,
    pub(crate) flush_ns: f64,
    /// Share of reads answered from memory, and of writes that stay there.
    pub(crate) hits: f64,
    pub(crate) deferred: f64,
    /// Share of member reads answered by a cache in the member, invisible to the kernel.
    pub(crate) controller_hits: f64,
    pub(crate) level: Level,
    pub(crate) chunk_bytes: u64,
    pub(crate) members: Vec<Member>,
    /// Device to which every write goes first. Its index follows those of the members.
    pub(crate) journal: Option<Member>,
    /// Share of member requests that move the arm.
    pub(crate) seeks: f64,
    /// Share of the requests that go to the first member, whatever their address.
    pub(crate) hot: f64,
    pub(crate) bus_bytes_per_s: Option<f64>,
    pub(crate) link: Option<Link>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Time to move to another position, and time of any answer.
    pub(crate) seek_ns: f64,
    pub(crate) latency_ns: f64,
    pub(crate) bytes_per_s: f64,
    /// Number of requests served in parallel.
    pub(crate) channels: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Stripe,
    Mirror,
    Parity,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) bytes_per_s: f64,
    /// True if it is between array and members, false if between actors and array.
    pub(crate) to_members: bool,
}

impl Machine {
    /// The members and the journal device.
    fn devices(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().chain(&self.journal)
    }

    fn others_each_cpu(&self) -> usize {
        usize::try_from(whole(self.others.ceil())).unwrap()
    }
}

/// Counters of a simulation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) window_ns: u64,
    pub(crate) operations: u64,
    pub(crate) application: Traffic,
    pub(crate) dirty_bytes: u64,
    pub(crate) actor_ns: BTreeMap<String, u64>,
    pub(crate) threads: Vec<ThreadUse>,
    pub(crate) cpu_ns: u64,
    pub(crate) devices: Vec<DeviceUse>,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) overlimits: u64,
    pub(crate) reads: Histogram,
}

impl Counters {
    pub(crate) fn per_second(&self) -> f64 {
        as_f64(self.operations) * 1e9 / as_f64(self.window_ns)
    }
}

#[derive(Clone, Debug)]
enum Move {
    Acquire(usize),
    Release(usize),
    Delay(u64),
    /// Runs on an acquired CPU, charged to a thread.
    Compute(usize, u64),
    Begin(usize),
    End(usize),
    BeginFlush(usize),
    EndFlush(usize),
    Fork(Vec<Vec<Move>>),
}

const CPU: usize = 0;
const ENGINE: usize = 1;
const LOCK: usize = 2;
const BUS: usize = 3;
const RECEIVE: usize = 4;
const SEND: usize = 5;
const MEMBERS: usize = 6;

#[derive(Debug)]
struct Station {
    free: usize,
    queue: VecDeque<usize>,
}

#[derive(Debug)]
struct Task {
    steps: Vec<Move>,
    at: usize,
    parent: Option<usize>,
    children: usize,
    actor: Option<usize>,
    begun_ns: u64,
    /// Time of its last request for a CPU.
    asked_ns: u64,
    kind: &'static str,
}

#[derive(Debug)]
struct Actor {
    random: Random,
    writes: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct InFlight {
    data: u64,
    flushes: u64,
    since_ns: u64,
}

struct Simulation<'a> {
    machine: &'a Machine,
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    sequence: u64,
    stations: Vec<Station>,
    tasks: Vec<Task>,
    free_tasks: Vec<usize>,
    ready: Vec<usize>,
    actors: Vec<Actor>,
    in_flight: Vec<InFlight>,
    counters: Counters,
    /// Time running on a CPU and time waiting for one, by thread: actors, the engine, other
    /// programs.
    thread_ns: Vec<(u64, u64)>,
}

/// Simulates this many operations.
pub(crate) fn simulate(machine: &Machine, operations: u64, seed: u64) -> Counters {
    let mut seeds = Random::new(seed);
    let devices = machine.devices().count();
    let mut stations: Vec<usize> = vec![machine.cores, 1, 1, 1, 1, 1];
    // Three stations per member: channels, transfer and flush.
    for member in machine.devices() {
        stations.extend([member.channels, 1, 1]);
    }
    let stations = stations.into_iter().map(|free| Station {
        free,
        queue: VecDeque::new(),
    });
    let device = |index: usize| DeviceUse {
        name: format!("sd{index}"),
        member: true,
        flush_ns: Some(0),
        ..DeviceUse::default()
    };
    let mut simulation = Simulation {
        machine,
        now_ns: 0,
        events: BinaryHeap::new(),
        sequence: 0,
        stations: stations.collect(),
        tasks: Vec::new(),
        free_tasks: Vec::new(),
        ready: Vec::new(),
        actors: (0..machine.actors)
            .map(|_| Actor {
                random: Random::new(seeds.next_u64()),
                writes: 0,
            })
            .collect(),
        in_flight: vec![InFlight::default(); devices],
        counters: Counters {
            devices: (0..devices).map(device).collect(),
            ..Counters::default()
        },
        thread_ns: vec![(0, 0); machine.actors + 2],
    };
    for actor in 0..machine.actors {
        simulation.ask(actor);
    }
    for _ in 0..machine.cores * machine.others_each_cpu() {
        simulation.other(&mut seeds);
    }
    simulation.run(operations, &mut seeds);
    simulation.finish()
}

impl Simulation<'_> {
    fn run(&mut self, operations: u64, seeds: &mut Random) {
        while self.counters.operations < operations {
            while let Some(task) = self.ready.pop() {
                self.advance(task, seeds);
            }
            let Some(Reverse((at_ns, _, task))) = self.events.pop() else {
                panic!("nothing goes on: {:?}", self.machine);
            };
            self.now_ns = at_ns;
            self.ready.push(task);
        }
    }

    /// Executes the steps of a task up to one that takes time.
    fn advance(&mut self, id: usize, seeds: &mut Random) {
        loop {
            let task = &mut self.tasks[id];
            let Some(step) = task.steps.get_mut(task.at) else {
                return self.end(id, seeds);
            };
            let step = std::mem::replace(step, Move::Delay(0));
            task.at += 1;
            match step {
                Move::Acquire(station) => {
                    if station == CPU {
                        task.asked_ns = self.now_ns;
                    }
                    if self.stations[station].free == 0 {
                        self.hold_back(station);
                        self.stations[station].queue.push_back(id);
                        return;
                    }
                    self.stations[station].free -= 1;
                }
                Move::Release(station) => {
                    if let Some(next) = self.stations[station].queue.pop_front() {
                        self.ready.push(next);
                    } else {
                        self.stations[station].free += 1;
                    }
                }
                Move::Delay(ns) => return self.wake(id, ns),
                Move::Compute(thread, ns) => {
                    let (on_cpu_ns, waited_ns) = &mut self.thread_ns[thread];
                    *on_cpu_ns += ns;
                    *waited_ns += self.now_ns - task.asked_ns;
                    return self.wake(id, ns);
                }
                Move::Begin(member) => self.account(member, 1, 0),
                Move::End(member) => self.account(member, -1, 0),
                Move::BeginFlush(member) => {
                    self.counters.devices[member].requests.flushed += 1;
                    self.account(member, 0, 1);
                }
                Move::EndFlush(member) => self.account(member, 0, -1),
                Move::Fork(children) => {
                    self.tasks[id].children = children.len();
                    let is_leaf = children.is_empty();
                    for steps in children {
                        let child = self.task(steps, Some(id), None, "");
                        self.ready.push(child);
                    }
                    if !is_leaf {
                        return;
                    }
                }
            }
        }
    }

    /// A shaper lets a burst pass and delays the rest.
    fn hold_back(&mut self, station: usize) {
        const BURST_BYTES: u64 = 131_072;
        let waiting = u64::try_from(self.stations[station].queue.len()).unwrap() + 1;
        let is_link = station == RECEIVE || station == SEND;
        if is_link && waiting * self.machine.operation_bytes > BURST_BYTES {
            self.counters.overlimits += self.machine.operation_bytes.div_ceil(65536);
        }
    }

    fn wake(&mut self, id: usize, after_ns: u64) {
        self.sequence += 1;
        self.events
            .push(Reverse((self.now_ns + after_ns, self.sequence, id)));
    }

    fn task(
        &mut self,
        steps: Vec<Move>,
        parent: Option<usize>,
        actor: Option<usize>,
        kind: &'static str,
    ) -> usize {
        let task = Task {
            steps,
            at: 0,
            parent,
            children: 0,
            actor,
            begun_ns: self.now_ns,
            asked_ns: self.now_ns,
            kind,
        };
        if let Some(id) = self.free_tasks.pop() {
            self.tasks[id] = task;
            return id;
        }
        self.tasks.push(task);
        self.tasks.len() - 1
    }

    fn end(&mut self, id: usize, seeds: &mut Random) {
        self.free_tasks.push(id);
        let task = &self.tasks[id];
        let (parent, actor, kind) = (task.parent, task.actor, task.kind);
        let took_ns = self.now_ns - task.begun_ns;
        match (parent, actor) {
            (Some(parent), _) => {
                self.tasks[parent].children -= 1;
                if self.tasks[parent].children == 0 {
                    self.ready.push(parent);
                }
            }
            (None, Some(actor)) => {
                *self.counters.actor_ns.entry(kind.to_owned()).or_default() += took_ns;
                let (bytes, counted) = (self.machine.operation_bytes, &mut self.counters);
                match kind {
                    "read" => {
                        counted.reads.record(took_ns);
                        counted.application.read += bytes;
                    }
                    "write" => counted.application.written += bytes,
                    _ => {}
                }
                // An fsync belongs to the write before it and does not count as an operation.
                self.counters.operations += u64::from(kind != "fsync");
                self.ask(actor);
            }
            (None, None) => self.other(seeds),
        }
    }

    fn account(&mut self, member: usize, data: i64, flushes: i64) {
        let in_flight = &mut self.in_flight[member];
        let device = &mut self.counters.devices[member];
        let ns = self.now_ns - in_flight.since_ns;
        if in_flight.data > 0 {
            device.busy_ns += ns;
        }
        if in_flight.flushes > 0 {
            device.flush_ns = device.flush_ns.map(|all| all + ns);
        }
        device.queue_ns += ns * (in_flight.data + in_flight.flushes);
        in_flight.since_ns = self.now_ns;
        let by = |count: u64, more: i64| count.checked_add_signed(more).expect("what began ends");
        in_flight.data = by(in_flight.data, data);
        in_flight.flushes = by(in_flight.flushes, flushes);
    }

    /// Issues the next operation of an actor.
    fn ask(&mut self, actor: usize) {
        let machine = self.machine;
        let state = &mut self.actors[actor];
        let mut random = state.random.clone();
        let syncs = machine.writes_per_sync > 0 && state.writes >= machine.writes_per_sync;
        let mut steps = compute(actor, machine.actor_cpu_ns, &mut random);
        let kind = if syncs {
            state.writes = 0;
            let flush = |member| flush(machine, member, &mut random);
            let flushes = (0..machine.members.len()).map(flush).collect();
            steps.push(Move::Fork(flushes));
            "fsync"
        } else if random.unit() < machine.creates {
            steps.push(Move::Acquire(LOCK));
            steps.push(Move::Delay(about(machine.lock_ns, &mut random)));
            steps.push(Move::Release(LOCK));
            "create"
        } else {
            let reads = random.unit() < machine.reads;
            let bytes = machine.operation_bytes;
            let in_memory = if reads {
                random.unit() < machine.hits
            } else {
                state.writes += 1;
                random.unit() < machine.deferred
            };
            if in_memory && !reads {
                self.counters.dirty_bytes += bytes;
            }
            if !in_memory {
                self.data(actor, reads, &mut steps, &mut random);
            }
            if reads { "read" } else { "write" }
        };
        self.actors[actor].random = random;
        let id = self.task(steps, None, Some(actor), kind);
        self.ready.push(id);
    }

    /// Adds the steps of an operation that memory does not answer.
    fn data(&mut self, actor: usize, reads: bool, steps: &mut Vec<Move>, random: &mut Random) {
        let machine = self.machine;
        let bytes = machine.operation_bytes;
        if machine.link.is_some_and(|link| !link.to_members) {
            self.carry(reads, bytes, steps);
        }
        let engine = machine.actors;
        let mut on_engine = compute(engine, machine.engine_cpu_ns, random);
        on_engine.insert(0, Move::Acquire(ENGINE));
        on_engine.push(Move::Release(ENGINE));
        steps.append(&mut on_engine);
        let members = machine.members.len();
        let chunks = usize::try_from(bytes.div_ceil(machine.chunk_bytes)).unwrap();
        let first = if random.unit() < machine.hot {
            0
        } else {
            random.below(members)
        };
        // Every row has one parity chunk.
        let parity = usize::from(machine.level == Level::Parity);
        let wide = chunks.min(members - parity);
        let each = bytes / u64::try_from(wide).unwrap();
        let targets: Vec<usize> = (0..wide).map(|piece| (first + piece) % members).collect();
        let next = |member: usize| (member + 1) % members;
        let mut phases: Vec<Vec<(usize, bool)>> = Vec::new();
        match (machine.level, reads) {
            (_, true) | (Level::Stripe, false) => {
                phases.push(targets.iter().map(|&member| (member, reads)).collect());
            }
            (Level::Mirror, false) => {
                let both = targets
                    .iter()
                    .flat_map(|&member| [(member, false), (next(member), false)]);
                phases.push(both.collect());
            }
            (Level::Parity, false) => {
                // Read, modify, write; the parity of a range is on the next member.
                let mut touched = targets.clone();
                touched.push(next(targets[wide - 1]));
                touched.dedup();
                for reads in [true, false] {
                    phases.push(touched.iter().map(|&member| (member, reads)).collect());
                }
            }
        }
        if !reads && machine.journal.is_some() {
            let journal = self.member_request(members, false, bytes, random);
            steps.push(Move::Fork(vec![journal]));
        }
        for phase in phases {
            let requests = phase
                .into_iter()
                .map(|(member, reads)| self.member_request(member, reads, each, random));
            let requests = requests.collect();
            steps.push(Move::Fork(requests));
        }
        steps.append(&mut compute(actor, machine.kernel_cpu_ns, random));
    }

    fn member_request(
        &mut self,
        member: usize,
        reads: bool,
        bytes: u64,
        random: &mut Random,
    ) -> Vec<Move> {
        let machine = self.machine;
        let device = &mut self.counters.devices[member];
        let Requests { read, written, .. } = &mut device.requests;
        *(if reads { read } else { written }) += 1;
        let moved = &mut device.bytes;
        *(if reads {
            &mut moved.read
        } else {
            &mut moved.written
        }) += bytes;
        let own = machine.devices().nth(member).unwrap();
        let mut place_ns = own.latency_ns;
        if reads && random.unit() < machine.controller_hits {
            place_ns = 1e4;
        } else if random.unit() < machine.seeks {
            // From almost no distance to the whole stroke.
            place_ns += own.seek_ns * 2.0 * random.unit();
        }
        let station = MEMBERS + 3 * member;
        let mut steps = vec![
            Move::Begin(member),
            Move::Acquire(station),
            Move::Delay(whole(place_ns)),
            Move::Acquire(station + 1),
            Move::Delay(whole(as_f64(bytes) / own.bytes_per_s * 1e9)),
            Move::Release(station + 1),
            Move::Release(station),
        ];
        if let Some(bus) = machine.bus_bytes_per_s {
            steps.push(Move::Acquire(BUS));
            steps.push(Move::Delay(whole(as_f64(bytes) / bus * 1e9)));
            steps.push(Move::Release(BUS));
        }
        if machine.link.is_some_and(|link| link.to_members) {
            self.carry(reads, bytes, &mut steps);
        }
        steps.push(Move::End(member));
        steps
    }

    /// Carries bytes over the link, including the overhead of frames.
    fn carry(&mut self, reads: bool, bytes: u64, steps: &mut Vec<Move>) {
        let Some(link) = self.machine.link else {
            return;
        };
        let bytes = bytes + bytes / 20;
        let (station, counted) = if reads {
            (RECEIVE, &mut self.counters.received)
        } else {
            (SEND, &mut self.counters.sent)
        };
        *counted += bytes;
        steps.push(Move::Acquire(station));
        steps.push(Move::Delay(whole(as_f64(bytes) / link.bytes_per_s * 1e9)));
        steps.push(Move::Release(station));
    }

    /// Other programs' use of a CPU, in bursts.
    fn other(&mut self, random: &mut Random) {
        const BURST_NS: f64 = 300_000.0;
        let busy = self.machine.others / as_f64(count(self.machine.others_each_cpu()));
        let pause = BURST_NS * (1.0 - busy) / busy;
        let mut steps = vec![Move::Delay(about(pause, random))];
        steps.append(&mut compute(self.machine.actors + 1, BURST_NS, random));
        let id = self.task(steps, None, None, "");
        self.ready.push(id);
    }

    fn finish(mut self) -> Counters {
        for member in 0..self.in_flight.len() {
            self.account(member, 0, 0);
        }
        for task in 0..self.tasks.len() {
            let gone = self.free_tasks.contains(&task);
            let Task {
                actor,
                begun_ns,
                kind,
                ..
            } = &self.tasks[task];
            if actor.is_some() && !gone {
                let so_far = self.now_ns - begun_ns;
                *self
                    .counters
                    .actor_ns
                    .entry((*kind).to_owned())
                    .or_default() += so_far;
            }
        }
        let actors = self.machine.actors;
        let name = |thread: usize| {
            if thread < actors {
                format!("actor {thread}")
            } else {
                "engine".to_owned()
            }
        };
        let mut threads: Vec<ThreadUse> = self.thread_ns[..=actors]
            .iter()
            .enumerate()
            .map(|(thread, &(cpu_ns, waited_ns))| ThreadUse {
                name: name(thread),
                cpu_ns,
                run_delay_ns: Some(waited_ns),
            })
            .collect();
        // The lab subtracts the machine's activity without the run, but counts at least the run's
        // own.
        let own_ns: u64 = threads.iter().map(|thread| thread.cpu_ns).sum();
        let others_ns = self.thread_ns[actors + 1].0;
        let all_ns = as_f64(count(self.machine.cores)) * as_f64(self.now_ns);
        let alone_ns = whole(self.machine.others.min(1.0) * all_ns);
        self.counters.cpu_ns = own_ns.max((own_ns + others_ns).saturating_sub(alone_ns));
        threads.sort_by_key(|thread| Reverse(thread.cpu_ns));
        threads.truncate(spindles_measure::THREADS_MAX);
        self.counters.threads = threads;
        self.counters.window_ns = self.now_ns;
        self.counters
    }
}

fn compute(thread: usize, ns: f64, random: &mut Random) -> Vec<Move> {
    vec![
        Move::Acquire(CPU),
        Move::Compute(thread, about(ns, random)),
        Move::Release(CPU),
    ]
}

fn flush(machine: &Machine, member: usize, random: &mut Random) -> Vec<Move> {
    let station = MEMBERS + 3 * member;
    vec![
        // The kernel runs one flush of a device at a time.
        Move::Acquire(station + 2),
        Move::BeginFlush(member),
        Move::Acquire(station),
        Move::Delay(about(machine.flush_ns, random)),
        Move::Release(station),
        Move::EndFlush(member),
        Move::Release(station + 2),
    ]
}

/// A random time around this mean: half to one and a half.
fn about(mean_ns: f64, random: &mut Random) -> u64 {
    whole(mean_ns * (0.5 + random.unit()))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, below 2^53"
)]
pub(crate) fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

pub(crate) fn count(of: usize) -> u64 {
    u64::try_from(of).unwrap()
}

#[expect(clippy::cast_precision_loss, reason = "rounding is meant")]
pub(crate) fn as_f64(value: u64) -> f64 {
    value as f64
}
