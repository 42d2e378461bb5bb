//! What was seen of the machine while a run was timed: the evidence from which it is said whether a
//! cache answered, and what the bottleneck was. All of it is raw: differences of counters between the
//! begin and the end of the timed window. What can't be read is left empty.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::to_f64;

/// What was seen in the timed window of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// Those who ask: threads or state machines that each wait for one answer at a time.
    pub actors: u32,
    /// How long the counters were watched, where that is longer than the run's `elapsed_ns`: a warm-up is in
    /// it, and what comes right before and after. 0: as long.
    pub window_ns: u64,
    /// Time that all actors together spent, in nanoseconds, by operation: `read`, `fsync`, `think`,
    /// `wait` (for another actor). Their sum is at most `actors` times the window.
    pub actor_ns: BTreeMap<String, u64>,
    /// CPU time of the threads that took part, the busiest first, at most [`THREADS_MAX`].
    pub threads: Vec<ThreadUse>,
    /// The block devices beneath, members first, in the order of the expression.
    pub devices: Vec<DeviceUse>,
    /// The members of an array and the device of its journal, as the array's driver counts them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberUse>,
    /// The network interfaces that carried it.
    pub links: Vec<LinkUse>,
    /// What the page cache held and did.
    pub cache: CacheUse,
    /// What the kernel counted for the threads that ask, where they are of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// So many threads are kept.
pub const THREADS_MAX: usize = 8;

/// CPU time of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadUse {
    /// Whose: `actor 3`, `engine`, `kworker/…`.
    pub name: String,
    /// In user space and in the kernel.
    pub cpu_ns: u64,
    /// Time in which it could have run and waited for a CPU: others had them all, or a limit on CPU time was
    /// used up (the run delay of `/proc/PID/task/TID/schedstat`). `None`: not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
}

/// What the kernel counted for the threads that ask, as `getrusage` says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// CPU time in user space.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// Blocks of 512 bytes read from devices on their behalf.
    pub blocks_in: u64,
    /// Blocks of 512 bytes written to devices on their behalf.
    pub blocks_out: u64,
    /// How often one waited, and gave its CPU away.
    pub voluntary_switches: u64,
    /// How often the CPU was taken from one.
    pub involuntary_switches: u64,
    /// Page faults for which something was read.
    pub major_faults: u64,
}

/// What one block device did, as `/proc/diskstats` counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceUse {
    /// Kernel name: `sda`; of a simulated one its own.
    pub name: String,
    /// Whether it is a member of the array; else it carries one, or everything.
    pub member: bool,
    /// Time in which at least one request was in flight.
    pub busy_ns: u64,
    /// Time that all requests together were in flight, flushes included: its ratio to the window is the
    /// mean queue.
    pub queue_ns: u64,
    /// Time in which flushes were in flight; not part of `busy_ns`. `None`: not counted (Linux before 5.5).
    pub flush_ns: Option<u64>,
    /// Requests that read, and that wrote.
    pub requests: Requests,
    /// Bytes that they moved.
    pub bytes: crate::Traffic,
}

/// What one member did, as the driver of its array counts. Unlike [`DeviceUse`] it is known of every kind of member,
/// such as exports of other machines and several files on one disk, and other programs don't add to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberUse {
    /// As the target names it: `/dev/sdb`, `nbd://host/export`.
    pub name: String,
    /// Time in which at least one request was in flight, flushes included.
    pub busy_ns: u64,
    /// Time that all requests together were in flight.
    pub in_flight_ns: u64,
    /// Requests that read, wrote or discarded, and flushed.
    pub requests: Requests,
    /// Bytes that they moved.
    pub bytes: crate::Traffic,
    /// Requests that failed.
    pub errors: u64,
}

/// How many requests there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// Of reads.
    pub read: u64,
    /// Of writes.
    pub written: u64,
    /// Of flushes.
    pub flushed: u64,
}

/// What one network interface carried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkUse {
    /// Its name: `eth0`.
    pub name: String,
    /// What it can carry in one direction, bits per second; `None`: unknown.
    pub bits_per_s: Option<u64>,
    /// To how much its queue shapes what it sends; what it receives is not held by it. `None`: it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bits_per_s: Option<u64>,
    /// Bytes that came in.
    pub received: u64,
    /// Bytes that went out.
    pub sent: u64,
    /// How often its queue held a packet back to keep to its rate.
    pub overlimits: u64,
    /// Packets that it dropped.
    pub drops: u64,
    /// TCP segments that had to be sent again.
    pub retransmits: u64,
    /// Time in which TCP had something to send, of all connections of the run.
    pub tcp_busy_ns: u64,
    /// The part of it in which the receiver had no room.
    pub receive_window_ns: u64,
    /// The part of it in which the sender's buffer was too small.
    pub send_buffer_ns: u64,
}

/// What the page cache held and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheUse {
    /// Bytes written but not yet on a device (`Dirty` and `Writeback`) when the window began.
    pub dirty_before: u64,
    /// The same when it ended.
    pub dirty_after: u64,
    /// How much of the files was in memory when the window began, in thousandths; `None`: unknown.
    pub resident_permille: Option<u32>,
    /// Bytes of the files or of the part of the target that the workload works on.
    pub file_bytes: u64,
    /// Memory that could hold them: what is available, or the limit of the control group.
    pub memory_bytes: u64,
    /// How long it took after the window until everything written was on the devices; 0: it was not waited for, as the
    /// next phase goes on with it.
    pub settle_ns: u64,
    /// Whether caches were emptied before the window.
    pub emptied: bool,
}

