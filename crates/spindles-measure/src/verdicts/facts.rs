//! Input of the rules: the counters of all repetitions of one cell, as shares and rates over their
//! time, together with the limits of the single components.

use std::collections::{BTreeMap, BTreeSet};

use super::trial::tried;
use super::{Intervention, milliseconds, percent};
use crate::histogram::to_f64;
use crate::statistics::median;
use crate::{
    Analysis, CacheUse, Calibration, Cell, DeviceUse, Evidence, Histogram, MemberRate, MemberUse,
    Rate, Run, Series, System, Traffic, Workload,
};

/// Operations that make earlier writes durable.
const SYNCS: &[&str] = &["fsync", "fdatasync", "flush", "sync"];
/// Operations on names and attributes.
const METADATA: &[&str] = &[
    "mkdir", "rmdir", "create", "open", "close", "link", "unlink", "delete", "rename", "stat",
    "utime", "chmod",
];
/// Operations that modify data, names or attributes. On a file system mounted `sync` they are
/// durable on return.
const CHANGES: &[&str] = &[
    "write", "append", "mkdir", "rmdir", "create", "link", "unlink", "delete", "rename", "utime",
    "chmod",
];
/// Devices with fewer random reads per second than this have to move an arm: they handle one
/// request at a time.
const SEEKS_PER_S_MAX: f64 = 1000.0;
/// If the counters cover more time than this share without the workload, nothing is called idle.
const BESIDE_MAX: f64 = 0.2;
/// Largest packet that the kernel hands to an interface.
const PACKET_BYTES: f64 = 65536.0;
/// A link that carried more than this multiple of its capacity let a burst pass.
const BURST: f64 = 1.2;
/// Rates above this multiple of the rate alone prove that measurement wrong.
const REFUTED: f64 = 1.5;
/// If writes settle within this share of a run's time, they were already on the devices at its end.
const SETTLED_AT_ONCE: f64 = 0.01;
/// From this multiple of the run's writes on, some dirty pages belong to other programs.
const MORE_DIRTY: f64 = 1.1;
/// Shorter cells get no bottleneck: the kernel counts CPU time in ticks of 10 ms.
const SHORT_NS: f64 = 50e6;
/// Ratio of answer times to the peers' from which a member is a straggler.
const FAR: f64 = 3.0;
/// Fewest answers for a mean.
const ANSWERS_MIN: f64 = 4.0;
/// A member's load relative to the mean of the others, in bytes or requests, from which it is hot
/// rather than slow.
pub(super) const HOT: f64 = 1.25;
/// Size of a random read in the calibration, in bytes.
const RANDOM_BYTES: f64 = 4096.0;

/// The facts of one cell. Shares are fractions of the total time of the cell's repetitions.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Unit of the rate.
    pub rate: Rate,
    /// Rate per second.
    pub per_second: f64,
    /// Rate per second of the harness on a target that does nothing.
    pub ceiling: Option<f64>,
    /// Number of usable CPUs of the machine.
    pub cpus: f64,
    /// Busy share of these CPUs, including other programs.
    pub cpu_busy: f64,
    /// Threads that took part, the busiest first.
    pub threads: Vec<ThreadFacts>,
    /// Number of actors.
    pub actors: f64,
    /// Share of the actors' time in each operation, without waiting for each other.
    pub actor_share: BTreeMap<String, f64>,
    /// Factors by which the actors and the rate grow in the same workload with at least 1.5 times
    /// the actors.
    pub more_actors: Option<(f64, f64)>,
    /// The members; if none is known, the devices that carry everything.
    pub members: Vec<MemberFacts>,
    /// The members by the array's own counters. If several members are files on one disk,
    /// `members` holds that disk.
    pub each: Vec<MemberFacts>,
    /// The members in each run. Members are compared with each other only within a run: the sums
    /// over all runs blame one slow run on the members that had most work in it.
    pub runs: Vec<RunMembers>,
    /// The dedicated journal device of the array.
    pub journal: Option<MemberFacts>,
    /// Bytes per second that all members read together, measured without a workload.
    pub together_bytes_per_s: Option<f64>,
    /// The network interfaces: load in the busier direction and packets delayed or dropped.
    pub links: Vec<LinkFacts>,
    /// Share of the counters' time in which the workload did not run. Resources that were idle then
    /// may have been busy during the workload.
    pub beside: f64,
    /// Reason why no bottleneck can be found, if any. Only the rules that refuse a result are asked
    /// then.
    pub not_sought: Option<String>,
    /// Bytes moved by the workload.
    pub application: Traffic,
    /// Bytes moved at the lowest layer that was counted: the devices, otherwise the members. `None`
    /// if neither was.
    pub moved: Option<Traffic>,
    /// True if the file system is mounted `sync`: changes wait until they are durable.
    pub mounted_sync: bool,
    /// Smallest number of bytes that members must write for each byte of the workload.
    pub write_amplification_min: f64,
    /// The page cache: the largest shares and sizes of any repetition. The data waiting in it is in
    /// the next two fields.
    pub cache: CacheUse,
    /// Bytes that a run left in memory when its clock stopped: median over the repetitions. See
    /// `waiting_bytes()`.
    pub waiting_bytes: f64,
    /// The same as a share of the run's writes: median over the repetitions.
    pub waiting_share: f64,
    /// Time until these bytes were on the devices: median over the repetitions.
    pub settle_ns: f64,
    /// True if every repetition bypassed the page cache.
    pub direct: bool,
    /// Latencies of reads.
    pub reads: Histogram,
    /// Reads per second.
    pub reads_per_s: f64,
    /// Operations of the workload per second.
    pub operations_per_s: f64,
    /// Size in bytes and rate of this workload and of the same workload with other sizes.
    pub sweep: Vec<(f64, f64)>,
    /// Rate of the same work with caches bypassed or emptied before.
    pub without_cache: Option<f64>,
}

