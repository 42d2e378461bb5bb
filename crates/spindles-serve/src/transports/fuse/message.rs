//! Messages of the FUSE protocol: decodes requests of the kernel, and encodes replies.
//!
//! Integers are in native byte order. Each request begins with a 40-byte header, followed by the
//! fields of its kind. All fields that a file needs lie within [`HEAD_BYTES`]. A write's payload
//! starts right after that, so that it can be received into another buffer.

#![allow(
    clippy::host_endian_bytes,
    reason = "the byte order of the protocol is the machine's"
)]

use rustix::io::Errno;

/// Length of the header and fields before a write's payload.
pub(crate) const HEAD_BYTES: usize = HEADER_BYTES + 40;
const HEADER_BYTES: usize = 40;
const REPLY_HEADER_BYTES: usize = 16;
const REPLY_BYTES_MAX: usize = REPLY_HEADER_BYTES + ATTRIBUTES_BYTES;
const ATTRIBUTES_BYTES: usize = 104;

/// The version of the protocol.
pub(crate) const MAJOR: u32 = 7;
/// The first version with `FUSE_DIRECT_IO_ALLOW_MMAP`; older kernels are served without it.
pub(crate) const MINOR: u32 = 39;
/// The first version (Linux 4.20) with requests of more than 128 KiB.
pub(crate) const MINOR_MIN: u32 = 28;

/// Features negotiated in the first request.
pub(crate) mod features {
    /// Several concurrent reads of a page cache.
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    /// Writes longer than a page.
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    /// Several concurrent direct requests of one caller.
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    /// The reply sets the maximum number of pages of a request.
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    /// Feature flags beyond the first 32.
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    /// Allows mapping a file without a page cache.
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    /// Requests come over `io_uring`, once entries are registered.
    pub(crate) const OVER_IO_URING: u64 = 1 << 41;
    /// The features to enable if the kernel has them.
    pub(crate) const WANTED: u64 =
        ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES | INIT_EXT | DIRECT_IO_ALLOW_MMAP;
}

/// Mode bits of `fallocate`.
pub(crate) mod allocation {
    /// Keep the length.
    pub(crate) const KEEP_SIZE: u32 = 1;
    /// Turn the range into a hole.
    pub(crate) const PUNCH_HOLE: u32 = 2;
    /// Turn the range into zeros.
    pub(crate) const ZERO_RANGE: u32 = 16;
}

/// Arguments of `lseek`.
pub(crate) mod whence {
    /// The next byte that may be nonzero.
    pub(crate) const DATA: u32 = 3;
    /// The next byte in a hole, or the end.
    pub(crate) const HOLE: u32 = 4;
}

/// Bypass the page cache.
const FOPEN_DIRECT_IO: u32 = 1 << 0;
/// Allow concurrent writes.
const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

const SET_MODE_OWNER_GROUP: u32 = 1 << 0 | 1 << 1 | 1 << 2;
const SET_SIZE: u32 = 1 << 3;
const SET_BY_HANDLE: u32 = 1 << 6;

/// The kind of a request, with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// The first request: the kernel's version and features.
    Init {
        major: u32,
        minor: u32,
        readahead_bytes: u32,
        features: u64,
    },
    /// Get size, mode and other attributes.
    Attributes,
    /// Set attributes; `None` and false leave one unchanged.
    Change {
        /// The new length. `of_open` is true if the caller has the file open, and did not use its
        /// path.
        size: Option<u64>,
        of_open: bool,
        /// True if mode, owner or group shall change.
        of_access: bool,
    },
    /// Open the file with these `open` flags.
    Open {
        flags: u32,
    },
    /// Close an open file.
    Release,
    Read {
        offset_bytes: u64,
        bytes: u32,
    },
    /// Write; the payload of this length follows.
    Write {
        offset_bytes: u64,
        bytes: u32,
    },
    /// Make all answered writes durable.
    Flush,
    /// Deallocate or zero a range.
    Allocate {
        offset_bytes: u64,
        bytes: u64,
        mode: u32,
    },
    /// Find data or a hole, like `lseek`.
    Seek {
        offset_bytes: u64,
        whence: u32,
    },
    /// Get statistics of the file system.
    Statistics,
    /// Forget an inode; there is no reply.
    Forget,
    /// The last request.
    Destroy,
    /// A request that this file system does not support.
    Other(u32),
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Identifies the request in its reply.
    pub(crate) unique: u64,
    pub(crate) ask: Ask,
}

