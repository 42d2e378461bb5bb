//! The handshake: the server greets, the client sends options, each is answered, and the last one chooses an export.
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
pub use server::{Export, Server, Step, Tls};

use crate::{TransmissionFlags, Violation, bytes::Cursor, transmission::Headers};
use alloc::{string::String, vec::Vec};

/// "NBDMAGIC".
const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT".
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

/// What follows the flags of an export where nobody asked for it to be left out.
const ZEROES: usize = 124;

/// The one context that this protocol defines: where there is data.
const ALLOCATION: &str = "base:allocation";
/// What its number is.
const ALLOCATION_CONTEXT: u32 = 1;

/// What a client may say in the handshake.
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

/// What a server may say to it.
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

/// Takes whole messages from what was received before and now, until one ends this part of the handshake. `next` takes
/// one message: `None` where it is not whole, then whether it was the last and what it came to. Returns how many of the
/// new bytes were used, and that; what is not whole stays in `received`.
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

/// What can be told of an export.
mod info {
    pub(super) const EXPORT: u16 = 0;
    pub(super) const NAME: u16 = 1;
    pub(super) const DESCRIPTION: u16 = 2;
    pub(super) const BLOCK_SIZE: u16 = 3;
}

/// Which requests an export takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// All offsets and lengths are multiples of this, in bytes.
    pub min_bytes: u32,
    /// Shorter or unaligned requests cost more, in bytes.
    pub preferred_bytes: u32,
    /// Longest payload, in bytes.
    pub payload_bytes_max: u32,
}

/// What both sides agreed upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The name of the export, as the server has it.
    pub export: String,
    /// How long it is.
    pub bytes: u64,
    /// What can be asked of it.
    pub flags: TransmissionFlags,
    /// Which headers messages have.
    pub headers: Headers,
    /// The number of the context `base:allocation`, where that can be asked for.
    pub allocation: Option<u32>,
    /// What the server said of requests.
    pub block_sizes: Option<BlockSizes>,
}