/// The members in one run.
#[derive(Clone, Debug, Default)]
pub struct RunMembers {
    /// As [`Facts::members`].
    pub members: Vec<MemberFacts>,
    /// As [`Facts::each`].
    pub each: Vec<MemberFacts>,
}

/// Activity and limits of one member.
#[derive(Clone, Debug, Default)]
pub struct MemberFacts {
    /// Name of the member.
    pub name: String,
    /// Share of the time in which at least one request was in flight.
    pub busy: f64,
    /// Mean number of requests in flight, flushes included.
    pub in_flight: f64,
    /// Share of the time in which it flushed. `None` if unknown.
    pub flushing: Option<f64>,
    /// Reads and writes per second.
    pub requests_per_s: f64,
    /// Number of reads, writes and flushes over all repetitions.
    pub answers: f64,
    /// Number of reads, of writes and of flushes.
    pub kinds: [f64; 3],
    /// Mean time of a request in seconds. 0 if there were no requests.
    pub answer_s: f64,
    /// Bytes read per second.
    pub read_bytes_per_s: f64,
    /// Bytes written per second.
    pub written_bytes_per_s: f64,
    /// Its rates alone.
    pub alone: Option<MemberRate>,
    /// True if it is known to have an arm to move.
    pub rotational: bool,
}

/// A member that takes far longer than its peers for the same work, in most runs.
#[derive(Clone, Debug)]
pub struct Straggler<'a> {
    /// The member.
    pub member: &'a MemberFacts,
    /// Mean time of its answers in a typical run, in seconds.
    pub answer_s: f64,
    /// Median time of the other members' answers in that run, in seconds.
    pub peers_s: f64,
    /// Share of the time that actors spend waiting for it, beyond the time they would wait for one
    /// of the others.
    pub share: f64,
}

/// Activity of a thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadFacts {
    /// Name of the thread.
    pub name: String,
    /// Share of the time in which it ran on a CPU.
    pub on_cpu: f64,
    /// Share of the time in which it waited for a CPU, as far as it was counted.
    pub waits: f64,
}

impl ThreadFacts {
    /// Share of the time in which it ran or waited for a CPU. At 1, the rest of the system waits
    /// for this thread.
    pub fn ready(&self) -> f64 {
        self.on_cpu + self.waits
    }
}

/// Load of one network interface.
#[derive(Clone, Debug, Default)]
pub struct LinkFacts {
    /// Name of the interface.
    pub name: String,
    /// Share of its capacity used in the busier direction. `None` if the capacity is unknown.
    pub busy: Option<f64>,
    /// Capacity in bytes per second.
    pub bytes_per_s_max: Option<f64>,
    /// Packets delayed or dropped for each 64 KiB carried, which is the largest packet from the
    /// kernel.
    pub held_back: f64,
}

impl MemberFacts {
    /// Returns true if it handles one request at a time, so that a busy member is at its limit. The
    /// calibration decides, otherwise the kernel's flag. The kernel also sets that flag for most
    /// virtual disks, so a disk that is faster than an arm does not count.
    pub fn seeks(&self) -> bool {
        match self
            .alone
            .as_ref()
            .map_or(0, |alone| alone.random_reads_per_s)
        {
            0 => self.rotational && self.requests_per_s <= SEEKS_PER_S_MAX * self.busy,
            measured => to_f64(measured) < SEEKS_PER_S_MAX,
        }
    }

    /// Smallest share of the time that the member needs for these bytes: sequential access only.
    pub fn demand_min(&self) -> Option<f64> {
        let alone = self
            .alone
            .as_ref()
            .filter(|alone| alone.read_bytes_per_s > 0)?;
        let read = to_f64(alone.read_bytes_per_s);
        // If writing is not allowed, assume that writes are as fast as reads.
        let write = match alone.write_bytes_per_s {
            0 => read,
            write => to_f64(write),
        };
        Some(self.read_bytes_per_s / read + self.written_bytes_per_s / write)
    }

    /// Largest share of the time that it needs: every request random, one at a time.
    pub fn demand_max(&self) -> Option<f64> {
        let alone = self
            .alone
            .as_ref()
            .filter(|alone| alone.random_reads_per_s > 0)?;
        Some(self.demand_min()? + self.requests_per_s / to_f64(alone.random_reads_per_s))
    }

    /// Ratio of a request's time in flight to its time on the idle member. Above 1, requests queue.
    pub fn stretch(&self) -> Option<f64> {
        let alone = self.alone.as_ref()?;
        if self.requests_per_s <= 0.0 || alone.random_reads_per_s == 0 {
            return None;
        }
        let answer_s = (self.in_flight - self.flushing.unwrap_or(0.0)) / self.requests_per_s;
        let transfer_s = self.demand_min()? / self.requests_per_s;
        let transfer_of_one = RANDOM_BYTES / to_f64(alone.read_bytes_per_s);
        let place_s = 1.0 / to_f64(alone.random_reads_per_s) - transfer_of_one;
        Some(answer_s / (place_s.max(0.0) + transfer_s))
    }

    /// Share of the requests' time in flight spent queued behind other requests.
    pub fn waiting(&self) -> Option<f64> {
        if self.seeks() {
            return Some(1.0 - self.busy / self.in_flight.max(self.busy).max(f64::MIN_POSITIVE));
        }
        Some(1.0 - 1.0 / self.stretch()?.max(1.0))
    }

