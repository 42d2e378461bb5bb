//! Messages after the handshake: requests one way, replies the other, in any order.

use crate::{CommandFlags, Violation, bytes::Cursor};
use alloc::vec::Vec;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// The header format negotiated in the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Headers {
    /// Simple replies to all requests.
    #[default]
    Simple,
    /// Reads are answered in chunks.
    Structured,
    /// All replies are chunks, and every length has 64 bits.
    Extended,
}

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read,
    /// Write: the request's length of payload bytes follows the request.
    Write,
    /// Disconnect: no more requests follow, and there is no reply.
    Disconnect,
    /// Make all answered writes durable.
    Flush,
    /// Discard the contents.
    Trim,
    /// Prefetch for a later read.
    Cache,
    /// Write zeros.
    WriteZeroes,
    /// Report which parts hold data and which are holes.
    BlockStatus,
    /// An unknown command.
    Unknown(u16),
}

impl Command {
    const KNOWN: [(Self, u16); 8] = [
        (Self::Read, 0),
        (Self::Write, 1),
        (Self::Disconnect, 2),
        (Self::Flush, 3),
        (Self::Trim, 4),
        (Self::Cache, 5),
        (Self::WriteZeroes, 6),
        (Self::BlockStatus, 7),
    ];

    fn from_number(number: u16) -> Self {
        let known = Self::KNOWN.iter().find(|(_, of)| *of == number);
        known.map_or(Self::Unknown(number), |(command, _)| *command)
    }

    fn number(self) -> u16 {
        if let Self::Unknown(number) = self {
            return number;
        }
        let known = Self::KNOWN.iter().find(|(command, _)| *command == self);
        known.expect("all are in the table").1
    }
}

/// A request, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Modifiers of the command.
    pub flags: CommandFlags,
    /// The command.
    pub command: Command,
    /// Identifies the request in its replies.
    pub cookie: u64,
    /// Offset in the export.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl Request {
    /// Returns the encoded size of a request without its payload.
    #[must_use]
    pub const fn encoded_bytes(headers: Headers) -> usize {
        match headers {
            Headers::Simple | Headers::Structured => 28,
            Headers::Extended => 32,
        }
    }

    /// Decodes the request at the front of `bytes`; `None` if too few bytes are there.
    ///
    /// # Errors
    ///
    /// The bytes do not begin with a request: the client is out of step.
    pub fn decode(headers: Headers, bytes: &[u8]) -> Result<Option<Self>, Violation> {
        let mut cursor = Cursor(bytes);
        let expected = match headers {
            Headers::Simple | Headers::Structured => REQUEST_MAGIC,
            Headers::Extended => EXTENDED_REQUEST_MAGIC,
        };
        let Some(magic) = cursor.u32() else {
            return Ok(None);
        };
        if magic != expected {
            return Err(Violation::Magic {
                expected: expected.into(),
                found: magic.into(),
            });
        }
        Ok(Self::decode_rest(headers, cursor))
    }

    fn decode_rest(headers: Headers, mut cursor: Cursor<'_>) -> Option<Self> {
        Some(Self {
            flags: CommandFlags(cursor.u16()?),
            command: Command::from_number(cursor.u16()?),
            cookie: cursor.u64()?,
            offset_bytes: cursor.u64()?,
            bytes: match headers {
                Headers::Simple | Headers::Structured => cursor.u32()?.into(),
                Headers::Extended => cursor.u64()?,
            },
        })
    }

    /// Appends the encoded request to `into`.
    ///
    /// # Panics
    ///
    /// If the length does not fit the header format.
    pub fn encode(&self, headers: Headers, into: &mut Vec<u8>) {
        let magic = match headers {
            Headers::Simple | Headers::Structured => REQUEST_MAGIC,
            Headers::Extended => EXTENDED_REQUEST_MAGIC,
        };
        into.extend(magic.to_be_bytes());
        into.extend(self.flags.0.to_be_bytes());
        into.extend(self.command.number().to_be_bytes());
        into.extend(self.cookie.to_be_bytes());
        into.extend(self.offset_bytes.to_be_bytes());
        match headers {
            Headers::Simple | Headers::Structured => {
                let bytes = u32::try_from(self.bytes).expect("without extended headers 32 bits");
                into.extend(bytes.to_be_bytes());
            }
            Headers::Extended => into.extend(self.bytes.to_be_bytes()),
        }
    }
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Forbidden: the export is read-only.
    Permission,
    /// I/O error.
    Io,
    /// Out of memory.
    Memory,
    /// Invalid request.
    Invalid,
    /// No space: the request ends beyond the export.
    NoSpace,
    /// The request is too long.
    Overflow,
    /// Not supported with these flags.
    NotSupported,
    /// The server is shutting down.
    Shutdown,
    /// An unknown error.
    Unknown(u32),
}

