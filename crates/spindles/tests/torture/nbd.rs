//! A link over an NBD connection, in the protocol's simple form.

#![allow(clippy::big_endian_bytes, reason = "the byte order of the protocol")]

use crate::torture::client::{Answer, Link};
use crate::torture::ledger::Wish;
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub(crate) const BLOCK_BYTES: u32 = 4096;
const TIMEOUT: Duration = Duration::from_mins(3);

pub(crate) struct Nbd {
    stream: UnixStream,
    /// The bytes that each answer brings unless it is an error.
    bytes: BTreeMap<u64, usize>,
}

impl Nbd {
    /// Connects, and selects the export.
    pub(crate) fn connect(socket: &Path, export: &str) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut choice = 3_u32.to_be_bytes().to_vec();
        choice.extend(b"IHAVEOPT\0\0\0\x01");
        choice.extend(u32::try_from(export.len()).expect("short").to_be_bytes());
        choice.extend(export.as_bytes());
        stream.read_exact(&mut [0; 18])?;
        stream.write_all(&choice)?;
        stream.read_exact(&mut [0; 10])?;
        Ok(Self {
            stream,
            bytes: BTreeMap::new(),
        })
    }
}

impl Link for Nbd {
    fn send(&mut self, number: u64, wish: Wish, blocks: Range<u64>, data: &[u8]) -> io::Result<()> {
        let (command, fua): (u16, bool) = match wish {
            Wish::Read => (0, false),
            Wish::Write { fua } => (1, fua),
            Wish::Flush => (3, false),
            Wish::Discard => (4, false),
            Wish::Zeroes { fua } => (6, fua),
        };
        let bytes = u32::try_from(blocks.end - blocks.start).expect("few") * BLOCK_BYTES;
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend(u16::from(fua).to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(number.to_be_bytes());
        request.extend((blocks.start * u64::from(BLOCK_BYTES)).to_be_bytes());
        request.extend(bytes.to_be_bytes());
        request.extend(data);
        let brings = if wish == Wish::Read { bytes } else { 0 };
        let brings = usize::try_from(brings).expect("64 bits");
        self.bytes.insert(number, brings);
        self.stream.write_all(&request)
    }

    fn receive(&mut self, wait: bool) -> io::Result<Option<Answer>> {
        if !wait {
            return Ok(None);
        }
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        assert_eq!(head[..4], 0x6744_6698_u32.to_be_bytes(), "a simple reply");
        let error = u32::from_be_bytes(head[4..8].try_into().expect("4 bytes"));
        let number = u64::from_be_bytes(head[8..].try_into().expect("8 bytes"));
        let bytes = self.bytes.remove(&number).expect("it was asked");
        if error > 0 {
            return Ok(Some((number, Err(format!("error {error}")))));
        }
        let mut data = vec![0; bytes];
        self.stream.read_exact(&mut data)?;
        Ok(Some((number, Ok(data))))
    }
}
