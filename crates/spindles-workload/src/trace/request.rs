//! The requests of a trace.

/// The operation of a traced request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceOperation {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Makes earlier writes durable. Has no bytes.
    Flush,
    /// Discards bytes.
    Trim,
    /// Writes zeros without sending them.
    Zero,
}

impl TraceOperation {
    /// All operations, in the order of tables.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Flush, Self::Trim, Self::Zero];

    /// Returns the word in our own format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::Zero => "zero",
        }
    }

    /// Returns its place in [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Flush => 2,
            Self::Trim => 3,
            Self::Zero => 4,
        }
    }

    /// Returns true if it changes the contents of the target.
    #[must_use]
    pub const fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::Zero)
    }
}

/// When a request was sent. All requests of a trace have the same kind of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nanoseconds since the begin of the trace.
    At(u64),
    /// Nanoseconds after the answer to the request before: a closed loop with one request in
    /// flight.
    After(u64),
}

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// The time of sending.
    pub when: When,
    /// The operation.
    pub operation: TraceOperation,
    /// The first byte; 0 for a flush.
    pub offset_bytes: u64,
    /// The length; 0 for a flush only.
    pub bytes: u64,
    /// The sender: a process, file or device, as the format has it.
    pub client: u32,
    /// The time until the answer; `None` if it was not measured.
    pub response_ns: Option<u64>,
}

impl TraceRequest {
    /// Returns the end of its bytes. The reader checked that it fits.
    #[must_use]
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.bytes)
    }
}
