//! The client's side: it wants one export, with the best features that the server supports.

use super::{
    ALLOCATION, Agreed, BlockSizes, FIXED_NEWSTYLE, GREETING_MAGIC, NO_ZEROES, OPTION_MAGIC,
    REPLY_MAGIC, ZEROES, answer, info, option, take_messages,
};
use crate::{
    TransmissionFlags, Violation,
    bytes::{Cursor, length},
    transmission::Headers,
};
use alloc::{
    string::{String, ToString},
    vec::Vec,
};

/// Longest data of a reply, in bytes.
const REPLY_BYTES_MAX: u32 = 64 << 10;

/// The client's wishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The name of the export.
    pub export: String,
    /// Set to require TLS before any other option.
    pub tls: bool,
    /// The best header format to ask for.
    pub headers: Headers,
}

/// State of a handshake after some bytes arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    Receive,
    /// Start TLS now, then call [`Client::encrypted`].
    StartTls,
    /// The handshake is complete; requests may follow.
    Transmit(Agreed),
    /// The server refuses, for this reason. The connection ends.
    Refused(String),
}

/// The message sent last, whose reply is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakePhase {
    Greeting,
    StartTls,
    StartingTls,
    ExtendedHeaders,
    StructuredReply,
    MetaContext,
    Go,
    /// `NBD_OPT_EXPORT_NAME`, for a server that does not support `NBD_OPT_GO`.
    ExportName,
    Over,
}

/// A client in the handshake with a server.
#[derive(Clone, Debug)]
pub struct Client {
    wanted: Wanted,
    state: HandshakePhase,
    zeroes: bool,
    agreed: Agreed,
    received: Vec<u8>,
    output: Vec<u8>,
}