impl Failure {
    const KNOWN: [(Self, u32); 8] = [
        (Self::Permission, 1),
        (Self::Io, 5),
        (Self::Memory, 12),
        (Self::Invalid, 22),
        (Self::NoSpace, 28),
        (Self::Overflow, 75),
        (Self::NotSupported, 95),
        (Self::Shutdown, 108),
    ];

    fn from_number(number: u32) -> Option<Self> {
        if number == 0 {
            return None;
        }
        let known = Self::KNOWN.iter().find(|(_, of)| *of == number);
        Some(known.map_or(Self::Unknown(number), |(failure, _)| *failure))
    }

    fn number(self) -> u32 {
        if let Self::Unknown(number) = self {
            return number;
        }
        let known = Self::KNOWN.iter().find(|(failure, _)| *failure == self);
        known.expect("all are in the table").1
    }
}

/// A range of an export with one status of the context `base:allocation`, see
/// [`Command::BlockStatus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes.
    pub bytes: u64,
    /// True if the range is unallocated.
    pub hole: bool,
    /// True if the range reads as zeros.
    pub zero: bool,
}

impl Extent {
    fn flags(self) -> u32 {
        u32::from(self.hole) | u32::from(self.zero) << 1
    }
}

/// Longest header of a reply with data, in bytes.
pub const REPLY_HEADER_BYTES_MAX: usize = 40;

const DONE: u16 = 1;
const KIND_NONE: u16 = 0;
const KIND_DATA: u16 = 1;
const KIND_HOLE: u16 = 2;
const KIND_STATUS: u16 = 5;
const KIND_STATUS_EXTENDED: u16 = 6;
const KIND_ERROR: u16 = 0x8001;
const KIND_ERROR_OFFSET: u16 = 0x8002;
const IS_ERROR: u16 = 0x8000;

/// Encodes the replies of a server to one request. Each function appends a whole reply to `into`.
#[derive(Clone, Copy, Debug)]
pub struct Replies {
    /// The negotiated header format.
    pub headers: Headers,
}

impl Replies {
    fn simple(request: &Request, error: u32, into: &mut Vec<u8>) {
        into.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
        into.extend(error.to_be_bytes());
        into.extend(request.cookie.to_be_bytes());
    }

    /// Appends the header of a chunk with this payload length, flagged as the last one.
    fn chunk(self, request: &Request, kind: u16, payload_bytes: u64, into: &mut Vec<u8>) {
        let magic = match self.headers {
            Headers::Extended => EXTENDED_REPLY_MAGIC,
            Headers::Simple | Headers::Structured => STRUCTURED_REPLY_MAGIC,
        };
        into.extend(magic.to_be_bytes());
        into.extend(DONE.to_be_bytes());
        into.extend(kind.to_be_bytes());
        into.extend(request.cookie.to_be_bytes());
        if self.headers == Headers::Extended {
            into.extend(request.offset_bytes.to_be_bytes());
            into.extend(payload_bytes.to_be_bytes());
        } else {
            let bytes =
                u32::try_from(payload_bytes).expect("a read of 32 bits has a reply of 32 bits");
            into.extend(bytes.to_be_bytes());
        }
    }