    /// Lower bound of the member's load, where 1 is its limit: rules out a bottleneck. `None` if
    /// unknown. `direct` means that actors wait for its requests.
    pub fn load(&self, direct: bool) -> Option<f64> {
        // Data waits while the device flushes.
        let busy = (self.busy + self.flushing.unwrap_or(0.0)).min(1.0);
        if self.seeks() {
            // If requests wait half of the time, enough of them are in flight.
            let waiting = self.waiting().filter(|_| direct).unwrap_or(0.0);
            return Some(busy.max(1.2 * waiting));
        }
        if busy < 0.6 {
            return Some(busy);
        }
        // A parallel device is idle enough if nothing waits there.
        let waits = self.stretch()? - 1.0;
        Some(self.demand_min()?.max((waits * 2.0).clamp(0.0, 1.0)))
    }

    /// Returns true if it moved more than its rates alone allow, so that these must be wrong.
    fn refutes_alone(&self) -> bool {
        let beyond = |rate: f64, alone: u64| alone > 0 && rate > REFUTED * to_f64(alone);
        self.alone.as_ref().is_some_and(|alone| {
            beyond(self.read_bytes_per_s, alone.read_bytes_per_s)
                || beyond(self.written_bytes_per_s, alone.write_bytes_per_s)
        })
    }

    /// Bytes per second in both directions.
    pub fn bytes_per_s(&self) -> f64 {
        self.read_bytes_per_s + self.written_bytes_per_s
    }

    /// Returns true if this peer did the same kind of work: enough requests of the member's most
    /// frequent kind, and a share of them that is at least half the member's.
    fn compares_with(&self, peer: &Self) -> bool {
        let most = [2, 1, 0]
            .into_iter()
            .max_by(|a, b| self.kinds[*a].total_cmp(&self.kinds[*b]));
        most.is_some_and(|kind| {
            let share = |member: &Self| member.kinds[kind] / member.answers.max(1.0);
            let mut both = [self, peer].into_iter();
            both.all(|side| side.kinds[kind] >= ANSWERS_MIN) && 2.0 * share(peer) >= share(self)
        })
    }
}

/// Load of a member relative to the mean of others: the larger ratio of bytes and requests.
pub(super) fn asked(member: &MemberFacts, others: &[&MemberFacts]) -> f64 {
    let beside = |of: fn(&MemberFacts) -> f64| {
        let others: Vec<f64> = others.iter().map(|other| of(other)).collect();
        of(member) / crate::statistics::mean(&others).max(f64::MIN_POSITIVE)
    };
    beside(MemberFacts::bytes_per_s).max(beside(|member| member.requests_per_s))
}

/// Mean time of a member's answers in one run, and the median time of its peers' answers. `None` if
/// no other member did the same work, or the member was asked for more than those that did.
fn beside_peers(each: &[MemberFacts], name: &str) -> Option<[f64; 2]> {
    let member = each.iter().find(|member| member.name == name)?;
    let others = each.iter().filter(|other| other.name != name);
    let peers: Vec<&MemberFacts> = others.filter(|other| member.compares_with(other)).collect();
    if peers.is_empty() || asked(member, &peers) >= HOT {
        return None;
    }
    let times: Vec<f64> = peers.iter().map(|peer| peer.answer_s).collect();
    Some([member.answer_s, median(&times)])
}

impl Straggler<'_> {
    /// The straggler in words, with the figures.
    pub fn words(&self) -> String {
        format!(
            "{} took {} to answer, the others {}; actors waited for it {} of their time",
            self.member.name,
            milliseconds(self.answer_s),
            milliseconds(self.peers_s),
            percent(self.share)
        )
    }
}

impl Facts {
    /// Collects the facts of a cell. `None` if no run recorded evidence.
    pub fn of(analysis: &Analysis, cell: &Cell) -> Option<Self> {
        let runs: Vec<(&Run, &Evidence)> = analysis
            .runs_of(cell)
            .filter_map(|run| Some((run, run.evidence.as_ref()?)))
            .collect();
        let &(first, _) = runs.first()?;
        let window_ns: f64 = runs
            .iter()
            .map(|(run, evidence)| watched_ns(run, evidence))
            .sum();
        let experiment = &analysis.experiment;
        let mut systems = experiment.systems.iter();
        let system = systems.find(|system| system.name == cell.system);
        let mut facts = Self {
            rate: cell.rate,
            per_second: cell.geometric_mean,
            ceiling: analysis.ceiling(&cell.workload),
            cpus: f64::from(analysis.environment.cpus),
            mounted_sync: is_mounted_sync(system.unwrap_or(&first.system)),
            write_amplification_min: write_amplification_min(system.unwrap_or(&first.system)),
            direct: runs.iter().all(|(run, _)| run.io.direct),
            sweep: sweep(analysis, cell),
            more_actors: more_actors(analysis, cell),
            without_cache: without_cache(analysis, cell),
            ..Self::default()
        };
        let ran_ns: f64 = runs.iter().map(|(run, _)| to_f64(ran_ns(run))).sum();
        facts.beside = (1.0 - ran_ns / window_ns).max(0.0);
        facts.not_sought = not_sought(analysis, cell, ran_ns);
        facts.add_cpu(&runs, window_ns);
        facts.add_actors(&runs);
        facts.add_devices(analysis, &runs, window_ns);
        for &(run, evidence) in &runs {
            let mut of_run = Self::default();
            of_run.add_devices(analysis, &[(run, evidence)], watched_ns(run, evidence));
            facts.runs.push(RunMembers {
                members: of_run.members,
                each: of_run.each,
            });
        }
        facts.add_links(&runs, window_ns);
        facts.add_bytes(&runs);
        Some(facts)
    }

