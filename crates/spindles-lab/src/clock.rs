//! What time and CPU time it is: the process's, and the machine's from /proc/stat.

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds of CPU time that all threads of this process have used, io workers of the kernel
/// on its behalf included.
pub(crate) fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

/// Nanoseconds of CPU time that this thread has used.
pub(crate) fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// Milliseconds since 1970, UTC.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    to_u64(since.unwrap_or(Duration::ZERO).as_millis())
}

/// Resolution of the clock that times the runs.
pub(crate) fn resolution_ns() -> u64 {
    nanoseconds(clock_getres(ClockId::Monotonic))
}

pub(crate) fn duration_ns(duration: Duration) -> u64 {
    to_u64(duration.as_nanos())
}

fn to_u64(value: u128) -> u64 {
    u64::try_from(value).expect("within 584 years")
}

fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).expect("CPU clocks start at 0");
    let rest = u64::try_from(time.tv_nsec).expect("below a second");
    seconds * 1_000_000_000 + rest
}

/// Time of all CPUs of the machine since it booted, in ticks of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineTicks {
    /// In user space, the kernel, interrupts.
    pub busy: u64,
    /// Idle or waiting for I/O.
    pub idle: u64,
    /// Wanted by this machine and given to another by the hypervisor.
    pub steal: u64,
}

/// Length of a tick: `USER_HZ` is 100 wherever Linux runs.
pub(crate) const TICK_NS: u64 = 10_000_000;

impl MachineTicks {
    /// Now; zeros where there is no /proc/stat.
    pub(crate) fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::parse(stat.lines().next().unwrap_or_default())
    }

    /// From a line `cpu user nice system idle iowait irq softirq steal guest guest_nice`. The
    /// guests' time is part of `user` and `nice`.
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

    /// What passed since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    /// Of two readings the one taken first.
    pub(crate) fn earlier(self, other: Self) -> Self {
        if other.total() < self.total() {
            other
        } else {
            self
        }
    }

    /// Of two readings the one taken last.
    pub(crate) fn later(self, other: Self) -> Self {
        if other.total() > self.total() {
            other
        } else {
            self
        }
    }

    /// All of it.
    pub(crate) fn total(self) -> u64 {
        self.busy + self.idle + self.steal
    }

    /// Tenths of a percent that were busy; 0 when no time passed.
    pub(crate) fn busy_permille(self) -> u64 {
        (self.busy * 1000).checked_div(self.total()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_understood() {
        let before = MachineTicks::parse("cpu  100 20 30 1000 50 1 2 3 10 0");
        assert_eq!((before.busy, before.idle, before.steal), (153, 1050, 3));
        let after = MachineTicks::parse("cpu  150 20 30 1050 50 1 2 3 10 0");
        assert_eq!(after.since(before).busy_permille(), 500);
        assert_eq!(before.since(before).busy_permille(), 0);
        assert_eq!(MachineTicks::parse(""), MachineTicks::default());
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
