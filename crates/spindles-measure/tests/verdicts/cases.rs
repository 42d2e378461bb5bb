//! Machines with one planted bottleneck each, drawn from a seed, and the records the lab would keep
//! of them. That the planted part really is the bottleneck is checked: the machine is simulated
//! again with that part faster, and redrawn unless the rate follows.

use std::collections::BTreeMap;

use spindles_measure::statistics::Random;
use spindles_measure::verdicts::Intervention;
use spindles_measure::{
    CacheUse, Calibration, Cpu, Device, DeviceUse, Environment, Evidence, Experiment, Io, LinkUse,
    MemberRate, MemberUse, Rate, Record, Run, System, ThreadUse, Traffic, Workload,
};

use super::simulation::{Counters, Level, Link, Machine, Member, as_f64, simulate, whole};

/// Causes that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    LoadGenerator,
    Cpu,
    CpuOfOneThread,
    Network,
    Bus,
    SlowMember,
    HotMember,
    Flushes,
    Members,
    Metadata,
    TooFewActors,
    /// Reads answered from memory.
    SmallCache,
    /// Reads answered by a cache in the members.
    ControllerCache,
    /// Writes that stay in memory.
    DeferredWrites,
    /// Two equal causes, hence no single bottleneck.
    TwoCauses,
    /// Three parts that take a third of the time each.
    NoCause,
    Journal,
}

impl Class {
    pub(crate) const ALL: [Self; 17] = [
        Self::LoadGenerator,
        Self::Cpu,
        Self::CpuOfOneThread,
        Self::Network,
        Self::Bus,
        Self::Journal,
        Self::SlowMember,
        Self::HotMember,
        Self::Flushes,
        Self::Members,
        Self::Metadata,
        Self::TooFewActors,
        Self::SmallCache,
        Self::ControllerCache,
        Self::DeferredWrites,
        Self::TwoCauses,
        Self::NoCause,
    ];

    /// Name in the table.
    pub(crate) fn name(self) -> String {
        let planted = match self {
            Self::SmallCache => "reads from memory",
            Self::ControllerCache => "reads from a cache of the members",
            Self::DeferredWrites => "writes that stay in memory",
            Self::TwoCauses => "two equal causes",
            Self::NoCause => "three equal causes",
            _ => return format!("`{}`", self.rule().unwrap()),
        };
        planted.to_owned()
    }

    /// The rule that should name it. `None` if no bottleneck is planted.
    pub(crate) fn rule(self) -> Option<&'static str> {
        Some(match self {
            Self::LoadGenerator => "load-generator",
            Self::Cpu => "cpu",
            Self::CpuOfOneThread => "cpu-of-one-thread",
            Self::Network => "network",
            Self::Bus => "bus",
            Self::Journal => "journal",
            Self::SlowMember => "one-slow-member",
            Self::HotMember => "one-hot-member",
            Self::Flushes => "flushes",
            Self::Members => "members",
            Self::Metadata => "metadata",
            Self::TooFewActors => "too-few-actors",
            Self::SmallCache
            | Self::ControllerCache
            | Self::DeferredWrites
            | Self::TwoCauses
            | Self::NoCause => return None,
        })
    }
}

/// One machine, with the planted cause.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) class: Class,
    pub(crate) seed: u64,
    pub(crate) machine: Machine,
    /// CPUs of the machine, of which the run may use `machine.cores`.
    cpus: usize,
    /// The slow member.
    odd: usize,
    /// True if it was already slow when each member was measured alone.
    known_slow: bool,
    has_ceiling: bool,
    /// True if other programs have more threads than there are CPUs.
    pub(crate) is_noisy: bool,
    /// Evidence missing on this machine.
    lacks: Lacks,
    /// The equal causes.
    equals: Vec<Class>,
    pub(crate) counters: [Counters; 2],
}

/// Missing evidence.
#[expect(
    clippy::struct_excessive_bools,
    reason = "five things that are there or not"
)]
#[derive(Clone, Copy, Debug)]
struct Lacks {
    calibration: bool,
    members: bool,
    flush_time: bool,
    run_delay: bool,
    link_speed: bool,
}