/// A malformed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation;

impl Message {
    /// Decodes a request of `received_bytes` bytes; `head` holds the first of them.
    pub(crate) fn decode(head: &[u8], received_bytes: usize) -> Result<Self, Violation> {
        if usize::try_from(Fields(head).u32(0)?) != Ok(received_bytes) {
            return Err(Violation);
        }
        let body = head.get(HEADER_BYTES..).ok_or(Violation)?;
        Self::decode_parts(head, body, received_bytes.checked_sub(HEAD_BYTES))
    }

    /// Decodes a request from its header and body. `payload_bytes` is the length of its payload;
    /// `None` if the body is incomplete.
    pub(crate) fn decode_parts(
        header: &[u8],
        body: &[u8],
        payload_bytes: Option<usize>,
    ) -> Result<Self, Violation> {
        let (header, body) = (Fields(header), Fields(body));
        let ask = match header.u32(4)? {
            2 | 42 => Ask::Forget,
            3 => Ask::Attributes,
            4 => {
                let valid = body.u32(0)?;
                Ask::Change {
                    size: (valid & SET_SIZE != 0).then(|| body.u64(16)).transpose()?,
                    of_open: valid & SET_BY_HANDLE != 0,
                    of_access: valid & SET_MODE_OWNER_GROUP != 0,
                }
            }
            14 => Ask::Open {
                flags: body.u32(0)?,
            },
            15 => Ask::Read {
                offset_bytes: body.u64(8)?,
                bytes: body.u32(16)?,
            },
            16 => {
                let bytes = body.u32(16)?;
                if usize::try_from(bytes).ok() != payload_bytes {
                    return Err(Violation);
                }
                Ask::Write {
                    offset_bytes: body.u64(8)?,
                    bytes,
                }
            }
            17 => Ask::Statistics,
            18 => Ask::Release,
            20 => Ask::Flush,
            26 => {
                let first = u64::from(body.u32(12)?);
                let has_more = first & features::INIT_EXT != 0;
                let more = if has_more { body.u32(16)? } else { 0 };
                Ask::Init {
                    major: body.u32(0)?,
                    minor: body.u32(4)?,
                    readahead_bytes: body.u32(8)?,
                    features: first | u64::from(more) << 32,
                }
            }
            38 => Ask::Destroy,
            43 => Ask::Allocate {
                offset_bytes: body.u64(8)?,
                bytes: body.u64(16)?,
                mode: body.u32(24)?,
            },
            46 => Ask::Seek {
                offset_bytes: body.u64(8)?,
                whence: body.u32(16)?,
            },
            other => Ask::Other(other),
        };
        let unique = header.u64(8)?;
        Ok(Self { unique, ask })
    }
}

/// Reads integers at fixed offsets.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(&self, at: usize) -> Result<u32, Violation> {
        self.array(at).map(u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> Result<u64, Violation> {
        self.array(at).map(u64::from_ne_bytes)
    }

    fn array<const BYTES: usize>(&self, at: usize) -> Result<[u8; BYTES], Violation> {
        let bytes = self.0.get(at..at + BYTES).ok_or(Violation)?;
        bytes.try_into().map_err(|_| Violation)
    }
}

/// The attributes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) bytes: u64,
    /// Type and permissions.
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Modification time as far as known, in seconds since 1970.
    pub(crate) time_s: u64,
    pub(crate) block_bytes: u32,
}

/// Settings chosen from the kernel's offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) minor: u32,
    pub(crate) readahead_bytes: u32,
    pub(crate) features: u64,
    /// Most background requests in progress.
    pub(crate) background: u16,
    /// Longest write, in bytes.
    pub(crate) write_bytes_max: u32,
    pub(crate) pages_max: u16,
}

/// A reply, without the data of a read, which follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    bytes: [u8; REPLY_BYTES_MAX],
    length: usize,
}

