//! Clocks: wall time, CPU time of the process, and CPU time of the machine from /proc/stat.

use crate::machine::kernel_text::read;
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use spindles_block::Instant;
use spindles_measure::ThreadUse;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Carries out `work`. Returns its result and the nanoseconds of wall time that it took.
pub(crate) fn timed<R>(work: impl FnOnce() -> R) -> (R, u64) {
    let began = std::time::Instant::now();
    let result = work();
    (result, duration_ns(began.elapsed()))
}

/// Returns the CPU time of all threads of this process in nanoseconds, kernel I/O workers on its
/// behalf included.
fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

/// Returns the CPU time of this thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU time of one thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadTime {
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time ready to run but waiting for a CPU; `None` if the kernel does not count it.
    pub run_delay_ns: Option<u64>,
}

impl ThreadTime {
    /// Reads the times of this thread.
    pub(crate) fn now() -> Self {
        Self {
            // The kernel updates schedstat of a running thread only at each tick.
            cpu_ns: thread_cpu_ns(),
            ..Self::parse(&read("/proc/thread-self/schedstat"))
        }
    }

    /// Parses `/proc/PID/task/TID/schedstat`: nanoseconds on a CPU, nanoseconds waiting for one,
    /// how often.
    pub(crate) fn parse(schedstat: &str) -> Self {
        let mut figures = schedstat
            .split_ascii_whitespace()
            .map(|figure| figure.parse().ok());
        Self {
            cpu_ns: figures.next().flatten().unwrap_or(0),
            run_delay_ns: figures.next().flatten(),
        }
    }

    /// Returns what a thread of this name used since `earlier`.
    pub(crate) fn used_since(self, earlier: Self, name: String) -> ThreadUse {
        let delay = self.run_delay_ns.zip(earlier.run_delay_ns);
        ThreadUse {
            name,
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            run_delay_ns: delay.map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

/// Returns the time of the real clock.
pub(crate) fn now() -> Instant {
    spindles_device::Clock::Real.now()
}

/// Returns milliseconds since 1970, UTC.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    to_u64(since.unwrap_or(Duration::ZERO).as_millis())
}

/// Returns the resolution of the clock that times the runs.
pub(crate) fn resolution_ns() -> u64 {
    nanoseconds(clock_getres(ClockId::Monotonic))
}

pub(crate) fn duration_ns(duration: Duration) -> u64 {
    to_u64(duration.as_nanos())
}

/// Converts an amount in `ns` nanoseconds to a rate per second.
pub(crate) fn per_second(amount: u64, ns: u64) -> u64 {
    let second = u128::from(amount) * 1_000_000_000;
    let rate = second.checked_div(u128::from(ns)).unwrap_or(0);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

fn to_u64(value: u128) -> u64 {
    u64::try_from(value).expect("within 584 years")
}

fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).expect("CPU clocks start at 0");
    let rest = u64::try_from(time.tv_nsec).expect("below a second");
    seconds * 1_000_000_000 + rest
}

/// CPU times at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    /// CPU time of the process.
    pub process_ns: u64,
    /// CPU time of the machine.
    pub machine: MachineTicks,
}

impl Clocks {
    /// Reads the clocks.
    pub(crate) fn now() -> Self {
        Self {
            process_ns: process_cpu_ns(),
            machine: MachineTicks::now(),
        }
    }
}

/// Time of all CPUs of the machine since it booted, in ticks of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineTicks {
    /// In user space, the kernel and interrupts.
    pub busy: u64,
    /// Idle or waiting for I/O.
    pub idle: u64,
    /// Wanted by this machine but given to another by the hypervisor.
    pub steal: u64,
}

/// Length of a tick: `USER_HZ` is 100 on every Linux architecture in use.
pub(crate) const TICK_NS: u64 = 10_000_000;

