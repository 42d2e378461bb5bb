//! Decides on each request for a file that is an array. The file behaves like a block device of
//! fixed size.

use super::message::{Ask, Attributes, Chosen, MAJOR, MINOR, MINOR_MIN, Message, Reply};
use super::message::{allocation, features, whence};
use rustix::io::Errno;
use spindles_block::Operation;

/// Validity of attributes in seconds: a grown array shows its new size after at most this long.
const ATTRIBUTES_VALID_S: u64 = 1;
/// The access mode in the flags of `open`.
const ACCESS_MODE: u32 = 0o3;
const PAGE_BYTES: u32 = 4096;
/// Most extents inspected by one seek, since other requests wait meanwhile.
const EXTENTS_MAX: u32 = 16;
/// Pages of a request if the kernel does not support `MAX_PAGES`.
const PAGES_DEFAULT: u32 = 32;

/// The file.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayFile {
    pub(super) attributes: Attributes,
    pub(super) read_only: bool,
    /// Longest read or write.
    pub(super) request_bytes_max: u32,
    /// Most requests in progress.
    pub(super) requests_max: u16,
    /// True if there is a ring.
    pub(super) has_ring: bool,
}

/// The decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Submit an access to the export, then reply.
    Access(Asked),
    /// Reply at once.
    Reply(Reply),
    /// Send no reply.
    Silence,
    /// End: no more requests follow.
    End,
}

/// An access of any length that the kernel asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) operation: Operation,
    pub(super) offset_bytes: u64,
    pub(super) bytes: u64,
}

impl ArrayFile {
    /// Decides on a request. `extent` takes an offset and a maximum; it returns whether the range
    /// there is known to be zero, and the length of that range.
    pub(super) fn decide(
        &self,
        message: &Message,
        extent: impl Fn(u64, u64) -> (bool, u64),
    ) -> Decision {
        let unique = message.unique;
        let decided = match message.ask {
            Ask::Init {
                major,
                minor,
                readahead_bytes,
                features,
            } => self.init(unique, (major, minor), readahead_bytes, features),
            Ask::Attributes => Ok(Decision::Reply(self.attributes(unique))),
            Ask::Change {
                size,
                of_open,
                of_access,
            } => self.change(unique, size, of_open, of_access),
            Ask::Open { flags } if flags & ACCESS_MODE != 0 && self.read_only => Err(Errno::ROFS),
            Ask::Open { .. } => Ok(Decision::Reply(Reply::opened(unique))),
            Ask::Release => Ok(Decision::Reply(Reply::done(unique))),
            Ask::Read {
                offset_bytes,
                bytes,
            } => Ok(match self.within(offset_bytes, bytes.into()) {
                0 => Decision::Reply(Reply::read(unique, 0)),
                bytes => access(Operation::Read, offset_bytes, bytes),
            }),
            Ask::Write {
                offset_bytes,
                bytes,
            } => match (bytes, self.within(offset_bytes, bytes.into())) {
                (0, _) => Ok(Decision::Reply(Reply::written(unique, 0))),
                (_, 0) => Err(Errno::NOSPC),
                (_, bytes) => Ok(access(Operation::Write { fua: false }, offset_bytes, bytes)),
            },
            Ask::Flush => Ok(access(Operation::Flush, 0, 0)),
            Ask::Allocate {
                offset_bytes,
                bytes,
                mode,
            } => self.allocate(unique, offset_bytes, bytes, mode),
            Ask::Seek {
                offset_bytes,
                whence,
            } => self.seek(unique, offset_bytes, whence, extent),
            Ask::Statistics => Ok(Decision::Reply(Reply::statistics(unique, &self.attributes))),
            Ask::Forget => Ok(Decision::Silence),
            Ask::Destroy => Ok(Decision::End),
            // The kernel copes without, and rarely asks again.
            Ask::Other(_) => Err(Errno::NOSYS),
        };
        decided.unwrap_or_else(|error| Decision::Reply(Reply::failed(unique, error)))
    }