    fn add_cpu(&mut self, runs: &[(&Run, &Evidence)], window_ns: f64) {
        let busy: f64 = runs.iter().map(|(run, _)| to_f64(run.cpu_ns.machine)).sum();
        // This figure covers the run alone, like everything in a record except its evidence.
        let elapsed_ns: f64 = runs.iter().map(|(run, _)| to_f64(run.elapsed_ns)).sum();
        self.cpu_busy = busy / elapsed_ns / self.cpus.max(1.0);
        // Threads with equal names are matched between runs by rank: the busiest comes first.
        let mut threads: BTreeMap<(&str, usize), ThreadFacts> = BTreeMap::new();
        for (_, evidence) in runs {
            let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
            for thread in &evidence.threads {
                let name = thread.name.trim();
                let place = seen.entry(name).or_default();
                let sum = threads.entry((name, *place)).or_default();
                name.clone_into(&mut sum.name);
                sum.on_cpu += to_f64(thread.cpu_ns) / window_ns;
                sum.waits += to_f64(thread.run_delay_ns.unwrap_or(0)) / window_ns;
                *place += 1;
            }
        }
        self.threads = threads.into_values().collect();
        self.threads.sort_by(|a, b| b.on_cpu.total_cmp(&a.on_cpu));
    }

    fn add_actors(&mut self, runs: &[(&Run, &Evidence)]) {
        let most = runs.iter().map(|(_, evidence)| evidence.actors).max();
        self.actors = f64::from(most.unwrap_or(0));
        let mut spent: BTreeMap<String, f64> = BTreeMap::new();
        let mut all_ns = 0.0;
        for (run, evidence) in runs {
            all_ns += f64::from(evidence.actors) * watched_ns(run, evidence);
            for (operation, &ns) in &evidence.actor_ns {
                *spent.entry(operation.clone()).or_default() += to_f64(ns);
            }
        }
        let asking_ns = all_ns - spent.remove("wait").unwrap_or(0.0);
        for ns in spent.values_mut() {
            *ns /= asking_ns.max(1.0);
        }
        self.actor_share = spent;
    }

    fn add_devices(&mut self, analysis: &Analysis, runs: &[(&Run, &Evidence)], window_ns: f64) {
        let calibration = analysis.calibration.as_ref();
        self.together_bytes_per_s = calibration
            .map(|calibration| to_f64(calibration.together_bytes_per_s))
            .filter(|&rate| rate > 0.0);
        let all: Vec<&DeviceUse> = runs
            .iter()
            .flat_map(|(_, evidence)| carriers(evidence))
            .collect();
        let names = names(all.iter().map(|link| &*link.name));
        for (place, name) in names.iter().enumerate() {
            let mine = all.iter().filter(|link| link.name == *name);
            let sums = Sums::of(mine.map(|&mine| (mine.clone().into(), mine.flush_ns)));
            let alone =
                calibration.and_then(|calibration| alone(calibration, name, place, names.len()));
            let mut known = analysis.environment.devices.iter();
            let rotational = known.any(|device| device.name == *name && device.rotational);
            let member = sums.member(name, window_ns, alone);
            self.members.push(MemberFacts {
                rotational,
                ..member
            });
        }
        let journal = runs.first().and_then(|(run, _)| run.system.journal());
        let each: Vec<&MemberUse> = runs
            .iter()
            .flat_map(|(_, evidence)| &evidence.members)
            .collect();
        for name in self::names(each.iter().map(|member| &*member.name)) {
            let mine = each.iter().filter(|member| member.name == name);
            let sums = Sums::of(mine.map(|&mine| (mine.clone(), None)));
            let alone = calibration
                .and_then(|calibration| calibration.member(name))
                .cloned();
            let member = sums.member(name, window_ns, alone);
            if journal == Some(name) {
                self.journal = Some(member);
            } else {
                self.each.push(member);
            }
        }
        let any_member = runs
            .iter()
            .any(|(_, evidence)| evidence.devices.iter().any(|device| device.member));
        if self.each.is_empty() && any_member {
            self.each.clone_from(&self.members);
        }
        // Exports are known only from the array's own counters.
        if self.members.is_empty() {
            self.members.clone_from(&self.each);
        }
    }

    fn add_links(&mut self, runs: &[(&Run, &Evidence)], window_ns: f64) {
        /// Sums over all repetitions.
        #[derive(Default)]
        struct Sums {
            received: f64,
            sent: f64,
            held_back: f64,
            bits_per_s: Option<u64>,
            sent_bits_per_s: Option<u64>,
        }
        let mut links: BTreeMap<&str, Sums> = BTreeMap::new();
        for link in runs.iter().flat_map(|(_, evidence)| &evidence.links) {
            let sums = links.entry(&link.name).or_default();
            sums.received += to_f64(link.received);
            sums.sent += to_f64(link.sent);
            sums.held_back += to_f64(link.overlimits.saturating_add(link.drops));
            sums.bits_per_s = link.bits_per_s.or(sums.bits_per_s);
            sums.sent_bits_per_s = link.sent_bits_per_s.or(sums.sent_bits_per_s);
        }
        for (name, sums) in links {
            // A queue shapes outgoing traffic only.
            let bytes = |bits: Option<u64>| {
                bits.map(|bits| to_f64(bits) / 8.0)
                    .filter(|&rate| rate > 0.0)
            };
            let receives_max = bytes(sums.bits_per_s);
            let shaped = bytes(sums.sent_bits_per_s);
            let sends_max = receives_max.map_or(shaped, |most| {
                Some(shaped.map_or(most, |shaped| shaped.min(most)))
            });
            let ways = [(sums.received, receives_max), (sums.sent, sends_max)];
            let share =
                |(bytes, most): (f64, Option<f64>)| Some((bytes * 1e9 / window_ns / most?, most));
            let busiest = ways
                .into_iter()
                .filter_map(share)
                .max_by(|a, b| a.0.total_cmp(&b.0));
            self.links.push(LinkFacts {
                name: name.to_owned(),
                // A higher share means that a queue let a burst pass: the rate says nothing about
                // such a short time.
                busy: busiest
                    .map(|busiest| busiest.0)
                    .filter(|share| *share <= BURST),
                bytes_per_s_max: busiest.and_then(|busiest| busiest.1),
                held_back: sums.held_back * PACKET_BYTES / sums.received.max(sums.sent).max(1.0),
            });
        }
    }

