//! What goes over a connection when an export is chosen: requests one way, replies the other, in any order.

use crate::{CommandFlags, Violation, bytes::Cursor};
use alloc::vec::Vec;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Which headers were agreed upon in the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Headers {
    /// Simple replies to everything.
    #[default]
    Simple,
    /// Replies with data come in chunks.
    Structured,
    /// The same, with 64 bits for every length, and nothing but chunks.
    Extended,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read,
    /// Write: as many bytes of payload as its length follow the request.
    Write,
    /// No more requests follow. There is no reply.
    Disconnect,
    /// All that was answered is made durable.
    Flush,
    /// The contents are not needed any more.
    Trim,
    /// It will be read soon.
    Cache,
    /// Zeros are written.
    WriteZeroes,
    /// Where there is data, and where holes.
    BlockStatus,
    /// None that is known.
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
    /// How it is meant.
    pub flags: CommandFlags,
    /// What is asked for.
    pub command: Command,
    /// Names the request in its replies.
    pub cookie: u64,
    /// The first byte of the export.
    pub offset_bytes: u64,
    /// How many.
    pub bytes: u64,
}

impl Request {
    /// How long a request is, without its payload.
    #[must_use]
    pub const fn encoded_bytes(headers: Headers) -> usize {
        match headers {
            Headers::Simple | Headers::Structured => 28,
            Headers::Extended => 32,
        }
    }

    /// The request that these bytes begin with. `None` where they are too few.
    ///
    /// # Errors
    ///
    /// They begin with no request: the client is out of step.
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

    /// Puts it behind `into`.
    ///
    /// # Panics
    ///
    /// When it is longer than its headers can say.
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
    /// It is forbidden: the export is read only.
    Permission,
    /// It could not be done.
    Io,
    /// There is no memory for it.
    Memory,
    /// It makes no sense.
    Invalid,
    /// There is no room: it ends behind the export.
    NoSpace,
    /// It is too long.
    Overflow,
    /// It can't be done in that way.
    NotSupported,
    /// The server is about to end.
    Shutdown,
    /// None that is known.
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

/// A run of bytes of an export with one answer to [`Command::BlockStatus`] of the context `base:allocation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How long it is.
    pub bytes: u64,
    /// Nothing is allocated there.
    pub hole: bool,
    /// It reads as zeros.
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

/// The replies of a server to one request. Each function puts a whole reply behind `into`.
#[derive(Clone, Copy, Debug)]
pub struct Replies {
    /// As the handshake agreed.
    pub headers: Headers,
}

impl Replies {
    fn simple(request: &Request, error: u32, into: &mut Vec<u8>) {
        into.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
        into.extend(error.to_be_bytes());
        into.extend(request.cookie.to_be_bytes());
    }

    /// A chunk of so many bytes of payload, which is the last one.
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

    /// It was done, and there is no data to give.
    pub fn done(self, request: &Request, into: &mut Vec<u8>) {
        match self.headers {
            Headers::Simple | Headers::Structured => Self::simple(request, 0, into),
            Headers::Extended => self.chunk(request, KIND_NONE, 0, into),
        }
    }

    /// It was not done. The message is for people.
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

    /// The header of what was read: all bytes that were asked for follow it.
    pub fn data(self, request: &Request, into: &mut Vec<u8>) {
        if self.headers == Headers::Simple {
            return Self::simple(request, 0, into);
        }
        if request.bytes == 0 {
            // A chunk of data has some.
            return self.chunk(request, KIND_NONE, 0, into);
        }
        self.chunk(request, KIND_DATA, 8 + request.bytes, into);
        into.extend(request.offset_bytes.to_be_bytes());
    }

    /// Where there is data, from the beginning of what was asked for on.
    ///
    /// # Panics
    ///
    /// Without extents, or structured replies.
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

/// The head of a simple reply, or of a chunk of a structured one, as a client reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    /// Of the request.
    pub cookie: u64,
    /// Whether nothing follows it for this request.
    pub last: bool,
    /// What it says.
    pub kind: ReplyKind,
    /// How many bytes of payload follow. A simple reply does not say it: those of a read that was done.
    pub payload_bytes: u64,
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// All was done or not. A read that was done is followed by its data.
    Simple(Option<Failure>),
    /// Nothing more.
    None,
    /// The payload is an offset in 64 bits, and data from there on.
    Data,
    /// The payload is an offset in 64 bits, and how many zeros there are, in 32.
    Hole,
    /// The payload is the number of a context, and extents.
    Status {
        /// With 64 bits for each number.
        extended: bool,
    },
    /// The payload is an error, for [`failure_of`].
    Error,
    /// Something else that is no error.
    Unknown(u16),
}

impl ReplyHead {
    /// Longest head, in bytes.
    pub const BYTES_MAX: usize = 32;

    /// The head that these bytes begin with, and how long it is. `None` where they are too few.
    ///
    /// # Errors
    ///
    /// They begin with no reply: the server is out of step.
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

/// What the payload of an error says, and the message for people.
///
/// # Errors
///
/// It has not the form of one.
pub fn failure_of(payload: &[u8]) -> Result<(Failure, &str), Violation> {
    let malformed = Violation::Malformed("an error that says nothing");
    let mut cursor = Cursor(payload);
    let failure = cursor.u32().and_then(Failure::from_number);
    let message = cursor.u16().and_then(|bytes| cursor.take(bytes.into()));
    let message = message.map(|bytes| core::str::from_utf8(bytes).unwrap_or("?"));
    failure.zip(message).ok_or(malformed)
}

/// The extents of the payload of a status, after the number of its context.
///
/// # Errors
///
/// It has not the form of one.
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
