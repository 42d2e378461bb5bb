//! Ranges of the device, and requests for them.

/// A block of the file system on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Block {
    /// Offset on the device.
    pub(crate) place_bytes: u64,
    /// Length: whole fragments.
    pub(crate) bytes: u32,
}

impl Block {
    /// Returns the offset of the first byte after the block.
    pub(crate) fn end_bytes(self) -> u64 {
        self.place_bytes + u64::from(self.bytes)
    }
}

/// Names a request until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Reads a range.
    Read,
    /// Writes a range.
    Write,
    /// Makes all that was written durable; has no range.
    Flush,
}

/// A block request of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name; pass it to `Host::answered`.
    pub id: RequestId,
    /// Its kind.
    pub kind: RequestKind,
    /// Offset on the device.
    pub offset_bytes: u64,
    /// Length.
    pub bytes: u64,
}
