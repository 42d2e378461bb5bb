//! Matches incoming replies to requests: which request a reply is for, where its data goes, and
//! when the request is complete. Data is not copied: the receiver reports how many of the following
//! bytes are data, and of which request.
//!
//! ```text
//!  head ──▶ data that follows ──▶ head ──▶ .. ──▶ the request is over
//!       └─▶ payload of the head ──┘
//! ```

use crate::Violation;
use crate::bytes::Cursor;
use crate::transmission::{Command, Failure, Headers, ReplyHead, ReplyKind, failure_of};

/// Longest payload of a chunk without data: an error with the longest message and its offset.
const PAYLOAD_BYTES_MAX: u64 = 14 + 4096;
/// A buffer of this many bytes always lets [`Receiver::next`] make progress or fail.
pub const ARRIVAL_BYTES_MAX: usize = ReplyHead::BYTES_MAX + 14 + 4096;

/// A request in flight, and how much of its reply has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The command.
    pub command: Command,
    /// Offset of the request in the export.
    pub offset_bytes: u64,
    /// Length of the request in bytes.
    pub bytes: u64,
    received_bytes: u64,
    failure: Option<Failure>,
}

impl Awaited {
    /// Creates a request without any reply so far.
    #[must_use]
    pub const fn new(command: Command, offset_bytes: u64, bytes: u64) -> Self {
        Self {
            command,
            offset_bytes,
            bytes,
            received_bytes: 0,
            failure: None,
        }
    }

    /// Accounts for a part of the read data; returns its offset within the request.
    fn take(&mut self, offset_bytes: u64, bytes: u64) -> Result<u64, Violation> {
        let from = offset_bytes.checked_sub(self.offset_bytes);
        let from = from.filter(|from| {
            let left = self.bytes.checked_sub(*from);
            left.is_some_and(|left| bytes <= left)
        });
        self.received_bytes += bytes;
        let fits = self.command == Command::Read && self.received_bytes <= self.bytes;
        let malformed = Violation::Malformed("data that was not requested");
        from.filter(|_| fits && bytes > 0).ok_or(malformed)
    }

    /// Returns the result of the request after its last chunk.
    fn end(&self) -> Result<Result<(), Failure>, Violation> {
        if let Some(failure) = self.failure {
            return Ok(Err(failure));
        }
        if self.command == Command::Read && self.received_bytes < self.bytes {
            return Err(Violation::Malformed("a read that is not answered wholly"));
        }
        Ok(Ok(()))
    }
}

/// A parsed part of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The bytes that follow are data of a read.
    Data {
        /// Cookie of the request.
        cookie: u64,
        /// Offset of the data within the request.
        from_bytes: u64,
        /// Number of data bytes.
        bytes: u64,
    },
    /// This part of a read is zeros; no data follows.
    Zeros {
        /// Cookie of the request.
        cookie: u64,
        /// Offset of the zeros within the request.
        from_bytes: u64,
        /// Length of the zeros in bytes.
        bytes: u64,
    },
    /// The request is complete.
    Over {
        /// Cookie of the request.
        cookie: u64,
        /// Result of the request.
        result: Result<(), Failure>,
    },
}

/// The requests in flight.
pub trait Asked {
    /// Returns the request with this cookie; `None` if there is none.
    fn awaited(&mut self, cookie: u64) -> Option<&mut Awaited>;
}

/// Parses the server's replies.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    headers: Headers,
    /// Cookie of the request that completes with the chunk being received.
    ends: Option<u64>,
}

impl Receiver {
    /// Creates a receiver at the start of the reply stream.
    #[must_use]
    pub const fn new(headers: Headers) -> Self {
        Self {
            headers,
            ends: None,
        }
    }

    /// Parses the next part of a reply from the front of `bytes`. Returns the number of bytes used,
    /// and the part; `None` if more bytes are needed. After [`Arrival::Data`] the caller consumes
    /// all of the data itself before it calls this again.
    ///
    /// # Errors
    ///
    /// The server is out of step. The connection ends.
    pub fn next(
        &mut self,
        bytes: &[u8],
        asked: &mut impl Asked,
    ) -> Result<(usize, Option<Arrival>), Violation> {
        let unknown = Violation::Malformed("a reply to no request");
        let mut used = 0;
        loop {
            if let Some(cookie) = self.ends.take() {
                let result = asked.awaited(cookie).ok_or(unknown)?.end()?;
                return Ok((used, Some(Arrival::Over { cookie, result })));
            }
            let rest = &bytes[used..];
            let Some((head, head_bytes)) = ReplyHead::decode(self.headers, rest)? else {
                return Ok((used, None));
            };
            let request = asked.awaited(head.cookie).ok_or(unknown)?;
            let payload = self.decode_payload(&head, &rest[head_bytes..], request)?;
            let Some((payload_bytes, content)) = payload else {
                return Ok((used, None));
            };
            used += head_bytes + payload_bytes;
            let cookie = head.cookie;
            self.ends = head.last.then_some(cookie);
            let arrival = match content {
                Content::Nothing => continue,
                Content::Data { offset, bytes } => Arrival::Data {
                    cookie,
                    from_bytes: request.take(offset, bytes)?,
                    bytes,
                },
                Content::Zeros { offset, bytes } => Arrival::Zeros {
                    cookie,
                    from_bytes: request.take(offset, bytes)?,
                    bytes,
                },
            };
            return Ok((used, Some(arrival)));
        }
    }

    /// Parses the payload before any read data, and notes a failure in `request`. Returns its
    /// length and the content; `None` if more bytes are needed.
    fn decode_payload(
        &self,
        head: &ReplyHead,
        payload: &[u8],
        request: &mut Awaited,
    ) -> Result<Option<(usize, Content)>, Violation> {
        let mut payload = Cursor(payload);
        Ok(match head.kind {
            ReplyKind::Simple(failure) => {
                request.failure = failure;
                let reads = request.command == Command::Read && failure.is_none();
                if reads && self.headers != Headers::Simple {
                    return Err(Violation::Malformed("a read that is answered simply"));
                }
                let (offset, bytes) = (request.offset_bytes, request.bytes);
                let content = if reads {
                    Content::Data { offset, bytes }
                } else {
                    Content::Nothing
                };
                Some((0, content))
            }
            ReplyKind::None if head.payload_bytes == 0 => Some((0, Content::Nothing)),
            ReplyKind::Data if head.payload_bytes > 8 => payload.u64().map(|offset| {
                let bytes = head.payload_bytes - 8;
                (8, Content::Data { offset, bytes })
            }),
            ReplyKind::Hole if head.payload_bytes == 12 => {
                payload.u64().zip(payload.u32()).map(|(offset, bytes)| {
                    let bytes = bytes.into();
                    (12, Content::Zeros { offset, bytes })
                })
            }
            ReplyKind::Error if head.payload_bytes <= PAYLOAD_BYTES_MAX => {
                let length = usize::try_from(head.payload_bytes).expect("a short payload");
                let Some(payload) = payload.take(length) else {
                    return Ok(None);
                };
                let (failure, _) = failure_of(payload)?;
                request.failure.get_or_insert(failure);
                Some((length, Content::Nothing))
            }
            _ => return Err(Violation::Malformed("a reply of the wrong kind or length")),
        })
    }
}

/// The part of a read that a reply carries, as a range of the export.
enum Content {
    /// The reply carries no part of a read.
    Nothing,
    /// The bytes that follow are the data of this range.
    Data { offset: u64, bytes: u64 },
    /// A range of zeros.
    Zeros { offset: u64, bytes: u64 },
}