    fn add_bytes(&mut self, runs: &[(&Run, &Evidence)]) {
        let elapsed_ns: f64 = runs.iter().map(|(run, _)| to_f64(run.elapsed_ns)).sum();
        self.moved = (runs.iter().all(|(run, _)| moved(run).is_some())).then(Traffic::default);
        for (run, evidence) in runs {
            self.application += run.application;
            if let Some((sum, moved)) = self.moved.as_mut().zip(moved(run)) {
                *sum += moved;
            }
            if let Some(reads) = run.latency.get("read") {
                self.reads.merge(reads);
            }
            let (all, one) = (&mut self.cache, &evidence.cache);
            all.resident_permille = all.resident_permille.max(one.resident_permille);
            all.file_bytes = all.file_bytes.max(one.file_bytes);
            all.memory_bytes = all.memory_bytes.max(one.memory_bytes);
        }
        let median_of = |of: &dyn Fn(&(&Run, &Evidence)) -> f64| {
            median(&runs.iter().map(of).collect::<Vec<_>>())
        };
        self.waiting_bytes = median_of(&|(run, evidence)| waiting_bytes(run, evidence));
        self.waiting_share = median_of(&|(run, evidence)| {
            waiting_bytes(run, evidence) / to_f64(run.application.written).max(1.0)
        });
        self.settle_ns = median_of(&|(_, evidence)| to_f64(evidence.cache.settle_ns));
        self.cache.emptied = runs.iter().all(|(_, evidence)| evidence.cache.emptied);
        let operations: f64 = runs.iter().map(|(run, _)| to_f64(run.operations)).sum();
        self.operations_per_s = operations * 1e9 / elapsed_ns;
        self.reads_per_s = to_f64(self.reads.total()) * 1e9 / elapsed_ns;
    }

    /// Sum of the members' rates alone. `None` if one is unknown.
    pub fn sum_alone(&self, of: fn(&MemberRate) -> u64) -> Option<f64> {
        let alone = self.members.iter().map(|member| member.alone.as_ref());
        let sum = alone
            .map(|alone| alone.map(|alone| to_f64(of(alone))))
            .sum::<Option<f64>>();
        sum.filter(|&sum| sum > 0.0)
    }

    /// Returns true if an operation makes data durable.
    fn makes_durable(&self, operation: &str) -> bool {
        SYNCS.contains(&operation) || self.mounted_sync && CHANGES.contains(&operation)
    }

    /// Share of the actors' time in operations that make data durable.
    pub fn sync_share(&self) -> f64 {
        self.share_of(|operation| self.makes_durable(operation))
    }

    /// Share of the actors' time in operations on names and attributes, except those that also make
    /// them durable.
    pub fn metadata_share(&self) -> f64 {
        self.share_of(|operation| METADATA.contains(&operation) && !self.makes_durable(operation))
    }

    fn share_of(&self, is_meant: impl Fn(&str) -> bool) -> f64 {
        let mine = |(name, share): (&String, &f64)| is_meant(name).then_some(*share);
        self.actor_share
            .iter()
            .filter_map(mine)
            .fold(0.0, |a, b| a + b)
    }

