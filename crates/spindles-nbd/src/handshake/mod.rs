//! The handshake: the server greets, the client sends options, the server answers each. The last
//! option chooses an export.
//!
//! ```text
//!              ┌──── option ⇄ replies ────┐
//!              ▼                          │
//!  greeting ──▶ options ──────────────────┘──▶ transmission
//!              │   ▲
//!  STARTTLS ───┘   └── TLS: all that was agreed before is void
//! ```

mod client;
mod server;

pub use client::{Client, Progress, Wanted};
pub use server::{Export, HandshakeStep, Server, Tls};

use crate::{TransmissionFlags, Violation, bytes::Cursor, transmission::Headers};
use alloc::{string::String, vec::Vec};

/// "NBDMAGIC".
const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT".
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

/// Bytes of zeros after the flags of an export, unless the client negotiated `NO_ZEROES`.
const ZEROES: usize = 124;

/// The only context that the protocol defines: the allocation status.
const ALLOCATION: &str = "base:allocation";
/// The ID of that context.
const ALLOCATION_CONTEXT: u32 = 1;

/// Options of a client.
mod option {
    pub(super) const EXPORT_NAME: u32 = 1;
    pub(super) const ABORT: u32 = 2;
    pub(super) const LIST: u32 = 3;
    pub(super) const STARTTLS: u32 = 5;
    pub(super) const INFO: u32 = 6;
    pub(super) const GO: u32 = 7;
    pub(super) const STRUCTURED_REPLY: u32 = 8;
    pub(super) const LIST_META_CONTEXT: u32 = 9;
    pub(super) const SET_META_CONTEXT: u32 = 10;
    pub(super) const EXTENDED_HEADERS: u32 = 11;
}

/// Reply types of a server.
mod answer {
    pub(super) const ACK: u32 = 1;
    pub(super) const SERVER: u32 = 2;
    pub(super) const INFO: u32 = 3;
    pub(super) const META_CONTEXT: u32 = 4;
    pub(super) const IS_ERROR: u32 = 1 << 31;
    pub(super) const UNSUPPORTED: u32 = IS_ERROR | 1;
    pub(super) const POLICY: u32 = IS_ERROR | 2;
    pub(super) const INVALID: u32 = IS_ERROR | 3;
    pub(super) const TLS_REQUIRED: u32 = IS_ERROR | 5;
    pub(super) const UNKNOWN: u32 = IS_ERROR | 6;
    pub(super) const TOO_BIG: u32 = IS_ERROR | 9;
    pub(super) const EXTENDED_HEADERS_REQUIRED: u32 = IS_ERROR | 0xa;
}

/// Parses whole messages from the bytes received before and now, until one ends this part of the
/// handshake. `next` parses one message. It returns `None` if the message is incomplete, or else
/// the result of the message if that was the last one. Returns the number of new bytes used, and
/// the result. An incomplete message stays in `received`.
fn take_messages<T>(
    received: &mut Vec<u8>,
    bytes: &[u8],
    mut next: impl FnMut(&mut Cursor<'_>) -> Result<Option<Option<T>>, Violation>,
) -> Result<(usize, Option<T>), Violation> {
    let before = received.len();
    received.extend(bytes);
    let mut rest = Cursor(received);
    loop {
        match next(&mut rest)? {
            None => {
                let left = rest.0.len();
                received.drain(..received.len() - left);
                return Ok((bytes.len(), None));
            }
            Some(None) => {}
            Some(end) => {
                let used = received.len() - rest.0.len() - before;
                received.clear();
                return Ok((used, end));
            }
        }
    }
}

/// Types of export information.
mod info {
    pub(super) const EXPORT: u16 = 0;
    pub(super) const NAME: u16 = 1;
    pub(super) const DESCRIPTION: u16 = 2;
    pub(super) const BLOCK_SIZE: u16 = 3;
}

/// The request sizes that an export accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Minimum block size in bytes: divides all offsets and lengths.
    pub min_bytes: u32,
    /// Preferred block size in bytes: shorter or unaligned requests cost more.
    pub preferred_bytes: u32,
    /// Longest payload, in bytes.
    pub payload_bytes_max: u32,
}

/// The result of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The server's name of the export.
    pub export: String,
    /// Size of the export in bytes.
    pub bytes: u64,
    /// Capabilities of the export.
    pub flags: TransmissionFlags,
    /// The negotiated header format.
    pub headers: Headers,
    /// The ID of the context `base:allocation`; `None` if it was not negotiated.
    pub allocation: Option<u32>,
    /// The server's request sizes; `None` if it sent none.
    pub block_sizes: Option<BlockSizes>,
}