    /// Reports success, without data.
    pub fn done(self, request: &Request, into: &mut Vec<u8>) {
        match self.headers {
            Headers::Simple | Headers::Structured => Self::simple(request, 0, into),
            Headers::Extended => self.chunk(request, KIND_NONE, 0, into),
        }
    }

    /// Reports an error, with a human-readable message.
    pub fn failed(self, request: &Request, failure: Failure, message: &str, into: &mut Vec<u8>) {
        if self.headers == Headers::Simple {
            return Self::simple(request, failure.number(), into);
        }
        let message = &message.as_bytes()[..message.floor_char_boundary(crate::STRING_BYTES_MAX)];
        let bytes = u16::try_from(message.len()).expect("strings are short");
        self.chunk(request, KIND_ERROR, 6 + u64::from(bytes), into);
        into.extend(failure.number().to_be_bytes());
        into.extend(bytes.to_be_bytes());
        into.extend(message);
    }

    /// Appends the header of a read reply; the caller sends all requested bytes after it.
    pub fn data(self, request: &Request, into: &mut Vec<u8>) {
        if self.headers == Headers::Simple {
            return Self::simple(request, 0, into);
        }
        if request.bytes == 0 {
            // A data chunk must not be empty.
            return self.chunk(request, KIND_NONE, 0, into);
        }
        self.chunk(request, KIND_DATA, 8 + request.bytes, into);
        into.extend(request.offset_bytes.to_be_bytes());
    }

    /// Reports the allocation status, from the start of the requested range.
    ///
    /// # Panics
    ///
    /// If `extents` is empty, or with simple headers.
    pub fn status(self, request: &Request, context: u32, extents: &[Extent], into: &mut Vec<u8>) {
        assert!(!extents.is_empty(), "a status has an extent at least");
        let count = crate::bytes::length(extents.len());
        match self.headers {
            Headers::Simple => panic!("contexts need structured replies"),
            Headers::Structured => {
                self.chunk(request, KIND_STATUS, 4 + 8 * u64::from(count), into);
                into.extend(context.to_be_bytes());
                for extent in extents {
                    let bytes = u32::try_from(extent.bytes).expect("no more than was asked for");
                    into.extend(bytes.to_be_bytes());
                    into.extend(extent.flags().to_be_bytes());
                }
            }
            Headers::Extended => {
                let bytes = 8 + 16 * u64::from(count);
                self.chunk(request, KIND_STATUS_EXTENDED, bytes, into);
                into.extend(context.to_be_bytes());
                into.extend(count.to_be_bytes());
                for extent in extents {
                    into.extend(extent.bytes.to_be_bytes());
                    into.extend(u64::from(extent.flags()).to_be_bytes());
                }
            }
        }
    }
}

/// The head of a simple reply, or of a chunk of a structured one, as a client parses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    /// Cookie of the request.
    pub cookie: u64,
    /// True if nothing more follows for this request.
    pub last: bool,
    /// The kind of reply.
    pub kind: ReplyKind,
    /// Number of payload bytes that follow. Zero for a simple reply, though the data of a
    /// successful read follows it.
    pub payload_bytes: u64,
}

/// The kind of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// The whole result. The data of a successful read follows.
    Simple(Option<Failure>),
    /// A chunk without payload.
    None,
    /// The payload is a 64-bit offset, and the data from there on.
    Data,
    /// The payload is a 64-bit offset, and a 32-bit count of zeros.
    Hole,
    /// The payload is the ID of a context, and extents.
    Status {
        /// Set if each number of an extent has 64 bits.
        extended: bool,
    },
    /// The payload is an error, for [`failure_of`].
    Error,
    /// An unknown kind that is not an error.
    Unknown(u16),
}

impl ReplyHead {
    /// Longest head, in bytes.
    pub const BYTES_MAX: usize = 32;

