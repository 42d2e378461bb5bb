//! I/O counters of devices.

use spindles_block::Operation;

/// The counters of every device of a target, in the order of `TargetFacts::devices`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// One per device.
    pub devices: Vec<DeviceCounters>,
}

impl Counters {
    /// Returns the sum over all devices.
    #[must_use]
    pub fn total(&self) -> DeviceCounters {
        let mut total = DeviceCounters::default();
        for device in &self.devices {
            total.reads += device.reads;
            total.writes += device.writes;
            total.bytes_read += device.bytes_read;
            total.bytes_written += device.bytes_written;
            total.flushes += device.flushes;
            total.zeroings += device.zeroings;
            total.bytes_zeroed += device.bytes_zeroed;
            total.errors += device.errors;
            total.late += device.late;
            total.busy_ns += device.busy_ns;
            total.read_latencies.merge(&device.read_latencies);
            total.write_latencies.merge(&device.write_latencies);
        }
        total
    }
}

/// The counters of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Reads.
    pub reads: u64,
    /// Writes, with and without FUA.
    pub writes: u64,
    /// Bytes of the reads.
    pub bytes_read: u64,
    /// Bytes of the writes.
    pub bytes_written: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards and write-zeroes.
    pub zeroings: u64,
    /// Bytes of the discards and write-zeroes.
    pub bytes_zeroed: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Operations of a paced device that took longer than its model allows.
    pub late: u64,
    /// Time with at least one operation in flight, in nanoseconds.
    pub busy_ns: u64,
    /// Durations of reads. Empty for synchronous devices, such as memory.
    pub read_latencies: Latencies,
    /// Durations of writes.
    pub write_latencies: Latencies,
}

/// Latencies, counted by powers of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Their sum, in nanoseconds.
    pub sum_ns: u64,
    /// One count for each of [`Latencies::BOUNDS`], and one for latencies above.
    pub counts: [u64; Self::BOUNDS + 1],
}

impl Latencies {
    /// Number of bounds.
    pub const BOUNDS: usize = 20;
    /// The first bound is 2 to this power, in nanoseconds: 16 µs.
    const FIRST: u32 = 14;

    /// Returns the upper bound of a count, in nanoseconds. `None` for the last.
    #[must_use]
    pub fn bound_ns(at: usize) -> Option<u64> {
        let power = Self::FIRST + u32::try_from(at).ok()?;
        (at < Self::BOUNDS).then(|| 1 << power)
    }

    /// Adds one latency.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.sum_ns = self.sum_ns.wrapping_add(ns);
        let bits = (ns >> Self::FIRST).checked_ilog2().map_or(0, |bit| bit + 1);
        let at = usize::try_from(bits).map_or(Self::BOUNDS, |at| at.min(Self::BOUNDS));
        self.counts[at] += 1;
    }

    /// Returns the number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds the latencies of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        for (own, other) in self.counts.iter_mut().zip(other.counts) {
            *own += other;
        }
    }
}

impl DeviceCounters {
    /// Counts an operation on `bytes` bytes.
    pub fn count(&mut self, operation: Operation, bytes: u64) {
        match operation {
            Operation::Read => {
                self.reads += 1;
                self.bytes_read += bytes;
            }
            Operation::Write { .. } => {
                self.writes += 1;
                self.bytes_written += bytes;
            }
            Operation::Flush => self.flushes += 1,
            Operation::Discard | Operation::WriteZeroes { .. } => {
                self.zeroings += 1;
                self.bytes_zeroed += bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_is_counted_below_its_bound() {
        for ns in [
            0,
            1,
            16_383,
            16_384,
            32_767,
            32_768,
            1_000_000,
            1 << 33,
            u64::MAX,
        ] {
            let mut latencies = Latencies::default();
            latencies.add(ns);
            let at = latencies.counts.iter().position(|count| *count == 1);
            let at = at.expect("one");
            assert!(
                Latencies::bound_ns(at).is_none_or(|bound| ns < bound),
                "{ns}"
            );
            let before = at.checked_sub(1).and_then(Latencies::bound_ns);
            assert!(before.is_none_or(|bound| ns >= bound), "{ns}");
            assert_eq!((latencies.count(), latencies.sum_ns), (1, ns));
        }
    }
}