impl MachineTicks {
    /// Reads the ticks; zeros if /proc/stat can't be read.
    pub(crate) fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::parse(stat.lines().next().unwrap_or_default())
    }

    /// Parses a line `cpu user nice system idle iowait irq softirq steal guest guest_nice`. Guest
    /// time is part of `user` and `nice`.
    fn parse(line: &str) -> Self {
        let mut ticks = line
            .split_ascii_whitespace()
            .skip(1)
            .map(|word| word.parse::<u64>().unwrap_or(0));
        let mut next = || ticks.next().unwrap_or(0);
        let (user, nice, system, idle, iowait) = (next(), next(), next(), next(), next());
        let (irq, softirq, steal) = (next(), next(), next());
        Self {
            busy: user + nice + system + irq + softirq,
            idle: idle + iowait,
            steal,
        }
    }

    /// Returns the ticks since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    /// Returns the sum of all ticks.
    pub(crate) fn total(self) -> u64 {
        self.busy + self.idle + self.steal
    }

    /// Returns the busy share in tenths of a percent; 0 if no time passed.
    pub(crate) fn busy_permille(self) -> u64 {
        (self.busy * 1000).checked_div(self.total()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_parsed() {
        let before = MachineTicks::parse("cpu  100 20 30 1000 50 1 2 3 10 0");
        assert_eq!((before.busy, before.idle, before.steal), (153, 1050, 3));
        let after = MachineTicks::parse("cpu  150 20 30 1050 50 1 2 3 10 0");
        assert_eq!(after.since(before).busy_permille(), 500);
        assert_eq!(before.since(before).busy_permille(), 0);
        assert_eq!(MachineTicks::parse(""), MachineTicks::default());
    }

    #[test]
    fn schedstat_of_a_thread_is_parsed() {
        let before = ThreadTime::parse("100 20 3\n");
        assert_eq!((before.cpu_ns, before.run_delay_ns), (100, Some(20)));
        let used = ThreadTime::parse("150 90 5\n").used_since(before, "engine".to_owned());
        assert_eq!((used.cpu_ns, used.run_delay_ns), (50, Some(70)));
        assert_eq!(ThreadTime::parse(""), ThreadTime::default());
        let unknown = ThreadTime::parse("150").used_since(before, String::new());
        assert_eq!((unknown.cpu_ns, unknown.run_delay_ns), (50, None));
    }

    /// Threads that take turns on one CPU wait for each other: each of two waits half of the time.
    #[test]
    fn a_thread_sharing_a_cpu_reports_wait_time() {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let may_use = sched_getaffinity(None).expect("one's own is known");
        let one = (0..CpuSet::MAX_CPU).find(|&cpu| may_use.is_set(cpu));
        let mut only = CpuSet::new();
        only.set(one.expect("it runs somewhere"));
        let both = std::sync::Barrier::new(2);
        let compute = || {
            sched_setaffinity(None, &only).expect("fewer are always allowed");
            both.wait();
            let before = ThreadTime::now();
            while thread_cpu_ns() < before.cpu_ns + 100_000_000 {
                std::hint::spin_loop();
            }
            ThreadTime::now().used_since(before, String::new())
        };
        let used = std::thread::scope(|scope| {
            let threads = [scope.spawn(compute), scope.spawn(compute)];
            threads.map(|thread| thread.join().expect("it only computes"))
        });
        // The thread that ends last has the CPU for itself at the end.
        let waited_ns = used.iter().filter_map(|usage| usage.run_delay_ns).max();
        assert!(waited_ns > Some(50_000_000), "{used:?}");
    }

    #[test]
    fn cpu_clocks_run() {
        let (process, thread) = (process_cpu_ns(), thread_cpu_ns());
        let mut sum = 0_u64;
        while thread_cpu_ns() < thread + 2_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(process_cpu_ns() >= process + 2_000_000);
        assert!(resolution_ns() < 1_000_000);
        assert!(unix_ms() > 1_700_000_000_000);
    }
}