    /// Returns the member that takes at least `FAR` times as long to answer as its peers, without
    /// being asked for more, in most of the runs that allow such a comparison.
    pub fn straggler(&self) -> Option<Straggler<'_>> {
        let ratio_of = |[own_s, peers_s]: [f64; 2]| own_s / peers_s.max(f64::MIN_POSITIVE);
        let typical = self.each.iter().filter_map(|member| {
            let runs = self.runs.iter();
            let runs = runs.filter_map(|run| beside_peers(&run.each, &member.name));
            let mut runs: Vec<[f64; 2]> = runs.collect();
            runs.sort_by(|a, b| ratio_of(*a).total_cmp(&ratio_of(*b)));
            // The lower median: most runs have at least its ratio.
            let typical = runs[runs.len().checked_sub(1)? / 2];
            Some((member, typical, ratio_of(typical)))
        });
        let (member, [answer_s, peers_s], ratio) = typical.max_by(|a, b| a.2.total_cmp(&b.2))?;
        (ratio >= FAR).then(|| Straggler {
            member,
            answer_s,
            peers_s,
            share: self.share_for(member, member.answer_s / ratio),
        })
    }

    /// Share of the actors' time spent waiting for this member, beyond their wait if it answered in
    /// `sound_s`.
    pub fn share_for(&self, member: &MemberFacts, sound_s: f64) -> f64 {
        let excess = 1.0 - sound_s / member.answer_s.max(f64::MIN_POSITIVE);
        let waiting = member.in_flight * excess;
        // Several requests of one operation block only one actor.
        let at_once = member.requests_per_s / self.operations_per_s.max(f64::MIN_POSITIVE);
        let actors = (waiting / at_once.max(1.0)).max(waiting.min(1.0));
        (member.busy * excess).min(actors / self.actors.max(1.0))
    }

    /// Lower bound for the mean number of actors that wait at members (Little's law).
    pub fn actors_at_members(&self) -> f64 {
        let in_flight: f64 = self.members.iter().map(|member| member.in_flight).sum();
        let requests: f64 = self
            .members
            .iter()
            .map(|member| member.requests_per_s)
            .sum();
        // An operation may issue several requests at once, but has one actor.
        let at_once = requests / self.operations_per_s.max(f64::MIN_POSITIVE);
        in_flight / at_once.max(1.0)
    }

    /// Lower bound for the mean number of actors accounted for: at members, on links, on a CPU, or
    /// waiting for a flush or a name. If it is far below the number of actors, the rest
    /// waits for resources without counters.
    pub fn actors_seen(&self) -> f64 {
        let elsewhere = self.actors * (self.sync_share() + self.metadata_share());
        let links: f64 = self.links.iter().filter_map(|link| link.busy).sum();
        self.actors_at_members() + links + self.cpu_busy * self.cpus + elsewhere
    }

    /// Returns the most used resource of the machine, with its name. `None` if a resource may be at
    /// its limit without showing it.
    pub fn busiest(&self) -> Option<(String, f64)> {
        if self.beside > BESIDE_MAX {
            return None;
        }
        let mut loads = vec![("the CPUs".to_owned(), self.cpu_busy)];
        // A thread that waits for a CPU is short of CPU time, not idle.
        loads.extend(
            self.threads
                .iter()
                .map(|thread| (thread.name.clone(), thread.ready())),
        );
        for member in &self.members {
            loads.push((member.name.clone(), member.load(self.direct)?));
        }
        for link in &self.links {
            loads.push((link.name.clone(), link.busy?));
        }
        loads.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Counters of one member over all repetitions.
#[derive(Default)]
struct Sums {
    busy_ns: f64,
    in_flight_ns: f64,
    flush_ns: Option<f64>,
    reads: f64,
    writes: f64,
    flushes: f64,
    read: f64,
    written: f64,
}

impl Sums {
    /// Sums the counters of runs, each with the time of its flushes, if that was counted.
    fn of(runs: impl Iterator<Item = (MemberUse, Option<u64>)>) -> Self {
        let mut sums = Self {
            flush_ns: Some(0.0),
            ..Self::default()
        };
        for (one, flush_ns) in runs {
            sums.busy_ns += to_f64(one.busy_ns);
            sums.in_flight_ns += to_f64(one.in_flight_ns);
            let flush_ns = flush_ns.map(to_f64);
            sums.flush_ns = sums.flush_ns.zip(flush_ns).map(|(sum, more)| sum + more);
            sums.reads += to_f64(one.requests.read);
            sums.writes += to_f64(one.requests.written);
            sums.flushes += to_f64(one.requests.flushed);
            sums.read += to_f64(one.bytes.read);
            sums.written += to_f64(one.bytes.written);
        }
        sums
    }

    fn member(&self, name: &str, window_ns: f64, alone: Option<MemberRate>) -> MemberFacts {
        let moving = self.reads + self.writes;
        let answers = moving + self.flushes;
        let mut member = MemberFacts {
            name: name.to_owned(),
            busy: self.busy_ns / window_ns,
            in_flight: self.in_flight_ns / window_ns,
            flushing: self.flush_ns.map(|ns| ns / window_ns),
            requests_per_s: moving / window_ns * 1e9,
            answers,
            kinds: [self.reads, self.writes, self.flushes],
            answer_s: self.in_flight_ns / 1e9 / answers.max(1.0),
            read_bytes_per_s: self.read / window_ns * 1e9,
            written_bytes_per_s: self.written / window_ns * 1e9,
            alone,
            rotational: false,
        };
        // A device that is faster than it was alone was calibrated at a bad moment.
        if member.refutes_alone() {
            member.alone = None;
        }
        member
    }
}

/// Removes duplicate names and keeps their order.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Duration of a run including its warm-up.
fn ran_ns(run: &Run) -> u64 {
    let warm_up_ns = run.series.as_ref().map_or(0, Series::warm_up_ns);
    run.elapsed_ns.saturating_add(warm_up_ns)
}

/// Length of the time that a run's counters cover.
fn watched_ns(run: &Run, evidence: &Evidence) -> f64 {
    to_f64(match evidence.window_ns {
        0 => run.elapsed_ns,
        window_ns => window_ns,
    })
}

/// The devices that carry a run: the known members, or else all devices.
fn carriers(evidence: &Evidence) -> impl Iterator<Item = &DeviceUse> {
    let any_member = evidence.devices.iter().any(|device| device.member);
    let devices = evidence.devices.iter();
    devices.filter(move |device| device.member || !any_member)
}

/// Bytes moved at the lowest layer that was counted, in the run without its warm-up. `None` if
/// nothing was counted.
fn moved(run: &Run) -> Option<Traffic> {
    let evidence = run
        .evidence
        .as_ref()
        .filter(|evidence| !evidence.devices.is_empty());
    let Some(evidence) = evidence else {
        let members =
            (!run.each_member.is_empty() || run.members.total() > 0).then_some(run.members);
        return run.devices.or(members);
    };
    let mut sum = Traffic::default();
    for device in carriers(evidence) {
        sum += device.bytes;
    }
    // The counters include the warm-up; assume that it moved bytes at the same rate.
    let part = |bytes: u64| {
        let scaled =
            u128::from(bytes) * u128::from(run.elapsed_ns) / u128::from(ran_ns(run).max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    Some(Traffic {
        read: part(sum.read),
        written: part(sum.written),
    })
}

/// Returns why no bottleneck can be found in a cell, if so.
fn not_sought(analysis: &Analysis, cell: &Cell, ran_ns: f64) -> Option<String> {
    let is_open =
        |workload: &&Workload| workload.name == cell.workload && workload.arrivals_per_s > 0;
    let is_open = analysis
        .experiment
        .workloads
        .iter()
        .any(|workload| is_open(&workload));
    if is_open && analysis.rate_was_set(cell) {
        return Some("operations arrived at a set rate, and most runs kept up".to_owned());
    }
    (ran_ns < SHORT_NS).then(|| {
        format!(
            "all repetitions together took {:.0} ms, too short for counters to show a bottleneck",
            ran_ns / 1e6
        )
    })
}

/// Bytes that a run left in memory when its clock stopped. The kernel counts dirty pages of the
/// whole machine. They are not the run's if it used direct I/O or flushed its writes, if they
/// exceed its writes, or if they settled almost at once.
fn waiting_bytes(run: &Run, evidence: &Evidence) -> f64 {
    let flushes = |operation: &&str| {
        run.latency.contains_key(*operation) || evidence.actor_ns.contains_key(*operation)
    };
    let cache = &evidence.cache;
    let at_once_ns = SETTLED_AT_ONCE * to_f64(run.elapsed_ns);
    let is_at_once = cache.settle_ns > 0 && to_f64(cache.settle_ns) < at_once_ns;
    if run.io.direct || SYNCS.iter().any(flushes) || is_at_once {
        return 0.0;
    }
    let more_dirty = to_f64(cache.dirty_after.saturating_sub(cache.dirty_before));
    let written = to_f64(run.application.written);
    // A small excess belongs to the file system.
    if more_dirty <= MORE_DIRTY * written {
        more_dirty.min(written)
    } else {
        0.0
    }
}

/// Returns true if a file system is mounted `sync`, as requested by the experiment or as found.
fn is_mounted_sync(system: &System) -> bool {
    let options = ["mount", System::MOUNTED].into_iter();
    let mut options = options.filter_map(|name| system.options.get(name));
    options.any(|text| text.split([',', ';', ' ']).any(|option| option == "sync"))
}

/// Lower bound for the bytes written for each byte of the workload: a code over n members that
/// survives any s losses needs at least n / (n − s) (Singleton bound). Missing members write
/// nothing.
fn write_amplification_min(system: &System) -> f64 {
    let data = system.members.saturating_sub(system.survives).max(1);
    let there = system.members.saturating_sub(system.missing);
    (f64::from(there) / f64::from(data)).max(1.0)
}

/// Finds the rates of a device alone: those of its name, of the only member it holds, or of its
/// position if the numbers match. A device with several members gets the highest rate measured,
/// on one member or on all together.
fn alone(calibration: &Calibration, name: &str, place: usize, of: usize) -> Option<MemberRate> {
    if let Some(known) = calibration.member(name) {
        return Some(known.clone());
    }
    let members = &calibration.members;
    let on_it: Vec<&MemberRate> = members
        .iter()
        .filter(|member| member.device == name)
        .collect();
    if let [only] = on_it[..] {
        return Some(only.clone());
    }
    if members.len() == of && members.iter().all(|member| member.device.is_empty()) {
        return members.get(place).cloned();
    }
    let most = |of: fn(&MemberRate) -> u64| members.iter().map(of).max();
    (of == 1).then_some(())?;
    Some(MemberRate {
        name: name.to_owned(),
        read_bytes_per_s: most(|rates| rates.read_bytes_per_s)?
            .max(calibration.together_bytes_per_s),
        write_bytes_per_s: most(|rates| rates.write_bytes_per_s)?,
        random_reads_per_s: most(|rates| rates.random_reads_per_s)?,
        ..MemberRate::default()
    })
}

/// Cells of a system whose workload is `alike`, with that workload.
fn alike<'a>(
    analysis: &'a Analysis,
    cell: &'a Cell,
    is_alike: impl Fn(&Workload, &Workload) -> bool + 'a,
) -> impl Iterator<Item = (&'a Workload, &'a Cell)> {
    let workload = move |name: &str| {
        let mut all = analysis.experiment.workloads.iter();
        all.find(|workload| workload.name == name)
    };
    let mine = workload(&cell.workload);
    let cells = analysis
        .cells
        .iter()
        .filter(|other| other.system == cell.system);
    cells.filter_map(move |other| {
        let (mine, other_workload) = (mine?, workload(&other.workload)?);
        is_alike(mine, other_workload).then_some((other_workload, other))
    })
}

fn same_but_for_size(a: &Workload, b: &Workload) -> bool {
    !a.kind.is_empty()
        && a.kind == b.kind
        && a.part.as_ref().map(|part| &part.phase) == b.part.as_ref().map(|part| &part.phase)
        && a.operation_bytes == b.operation_bytes
        && a.rate == b.rate
}

fn sweep(analysis: &Analysis, cell: &Cell) -> Vec<(f64, f64)> {
    let same = |a: &Workload, b: &Workload| {
        same_but_for_size(a, b) && a.in_flight_max == b.in_flight_max && b.size_bytes > 0
    };
    // The same work under another name is not another size.
    let mut sizes = BTreeSet::new();
    let own = |other: &Cell| other.workload == cell.workload;
    let mut all: Vec<_> = alike(analysis, cell, same).collect();
    all.sort_by_key(|(_, other)| !own(other));
    all.into_iter()
        .filter(|(workload, _)| sizes.insert(workload.size_bytes))
        .map(|(workload, cell)| (to_f64(workload.size_bytes), cell.geometric_mean))
        .filter(|(_, rate)| *rate > 0.0)
        .collect()
}

/// Compares with the nearest workload that has at least 1.5 times the actors.
fn more_actors(analysis: &Analysis, cell: &Cell) -> Option<(f64, f64)> {
    let same = |a: &Workload, b: &Workload| {
        same_but_for_size(a, b) && a.size_bytes == b.size_bytes && a.in_flight_max > 0
    };
    let mine = analysis.runs_of(cell).next()?.workload.in_flight_max;
    let others = alike(analysis, cell, same)
        .filter(|(workload, _)| f64::from(workload.in_flight_max) >= 1.5 * f64::from(mine))
        .filter(|(_, other)| other.geometric_mean > 0.0);
    let (workload, other) = others.min_by_key(|(workload, _)| workload.in_flight_max)?;
    Some((
        f64::from(workload.in_flight_max) / f64::from(mine),
        other.geometric_mean / cell.geometric_mean,
    ))
}

/// Rate of the same work without caches, from a trial. Otherwise from a system with the same
/// expression whose runs all bypassed the page cache or found it empty, if this cell's did not.
fn without_cache(analysis: &Analysis, cell: &Cell) -> Option<f64> {
    let tried = tried(&analysis.trials, &cell.system, &cell.workload);
    let tried = tried
        .iter()
        .find(|trial| trial.change == Intervention::WithoutCache);
    if let Some(tried) = tried {
        return Some(cell.geometric_mean * tried.log_ratio.value.exp());
    }
    let cold = |cell: &Cell| {
        analysis.runs_of(cell).all(|run| {
            let emptied = |evidence: &Evidence| evidence.cache.emptied;
            run.io.direct || run.evidence.as_ref().is_some_and(emptied)
        })
    };
    if cold(cell) {
        return None;
    }
    let first = |cell| analysis.runs_of(cell).next();
    let mine = first(cell)?;
    let mut others = analysis.cells.iter().filter(|other| {
        first(other).is_some_and(|other| {
            let same_size = mine.workload.size_bytes == other.workload.size_bytes;
            let same = same_but_for_size(&mine.workload, &other.workload) && same_size;
            same && mine.system.expression == other.system.expression
        }) && cold(other)
    });
    others
        .next()
        .map(|other| other.geometric_mean)
        .filter(|&rate| rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkUse;

    #[test]
    fn changes_on_a_sync_mount_count_as_flushes() {
        let system = |name: &str, value: &str| System {
            options: [(name.to_owned(), value.to_owned())].into(),
            ..System::default()
        };
        assert!(is_mounted_sync(&system("mount", "noinit_itable,sync")));
        assert!(is_mounted_sync(&system(
            System::MOUNTED,
            "ext4 rw,sync,relatime; rw"
        )));
        assert!(!is_mounted_sync(&system("mount", "dirsync,nosync")));
        assert!(!is_mounted_sync(&System::default()));
        let shares = [
            ("create", 0.4),
            ("open", 0.1),
            ("fsync", 0.2),
            ("read", 0.3),
        ];
        let mut facts = Facts {
            actor_share: shares.map(|(name, share)| (name.to_owned(), share)).into(),
            ..Facts::default()
        };
        let of = |facts: &Facts| format!("{:.1} {:.1}", facts.sync_share(), facts.metadata_share());
        assert_eq!(of(&facts), "0.2 0.5");
        facts.mounted_sync = true;
        assert_eq!(of(&facts), "0.6 0.1");
    }

    /// Load of a link that received or sent this many of 1000 bytes per second, with its queue
    /// shaping to that rate.
    fn busy(received: u64, sent: u64, sent_bits_per_s: Option<u64>) -> Option<f64> {
        let evidence = Evidence {
            links: vec![LinkUse {
                name: "eth0".to_owned(),
                bits_per_s: Some(8000),
                sent_bits_per_s,
                received,
                sent,
                ..LinkUse::default()
            }],
            ..Evidence::default()
        };
        let mut facts = Facts::default();
        facts.add_links(&[(&Run::default(), &evidence)], 1e9);
        facts.links[0].busy
    }

    /// Bytes left in memory of 100 written, with this many more dirty bytes in each run.
    fn waiting(more_dirty: &[u64], change: fn(&mut Run, &mut Evidence)) -> (f64, f64) {
        let one = |&more_dirty: &u64| {
            let (mut run, mut evidence) = (Run::default(), Evidence::default());
            run.application.written = 100;
            evidence.cache.dirty_before = 1000;
            evidence.cache.dirty_after = 1000 + more_dirty;
            change(&mut run, &mut evidence);
            (run, evidence)
        };
        let runs: Vec<(Run, Evidence)> = more_dirty.iter().map(one).collect();
        let runs: Vec<(&Run, &Evidence)> =
            runs.iter().map(|(run, evidence)| (run, evidence)).collect();
        let mut facts = Facts::default();
        facts.add_bytes(&runs);
        (facts.waiting_bytes, facts.waiting_share)
    }

    #[test]
    fn waiting_bytes_are_computed_for_one_run() {
        assert_eq!(waiting(&[60, 70, 80], |_, _| {}), (70.0, 0.7));
        assert_eq!(waiting(&[105], |_, _| {}), (100.0, 1.0));
        // These belong to other programs.
        assert_eq!(waiting(&[300], |_, _| {}), (0.0, 0.0));
        assert_eq!(waiting(&[60], |run, _| run.io.direct = true), (0.0, 0.0));
        // The run made its writes durable.
        let flushes = |_: &mut Run, evidence: &mut Evidence| {
            evidence.actor_ns.insert("fsync".to_owned(), 1);
        };
        assert_eq!(waiting(&[60], flushes), (0.0, 0.0));
        // The file system is mounted `sync`: everything was on the devices at once.
        let settled = |run: &mut Run, evidence: &mut Evidence| {
            run.elapsed_ns = 1_000_000;
            evidence.cache.settle_ns = 9_999;
        };
        assert_eq!(waiting(&[60], settled), (0.0, 0.0));
        let settles = |run: &mut Run, evidence: &mut Evidence| {
            run.elapsed_ns = 1_000_000;
            evidence.cache.settle_ns = 10_000;
        };
        assert_eq!(waiting(&[60], settles), (60.0, 0.6));
    }

    #[test]
    fn a_queue_limits_only_sent_traffic() {
        assert_eq!(busy(900, 10, None), Some(0.9));
        assert_eq!(busy(900, 10, Some(800)), Some(0.9));
        assert_eq!(busy(10, 95, Some(800)), Some(0.95));
        // A burst passed the queue.
        assert_eq!(busy(0, 500, Some(800)), None);
    }
}