    /// Decodes the head at the front of `bytes`, and returns it with its length; `None` if too few
    /// bytes are there.
    ///
    /// # Errors
    ///
    /// The bytes do not begin with a reply: the server is out of step.
    pub fn decode(headers: Headers, bytes: &[u8]) -> Result<Option<(Self, usize)>, Violation> {
        let mut cursor = Cursor(bytes);
        let Some(magic) = cursor.u32() else {
            return Ok(None);
        };
        let head = match magic {
            SIMPLE_REPLY_MAGIC if headers != Headers::Extended => Self::simple(cursor),
            STRUCTURED_REPLY_MAGIC if headers == Headers::Structured => Self::chunk(cursor, false),
            EXTENDED_REPLY_MAGIC if headers == Headers::Extended => Self::chunk(cursor, true),
            _ => {
                let expected = match headers {
                    Headers::Simple => SIMPLE_REPLY_MAGIC,
                    Headers::Structured => STRUCTURED_REPLY_MAGIC,
                    Headers::Extended => EXTENDED_REPLY_MAGIC,
                };
                return Err(Violation::Magic {
                    expected: expected.into(),
                    found: magic.into(),
                });
            }
        };
        Ok(head)
    }

    fn simple(mut cursor: Cursor<'_>) -> Option<(Self, usize)> {
        let failure = Failure::from_number(cursor.u32()?);
        let head = Self {
            cookie: cursor.u64()?,
            last: true,
            kind: ReplyKind::Simple(failure),
            payload_bytes: 0,
        };
        Some((head, 16))
    }

    fn chunk(mut cursor: Cursor<'_>, extended: bool) -> Option<(Self, usize)> {
        let flags = cursor.u16()?;
        let kind = match cursor.u16()? {
            KIND_NONE => ReplyKind::None,
            KIND_DATA => ReplyKind::Data,
            KIND_HOLE => ReplyKind::Hole,
            KIND_STATUS => ReplyKind::Status { extended: false },
            KIND_STATUS_EXTENDED => ReplyKind::Status { extended: true },
            KIND_ERROR | KIND_ERROR_OFFSET => ReplyKind::Error,
            number if number & IS_ERROR != 0 => ReplyKind::Error,
            number => ReplyKind::Unknown(number),
        };
        let cookie = cursor.u64()?;
        let (payload_bytes, length) = if extended {
            cursor.u64()?;
            (cursor.u64()?, 32)
        } else {
            (u64::from(cursor.u32()?), 20)
        };
        let head = Self {
            cookie,
            last: flags & DONE != 0,
            kind,
            payload_bytes,
        };
        Some((head, length))
    }
}

/// Decodes the payload of an error chunk: the error and its human-readable message.
///
/// # Errors
///
/// The payload is malformed.
pub fn failure_of(payload: &[u8]) -> Result<(Failure, &str), Violation> {
    let malformed = Violation::Malformed("an error that says nothing");
    let mut cursor = Cursor(payload);
    let failure = cursor.u32().and_then(Failure::from_number);
    let message = cursor.u16().and_then(|bytes| cursor.take(bytes.into()));
    let message = message.map(|bytes| core::str::from_utf8(bytes).unwrap_or("?"));
    failure.zip(message).ok_or(malformed)
}

/// Decodes the payload of a block status chunk: the context ID and its extents.
///
/// # Errors
///
/// The payload is malformed.
pub fn extents_of(payload: &[u8], extended: bool) -> Result<(u32, Vec<Extent>), Violation> {
    let malformed = || Violation::Malformed("a block status of another form");
    let mut cursor = Cursor(payload);
    let context = cursor.u32().ok_or_else(malformed)?;
    if extended {
        cursor.u32().ok_or_else(malformed)?;
    }
    let mut extents = Vec::new();
    while !cursor.is_empty() {
        let pair = if extended {
            cursor.u64().zip(cursor.u64())
        } else {
            let pair = cursor.u32().zip(cursor.u32());
            pair.map(|(bytes, flags)| (bytes.into(), flags.into()))
        };
        let (bytes, flags) = pair.ok_or_else(malformed)?;
        if bytes == 0 {
            return Err(malformed());
        }
        extents.push(Extent {
            bytes,
            hole: flags & 1 != 0,
            zero: flags & 2 != 0,
        });
    }
    if extents.is_empty() {
        return Err(malformed());
    }
    Ok((context, extents))
}