impl Reply {
    /// Success, without data.
    pub(crate) fn done(unique: u64) -> Self {
        let mut reply = Self {
            bytes: [0; REPLY_BYTES_MAX],
            length: REPLY_HEADER_BYTES,
        };
        reply.put(8, unique.to_ne_bytes());
        reply.seal(0)
    }

    /// An error.
    pub(crate) fn failed(unique: u64, error: Errno) -> Self {
        let mut reply = Self::done(unique);
        reply.put(4, (-error.raw_os_error()).to_ne_bytes());
        reply
    }

    /// The header of a read reply; the data follows.
    pub(crate) fn read(unique: u64, bytes: u32) -> Self {
        Self::done(unique).seal(bytes)
    }

    /// The number of bytes written.
    pub(crate) fn written(unique: u64, bytes: u32) -> Self {
        Self::done(unique).u32(bytes).u32(0).seal(0)
    }

    /// The offset that a seek found.
    pub(crate) fn sought(unique: u64, offset_bytes: u64) -> Self {
        Self::done(unique).u64(offset_bytes).seal(0)
    }

    /// Success of an open.
    pub(crate) fn opened(unique: u64) -> Self {
        let flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
        Self::done(unique).u64(0).u32(flags).u32(0).seal(0)
    }

    /// The attributes, valid for `valid_s` seconds.
    pub(crate) fn attributes(unique: u64, valid_s: u64, is: &Attributes) -> Self {
        let reply = Self::done(unique).u64(valid_s).u32(0).u32(0);
        let reply = reply.u64(1).u64(is.bytes).u64(is.bytes / 512);
        let reply = reply.u64(is.time_s).u64(is.time_s).u64(is.time_s);
        let reply = reply.u32(0).u32(0).u32(0).u32(is.mode).u32(1);
        let reply = reply.u32(is.user).u32(is.group).u32(0);
        reply.u32(is.block_bytes).u32(0).seal(0)
    }

    /// Statistics of a full file system with one file.
    pub(crate) fn statistics(unique: u64, is: &Attributes) -> Self {
        let blocks = is.bytes / u64::from(is.block_bytes);
        let reply = Self::done(unique).u64(blocks).u64(0).u64(0).u64(1).u64(0);
        let reply = reply.u32(is.block_bytes).u32(255).u32(is.block_bytes);
        let spare = 7;
        (0..spare).fold(reply, |reply, _| reply.u32(0)).seal(0)
    }

    /// The chosen settings.
    pub(crate) fn init(unique: u64, chosen: &Chosen) -> Self {
        let low = u32::try_from(chosen.features & u64::from(u32::MAX)).expect("32 bits");
        let high = u32::try_from(chosen.features >> 32).expect("32 bits");
        let reply = Self::done(unique).u32(MAJOR).u32(chosen.minor);
        let reply = reply.u32(chosen.readahead_bytes).u32(low);
        // The congestion threshold equals the limit: programs that send more wait, which throttles
        // excessive writers.
        let reply = reply.u16(chosen.background).u16(chosen.background);
        let time_granularity_ns = 1;
        let reply = reply.u32(chosen.write_bytes_max).u32(time_granularity_ns);
        let reply = reply.u16(chosen.pages_max).u16(0).u32(high);
        let unused = 7;
        (0..unused).fold(reply, |reply, _| reply.u32(0)).seal(0)
    }

    /// The encoded reply.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The header, and the rest.
    pub(crate) fn parts(&self) -> (&[u8], &[u8]) {
        self.bytes().split_at(REPLY_HEADER_BYTES)
    }

