//! Both sides of the NBD protocol, without sockets: bytes in, messages out.
//!
//! The source of all numbers and rules is the protocol's description,
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>. A connection begins with
//! the [`handshake`], in which the client chooses an export, and continues with [`transmission`].
//! [`replies`] matches replies to the client's requests. Only the fixed newstyle handshake is
//! supported: all clients and servers of the last ten years use it.

#![no_std]
#![forbid(unsafe_code)]
#![expect(clippy::big_endian_bytes, reason = "the byte order of the protocol")]

extern crate alloc;

mod bytes;
mod flags;
pub mod handshake;
pub mod replies;
pub mod transmission;

pub use flags::{CommandFlags, TransmissionFlags};

/// Longest export name, description or message, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;

/// A protocol violation after which the peer's bytes can no longer be parsed: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Wrong magic number: the peer is out of step, or speaks another protocol.
    Magic {
        /// The magic number of the protocol.
        expected: u64,
        /// The received number.
        found: u64,
    },
    /// Unknown handshake flags.
    Flags(u32),
    /// The data of an option, of this many bytes, exceeds the limit.
    OptionBytes(u32),
    /// More options than any client needs.
    TooManyOptions,
    /// `NBD_OPT_EXPORT_NAME` named an unknown export; this option has no error reply.
    NoSuchExport,
    /// TLS is required, but the client chose an export without it.
    NotEncrypted,
    /// Bytes between STARTTLS and the start of TLS, where a man in the middle could have injected
    /// them.
    BytesBeforeTls(usize),
    /// A malformed message.
    Malformed(&'static str),
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Magic { expected, found } => {
                write!(f, "{found:#x} where the protocol has {expected:#x}")
            }
            Self::Flags(flags) => write!(f, "unknown handshake flags {flags:#x}"),
            Self::OptionBytes(bytes) => write!(f, "an option of {bytes} bytes"),
            Self::TooManyOptions => f.write_str("too many options"),
            Self::NoSuchExport => f.write_str("no export of that name"),
            Self::NotEncrypted => f.write_str("TLS is required"),
            Self::BytesBeforeTls(bytes) => write!(f, "{bytes} bytes between STARTTLS and TLS"),
            Self::Malformed(what) => f.write_str(what),
        }
    }
}

impl core::error::Error for Violation {}
