//! What devices were asked.

/// What every device of a target was asked, in the order of `TargetFacts::devices`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// One per device.
    pub devices: Vec<DeviceCounters>,
}

impl Counters {
    /// All devices together.
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
        }
        total
    }
}

/// What one device was asked.
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
}