    fn u16(self, value: u16) -> Self {
        self.and(value.to_ne_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.and(value.to_ne_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.and(value.to_ne_bytes())
    }

    fn and<const BYTES: usize>(mut self, field: [u8; BYTES]) -> Self {
        self.put(self.length, field);
        self.length += BYTES;
        self
    }

    fn put<const BYTES: usize>(&mut self, at: usize, field: [u8; BYTES]) {
        self.bytes[at..at + BYTES].copy_from_slice(&field);
    }

    /// Sets the length, including `following_bytes` of data after the reply.
    fn seal(mut self, following_bytes: u32) -> Self {
        let own = u32::try_from(self.length).expect("short");
        self.put(0, (own + following_bytes).to_ne_bytes());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a request like the kernel.
    fn sent(opcode: u32, body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        let length = u32::try_from(HEADER_BYTES + body.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), opcode.to_ne_bytes()].concat();
        bytes.extend(77_u64.to_ne_bytes());
        bytes.resize(HEADER_BYTES, 0xee);
        bytes.extend(body);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Message, Violation> {
        Message::decode(&bytes[..bytes.len().min(HEAD_BYTES)], bytes.len())
    }

    fn check(opcode: u32, body: &[&[u8]], ask: Ask) {
        let sent = sent(opcode, body);
        assert_eq!(decode(&sent), Ok(Message { unique: 77, ask }), "{opcode}");
    }

    /// Each kind of request, as in `struct fuse_…_in`.
    #[test]
    fn requests() {
        let n = |value: u32| value.to_ne_bytes();
        let nn = |value: u64| value.to_ne_bytes();
        check(
            26,
            &[
                &n(7),
                &n(45),
                &n(131_072),
                &n(1 << 30 | 1),
                &n(1 << 4),
                &[0; 44],
            ],
            Ask::Init {
                major: 7,
                minor: 45,
                readahead_bytes: 131_072,
                features: 1 << 36 | 1 << 30 | 1,
            },
        );
        // Kernels before 5.17 send only this much.
        check(
            26,
            &[&n(7), &n(31), &n(0), &n(1 << 22)],
            Ask::Init {
                major: 7,
                minor: 31,
                readahead_bytes: 0,
                features: 1 << 22,
            },
        );
        let get = [&n(0)[..], &n(0), &nn(0)];
        check(3, &get, Ask::Attributes);
        let set = |valid: u32| {
            [n(valid), n(0)].concat().into_iter().chain(
                [nn(3), nn(8192)]
                    .concat()
                    .into_iter()
                    .chain([0; 64])
                    .collect::<Vec<u8>>(),
            )
        };
        for (valid, size, of_open, of_access) in [
            (1 << 3, Some(8192), false, false),
            (1 << 3 | 1 << 6, Some(8192), true, false),
            (1 << 0, None, false, true),
            (1 << 4 | 1 << 5, None, false, false),
        ] {
            let body: Vec<u8> = set(valid).collect();
            let ask = Ask::Change {
                size,
                of_open,
                of_access,
            };
            check(4, &[&body], ask);
        }
        check(14, &[&n(0o2), &n(0)], Ask::Open { flags: 0o2 });
        let transfer = [&nn(9)[..], &nn(1 << 40), &n(512), &n(0), &nn(0), &nn(0)];
        let (offset_bytes, bytes) = (1 << 40, 512);
        let read = Ask::Read {
            offset_bytes,
            bytes,
        };
        check(15, &transfer, read);
        let payload = [7; 512];
        let write = [&transfer[..], &[&payload[..]]].concat();
        let written = Ask::Write {
            offset_bytes,
            bytes,
        };
        check(16, &write, written);
        check(20, &[&nn(9), &n(0), &n(0)], Ask::Flush);
        check(
            43,
            &[&nn(9), &nn(1 << 33), &nn(1 << 34), &n(3), &n(0)],
            Ask::Allocate {
                offset_bytes: 1 << 33,
                bytes: 1 << 34,
                mode: allocation::KEEP_SIZE | allocation::PUNCH_HOLE,
            },
        );
        check(
            46,
            &[&nn(9), &nn(1 << 40), &n(4), &n(0)],
            Ask::Seek {
                offset_bytes: 1 << 40,
                whence: whence::HOLE,
            },
        );
        check(17, &[], Ask::Statistics);
        check(18, &[&[0; 24]], Ask::Release);
        check(2, &[&nn(1)], Ask::Forget);
        check(42, &[&n(1), &n(0), &nn(1), &nn(1)], Ask::Forget);
        check(38, &[], Ask::Destroy);
        check(22, &[&n(64), &n(0), b"user.name\0"], Ask::Other(22));
    }

    /// Truncated requests, and those with a wrong length, are refused.
    #[test]
    fn invalid_requests_are_refused() {
        let transfer = [0_u8; 40];
        for opcode in [4, 14, 15, 16, 26, 43, 46] {
            let whole = sent(opcode, &[&transfer, &[0; 48]]);
            for length in 0..HEAD_BYTES {
                let cut = &whole[..length];
                assert_eq!(decode(cut), Err(Violation), "{opcode} of {length} bytes");
            }
        }
        let short = sent(15, &[&[0; 16]]);
        assert_eq!(decode(&short), Err(Violation));
        // A write without payload, and with a truncated body.
        let short = sent(16, &[&[0; 24]]);
        assert_eq!(decode(&short), Err(Violation));
        // The length field exceeds the payload.
        let mut transfer = [0; 40];
        transfer[16..20].copy_from_slice(&513_u32.to_ne_bytes());
        let write = sent(16, &[&transfer, &[0; 512]]);
        assert_eq!(decode(&write), Err(Violation));
    }

    /// As in `struct fuse_…_out`.
    #[test]
    fn replies() {
        let head = |reply: &Reply| {
            let fields = Fields(reply.bytes());
            let error = i32::from_ne_bytes(fields.array(4).unwrap());
            (fields.u32(0).unwrap(), error, fields.u64(8).unwrap())
        };
        assert_eq!(head(&Reply::done(5)), (16, 0, 5));
        assert_eq!(head(&Reply::failed(5, Errno::NOSPC)), (16, -28, 5));
        let read = Reply::read(5, 4096);
        assert_eq!((head(&read), read.bytes().len()), ((16 + 4096, 0, 5), 16));
        let written = Reply::written(5, 4096);
        assert_eq!(head(&written), (24, 0, 5));
        assert_eq!(Fields(written.bytes()).u32(16), Ok(4096));
        let sought = Reply::sought(5, 1 << 40);
        assert_eq!(head(&sought), (24, 0, 5));
        assert_eq!(Fields(sought.bytes()).u64(16), Ok(1 << 40));
        let opened = Reply::opened(5);
        assert_eq!(head(&opened), (32, 0, 5));
        assert_eq!(Fields(opened.bytes()).u32(24), Ok(0b100_0001));
        let is = Attributes {
            bytes: 1 << 30,
            mode: 0o10_0600,
            user: 1000,
            group: 100,
            time_s: 1_700_000_000,
            block_bytes: 4096,
        };
        let attributes = Reply::attributes(5, 60, &is);
        assert_eq!(head(&attributes), (120, 0, 5));
        let fields = Fields(attributes.bytes());
        assert_eq!(fields.u64(16), Ok(60));
        assert_eq!(fields.u64(40), Ok(1 << 30));
        assert_eq!(fields.u64(48), Ok(1 << 21));
        assert_eq!(fields.u32(92), Ok(0o10_0600));
        assert_eq!([fields.u32(96), fields.u32(100)], [Ok(1), Ok(1000)]);
        assert_eq!(fields.u32(112), Ok(4096));
        let statistics = Reply::statistics(5, &is);
        assert_eq!(head(&statistics), (96, 0, 5));
        assert_eq!(Fields(statistics.bytes()).u64(16), Ok(1 << 18));
        assert_eq!(Fields(statistics.bytes()).u32(56), Ok(4096));
        let init = Reply::init(
            5,
            &Chosen {
                minor: 39,
                readahead_bytes: 131_072,
                features: features::WANTED,
                background: 256,
                write_bytes_max: 1 << 20,
                pages_max: 256,
            },
        );
        assert_eq!(head(&init), (80, 0, 5));
        let fields = Fields(init.bytes());
        assert_eq!([fields.u32(16), fields.u32(20)], [Ok(7), Ok(39)]);
        assert_eq!(fields.u32(28), Ok(0x4040_8021));
        assert_eq!(fields.u32(36), Ok(1 << 20));
        assert_eq!(fields.u32(44), Ok(256));
        assert_eq!(fields.u32(48), Ok(1 << 4));
    }
}
