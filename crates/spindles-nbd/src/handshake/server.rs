//! The server's side.

use super::{
    ALLOCATION, ALLOCATION_CONTEXT, Agreed, BlockSizes, FIXED_NEWSTYLE, GREETING_MAGIC, NO_ZEROES,
    OPTION_MAGIC, REPLY_MAGIC, ZEROES, answer, info, option, take_messages,
};
use crate::{
    TransmissionFlags, Violation,
    bytes::{Cursor, length, text},
    transmission::Headers,
};
use alloc::{string::String, vec::Vec};

/// Longest option data that is parsed, in bytes. Longer data is skipped.
const OPTION_BYTES_MAX: u32 = 64 << 10;
/// Longest option data that is skipped, in bytes.
const SKIPPED_BYTES_MAX: u32 = 16 << 20;
/// Most options answered on one connection. A client needs at most a dozen, and one for each export
/// that it inspects.
const OPTIONS_MAX: u32 = 4096;

/// An export on offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The name that clients ask for.
    pub name: String,
    /// Human-readable description.
    pub description: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Capabilities. [`TransmissionFlags::SEND_DF`] is removed if the client uses simple headers.
    pub flags: TransmissionFlags,
    /// The accepted request sizes.
    pub block_sizes: BlockSizes,
}

/// The TLS policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// TLS is not available.
    Never,
    /// Clients may begin with STARTTLS.
    Offered,
    /// Clients must begin with STARTTLS: until then all other options but abort are refused.
    Required,
}

/// State of a handshake after some bytes arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeStep {
    /// More bytes are needed.
    Receive,
    /// Send all output, start TLS, then call [`Server::encrypted`].
    StartTls,
    /// Send all output; requests follow.
    Transmit(Agreed),
    /// Send all output, then close the connection as the client asked.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakePhase {
    /// Waits for the client's flags.
    Flags,
    Option,
    /// Skips the data of an option that is too long.
    Skipping {
        option: u32,
        bytes: u32,
    },
    /// Waits for TLS to start.
    StartingTls,
    Over,
}

/// The server's side of the handshake with one client.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the handshake"
)]
pub struct Server {
    state: HandshakePhase,
    tls: Tls,
    encrypted: bool,
    /// Set if an option was refused because TLS had not started.
    lacked_tls: bool,
    zeroes: bool,
    headers: Headers,
    /// The export for which the client selected `base:allocation`.
    allocation_of: Option<String>,
    /// True if a client that names no export gets the first one.
    has_default: bool,
    options: u32,
    /// An incomplete message.
    received: Vec<u8>,
    output: Vec<u8>,
}

impl Server {
    /// Starts the handshake with a new client. The greeting is in the output.
    #[must_use]
    pub fn new(tls: Tls) -> Self {
        let mut output = Vec::new();
        output.extend(GREETING_MAGIC.to_be_bytes());
        output.extend(OPTION_MAGIC.to_be_bytes());
        output.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
        Self {
            state: HandshakePhase::Flags,
            tls,
            encrypted: false,
            lacked_tls: false,
            zeroes: true,
            headers: Headers::Simple,
            allocation_of: None,
            has_default: true,
            options: 0,
            received: Vec::new(),
            output,
        }
    }

    /// Requires clients to name an export.
    #[must_use]
    pub fn without_default(mut self) -> Self {
        self.has_default = false;
        self
    }

    /// Returns the bytes to send; the caller removes those that it sent. Send all output before
    /// receiving more, or a client that does not read makes the buffer grow.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Returns true if an option was refused for lack of TLS, and TLS has not started since.
    #[must_use]
    pub fn lacked_tls(&self) -> bool {
        self.lacked_tls
    }

    /// Continues the handshake after TLS has started. Discards everything negotiated before, which
    /// a man in the middle could have sent.
    ///
    /// # Panics
    ///
    /// If the last step was not [`HandshakeStep::StartTls`].
    pub fn encrypted(&mut self) {
        assert_eq!(
            self.state,
            HandshakePhase::StartingTls,
            "the handshake did not start TLS"
        );
        self.state = HandshakePhase::Option;
        self.encrypted = true;
        self.lacked_tls = false;
        self.headers = Headers::Simple;
        self.allocation_of = None;
    }

