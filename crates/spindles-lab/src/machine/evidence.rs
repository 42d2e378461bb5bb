//! Evidence about the machine during a timed run: counters of the kernel before and after it.

use crate::machine::clock::{self, ThreadTime};
use crate::machine::device_counters::{device_use, stat_of};
use crate::machine::kernel_text::{kib_of, read};
use crate::machine::own_counters::OwnCounters;
use spindles_measure::{
    CacheUse, DeviceUse, Evidence, MemberUse, Requests, THREADS_MAX, ThreadUse,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// The physical device of members in memory, which has no counters.
pub(crate) const MEMORY: &str = "memory";

/// The devices and processes whose counters are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    /// Kernel names of block devices, and whether each is a member.
    pub(crate) devices: BTreeSet<(String, bool)>,
    /// Processes besides this one that carry the I/O, such as a server.
    pub(crate) processes: Vec<u32>,
    /// Counters of the members that no other program adds to. `None`: the counters of
    /// the member devices are used, to which other programs may add.
    pub(crate) own: Option<OwnCounters>,
}

/// Counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    at: Instant,
    devices: Vec<DeviceUse>,
    /// One entry for each member.
    members: Vec<MemberUse>,
    /// One entry for each thread, by process and thread id.
    threads: BTreeMap<(u32, u32), (String, ThreadTime)>,
    dirty: u64,
}

impl Watched {
    /// Reads the counters.
    pub(crate) fn now(&self) -> Counters {
        let devices = self.devices.iter();
        let devices = devices.map(|(name, member)| device_use(name, *member, &stat_of(name)));
        let devices: Vec<DeviceUse> = devices.collect();
        let members = if let Some(own) = &self.own {
            own.now()
        } else {
            let members = devices.iter().filter(|device| device.member);
            members.map(|device| device.clone().into()).collect()
        };
        let threads = self
            .processes
            .iter()
            .flat_map(|process| threads_of(*process));
        let meminfo = read("/proc/meminfo");
        Counters {
            at: Instant::now(),
            devices,
            members,
            threads: threads.collect(),
            dirty: kib_of(&meminfo, "Dirty") + kib_of(&meminfo, "Writeback"),
        }
    }
}

impl Counters {
    /// Returns the CPU time that the watched processes used since `earlier`.
    pub(crate) fn cpu_ns_since(&self, earlier: &Self) -> u64 {
        self.threads_since(earlier)
            .map(|thread| thread.cpu_ns)
            .sum()
    }

    /// Returns the activity of each member since `earlier`.
    pub(crate) fn members_since(&self, earlier: &Self) -> Vec<MemberUse> {
        members_since(&self.members, &earlier.members)
    }

    fn threads_since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = ThreadUse> + 'a {
        self.threads.iter().map(|(id, (name, now))| {
            // A thread born since then starts at zero.
            let born = ThreadTime::parse("0 0");
            let before = earlier.threads.get(id).map_or(born, |(_, before)| *before);
            now.used_since(before, name.clone())
        })
    }

    /// Returns what happened since `earlier`. `actors` are the threads of the workload.
    pub(crate) fn since(&self, earlier: &Self, actors: Vec<ThreadUse>) -> Evidence {
        let devices = self.devices.iter().zip(&earlier.devices);
        let mut threads = actors;
        threads.extend(self.threads_since(earlier));
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.cpu_ns));
        threads.truncate(THREADS_MAX);
        let meminfo = read("/proc/meminfo");
        Evidence {
            window_ns: clock::duration_ns(self.at - earlier.at),
            threads,
            devices: devices
                .map(|(now, before)| used_since(now, before))
                .collect(),
            members: self.members_since(earlier),
            cache: CacheUse {
                dirty_before: earlier.dirty,
                dirty_after: self.dirty,
                memory_bytes: kib_of(&meminfo, "MemAvailable"),
                ..CacheUse::default()
            },
            ..Evidence::default()
        }
    }
}

fn used_since(now: &DeviceUse, before: &DeviceUse) -> DeviceUse {
    let less = u64::saturating_sub;
    DeviceUse {
        name: now.name.clone(),
        member: now.member,
        busy_ns: less(now.busy_ns, before.busy_ns),
        queue_ns: less(now.queue_ns, before.queue_ns),
        flush_ns: (now.flush_ns.zip(before.flush_ns)).map(|(now, before)| less(now, before)),
        requests: requests_since(now.requests, before.requests),
        bytes: now.bytes.since(before.bytes),
    }
}

/// Returns what each member did between two readings.
pub(crate) fn members_since(now: &[MemberUse], before: &[MemberUse]) -> Vec<MemberUse> {
    let less = u64::saturating_sub;
    let members = now.iter().zip(before);
    let since = members.map(|(now, before)| MemberUse {
        name: now.name.clone(),
        busy_ns: less(now.busy_ns, before.busy_ns),
        in_flight_ns: less(now.in_flight_ns, before.in_flight_ns),
        requests: requests_since(now.requests, before.requests),
        bytes: now.bytes.since(before.bytes),
        errors: less(now.errors, before.errors),
        late: less(now.late, before.late),
        time: (now.time.zip(before.time)).map(|(now, before)| now.with(&before, less)),
    });
    since.collect()
}

fn requests_since(now: Requests, before: Requests) -> Requests {
    Requests {
        read: now.read.saturating_sub(before.read),
        written: now.written.saturating_sub(before.written),
        flushed: now.flushed.saturating_sub(before.flushed),
    }
}

/// Returns the CPU times of every thread of a process, by process and thread id.
fn threads_of(process: u32) -> Vec<((u32, u32), (String, ThreadTime))> {
    let tasks = PathBuf::from(format!("/proc/{process}/task"));
    let Ok(entries) = fs::read_dir(&tasks) else {
        return Vec::new();
    };
    let numbers = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    numbers
        .map(|thread| {
            let of = |file: &str| read(tasks.join(thread.to_string()).join(file));
            let time = ThreadTime::parse(&of("schedstat"));
            ((process, thread), (of("comm"), time))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_counters_are_parsed() {
        let stat = "  5 0 8 1 7 0 16 2 0 30 40 0 0 0 0 3 9";
        let used = device_use("sda", true, stat);
        assert_eq!((used.busy_ns, used.queue_ns), (30_000_000, 40_000_000));
        assert_eq!((used.requests.flushed, used.flush_ns), (3, Some(9_000_000)));
        assert_eq!(used.bytes.written, 8192);
        let own = threads_of(std::process::id());
        assert!(
            own.iter().any(|(_, (_, thread))| thread.cpu_ns > 0),
            "{own:?}"
        );
    }

    #[test]
    fn usage_is_the_difference_of_two_counters() {
        let watched = Watched {
            devices: BTreeSet::new(),
            processes: vec![std::process::id()],
            own: None,
        };
        let before = watched.now();
        let mut sum = 0_u64;
        for round in 0..50_000_000_u64 {
            sum = std::hint::black_box(sum ^ round);
        }
        let after = watched.now();
        assert!(after.cpu_ns_since(&before) > 1_000_000);
        let actor = ThreadUse {
            name: "actor 0".to_owned(),
            cpu_ns: u64::MAX,
            run_delay_ns: None,
        };
        let evidence = after.since(&before, vec![actor]);
        assert_eq!(evidence.threads[0].name, "actor 0");
        assert!(evidence.threads[1].run_delay_ns.is_some(), "{evidence:?}");
        assert!(evidence.cache.memory_bytes > 0);
    }
}