    fn attributes(&self, unique: u64) -> Reply {
        Reply::attributes(unique, ATTRIBUTES_VALID_S, &self.attributes)
    }

    /// Clips a length to the end of the file.
    fn within(&self, offset_bytes: u64, bytes: u64) -> u64 {
        bytes.min(self.attributes.bytes.saturating_sub(offset_bytes))
    }

    fn init(
        &self,
        unique: u64,
        (major, minor): (u32, u32),
        readahead_bytes: u32,
        offered: u64,
    ) -> Result<Decision, Errno> {
        // A kernel with a newer major version learns ours, and asks again with it.
        if major < MAJOR || major == MAJOR && minor < MINOR_MIN {
            return Err(Errno::PROTO);
        }
        let mut wanted = features::WANTED;
        if self.has_ring {
            wanted |= features::OVER_IO_URING;
        }
        let features = offered & wanted;
        let pages = match features & features::MAX_PAGES {
            0 => PAGES_DEFAULT,
            _ => self.request_bytes_max.div_ceil(PAGE_BYTES),
        };
        let chosen = Chosen {
            minor: MINOR,
            readahead_bytes,
            features,
            // Requests that wait in the server are answered sooner than those that wait in the
            // kernel.
            background: self.requests_max,
            write_bytes_max: self.request_bytes_max.min(pages * PAGE_BYTES),
            pages_max: u16::try_from(pages).expect("an access is short"),
        };
        Ok(Decision::Reply(Reply::init(unique, &chosen)))
    }

    fn change(
        &self,
        unique: u64,
        size: Option<u64>,
        of_open: bool,
        of_access: bool,
    ) -> Result<Decision, Errno> {
        match size {
            _ if of_access => Err(Errno::PERM),
            // As with a block device: `O_TRUNC` changes nothing, and the length can't be set.
            Some(0) if !of_open => Ok(Decision::Reply(self.attributes(unique))),
            Some(bytes) if bytes != self.attributes.bytes => Err(Errno::INVAL),
            _ => Ok(Decision::Reply(self.attributes(unique))),
        }
    }

    fn allocate(
        &self,
        unique: u64,
        offset_bytes: u64,
        bytes: u64,
        mode: u32,
    ) -> Result<Decision, Errno> {
        let operation = match mode & !allocation::KEEP_SIZE {
            0 => None,
            allocation::PUNCH_HOLE => Some(Operation::Discard),
            allocation::ZERO_RANGE => Some(Operation::WriteZeroes { fua: false }),
            _ => return Err(Errno::OPNOTSUPP),
        };
        let within = self.within(offset_bytes, bytes);
        if within < bytes && mode & allocation::KEEP_SIZE == 0 {
            return Err(Errno::FBIG);
        }
        if self.read_only {
            return Err(Errno::ROFS);
        }
        Ok(match operation {
            // All space is allocated already.
            None => Decision::Reply(Reply::done(unique)),
            Some(_) if within == 0 => Decision::Reply(Reply::done(unique)),
            Some(operation) => access(operation, offset_bytes, within),
        })
    }

    /// Finds data or a hole. Gives up after `EXTENTS_MAX` extents, and returns the offset reached.
    /// That is harmless: a program that copies from there copies zeros.
    fn seek(
        &self,
        unique: u64,
        offset_bytes: u64,
        whence: u32,
        extent: impl Fn(u64, u64) -> (bool, u64),
    ) -> Result<Decision, Errno> {
        let is_sought = |is_hole: bool| match whence {
            whence::DATA => Ok(!is_hole),
            whence::HOLE => Ok(is_hole),
            _ => Err(Errno::INVAL),
        };
        let end = self.attributes.bytes;
        let mut at = offset_bytes;
        for _ in 0..EXTENTS_MAX {
            if at >= end {
                break;
            }
            let (is_hole, bytes) = extent(at, end - at);
            if is_sought(is_hole)? {
                break;
            }
            at += bytes;
        }
        // Every file ends with a virtual hole.
        if offset_bytes >= end || at == end && !is_sought(true)? {
            return Err(Errno::NXIO);
        }
        Ok(Decision::Reply(Reply::sought(unique, at)))
    }
}

