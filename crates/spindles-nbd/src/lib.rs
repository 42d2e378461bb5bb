//! The NBD protocol for both sides, without sockets: bytes in, messages out.
//!
//! The source of all numbers and rules is the protocol's description,
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>. A connection begins with the
//! [`handshake`], in which the client chooses an export, and goes on with [`transmission`]; what a client makes of
//! replies is in [`replies`].
//! Only the fixed newstyle handshake is spoken: all clients and servers of the last ten years do.

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

/// Longest name of an export, description or message, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;

/// The other side broke the protocol in a way after which nothing it sends can be understood: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Something else than a number that must be there: it is out of step, or speaks another protocol.
    Magic {
        /// What should have been there.
        expected: u64,
        /// What was.
        found: u64,
    },
    /// Handshake flags that nobody knows.
    Flags(u32),
    /// An option with so many bytes of data.
    OptionBytes(u32),
    /// More options than any client needs.
    TooManyOptions,
    /// An export of that name was asked for in the one way that has no answer for "there is none".
    NoSuchExport,
    /// TLS is required, and data came without.
    NotEncrypted,
    /// Data came between the request for TLS and TLS, where whoever is in between could have put it.
    BytesBeforeTls(usize),
    /// A message that does not have the form that it must have.
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