    /// Processes received bytes. `exports` are the exports on offer; the first is also the default
    /// one. Returns how many of the bytes belong to the handshake: the rest belong to requests.
    ///
    /// # Errors
    ///
    /// The client violated the protocol. The connection ends at once.
    pub fn receive(
        &mut self,
        exports: &[Export],
        bytes: &[u8],
    ) -> Result<(usize, HandshakeStep), Violation> {
        let mut received = core::mem::take(&mut self.received);
        let taken = take_messages(&mut received, bytes, |rest| {
            let step = self.next(exports, rest)?;
            Ok(step.map(|step| (step != HandshakeStep::Receive).then_some(step)))
        });
        self.received = received;
        let (used, step) = taken?;
        if step == Some(HandshakeStep::StartTls) && used < bytes.len() {
            return Err(Violation::BytesBeforeTls(bytes.len() - used));
        }
        Ok((used, step.unwrap_or(HandshakeStep::Receive)))
    }

    /// Processes the next message; returns `None` if it is incomplete.
    fn next(
        &mut self,
        exports: &[Export],
        rest: &mut Cursor<'_>,
    ) -> Result<Option<HandshakeStep>, Violation> {
        match self.state {
            HandshakePhase::Flags => {
                let Some(flags) = rest.u32() else {
                    return Ok(None);
                };
                let known = u32::from(FIXED_NEWSTYLE | NO_ZEROES);
                if flags & !known != 0 {
                    return Err(Violation::Flags(flags));
                }
                self.zeroes = flags & u32::from(NO_ZEROES) == 0;
                self.state = HandshakePhase::Option;
                Ok(Some(HandshakeStep::Receive))
            }
            HandshakePhase::Skipping { option, bytes } => {
                let here = usize::try_from(bytes).expect("64 bits").min(rest.0.len());
                rest.take(here).expect("no more than there is");
                let bytes = bytes - length(here);
                if bytes > 0 {
                    self.state = HandshakePhase::Skipping { option, bytes };
                    return Ok(None);
                }
                self.state = HandshakePhase::Option;
                self.refuse(option, answer::TOO_BIG, "it is too long");
                Ok(Some(HandshakeStep::Receive))
            }
            HandshakePhase::Option => self.next_option(exports, rest),
            HandshakePhase::StartingTls | HandshakePhase::Over => {
                panic!("the handshake does not go on")
            }
        }
    }

    fn next_option(
        &mut self,
        exports: &[Export],
        rest: &mut Cursor<'_>,
    ) -> Result<Option<HandshakeStep>, Violation> {
        let mut message = *rest;
        let head = (message.u64()).zip(message.u32().zip(message.u32()));
        let Some((magic, (option, bytes))) = head else {
            return Ok(None);
        };
        if magic != OPTION_MAGIC {
            return Err(Violation::Magic {
                expected: OPTION_MAGIC,
                found: magic,
            });
        }
        if bytes > SKIPPED_BYTES_MAX {
            return Err(Violation::OptionBytes(bytes));
        }
        if bytes > OPTION_BYTES_MAX {
            self.count_option()?;
            *rest = message;
            self.state = HandshakePhase::Skipping { option, bytes };
            return Ok(Some(HandshakeStep::Receive));
        }
        let Some(data) = message.take(usize::try_from(bytes).expect("64 bits")) else {
            return Ok(None);
        };
        *rest = message;
        self.count_option()?;
        self.option(exports, option, data).map(Some)
    }