fn access(operation: Operation, offset_bytes: u64, bytes: u64) -> Decision {
    Decision::Access(Asked {
        operation,
        offset_bytes,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 1 << 20;

    fn file(read_only: bool) -> ArrayFile {
        ArrayFile {
            attributes: Attributes {
                bytes: BYTES,
                mode: 0o10_0600,
                user: 0,
                group: 0,
                time_s: 0,
                block_bytes: 4096,
            },
            read_only,
            request_bytes_max: 1 << 20,
            requests_max: 128,
            has_ring: false,
        }
    }

    fn all_data(_: u64, bytes: u64) -> (bool, u64) {
        (false, bytes)
    }

    fn decide(ask: Ask) -> Decision {
        file(false).decide(&Message { unique: 7, ask }, all_data)
    }

    fn fails(error: Errno) -> Decision {
        Decision::Reply(Reply::failed(7, error))
    }

    fn read(offset_bytes: u64, bytes: u32) -> Ask {
        Ask::Read {
            offset_bytes,
            bytes,
        }
    }

    fn write(offset_bytes: u64, bytes: u32) -> Ask {
        Ask::Write {
            offset_bytes,
            bytes,
        }
    }

    #[test]
    fn transfers_end_with_the_file() {
        let writes = Operation::Write { fua: false };
        for (ask, decision) in [
            (read(4096, 512), access(Operation::Read, 4096, 512)),
            (read(BYTES - 1, 512), access(Operation::Read, BYTES - 1, 1)),
            (read(BYTES, 512), Decision::Reply(Reply::read(7, 0))),
            (read(u64::MAX, 1), Decision::Reply(Reply::read(7, 0))),
            (write(4096, 512), access(writes, 4096, 512)),
            (write(BYTES - 1, 512), access(writes, BYTES - 1, 1)),
            (write(BYTES, 512), fails(Errno::NOSPC)),
            (write(BYTES, 0), Decision::Reply(Reply::written(7, 0))),
            (Ask::Flush, access(Operation::Flush, 0, 0)),
        ] {
            assert_eq!(decide(ask), decision, "{ask:?}");
        }
    }

    #[test]
    fn a_file_takes_discards_and_zeroing_but_does_not_grow() {
        let done = Decision::Reply(Reply::done(7));
        let zeroes = Operation::WriteZeroes { fua: false };
        let (keep, punch, zero) = (1, 2, 16);
        for (mode, offset_bytes, bytes, decision) in [
            (
                keep | punch,
                512,
                1024,
                access(Operation::Discard, 512, 1024),
            ),
            (
                keep | punch,
                512,
                u64::MAX,
                access(Operation::Discard, 512, BYTES - 512),
            ),
            (keep | punch, BYTES, 1, done),
            (keep | zero, 0, BYTES, access(zeroes, 0, BYTES)),
            (zero, 0, BYTES, access(zeroes, 0, BYTES)),
            (zero, 1, BYTES, fails(Errno::FBIG)),
            (0, 0, BYTES, done),
            (0, 0, BYTES + 1, fails(Errno::FBIG)),
            (keep, 0, BYTES + 1, done),
            // Collapses a range.
            (8, 0, 4096, fails(Errno::OPNOTSUPP)),
        ] {
            let ask = Ask::Allocate {
                offset_bytes,
                bytes,
                mode,
            };
            assert_eq!(decide(ask), decision, "{ask:?}");
        }
    }

    #[test]
    fn data_and_holes_are_found() {
        const KIB: u64 = 1024;
        let (data, hole) = (whence::DATA, whence::HOLE);
        let seek = |extent: &dyn Fn(u64, u64) -> (bool, u64), offset_bytes, whence| {
            let ask = Ask::Seek {
                offset_bytes,
                whence,
            };
            file(false).decide(&Message { unique: 7, ask }, extent)
        };
        // Holes, except for 64 KiB of data, reported as extents of up to 32 KiB.
        let some_data = |at: u64, _| match at / (64 * KIB) {
            1 => (false, 32 * KIB - at % (32 * KIB)),
            _ => (true, 64 * KIB - at % (64 * KIB)),
        };
        for (offset_bytes, whence, found) in [
            (0, hole, Ok(0)),
            (5, hole, Ok(5)),
            (0, data, Ok(64 * KIB)),
            (65 * KIB, data, Ok(65 * KIB)),
            (65 * KIB, hole, Ok(128 * KIB)),
            (128 * KIB, data, Err(Errno::NXIO)),
            (BYTES - 1, hole, Ok(BYTES - 1)),
            (BYTES, hole, Err(Errno::NXIO)),
            (u64::MAX, data, Err(Errno::NXIO)),
            (0, 2, Err(Errno::INVAL)),
        ] {
            let found = found.map_or_else(fails, |at| Decision::Reply(Reply::sought(7, at)));
            assert_eq!(
                seek(&some_data, offset_bytes, whence),
                found,
                "{offset_bytes} {whence}"
            );
        }
        let at = |at| Decision::Reply(Reply::sought(7, at));
        assert_eq!(seek(&all_data, 9, data), at(9));
        assert_eq!(seek(&all_data, 9, hole), at(BYTES));
        // The search ends before distant data; the caller repeats it from there.
        assert_eq!(seek(&|_, _| (true, KIB), 0, data), at(16 * KIB));
    }

    #[test]
    fn the_size_is_fixed_as_that_of_a_block_device() {
        let same = Decision::Reply(file(false).attributes(7));
        for (size, of_open, of_access, decision) in [
            (Some(0), false, false, same),
            (Some(0), true, false, fails(Errno::INVAL)),
            (Some(BYTES), true, false, same),
            (Some(BYTES + 1), false, false, fails(Errno::INVAL)),
            // Changes the timestamps only.
            (None, false, false, same),
            (None, false, true, fails(Errno::PERM)),
        ] {
            let ask = Ask::Change {
                size,
                of_open,
                of_access,
            };
            assert_eq!(decide(ask), decision, "{ask:?}");
        }
    }

    #[test]
    fn a_read_only_file_is_not_opened_for_writing() {
        let open = |flags| {
            let ask = Ask::Open { flags };
            file(true).decide(&Message { unique: 7, ask }, all_data)
        };
        assert_eq!(open(0o40000), Decision::Reply(Reply::opened(7)));
        assert_eq!([open(1), open(2)], [fails(Errno::ROFS); 2]);
    }

    #[test]
    fn the_longest_request_is_an_access() {
        let init = |major, minor, features| {
            decide(Ask::Init {
                major,
                minor,
                readahead_bytes: 1,
                features,
            })
        };
        let chosen = |features, pages_max, write_bytes_max| {
            let chosen = Chosen {
                minor: MINOR,
                readahead_bytes: 1,
                features,
                background: 128,
                write_bytes_max,
                pages_max,
            };
            Decision::Reply(Reply::init(7, &chosen))
        };
        assert_eq!(
            init(7, 45, u64::MAX),
            chosen(features::WANTED, 256, 1 << 20)
        );
        assert_eq!(init(8, 0, 1), chosen(1, 32, 128 << 10));
        let with_ring = ArrayFile {
            has_ring: true,
            ..file(false)
        };
        let over_ring = features::WANTED | features::OVER_IO_URING;
        let ask = Ask::Init {
            major: 7,
            minor: 45,
            readahead_bytes: 1,
            features: u64::MAX,
        };
        let decided = with_ring.decide(&Message { unique: 7, ask }, all_data);
        assert_eq!(decided, chosen(over_ring, 256, 1 << 20));
        assert_eq!(init(7, 27, u64::MAX), fails(Errno::PROTO));
    }

    #[test]
    fn unneeded_fuse_operations_are_unsupported() {
        assert_eq!(decide(Ask::Other(22)), fails(Errno::NOSYS));
        assert_eq!(decide(Ask::Forget), Decision::Silence);
        assert_eq!(decide(Ask::Destroy), Decision::End);
    }
}