/// What the parts can do by themselves, measured before the first run: what a figure is held against.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Calibration {
    /// Each member alone.
    pub members: Vec<MemberRate>,
    /// All members at once, reading in order: bytes per second together.
    pub together_bytes_per_s: u64,
    /// Copying memory, one thread, bytes per second.
    pub copy_bytes_per_s: u64,
    /// The workload on a target that does nothing, per second of what it counts: the harness's
    /// ceiling, by the name of the workload.
    pub ceilings: BTreeMap<String, f64>,
}

impl Calibration {
    /// What the member of that name does alone.
    pub fn member(&self, name: &str) -> Option<&MemberRate> {
        self.members.iter().find(|it| it.name == name)
    }
}

/// What one member can do by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberRate {
    /// Its name.
    pub name: String,
    /// 1 MiB after 1 MiB, bytes per second.
    pub read_bytes_per_s: u64,
    /// The same writing; 0 where nothing may be written.
    pub write_bytes_per_s: u64,
    /// 4 KiB at random places, one at a time, per second.
    pub random_reads_per_s: u64,
    /// Kernel name of the physical device that holds it; empty: unknown, or none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Why a rate is missing that was to be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What happened as time passed, in slots of equal length from the begin of the run, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// Length of a slot.
    pub slot_ns: u64,
    /// So many slots at the begin are warm-up: they are shown, and no other figure of the run has them.
    pub warm_up_slots: u32,
    /// The slots.
    pub slots: Vec<Slot>,
}

impl Series {
    /// Adds what another one that began at the same time counted, slot by slot. The shorter slots are joined
    /// to the length of the longer ones; where that is no multiple, what lies across a slot's end goes to
    /// the slot in which it began.
    pub fn add(&mut self, other: &Self) {
        if self.slot_ns < other.slot_ns {
            let mine = std::mem::replace(
                self,
                Self {
                    slot_ns: other.slot_ns,
                    ..Self::default()
                },
            );
            self.warm_up_slots = other.warm_up_slots;
            self.add(&mine);
        }
        for (number, slot) in (0_u64..).zip(&other.slots) {
            let begin_ns = number.saturating_mul(other.slot_ns);
            let at = usize::try_from(begin_ns / self.slot_ns.max(1)).unwrap_or(usize::MAX);
            if self.slots.len() <= at {
                self.slots.resize_with(at + 1, Slot::default);
            }
            self.slots[at].add(slot);
        }
    }

    /// What was completed in each slot, a second.
    pub fn per_second(&self, rate: crate::Rate) -> Vec<f64> {
        let slots = self.slots.iter().map(|slot| match rate {
            crate::Rate::Bytes => slot.bytes.total(),
            crate::Rate::Operations => slot.operations,
        });
        let seconds = to_f64(self.slot_ns.max(1)) / 1e9;
        slots.map(|amount| to_f64(amount) / seconds).collect()
    }

    /// The same of the slots after the warm-up.
    pub fn after_warm_up(&self, rate: crate::Rate) -> Vec<f64> {
        let warm_up = usize::try_from(self.warm_up_slots).unwrap_or(usize::MAX);
        self.per_second(rate).into_iter().skip(warm_up).collect()
    }

    /// How long the warm-up took.
    pub fn warm_up_ns(&self) -> u64 {
        self.slot_ns.saturating_mul(self.warm_up_slots.into())
    }
}

/// What was completed in one slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slot {
    /// Operations.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: crate::Traffic,
    /// Latencies: pairs of a power of two and how many operations took at least that many
    /// nanoseconds and less than twice as many.
    pub latency: Vec<(u8, u64)>,
}

impl Slot {
    fn add(&mut self, other: &Self) {
        self.operations = self.operations.saturating_add(other.operations);
        self.bytes.read = self.bytes.read.saturating_add(other.bytes.read);
        self.bytes.written = self.bytes.written.saturating_add(other.bytes.written);
        let mut latency: BTreeMap<u8, u64> = self.latency.drain(..).collect();
        for (power, count) in &other.latency {
            *latency.entry(*power).or_default() += count;
        }
        self.latency = latency.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(slot_ns: u64, operations: &[u64]) -> Series {
        let slots = operations.iter().map(|&operations| Slot {
            operations,
            latency: vec![(10, operations)],
            ..Slot::default()
        });
        Series {
            slot_ns,
            slots: slots.collect(),
            ..Series::default()
        }
    }

    #[test]
    fn series_that_began_together_are_added_slot_by_slot() {
        let operations = |series: &Series| {
            let slots = series.slots.iter();
            slots.map(|slot| slot.operations).collect::<Vec<_>>()
        };
        let mut all = Series::default();
        all.add(&series(10, &[1, 2, 3, 4, 5]));
        assert_eq!(operations(&all), [1, 2, 3, 4, 5]);
        all.add(&series(20, &[10, 20]));
        assert_eq!((all.slot_ns, operations(&all)), (20, vec![13, 27, 5]));
        all.add(&series(10, &[100, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(operations(&all), [113, 27, 5, 1]);
        assert_eq!(all.slots[0].latency, [(10, 113)]);
    }
}