impl Client {
    /// Starts the handshake of a new connection.
    #[must_use]
    pub fn new(wanted: Wanted) -> Self {
        let agreed = Agreed {
            export: wanted.export.clone(),
            bytes: 0,
            flags: TransmissionFlags::default(),
            headers: Headers::Simple,
            allocation: None,
            block_sizes: None,
        };
        Self {
            wanted,
            state: HandshakePhase::Greeting,
            zeroes: true,
            agreed,
            received: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Returns the bytes to send; the caller removes those that it sent.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Continues the handshake after TLS has started.
    ///
    /// # Panics
    ///
    /// If the last step was not [`Progress::StartTls`].
    pub fn encrypted(&mut self) {
        assert_eq!(
            self.state,
            HandshakePhase::StartingTls,
            "the handshake did not start TLS"
        );
        self.negotiate();
    }

    /// Processes received bytes. Returns how many belong to the handshake: the rest belong to
    /// replies.
    ///
    /// # Errors
    ///
    /// The server violated the protocol. The connection ends at once.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(usize, Progress), Violation> {
        let mut received = core::mem::take(&mut self.received);
        let taken = take_messages(&mut received, bytes, |rest| {
            let progress = self.next(rest)?;
            Ok(progress.map(|progress| (progress != Progress::Receive).then_some(progress)))
        });
        self.received = received;
        let (used, progress) = taken?;
        if progress == Some(Progress::StartTls) && used < bytes.len() {
            return Err(Violation::BytesBeforeTls(bytes.len() - used));
        }
        Ok((used, progress.unwrap_or(Progress::Receive)))
    }

    fn next(&mut self, rest: &mut Cursor<'_>) -> Result<Option<Progress>, Violation> {
        match self.state {
            HandshakePhase::Greeting => self.greeted(rest),
            HandshakePhase::ExportName => Ok(self.described(rest)),
            HandshakePhase::StartingTls | HandshakePhase::Over => {
                panic!("the handshake does not go on")
            }
            _ => {
                let mut message = *rest;
                let head = message.u64().zip(message.u32());
                let head = head.zip(message.u32().zip(message.u32()));
                let Some(((magic, _), (kind, bytes))) = head else {
                    return Ok(None);
                };
                if magic != REPLY_MAGIC {
                    return Err(Violation::Magic {
                        expected: REPLY_MAGIC,
                        found: magic,
                    });
                }
                if bytes > REPLY_BYTES_MAX {
                    return Err(Violation::OptionBytes(bytes));
                }
                let Some(data) = message.take(usize::try_from(bytes).expect("64 bits")) else {
                    return Ok(None);
                };
                *rest = message;
                self.answered(kind, data).map(Some)
            }
        }
    }

    fn greeted(&mut self, rest: &mut Cursor<'_>) -> Result<Option<Progress>, Violation> {
        let mut message = *rest;
        let head = message.u64().zip(message.u64()).zip(message.u16());
        let Some(((greeting, option), flags)) = head else {
            return Ok(None);
        };
        for (expected, found) in [(GREETING_MAGIC, greeting), (OPTION_MAGIC, option)] {
            if expected != found {
                return Err(Violation::Magic { expected, found });
            }
        }
        if flags & FIXED_NEWSTYLE == 0 {
            return Err(Violation::Malformed(
                "a server from before the fixed newstyle",
            ));
        }
        *rest = message;
        self.zeroes = flags & NO_ZEROES == 0;
        let flags = u32::from(flags & (FIXED_NEWSTYLE | NO_ZEROES));
        self.output.extend(flags.to_be_bytes());
        if self.wanted.tls {
            self.option(HandshakePhase::StartTls, option::STARTTLS, &[]);
        } else {
            self.negotiate();
        }
        Ok(Some(Progress::Receive))
    }

    fn option(&mut self, state: HandshakePhase, option: u32, parts: &[&[u8]]) {
        self.state = state;
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.output.extend(OPTION_MAGIC.to_be_bytes());
        self.output.extend(option.to_be_bytes());
        self.output.extend(length(bytes).to_be_bytes());
        for part in parts {
            self.output.extend(*part);
        }
    }

    /// Asks for the best headers.
    fn negotiate(&mut self) {
        match self.wanted.headers {
            Headers::Extended => {
                self.option(
                    HandshakePhase::ExtendedHeaders,
                    option::EXTENDED_HEADERS,
                    &[],
                );
            }
            Headers::Structured => self.ask_structured(),
            Headers::Simple => self.go(),
        }
    }

    fn ask_structured(&mut self) {
        self.option(
            HandshakePhase::StructuredReply,
            option::STRUCTURED_REPLY,
            &[],
        );
    }

    fn ask_context(&mut self) {
        let name = self.wanted.export.clone();
        let (of_name, of_query) = (length(name.len()), length(ALLOCATION.len()));
        let parts = [
            &of_name.to_be_bytes()[..],
            name.as_bytes(),
            &1_u32.to_be_bytes(),
            &of_query.to_be_bytes(),
            ALLOCATION.as_bytes(),
        ];
        self.option(
            HandshakePhase::MetaContext,
            option::SET_META_CONTEXT,
            &parts,
        );
    }

    fn go(&mut self) {
        let name = self.wanted.export.clone();
        let parts = [
            &length(name.len()).to_be_bytes()[..],
            name.as_bytes(),
            &1_u16.to_be_bytes(),
            &info::BLOCK_SIZE.to_be_bytes(),
        ];
        self.option(HandshakePhase::Go, option::GO, &parts);
    }

    /// Processes a reply to the option sent last.
    fn answered(&mut self, kind: u32, data: &[u8]) -> Result<Progress, Violation> {
        let failed = kind & answer::IS_ERROR != 0;
        let done = kind == answer::ACK;
        match self.state {
            HandshakePhase::StartTls if done => {
                self.state = HandshakePhase::StartingTls;
                return Ok(Progress::StartTls);
            }
            HandshakePhase::StartTls if failed => return Ok(self.refused(data, "it has no TLS")),
            HandshakePhase::ExtendedHeaders if done => {
                self.agreed.headers = Headers::Extended;
                self.ask_context();
            }
            HandshakePhase::ExtendedHeaders if failed => self.ask_structured(),
            HandshakePhase::StructuredReply if done => {
                self.agreed.headers = Headers::Structured;
                self.ask_context();
            }
            HandshakePhase::StructuredReply if failed => self.go(),
            HandshakePhase::MetaContext if done || failed => self.go(),
            HandshakePhase::MetaContext if kind == answer::META_CONTEXT => {
                let mut cursor = Cursor(data);
                let context = cursor.u32();
                let context = context.filter(|_| cursor.0 == ALLOCATION.as_bytes());
                self.agreed.allocation = context.or(self.agreed.allocation);
            }
            HandshakePhase::Go if done => {
                self.state = HandshakePhase::Over;
                return Ok(Progress::Transmit(self.agreed.clone()));
            }
            HandshakePhase::Go if kind == answer::UNSUPPORTED => {
                let name = self.wanted.export.clone();
                self.option(
                    HandshakePhase::ExportName,
                    option::EXPORT_NAME,
                    &[name.as_bytes()],
                );
            }
            HandshakePhase::Go if failed => {
                return Ok(self.refused(data, "it does not give the export"));
            }
            HandshakePhase::Go if kind == answer::INFO => self.informed(data)?,
            _ => return Err(Violation::Malformed("a reply to something else")),
        }
        Ok(Progress::Receive)
    }

    fn refused(&mut self, data: &[u8], otherwise: &str) -> Progress {
        self.state = HandshakePhase::Over;
        let why = core::str::from_utf8(data).unwrap_or_default();
        let why = if why.is_empty() { otherwise } else { why };
        Progress::Refused(why.to_string())
    }

    fn informed(&mut self, data: &[u8]) -> Result<(), Violation> {
        let malformed = Violation::Malformed("what it says of the export");
        let mut cursor = Cursor(data);
        match cursor.u16().ok_or(malformed)? {
            info::EXPORT => {
                let (bytes, flags) = cursor.u64().zip(cursor.u16()).ok_or(malformed)?;
                self.agreed.bytes = bytes;
                self.agreed.flags = TransmissionFlags(flags);
            }
            info::BLOCK_SIZE => {
                let sizes = cursor.u32().zip(cursor.u32()).zip(cursor.u32());
                let ((min, preferred), max) = sizes.ok_or(malformed)?;
                self.agreed.block_sizes = Some(BlockSizes {
                    min_bytes: min,
                    preferred_bytes: preferred,
                    payload_bytes_max: max,
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Parses the reply to `NBD_OPT_EXPORT_NAME`.
    fn described(&mut self, rest: &mut Cursor<'_>) -> Option<Progress> {
        let mut message = *rest;
        let (bytes, flags) = message.u64().zip(message.u16())?;
        if self.zeroes {
            message.take(ZEROES)?;
        }
        *rest = message;
        self.agreed.bytes = bytes;
        self.agreed.flags = TransmissionFlags(flags);
        self.state = HandshakePhase::Over;
        Some(Progress::Transmit(self.agreed.clone()))
    }
}