    fn count_option(&mut self) -> Result<(), Violation> {
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Err(Violation::TooManyOptions);
        }
        Ok(())
    }

    fn option(
        &mut self,
        exports: &[Export],
        option: u32,
        data: &[u8],
    ) -> Result<HandshakeStep, Violation> {
        let hidden = self.tls == Tls::Required && !self.encrypted;
        match option {
            option::EXPORT_NAME if hidden => return Err(Violation::NotEncrypted),
            option::EXPORT_NAME => return self.export_name(exports, data),
            option::ABORT => {
                self.reply(option, answer::ACK, &[]);
                self.state = HandshakePhase::Over;
                return Ok(HandshakeStep::End);
            }
            option::STARTTLS => return Ok(self.start_tls(data)),
            _ if hidden => {
                self.lacked_tls = true;
                self.refuse(option, answer::TLS_REQUIRED, "begin with TLS");
            }
            option::LIST => self.list(exports, data),
            option::INFO | option::GO => return Ok(self.inform(exports, option, data)),
            option::STRUCTURED_REPLY => self.structured(data),
            option::EXTENDED_HEADERS => self.extended(data),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(exports, option, data);
            }
            _ => self.refuse(option, answer::UNSUPPORTED, "this server does not know it"),
        }
        Ok(HandshakeStep::Receive)
    }

    fn reply(&mut self, option: u32, kind: u32, parts: &[&[u8]]) {
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.output.extend(REPLY_MAGIC.to_be_bytes());
        self.output.extend(option.to_be_bytes());
        self.output.extend(kind.to_be_bytes());
        self.output.extend(length(bytes).to_be_bytes());
        for part in parts {
            self.output.extend(*part);
        }
    }

    fn refuse(&mut self, option: u32, kind: u32, why: &str) {
        self.reply(option, kind, &[why.as_bytes()]);
    }

    /// Finds the export of that name; an empty name means the default export.
    fn find<'a>(&self, exports: &'a [Export], name: &str) -> Option<&'a Export> {
        let is_default = self.has_default && name.is_empty();
        let default = || exports.first().filter(|_| is_default);
        let named = exports.iter().find(|export| export.name == name);
        named.or_else(default)
    }

    /// Returns the reason why [`Self::find`] found no export.
    fn unknown(name: &str) -> &'static str {
        if name.is_empty() {
            "there are several exports: name one"
        } else {
            "there is no export of that name"
        }
    }

    /// Returns the export's capabilities on this connection.
    fn flags(&self, export: &Export) -> TransmissionFlags {
        let flags = export.flags.with(TransmissionFlags::HAS_FLAGS);
        if self.headers == Headers::Simple {
            flags.without(TransmissionFlags::SEND_DF)
        } else {
            flags
        }
    }

    fn agreed(&mut self, export: &Export) -> HandshakeStep {
        let chosen = self.allocation_of.take();
        let allocation = chosen.is_some_and(|chosen| chosen == export.name);
        self.state = HandshakePhase::Over;
        HandshakeStep::Transmit(Agreed {
            export: export.name.clone(),
            bytes: export.bytes,
            flags: self.flags(export),
            headers: self.headers,
            allocation: allocation.then_some(ALLOCATION_CONTEXT),
            block_sizes: Some(export.block_sizes),
        })
    }

    fn export_name(&mut self, exports: &[Export], data: &[u8]) -> Result<HandshakeStep, Violation> {
        let export = text(data).and_then(|name| self.find(exports, name));
        let export = export.ok_or(Violation::NoSuchExport)?;
        self.output.extend(export.bytes.to_be_bytes());
        self.output.extend(self.flags(export).0.to_be_bytes());
        if self.zeroes {
            self.output.extend([0; ZEROES]);
        }
        Ok(self.agreed(export))
    }

    fn start_tls(&mut self, data: &[u8]) -> HandshakeStep {
        let option = option::STARTTLS;
        if self.tls == Tls::Never {
            self.refuse(option, answer::POLICY, "this server has no TLS");
        } else if self.encrypted || !data.is_empty() {
            self.refuse(
                option,
                answer::INVALID,
                "TLS began already, or there is data with it",
            );
        } else {
            self.reply(option, answer::ACK, &[]);
            self.state = HandshakePhase::StartingTls;
            return HandshakeStep::StartTls;
        }
        HandshakeStep::Receive
    }

    fn list(&mut self, exports: &[Export], data: &[u8]) {
        let option = option::LIST;
        if !data.is_empty() {
            return self.refuse(option, answer::INVALID, "there is data with it");
        }
        for export in exports {
            let bytes = length(export.name.len()).to_be_bytes();
            let parts = [
                &bytes,
                export.name.as_bytes(),
                export.description.as_bytes(),
            ];
            self.reply(option, answer::SERVER, &parts);
        }
        self.reply(option, answer::ACK, &[]);
    }

    fn inform(&mut self, exports: &[Export], option: u32, data: &[u8]) -> HandshakeStep {
        let mut cursor = Cursor(data);
        let asked = |cursor: &mut Cursor<'_>| {
            let count = cursor.u16()?;
            let kinds: Option<Vec<u16>> = (0..count).map(|_| cursor.u16()).collect();
            kinds.filter(|_| cursor.is_empty())
        };
        let name = cursor.string();
        let Some((name, asked)) = name.zip(asked(&mut cursor)) else {
            self.refuse(option, answer::INVALID, "it has another form");
            return HandshakeStep::Receive;
        };
        let Some(export) = self.find(exports, name) else {
            self.refuse(option, answer::UNKNOWN, Self::unknown(name));
            return HandshakeStep::Receive;
        };
        let flags = self.flags(export).0.to_be_bytes();
        let kind = |kind: u16| kind.to_be_bytes();
        let bytes = export.bytes.to_be_bytes();
        let parts = [&kind(info::EXPORT)[..], &bytes, &flags];
        self.reply(option, answer::INFO, &parts);
        if asked.contains(&info::NAME) {
            let parts = [&kind(info::NAME)[..], export.name.as_bytes()];
            self.reply(option, answer::INFO, &parts);
        }
        if asked.contains(&info::DESCRIPTION) {
            let parts = [&kind(info::DESCRIPTION)[..], export.description.as_bytes()];
            self.reply(option, answer::INFO, &parts);
        }
        let sizes = export.block_sizes;
        let (min, preferred) = (
            sizes.min_bytes.to_be_bytes(),
            sizes.preferred_bytes.to_be_bytes(),
        );
        let max = sizes.payload_bytes_max.to_be_bytes();
        let parts = [&kind(info::BLOCK_SIZE)[..], &min, &preferred, &max];
        self.reply(option, answer::INFO, &parts);
        self.reply(option, answer::ACK, &[]);
        if option == option::GO {
            return self.agreed(export);
        }
        HandshakeStep::Receive
    }

    fn structured(&mut self, data: &[u8]) {
        let option = option::STRUCTURED_REPLY;
        match self.headers {
            _ if !data.is_empty() => self.refuse(option, answer::INVALID, "there is data with it"),
            Headers::Extended => {
                let why = "extended headers were agreed upon, which have them";
                self.refuse(option, answer::EXTENDED_HEADERS_REQUIRED, why);
            }
            Headers::Structured => self.refuse(option, answer::INVALID, "they were agreed upon"),
            Headers::Simple => {
                self.headers = Headers::Structured;
                self.reply(option, answer::ACK, &[]);
            }
        }
    }

    fn extended(&mut self, data: &[u8]) {
        let option = option::EXTENDED_HEADERS;
        if !data.is_empty() {
            return self.refuse(option, answer::INVALID, "there is data with it");
        }
        if self.headers == Headers::Extended {
            return self.refuse(option, answer::INVALID, "they were agreed upon");
        }
        self.headers = Headers::Extended;
        self.reply(option, answer::ACK, &[]);
    }

    /// Lists or selects the contexts that the client asks for.
    fn contexts(&mut self, exports: &[Export], option: u32, data: &[u8]) {
        let sets = option == option::SET_META_CONTEXT;
        if sets {
            self.allocation_of = None;
        }
        if self.headers == Headers::Simple {
            let why = "structured replies are to be agreed upon first";
            return self.refuse(option, answer::INVALID, why);
        }
        let mut cursor = Cursor(data);
        let queries = |cursor: &mut Cursor<'_>| {
            let count = cursor.u32()?;
            let mut wanted = count == 0 && !sets;
            for _ in 0..count {
                let query = cursor.string()?;
                wanted |= query == ALLOCATION || !sets && query == "base:";
            }
            cursor.is_empty().then_some(wanted)
        };
        let name = cursor.string();
        let Some((name, wanted)) = name.zip(queries(&mut cursor)) else {
            return self.refuse(option, answer::INVALID, "it has another form");
        };
        let Some(export) = self.find(exports, name) else {
            return self.refuse(option, answer::UNKNOWN, Self::unknown(name));
        };
        if wanted {
            let context = if sets { ALLOCATION_CONTEXT } else { 0 };
            let parts = [&context.to_be_bytes()[..], ALLOCATION.as_bytes()];
            self.reply(option, answer::META_CONTEXT, &parts);
            if sets {
                self.allocation_of = Some(export.name.clone());
            }
        }
        self.reply(option, answer::ACK, &[]);
    }
}
