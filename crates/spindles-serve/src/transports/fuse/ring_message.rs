//! The same messages over `io_uring`: the head of an entry, and the data of its commands.
//!
//! ```text
//!  0    the header of a request, then that of its reply
//!  128  what follows it in a request, but for payload
//!  256  flags
//!  264  the number of the request, which its reply is committed by
//!  272  how long the payload is: of a request, then of its reply
//! ```
//!
//! The payload of a request is the data of a write; the payload of a reply is everything after its
//! header.

#![allow(
    clippy::host_endian_bytes,
    reason = "the byte order of the protocol is the machine's"
)]

use super::message::{Message, Reply, Violation};

/// Length of an entry's head.
pub(crate) const RING_HEAD_BYTES: usize = 288;
const BODY_AT: usize = 128;
const FLAGS_AT: usize = 256;
const COMMIT_AT: usize = 264;
const PAYLOAD_LENGTH_AT: usize = 272;

/// Commands: the first registers an entry with the kernel, the second sends each reply.
pub(crate) const REGISTER: u32 = 1;
pub(crate) const COMMIT_AND_FETCH: u32 = 2;

/// Decodes a request; returns it with the commit ID for its reply.
pub(crate) fn decode(head: &[u8]) -> Result<(Message, u64), Violation> {
    let number = |at: usize| {
        let bytes = head.get(at..at + 4).ok_or(Violation)?;
        bytes
            .try_into()
            .map(u32::from_ne_bytes)
            .map_err(|_| Violation)
    };
    let payload_bytes = usize::try_from(number(PAYLOAD_LENGTH_AT)?).map_err(|_| Violation)?;
    let commit = head.get(COMMIT_AT..COMMIT_AT + 8).ok_or(Violation)?;
    let commit = commit.try_into().map_err(|_| Violation)?;
    let body = head.get(BODY_AT..FLAGS_AT).ok_or(Violation)?;
    let message = Message::decode_parts(head, body, Some(payload_bytes))?;
    Ok((message, u64::from_ne_bytes(commit)))
}

/// Writes the header of a reply into the head of its entry, and the length of the payload that
/// follows.
pub(crate) fn put_reply(head: &mut [u8], reply: &Reply, payload_bytes: usize) {
    let (header, _) = reply.parts();
    head[..header.len()].copy_from_slice(header);
    let length = u32::try_from(payload_bytes).expect("an access is short");
    head[PAYLOAD_LENGTH_AT..PAYLOAD_LENGTH_AT + 4].copy_from_slice(&length.to_ne_bytes());
}

/// Encodes the data of a command for an entry of this queue.
pub(crate) fn command<const BYTES: usize>(commit: u64, queue: u16) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[8..16].copy_from_slice(&commit.to_ne_bytes());
    bytes[16..18].copy_from_slice(&queue.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::message::Ask;
    use super::*;

    /// As in `struct fuse_uring_req_header`.
    fn head(opcode: u32, body: &[u8], payload_bytes: u32) -> [u8; RING_HEAD_BYTES] {
        let mut head = [0; RING_HEAD_BYTES];
        head[4..8].copy_from_slice(&opcode.to_ne_bytes());
        head[8..16].copy_from_slice(&77_u64.to_ne_bytes());
        head[128..128 + body.len()].copy_from_slice(body);
        head[264..272].copy_from_slice(&78_u64.to_ne_bytes());
        head[272..276].copy_from_slice(&payload_bytes.to_ne_bytes());
        head
    }

    #[test]
    fn requests() {
        let mut transfer = [0; 40];
        transfer[8..16].copy_from_slice(&(1_u64 << 40).to_ne_bytes());
        transfer[16..20].copy_from_slice(&512_u32.to_ne_bytes());
        let (offset_bytes, bytes) = (1 << 40, 512);
        let write = Ask::Write {
            offset_bytes,
            bytes,
        };
        let read = Ask::Read {
            offset_bytes,
            bytes,
        };
        for (opcode, payload_bytes, expected) in [
            (16, 512, Ok(write)),
            (15, 0, Ok(read)),
            (17, 0, Ok(Ask::Statistics)),
            // The length field is shorter than the payload, and longer.
            (16, 511, Err(Violation)),
            (16, 513, Err(Violation)),
        ] {
            let decoded = decode(&head(opcode, &transfer, payload_bytes));
            let expected = expected.map(|ask| (Message { unique: 77, ask }, 78));
            assert_eq!(decoded, expected, "{opcode} with {payload_bytes}");
        }
        assert_eq!(decode(&[0; RING_HEAD_BYTES - 1][..270]), Err(Violation));
    }

    #[test]
    fn replies() {
        let mut head = head(16, &[], 0);
        put_reply(&mut head, &Reply::written(77, 512), 8);
        assert_eq!(head[..4], 24_u32.to_ne_bytes());
        assert_eq!(head[8..16], 77_u64.to_ne_bytes());
        assert_eq!(head[272..276], 8_u32.to_ne_bytes());
    }

    /// As in `struct fuse_uring_cmd_req`.
    #[test]
    fn commands() {
        let bytes: [u8; 80] = command(78, 3);
        assert_eq!(bytes[..8], [0; 8]);
        assert_eq!(bytes[8..16], 78_u64.to_ne_bytes());
        assert_eq!(bytes[16..18], 3_u16.to_ne_bytes());
        assert_eq!(bytes[18..], [0; 62]);
    }
}
