//! The account of a device: where the time of its requests went.

/// Sums over all answered requests of a device, in nanoseconds. Seek, rotation and transfer include
/// destaging; time that the device spends on read-ahead counts nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Requests answered.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Bytes programmed on flash, copies of cleaning included.
    pub programmed_bytes: u64,
    /// Response times, from submission to answer.
    pub response_ns: u64,
    /// Time with at least one request in flight.
    pub busy_ns: u64,
    /// Waits of requests for other requests of the same device.
    pub queue_ns: u64,
    /// Moves of the arm and changes of the head, with settling.
    pub seek_ns: u64,
    /// Waits for a sector to pass, lost revolutions included.
    pub rotation_ns: u64,
    /// Sectors passing under the head; pages read, or waited for by a flush.
    pub transfer_ns: u64,
    /// Commands and data on links and on the drive's interface, waits for links included.
    pub link_ns: u64,
    /// Electronics of the drive.
    pub overhead_ns: u64,
}

impl Account {
    /// Adds all sums of `other`.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.programmed_bytes += other.programmed_bytes;
        self.response_ns += other.response_ns;
        self.busy_ns += other.busy_ns;
        self.queue_ns += other.queue_ns;
        self.seek_ns += other.seek_ns;
        self.rotation_ns += other.rotation_ns;
        self.transfer_ns += other.transfer_ns;
        self.link_ns += other.link_ns;
        self.overhead_ns += other.overhead_ns;
    }
}
