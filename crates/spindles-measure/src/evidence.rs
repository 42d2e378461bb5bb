//! Observations of the machine during a run's timed window, from which cache and bottleneck
//! verdicts are drawn. They are raw: differences of counters between the start and the end of the
//! window. Fields that could not be read stay empty.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::to_f64;

/// Observations of one run's timed window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// Number of actors: threads or state machines that each wait for one answer at a time.
    pub actors: u32,
    /// Length of the counters' window if it is longer than the run's `elapsed_ns`: it then includes
    /// the warm-up and the moments before and after. 0 if both are equal.
    pub window_ns: u64,
    /// Time that all actors together spent in each operation, in nanoseconds: `read`, `fsync`,
    /// `think`, `wait` (for another actor). The sum is at most `actors` times the window.
    pub actor_ns: BTreeMap<String, u64>,
    /// CPU time of the threads that took part, the busiest first, at most [`THREADS_MAX`].
    pub threads: Vec<ThreadUse>,
    /// Underlying block devices: members first, in the order of the expression.
    pub devices: Vec<DeviceUse>,
    /// The members of an array and its journal device, as counted by the array's driver.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberUse>,
    /// Network interfaces that carried the traffic.
    pub links: Vec<LinkUse>,
    /// State and activity of the page cache.
    pub cache: CacheUse,
    /// Kernel counters of the actors' threads, if they belong to one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// At most this many threads are kept.
pub const THREADS_MAX: usize = 8;

/// CPU time of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadUse {
    /// Name of the thread: `actor 3`, `engine`, `kworker/…`.
    pub name: String,
    /// CPU time in user space and in the kernel.
    pub cpu_ns: u64,
    /// Time in which the thread was runnable but waited for a CPU, because others used them all or
    /// a CPU limit was used up. This is the run delay of `/proc/PID/task/TID/schedstat`. `None` if
    /// not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
}

/// Kernel counters of the actors' threads, as in `getrusage`.
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
    /// Voluntary context switches: a thread waited and gave up its CPU.
    pub voluntary_switches: u64,
    /// Involuntary context switches: the kernel took the CPU away.
    pub involuntary_switches: u64,
    /// Page faults that required I/O.
    pub major_faults: u64,
}

/// Activity of one block device, as counted in `/proc/diskstats`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceUse {
    /// Kernel name, such as `sda`. A simulated device has a name of its own.
    pub name: String,
    /// True if it is a member of the array; otherwise it carries a member, or everything.
    pub member: bool,
    /// Time in which at least one request was in flight.
    pub busy_ns: u64,
    /// Sum of the times in flight of all requests, flushes included. Its ratio to the window is the
    /// mean queue length.
    pub queue_ns: u64,
    /// Time in which flushes were in flight; not part of `busy_ns`. `None` if not counted (Linux
    /// before 5.5).
    pub flush_ns: Option<u64>,
    /// Reads, writes and flushes.
    pub requests: Requests,
    /// Bytes moved by these requests.
    pub bytes: crate::Traffic,
}

/// Activity of a member, counted by the driver of the array. Unlike [`DeviceUse`], it covers every
/// kind of member, such as exports of other machines and several files on one disk. Other programs
/// don't add to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberUse {
    /// Name that the target gives it: `/dev/sdb`, `nbd://host/export`.
    pub name: String,
    /// Time in which at least one request was in flight, flushes included.
    pub busy_ns: u64,
    /// Sum of the times in flight of all requests.
    pub in_flight_ns: u64,
    /// Requests: reads, writes or discards, and flushes.
    pub requests: Requests,
    /// Bytes moved by these requests.
    pub bytes: crate::Traffic,
    /// Requests that failed.
    pub errors: u64,
    /// Requests that a paced device did later than its model allows.
    #[serde(default, skip_serializing_if = "crate::record::is_zero")]
    pub late: u64,
    /// Where the time of its requests went; `None` unless it is a modelled disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<MemberTime>,
}

/// Where the time of a modelled disk's requests went, summed over all of them, in nanoseconds.
/// Seek, rotation and transfer include writes after their answer, so the sum of all may exceed the
/// response times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberTime {
    /// Requests answered.
    pub requests: u64,
    /// Response times.
    pub response_ns: u64,
    /// Time with at least one request in flight.
    pub busy_ns: u64,
    /// Waits for other requests of the same disk.
    pub queue_ns: u64,
    /// Moves of the arm and changes of the head.
    pub seek_ns: u64,
    /// Waits for a sector to pass.
    pub rotation_ns: u64,
    /// Sectors passing under the head.
    pub transfer_ns: u64,
    /// Commands and data on links, waits for them included.
    pub link_ns: u64,
    /// Electronics of the disk.
    pub overhead_ns: u64,
}

impl MemberTime {
    /// Combines the fields of two accounts.
    #[must_use]
    pub fn with(&self, other: &Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            requests: of(self.requests, other.requests),
            response_ns: of(self.response_ns, other.response_ns),
            busy_ns: of(self.busy_ns, other.busy_ns),
            queue_ns: of(self.queue_ns, other.queue_ns),
            seek_ns: of(self.seek_ns, other.seek_ns),
            rotation_ns: of(self.rotation_ns, other.rotation_ns),
            transfer_ns: of(self.transfer_ns, other.transfer_ns),
            link_ns: of(self.link_ns, other.link_ns),
            overhead_ns: of(self.overhead_ns, other.overhead_ns),
        }
    }
}