/// Simulates a repetition long enough for its counters to be meaningful.
fn long_enough(machine: &Machine, seed: u64) -> Counters {
    const LEAST_NS: u64 = 60_000_000;
    let mut operations = operations(machine);
    loop {
        let counters = simulate(machine, operations, seed);
        if counters.window_ns >= LEAST_NS {
            return counters;
        }
        operations *= 2;
    }
}

/// Number of operations in a repetition.
fn operations(machine: &Machine) -> u64 {
    let actors = u64::try_from(machine.actors).unwrap();
    (25 * actors).max(600)
}

fn choose<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len())]
}

fn between(random: &mut Random, least: f64, most: f64) -> f64 {
    least * (most / least).powf(random.unit())
}

impl Case {
    /// Draws the case of a class and a seed.
    pub(crate) fn draw(class: Class, seed: u64) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9) ^ (class as u64) << 40);
        for _ in 0..2000 {
            let mut case = Self::planted(class, seed, &mut random);
            let repetition = random.next_u64();
            if case.is_true(repetition) {
                case.counters =
                    [repetition, repetition ^ 1].map(|seed| long_enough(&case.machine, seed));
                return case;
            }
        }
        panic!("{class:?} can't be planted with seed {seed}");
    }

    /// Returns true if the rate follows the planted part, with an elasticity above one half.
    /// Elasticities add up to 1, since a machine whose parts are all faster is faster by the same
    /// factor. So no other part has a higher elasticity.
    fn is_true(&self, repetition: u64) -> bool {
        const FASTER: f64 = 1.25;
        if self.machine.kernel_cpu_ns < 0.0 {
            return false;
        }
        let rate =
            |machine: &Machine| simulate(machine, operations(machine) / 2, repetition).per_second();
        let before = rate(&self.machine);
        if self.is_noisy {
            let mut quiet = self.machine.clone();
            quiet.others = 0.0;
            if rate(&quiet) > 1.5 * before {
                return false;
            }
        }
        let elasticity = |of: Class| {
            let after = rate(&self.faster(of, FASTER));
            (after / before).ln() / FASTER.ln()
        };
        let doubled = || {
            let mut machine = self.machine.clone();
            machine.actors *= 2;
            rate(&machine)
        };
        match self.class {
            // Not a part that could be faster: the rate follows the number of actors.
            Class::TooFewActors => doubled() > 1.6 * before,
            Class::SmallCache | Class::ControllerCache | Class::DeferredWrites => true,
            Class::TwoCauses => {
                let mut all = self.equals.iter();
                all.all(|&one| (0.38..=0.62).contains(&elasticity(one))) && doubled() < 1.3 * before
            }
            Class::NoCause => {
                let mut all = self.equals.iter();
                all.all(|&one| (0.1..=0.5).contains(&elasticity(one))) && doubled() < 1.3 * before
            }
            // Members with slow but parallel answers are not the bottleneck either.
            Class::Members => elasticity(Class::Members) > 0.55 && doubled() < 1.3 * before,
            class => elasticity(class) > 0.55,
        }
    }

    /// The machine with one faster part.
    fn faster(&self, class: Class, factor: f64) -> Machine {
        let mut machine = self.machine.clone();
        let quicken = |member: &mut Member| {
            member.seek_ns /= factor;
            member.latency_ns /= factor;
            member.bytes_per_s *= factor;
        };
        match class {
            Class::LoadGenerator => machine.actor_cpu_ns /= factor,
            Class::Cpu => {
                machine.actor_cpu_ns /= factor;
                machine.engine_cpu_ns /= factor;
                machine.kernel_cpu_ns /= factor;
            }
            // The busiest thread: the engine's, or the only actor's.
            Class::CpuOfOneThread if machine.actors > 1 => machine.engine_cpu_ns /= factor,
            Class::CpuOfOneThread => {
                machine.actor_cpu_ns /= factor;
                machine.kernel_cpu_ns /= factor;
            }
            Class::Network => {
                let link = machine.link.as_mut().unwrap();
                link.bytes_per_s *= factor;
            }
            Class::Bus => {
                let bus = machine.bus_bytes_per_s.as_mut().unwrap();
                *bus *= factor;
            }
            Class::Journal => quicken(machine.journal.as_mut().unwrap()),
            Class::SlowMember | Class::HotMember => quicken(&mut machine.members[self.odd]),
            Class::Members => machine.members.iter_mut().for_each(quicken),
            Class::Flushes => machine.flush_ns /= factor,
            Class::Metadata => machine.lock_ns /= factor,
            Class::TooFewActors
            | Class::SmallCache
            | Class::ControllerCache
            | Class::DeferredWrites
            | Class::TwoCauses
            | Class::NoCause => {}
        }
        machine
    }

    /// A machine with ample parts except one.
    #[expect(clippy::too_many_lines, reason = "one arm for each class")]
    fn planted(class: Class, seed: u64, random: &mut Random) -> Self {
        let flash = match class {
            Class::Cpu | Class::CpuOfOneThread | Class::LoadGenerator => true,
            Class::ControllerCache => false,
            Class::SlowMember | Class::HotMember => random.unit() < 0.3,
            _ => random.unit() < 0.5,
        };
        let mut case = Self::ample(class, seed, flash, random);
        let machine = &mut case.machine;
        let members = machine.members.len();
        let many = |random: &mut Random| 2 * members.max(2) + random.below(3 * members + 8);
        match class {
            Class::LoadGenerator => {
                machine.actors = 1 + random.below(8);
                machine.cores = machine.actors + 2 + random.below(6);
                machine.actor_cpu_ns = between(random, 3e5, 2e6);
                case.cpus = machine.cores;
                case.has_ceiling = true;
                case.lacks.calibration = false;
            }
            Class::Cpu => {
                machine.cores = 1 + random.below(4);
                machine.actors = 6 * machine.cores + random.below(12);
                machine.actor_cpu_ns = between(random, 1e4, 1e5);
                machine.kernel_cpu_ns = between(random, 2e5, 1e6);
                case.has_ceiling &= random.unit() < 0.8;
                // A CPU limit below the machine's CPUs.
                let has_limit = random.unit() < 0.3;
                case.cpus = if has_limit {
                    machine.others = 0.0;
                    machine.cores * (2 + random.below(4))
                } else {
                    machine.cores
                };
            }
            Class::CpuOfOneThread if random.unit() < 0.3 => {
                // A single stream that computes; the harness's own ceiling was not measured.
                machine.actors = 1;
                machine.kernel_cpu_ns = between(random, 1e6, 1e7);
                machine.cores = 2 + random.below(14);
                case.cpus = machine.cores;
            }
            Class::CpuOfOneThread => {
                machine.cores = 2 + random.below(14);
                case.cpus = machine.cores;
                machine.actors = many(random);
                machine.engine_cpu_ns = between(random, 1e5, 1e6);
            }
            Class::Network => {
                machine.actors = many(random);
                machine.operation_bytes = choose(random, &[65536, 262_144, 1 << 20]);
                let share = between(random, 0.1, 0.75);
                let link = Link {
                    bytes_per_s: share * case.data_rate(),
                    to_members: random.unit() < 0.5,
                };
                case.machine.link = Some(link);
            }
            Class::Bus => {
                machine.actors = many(random);
                machine.operation_bytes = choose(random, &[262_144, 1 << 20]);
                machine.chunk_bytes = 262_144;
                machine.seeks = between(random, 0.01, 0.05);
                machine.level = Level::Stripe;
                let share = between(random, 0.2, 0.75);
                case.machine.bus_bytes_per_s = Some(share * case.data_rate());
            }
            Class::Journal => {
                machine.actors = 1 + random.below(16);
                machine.reads = choose(random, &[0.0, 0.1, 0.3]);
                machine.operation_bytes = choose(random, &[4096, 16384, 65536]);
                // A throttled device, or a disk next to flash.
                let mut journal = machine.members[0];
                journal.latency_ns = between(random, 1e6, 4e7);
                journal.channels = choose(random, &[1, 1, 4]);
                machine.journal = Some(journal);
            }
            Class::SlowMember => {
                machine.actors = many(random) + 8;
                case.odd = random.below(members);
                case.known_slow = random.unit() < 0.5;
                // 30 % of slow members are broken, the rest worn.
                let slow = if random.unit() < 0.3 {
                    between(random, 10.0, 1000.0)
                } else {
                    between(random, 1.4, 6.0)
                };
                let odd = &mut machine.members[case.odd];
                odd.seek_ns *= slow;
                odd.latency_ns *= slow;
                odd.bytes_per_s /= slow;
            }
            Class::HotMember => {
                machine.actors = many(random) + 8;
                machine.hot = between(random, 0.3, 0.9);
                machine.level = choose(random, &[Level::Stripe, Level::Mirror]);
                machine.operation_bytes = machine.operation_bytes.min(machine.chunk_bytes);
            }
            Class::Flushes => {
                machine.reads = choose(random, &[0.0, 0.1, 0.3]);
                machine.operation_bytes = choose(random, &[4096, 16384]);
                machine.writes_per_sync = 1 + u32::try_from(random.below(2)).unwrap();
                machine.flush_ns = between(random, 2e6, 4e7);
                machine.actors = 1 + random.below(16);
            }
            Class::Members => {
                machine.actors = many(random);
                if flash {
                    machine.actors *= 2;
                }
            }
            Class::Metadata => {
                machine.creates = between(random, 0.6, 1.0);
                machine.lock_ns = between(random, 3e5, 5e6);
                machine.actors = 2 + random.below(14);
                machine.operation_bytes = 4096;
            }
            Class::TooFewActors => {
                machine.actors = 1 + random.below(3);
                machine.operation_bytes = machine.operation_bytes.min(machine.chunk_bytes);
            }
            Class::SmallCache => {
                machine.reads = choose(random, &[0.7, 1.0]);
                machine.hits = between(random, 0.25, 1.0);
                machine.actors = 1 + random.below(16);
            }
            Class::ControllerCache => {
                machine.reads = 1.0;
                machine.seeks = 1.0;
                machine.operation_bytes = choose(random, &[4096, 8192]);
                machine.controller_hits = between(random, 0.25, 0.9);
                machine.actors = 1 + random.below(members);
            }
            Class::DeferredWrites => {
                machine.reads = choose(random, &[0.0, 0.3]);
                machine.deferred = between(random, 0.3, 1.0);
                machine.actors = 1 + random.below(16);
            }
            Class::TwoCauses => {
                machine.actors = 2 * many(random);
                machine.level = Level::Stripe;
                machine.operation_bytes = choose(random, &[4096, 16384, 65536]);
                machine.chunk_bytes = 262_144;
                let second = choose(random, &[Class::Cpu, Class::CpuOfOneThread, Class::Network]);
                case.equals = vec![Class::Members, second];
                case.balance(second, random);
            }
            Class::NoCause => {
                machine.actors = 3 + random.below(members + 6);
                machine.level = Level::Stripe;
                machine.operation_bytes = choose(random, &[4096, 16384, 65536]);
                machine.chunk_bytes = 262_144;
                case.equals = vec![Class::Members, Class::Network, Class::Cpu];
                case.balance(Class::Network, random);
                case.balance(Class::Cpu, random);
            }
        }
        case
    }

    /// Makes the second cause take as much time of an operation as the members do.
    fn balance(&mut self, second: Class, random: &mut Random) {
        let rate = self.data_rate() / as_f64(self.machine.operation_bytes);
        let each_ns = 1e9 / rate * between(random, 0.9, 1.1);
        let machine = &mut self.machine;
        match second {
            Class::Cpu => {
                machine.others = 0.0;
                machine.cores = 1 + random.below(4);
                self.cpus = machine.cores;
                let cores = as_f64(u64::try_from(machine.cores).unwrap());
                machine.engine_cpu_ns = 0.0;
                machine.kernel_cpu_ns = each_ns * cores - machine.actor_cpu_ns;
            }
            Class::CpuOfOneThread => machine.engine_cpu_ns = each_ns,
            _ => {
                machine.link = Some(Link {
                    bytes_per_s: as_f64(machine.operation_bytes) * 1.05 / each_ns * 1e9,
                    to_members: false,
                });
            }
        }
    }

    /// Bytes per second that the members move if nothing delays them.
    fn data_rate(&self) -> f64 {
        let machine = &self.machine;
        let wide = as_f64(machine.operation_bytes.div_ceil(machine.chunk_bytes))
            .min(as_f64(u64::try_from(machine.members.len()).unwrap()));
        let bytes = as_f64(machine.operation_bytes) / wide;
        let of = |member: &Member| {
            let place_ns = member.latency_ns + machine.seeks * member.seek_ns;
            let transfer_ns = bytes / member.bytes_per_s * 1e9;
            let channels = as_f64(u64::try_from(member.channels).unwrap());
            let each_ns = ((place_ns + transfer_ns) / channels).max(transfer_ns);
            bytes / each_ns * 1e9
        };
        machine.members.iter().map(of).sum()
    }

    /// A machine without a planted bottleneck.
    fn ample(class: Class, seed: u64, flash: bool, random: &mut Random) -> Self {
        let fewest = match class {
            Class::TooFewActors => 4,
            Class::SlowMember | Class::HotMember => 3,
            Class::Bus => 2,
            _ => 1,
        };
        let members = fewest + random.below(13 - fewest);
        let member = if flash {
            Member {
                seek_ns: 0.0,
                latency_ns: between(random, 6e4, 1.5e5),
                bytes_per_s: between(random, 5e8, 3e9),
                channels: choose(random, &[4, 8, 16]),
            }
        } else {
            Member {
                seek_ns: between(random, 4e6, 1.2e7),
                latency_ns: 5e4,
                bytes_per_s: between(random, 8e7, 2.5e8),
                channels: 1,
            }
        };
        let operation_bytes = choose(random, &[4096, 8192, 65536, 262_144, 1 << 20]);
        let cores = 2 + random.below(15);
        let machine = Machine {
            actors: 8,
            cores,
            actor_cpu_ns: between(random, 2e3, 1e4) + as_f64(operation_bytes) / 16.0,
            engine_cpu_ns: between(random, 1e3, 4e3),
            kernel_cpu_ns: between(random, 1e3, 5e3),
            others: choose(random, &[0.0, 0.02, 0.05, 0.1]),
            operation_bytes,
            reads: choose(random, &[0.0, 0.5, 0.9, 1.0, 1.0]),
            creates: 0.0,
            lock_ns: 0.0,
            writes_per_sync: 0,
            flush_ns: 0.0,
            hits: 0.0,
            deferred: 0.0,
            controller_hits: 0.0,
            level: if members == 1 {
                Level::Stripe
            } else {
                choose(random, &[Level::Stripe, Level::Mirror, Level::Parity])
            },
            chunk_bytes: choose(random, &[65536, 262_144]),
            members: vec![member; members],
            journal: None,
            seeks: choose(random, &[1.0, 1.0, 0.3, 0.02]),
            hot: 0.0,
            bus_bytes_per_s: None,
            link: None,
        };
        let mut case = Self {
            class,
            seed,
            machine,
            cpus: cores,
            odd: 0,
            known_slow: true,
            has_ceiling: false,
            is_noisy: false,
            lacks: Lacks {
                calibration: random.unit() < 0.1,
                members: seed % 5 == 4 && class != Class::Journal,
                flush_time: random.unit() < 0.2,
                run_delay: random.unit() < 0.1,
                link_speed: random.unit() < 0.1,
            },
            equals: Vec::new(),
            counters: [Counters::default(), Counters::default()],
        };
        // A neighbour takes all the CPU time it gets, but another part limits the run.
        let of_cpus = [Class::LoadGenerator, Class::Cpu, Class::CpuOfOneThread];
        case.is_noisy = class.rule().is_some() && !of_cpus.contains(&class) && random.unit() < 0.25;
        if case.is_noisy {
            case.machine.others = 2.0;
        }
        // Half of the machines have a wide enough bus, some a wide enough link.
        if random.unit() < 0.5 {
            case.machine.bus_bytes_per_s = Some(6.0 * case.data_rate());
        }
        if random.unit() < 0.3 {
            case.machine.link = Some(Link {
                bytes_per_s: 6.0 * case.data_rate(),
                to_members: random.unit() < 0.5,
            });
        }
        case.has_ceiling = class != Class::CpuOfOneThread && random.unit() < 0.7;
        case
    }

    /// The machine after an intervention.
    pub(crate) fn changed(&self, change: &Intervention) -> Machine {
        let mut machine = self.machine.clone();
        match change {
            Intervention::DoubleActors => machine.actors *= 2,
            Intervention::HalveActors => machine.actors = machine.actors.div_ceil(2),
            // Two generators or two arrays double everything, and each has half of the work.
            Intervention::TwoStreams | Intervention::SecondGenerator => {
                machine.engine_cpu_ns /= 2.0;
                machine.actors *= 2;
            }
            Intervention::LimitCpu => {
                machine.actor_cpu_ns *= 1.25;
                machine.engine_cpu_ns *= 1.25;
                machine.kernel_cpu_ns *= 1.25;
            }
            Intervention::ShapeLink => machine.link.as_mut().unwrap().bytes_per_s *= 0.8,
            Intervention::LeaveMemberOut => drop(machine.members.pop()),
            Intervention::DoubleMembers => {
                let more = machine.members.clone();
                machine.members.extend(more);
            }
            Intervention::ReplaceMember { member } => {
                let place: usize = member.trim_start_matches("sd").parse().unwrap();
                let sound = machine.members[(place + 1) % machine.members.len()];
                match machine.members.get_mut(place) {
                    Some(member) => *member = sound,
                    None => machine.journal = Some(sound),
                }
            }
            Intervention::SpreadLoad => machine.hot = 0.0,
            Intervention::FsyncOff => machine.writes_per_sync = 0,
            Intervention::WithoutCache | Intervention::LargerFiles => machine.hits = 0.0,
            Intervention::CountFlush => machine.deferred = 0.0,
        }
        machine
    }

    /// Summary of the machine.
    pub(crate) fn summary(&self) -> String {
        let mut machine = self.machine.clone();
        machine.members.truncate(1);
        let members = self.machine.members.len();
        format!("{members} members, {:?}, {machine:?}", self.lacks)
    }

    pub(crate) fn rate_of(&self, machine: &Machine) -> f64 {
        simulate(machine, operations(machine), self.seed).per_second()
    }

    /// The records that the lab would keep.
    pub(crate) fn records(&self) -> Vec<Record> {
        let machine = &self.machine;
        let members = u32::try_from(machine.members.len()).unwrap();
        let system = System {
            name: "array".to_owned(),
            expression: format!("{:?}({members})", machine.level),
            members,
            survives: match machine.level {
                Level::Stripe => 0,
                Level::Mirror | Level::Parity => members.min(2) - 1,
            },
            options: (machine.journal.iter())
                .map(|_| (System::JOURNAL.to_owned(), format!("sd{members}")))
                .collect(),
            ..System::default()
        };
        let workload = Workload {
            name: "work".to_owned(),
            rate: Rate::Operations,
            in_flight_max: u32::try_from(machine.actors).unwrap(),
            operation_bytes: machine.operation_bytes,
            ..Workload::default()
        };
        let mut random = Random::new(self.seed ^ 0x7777);
        let mut records = vec![
            Record::Experiment(Experiment {
                baseline: system.name.clone(),
                systems: vec![system.clone()],
                workloads: vec![workload.clone()],
                ..Experiment::default()
            }),
            Record::Environment(Environment {
                cpus: u32::try_from(self.cpus).unwrap(),
                devices: self.devices(),
                ..Environment::default()
            }),
        ];
        let calibration = self.calibration(&mut random);
        if !self.lacks.calibration {
            records.push(Record::Calibration(Box::new(calibration)));
        }
        for (block, counters) in (0..).zip(&self.counters) {
            records.push(Record::Run(Box::new(Run {
                system: system.clone(),
                workload: workload.clone(),
                repetition_block: block,
                order: block,
                elapsed_ns: counters.window_ns,
                operations: counters.operations,
                counted: counters.operations,
                application: counters.application,
                latency: BTreeMap::from([("read".to_owned(), counters.reads.clone())]),
                evidence: Some(self.evidence(counters, &mut random)),
                cpu_ns: Cpu {
                    machine: counters.cpu_ns,
                    ..Cpu::default()
                },
                io: Io {
                    direct: machine.hits <= 0.0 && machine.deferred <= 0.0,
                    ..Io::default()
                },
                ..Run::default()
            })));
        }
        records
    }

    fn devices(&self) -> Vec<Device> {
        let members = self.machine.members.iter().enumerate();
        let device = |(place, member): (usize, &Member)| Device {
            name: format!("sd{place}"),
            rotational: member.seek_ns > 0.0,
            ..Device::default()
        };
        members.map(device).collect()
    }

    fn evidence(&self, counters: &Counters, random: &mut Random) -> Evidence {
        let link = self.machine.link.map(|link| LinkUse {
            name: "eth0".to_owned(),
            // The kernel only knows the interface's own speed, not the shaper's; the lab knows
            // both.
            bits_per_s: (!self.lacks.link_speed).then(|| whole(link.bytes_per_s * 8.0)),
            overlimits: counters.overlimits,
            received: noisy(counters.received, random),
            sent: noisy(counters.sent, random),
            ..LinkUse::default()
        });
        let devices = counters.devices.iter().map(|device| DeviceUse {
            // Other programs read and write a little too.
            busy_ns: noisy(device.busy_ns, random).min(counters.window_ns),
            queue_ns: noisy(device.queue_ns, random),
            flush_ns: device.flush_ns.filter(|_| !self.lacks.flush_time),
            bytes: Traffic {
                read: noisy(device.bytes.read, random),
                written: noisy(device.bytes.written, random),
            },
            ..device.clone()
        });
        let devices: Vec<DeviceUse> = devices.collect();
        let members = devices.iter().filter(|_| !self.lacks.members);
        let members = members.map(|member| MemberUse {
            name: member.name.clone(),
            busy_ns: member.busy_ns,
            in_flight_ns: member.queue_ns,
            requests: member.requests,
            bytes: member.bytes,
            ..MemberUse::default()
        });
        let threads = counters.threads.iter().map(|thread| ThreadUse {
            run_delay_ns: thread.run_delay_ns.filter(|_| !self.lacks.run_delay),
            ..thread.clone()
        });
        Evidence {
            window_ns: 0,
            actors: u32::try_from(self.machine.actors).unwrap(),
            actor_ns: counters.actor_ns.clone(),
            threads: threads.collect(),
            members: members.collect(),
            devices,
            links: link.into_iter().collect(),
            cache: CacheUse {
                dirty_after: counters.dirty_bytes,
                ..CacheUse::default()
            },
            ..Evidence::default()
        }
    }

    fn calibration(&self, random: &mut Random) -> Calibration {
        let machine = &self.machine;
        let path = [
            machine.bus_bytes_per_s,
            machine
                .link
                .filter(|link| link.to_members)
                .map(|link| link.bytes_per_s / 1.05),
        ];
        let path = path.into_iter().flatten().fold(f64::INFINITY, f64::min);
        let sound = machine.members[(self.odd + 1) % machine.members.len()];
        let mut sum = 0.0;
        let members = machine.members.iter().enumerate().map(|(place, member)| {
            let member = if self.known_slow { member } else { &sound };
            let mut measured = |value: f64| value * (1.0 + 0.03 * random.normal());
            let megabyte = f64::from(1_u32 << 20);
            let in_order_s = member.latency_ns / 1e9 + megabyte / member.bytes_per_s;
            let rate = measured((megabyte / in_order_s).min(path));
            sum += rate;
            let one_s = (member.latency_ns + member.seek_ns) / 1e9 + 4096.0 / member.bytes_per_s;
            MemberRate {
                name: format!("sd{place}"),
                read_bytes_per_s: whole(rate),
                write_bytes_per_s: whole(measured(rate)),
                random_reads_per_s: whole(measured(1.0 / one_s)),
                ..MemberRate::default()
            }
        });
        let members: Vec<MemberRate> = members.collect();
        let least = as_f64(u64::try_from(machine.cores.min(machine.actors)).unwrap());
        let ceiling = least / machine.actor_cpu_ns * 1e9;
        let mut ceilings = BTreeMap::new();
        if self.has_ceiling {
            ceilings.insert("work".to_owned(), ceiling);
        }
        Calibration {
            members,
            together_bytes_per_s: whole(sum.min(path)),
            ceilings,
            ..Calibration::default()
        }
    }
}

/// Adds the error of a counter that is read slightly after the clock stops.
fn noisy(count: u64, random: &mut Random) -> u64 {
    whole(as_f64(count) * (1.01 + 0.01 * random.normal()))
}