impl From<DeviceUse> for MemberUse {
    fn from(device: DeviceUse) -> Self {
        Self {
            name: device.name,
            busy_ns: device.busy_ns,
            in_flight_ns: device.queue_ns,
            requests: device.requests,
            bytes: device.bytes,
            errors: 0,
            late: 0,
            time: None,
        }
    }
}

/// Numbers of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// Reads.
    pub read: u64,
    /// Writes.
    pub written: u64,
    /// Flushes.
    pub flushed: u64,
}

/// Traffic of one network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkUse {
    /// Name of the interface, such as `eth0`.
    pub name: String,
    /// Capacity in one direction, in bits per second. `None` if unknown.
    pub bits_per_s: Option<u64>,
    /// Rate to which its queue shapes outgoing traffic, in bits per second; incoming traffic is not
    /// limited by it. `None` if it does not shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bits_per_s: Option<u64>,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Times that its queue delayed a packet to keep to its rate.
    pub overlimits: u64,
    /// Packets dropped.
    pub drops: u64,
    /// TCP segments retransmitted.
    pub retransmits: u64,
    /// Time in which TCP had data to send, over all connections of the run.
    pub tcp_busy_ns: u64,
    /// Part of `tcp_busy_ns` in which the receiver's window was full.
    pub receive_window_ns: u64,
    /// Part of `tcp_busy_ns` in which the sender's buffer was too small.
    pub send_buffer_ns: u64,
}

/// State and activity of the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheUse {
    /// Bytes written but not yet on a device (`Dirty` and `Writeback`) when the window began.
    pub dirty_before: u64,
    /// The same when it ended.
    pub dirty_after: u64,
    /// Share of the files that was in memory when the window began, in thousandths. `None` if
    /// unknown.
    pub resident_permille: Option<u32>,
    /// Bytes of the files, or of the part of the target, that the workload uses.
    pub file_bytes: u64,
    /// Memory that could hold them: the available memory, or the limit of the control group.
    pub memory_bytes: u64,
    /// Time after the window until all written data was on the devices. 0 if it was not waited for,
    /// because the next phase continues with it.
    pub settle_ns: u64,
    /// True if the caches were emptied before the window.
    pub emptied: bool,
}

/// Limits of the single components, measured before the first run. Results are compared with them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Calibration {
    /// Rates of each member alone.
    pub members: Vec<MemberRate>,
    /// Sequential reads of all members at once: bytes per second together.
    pub together_bytes_per_s: u64,
    /// Memory copy by one thread, bytes per second.
    pub copy_bytes_per_s: u64,
    /// The harness's ceiling by name of the workload: its rate per second on a target that does
    /// nothing.
    pub ceilings: BTreeMap<String, f64>,
}

impl Calibration {
    /// Returns the rates of the member of that name.
    pub fn member(&self, name: &str) -> Option<&MemberRate> {
        self.members.iter().find(|member| member.name == name)
    }
}

/// Rates of one member alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MemberRate {
    /// Name of the member.
    pub name: String,
    /// Sequential reads of 1 MiB, bytes per second.
    pub read_bytes_per_s: u64,
    /// Sequential writes of 1 MiB, bytes per second. 0 if writing is not allowed.
    pub write_bytes_per_s: u64,
    /// Random reads of 4 KiB, one at a time, per second.
    pub random_reads_per_s: u64,
    /// Kernel name of the physical device that holds it. Empty if unknown or if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Why a rate could not be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The run over time, in slots of equal length from the start of the run, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// Length of a slot.
    pub slot_ns: u64,
    /// Number of slots at the start that are warm-up. They are shown, but count in no other figure
    /// of the run.
    pub warm_up_slots: u32,
    /// The slots.
    pub slots: Vec<Slot>,
}

impl Series {
    /// Adds another series that began at the same time, slot by slot. Shorter slots are merged into
    /// the longer ones. If the lengths don't divide evenly, a slot that crosses a boundary counts
    /// in the slot in which it began.
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

    /// Rate per second in each slot.
    pub fn per_second(&self, rate: crate::Rate) -> Vec<f64> {
        let slots = self.slots.iter().map(|slot| match rate {
            crate::Rate::Bytes => slot.bytes.total(),
            crate::Rate::Operations => slot.operations,
        });
        let seconds = to_f64(self.slot_ns.max(1)) / 1e9;
        slots.map(|amount| to_f64(amount) / seconds).collect()
    }

    /// Rate per second in each slot after the warm-up.
    pub fn after_warm_up(&self, rate: crate::Rate) -> Vec<f64> {
        let warm_up = usize::try_from(self.warm_up_slots).unwrap_or(usize::MAX);
        self.per_second(rate).into_iter().skip(warm_up).collect()
    }

    /// Duration of the warm-up.
    pub fn warm_up_ns(&self) -> u64 {
        self.slot_ns.saturating_mul(self.warm_up_slots.into())
    }
}

/// Operations completed in one slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slot {
    /// Operations.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: crate::Traffic,
    /// Latencies as pairs: a power of two, and the number of operations that took at least that
    /// many nanoseconds and less than twice as many.
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
    fn concurrent_series_are_added_slot_by_slot() {
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
