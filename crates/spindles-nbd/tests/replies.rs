//! A client's view of replies: replies of our server, other replies that the protocol allows, and
//! forbidden replies.

#![expect(clippy::big_endian_bytes, reason = "the byte order of the protocol")]

use proptest::prelude::*;
use spindles_nbd::CommandFlags;
use spindles_nbd::replies::{Arrival, Asked, Awaited, Receiver};
use spindles_nbd::transmission::{Command, Failure, Headers, Replies, Request};

const ALL_HEADERS: [Headers; 3] = [Headers::Simple, Headers::Structured, Headers::Extended];

struct Requests([Awaited; 3]);

impl Asked for Requests {
    fn awaited(&mut self, cookie: u64) -> Option<&mut Awaited> {
        let at = usize::try_from(cookie).ok()?.checked_sub(1)?;
        self.0.get_mut(at)
    }
}

/// Cookie 1 reads 16 bytes at 0x1000, cookie 2 writes 16, cookie 3 flushes.
fn asked() -> Requests {
    Requests([
        Awaited::new(Command::Read, 0x1000, 16),
        Awaited::new(Command::Write, 0x2000, 16),
        Awaited::new(Command::Flush, 0, 0),
    ])
}

/// Prints the parsed replies, with bytes arriving in pieces of `piece` bytes. `!` marks the
/// violation that ends the connection.
fn hear(headers: Headers, bytes: &[u8], piece: usize) -> String {
    let mut asked = asked();
    let mut receiver = Receiver::new(headers);
    let (mut have, mut printed, mut at) = (Vec::new(), Vec::new(), 0);
    let mut data = 0;
    loop {
        let skipped = data.min(have.len());
        have.drain(..skipped);
        data -= skipped;
        let next = match data {
            0 => receiver.next(&have, &mut asked),
            _ => Ok((0, None)),
        };
        match next {
            Err(error) => {
                printed.push(format!("!{error}"));
                return printed.join("; ");
            }
            Ok((used, arrival)) => {
                have.drain(..used);
                match arrival {
                    Some(Arrival::Data {
                        cookie,
                        from_bytes,
                        bytes,
                    }) => {
                        printed.push(format!("{cookie} data {from_bytes}+{bytes}"));
                        data = usize::try_from(bytes).expect("few");
                    }
                    Some(Arrival::Zeros {
                        cookie,
                        from_bytes,
                        bytes,
                    }) => {
                        printed.push(format!("{cookie} zeros {from_bytes}+{bytes}"));
                    }
                    Some(Arrival::Over { cookie, result }) => {
                        let result =
                            result.map_or_else(|result| format!("{result:?}"), |()| "done".into());
                        printed.push(format!("{cookie} {result}"));
                    }
                    None if at == bytes.len() && used == 0 => return printed.join("; "),
                    None => {
                        let end = bytes.len().min(at + piece);
                        have.extend(&bytes[at..end]);
                        at = end;
                    }
                }
            }
        }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|char| !char.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).expect("digits");
    digits.chunks(2).map(byte).collect()
}

fn check(headers: Headers, text: &str, expected: &str) {
    for piece in [1, 7, 4096] {
        assert_eq!(
            hear(headers, &unhex(text), piece),
            expected,
            "{headers:?} {text}"
        );
    }
}

/// Our client understands the replies of our server, with all header formats.
#[test]
fn both_sides_understand_each_other() {
    let request = |command, cookie: u64, offset_bytes, bytes| Request {
        flags: CommandFlags::default(),
        command,
        cookie,
        offset_bytes,
        bytes,
    };
    let read = request(Command::Read, 1, 0x1000, 16);
    let write = request(Command::Write, 2, 0x2000, 16);
    let flush = request(Command::Flush, 3, 0, 0);
    for headers in ALL_HEADERS {
        let replies = Replies { headers };
        let mut bytes = Vec::new();
        replies.done(&flush, &mut bytes);
        replies.data(&read, &mut bytes);
        bytes.extend([0x5a; 16]);
        replies.failed(&write, Failure::NoSpace, "it is full", &mut bytes);
        for piece in [1, 5, 4096] {
            let heard = hear(headers, &bytes, piece);
            assert_eq!(
                heard, "3 done; 1 data 0+16; 1 done; 2 NoSpace",
                "{headers:?}"
            );
        }
    }
}

/// The bytes are taken from the protocol's description.
#[test]
fn a_read_arrives_in_chunks_in_any_order() {
    let data = "668e33ef 0000 0001 0000000000000001 0000000c 0000000000001004 aabbccdd";
    let hole = "668e33ef 0000 0002 0000000000000001 0000000c 0000000000001000 00000004";
    let last = "668e33ef 0000 0001 0000000000000001 00000010 0000000000001008 0102030405060708";
    let end = "668e33ef 0001 0000 0000000000000001 00000000";
    let write = "67446698 00000000 0000000000000002";
    check(
        Headers::Structured,
        &[data, write, hole, last, end].concat(),
        "1 data 4+4; 2 done; 1 zeros 0+4; 1 data 8+8; 1 done",
    );
    let data = "6e8a278c 0000 0001 0000000000000001 0000000000001000 000000000000000c \
        0000000000001000 aabbccdd";
    let hole = "6e8a278c 0001 0002 0000000000000001 0000000000001000 000000000000000c \
        0000000000001004 0000000c";
    check(
        Headers::Extended,
        &[data, hole].concat(),
        "1 data 0+4; 1 zeros 4+12; 1 done",
    );
    // An error at an offset after some data; nothing follows.
    let data = "668e33ef 0000 0001 0000000000000001 0000000c 0000000000001000 aabbccdd";
    let error = "668e33ef 0001 8002 0000000000000001 00000010 00000005 0002 6e6f 0000000000001004";
    check(
        Headers::Structured,
        &[data, error].concat(),
        "1 data 0+4; 1 Io",
    );
    // An unknown error type is an error too; the first error counts.
    let first = "668e33ef 0000 8001 0000000000000002 00000006 0000001c 0000";
    let second = "668e33ef 0001 9999 0000000000000002 00000006 00000005 0000";
    check(Headers::Structured, &[first, second].concat(), "2 NoSpace");
}

/// The client does not tolerate these replies: the connection ends before any of their data is
/// used.
#[test]
fn forbidden_replies_end_the_connection() {
    let simple = Headers::Simple;
    let structured = Headers::Structured;
    check(
        simple,
        "67446699 00000000 0000000000000001",
        "!0x67446699 where the protocol has 0x67446698",
    );
    check(
        simple,
        "67446698 00000000 0000000000000009",
        "!a reply to no request",
    );
    check(
        structured,
        "67446698 00000000 0000000000000001",
        "!a read that is answered simply",
    );
    let ended_short = "668e33ef 0001 0000 0000000000000001 00000000";
    check(
        structured,
        ended_short,
        "!a read that is not answered wholly",
    );
    // The same part twice, so that the total exceeds the request.
    let part =
        "668e33ef 0000 0001 0000000000000001 00000014 0000000000001000 000102030405060708090a0b";
    check(
        structured,
        &[part, part].concat(),
        "1 data 0+12; !data that was not requested",
    );
}

#[test]
fn forbidden_chunks_end_the_connection() {
    for (text, what) in [
        // Before the requested range, beyond it, and far beyond it.
        (
            "668e33ef 0000 0001 0000000000000001 00000009 0000000000000fff",
            "data that was not requested",
        ),
        (
            "668e33ef 0000 0001 0000000000000001 00000019 0000000000001000",
            "data that was not requested",
        ),
        (
            "668e33ef 0000 0001 0000000000000001 00000009 ffffffffffffffff",
            "data that was not requested",
        ),
        (
            "668e33ef 0000 0002 0000000000000001 0000000c 0000000000001008 ffffffff",
            "data that was not requested",
        ),
        (
            "668e33ef 0000 0002 0000000000000001 0000000c 0000000000001000 00000000",
            "data that was not requested",
        ),
        // Data for a write.
        (
            "668e33ef 0000 0001 0000000000000002 00000009 0000000000002000",
            "data that was not requested",
        ),
        // Malformed.
        (
            "668e33ef 0000 0001 0000000000000001 00000008 0000000000001000",
            "a reply of the wrong kind or length",
        ),
        (
            "668e33ef 0000 0005 0000000000000001 00000008 0000000000001000",
            "a reply of the wrong kind or length",
        ),
        (
            "668e33ef 0001 8001 0000000000000001 7fffffff 00000005",
            "a reply of the wrong kind or length",
        ),
        (
            "668e33ef 0001 8001 0000000000000001 00000006 00000000 0000",
            "an error that says nothing",
        ),
    ] {
        check(Headers::Structured, text, &format!("!{what}"));
    }
}

proptest! {
    #[test]
    fn any_reply_bytes_are_accepted_or_end_the_connection(
        bytes in proptest::collection::vec(any::<u8>(), 0..96),
        headers in 0..3_usize,
    ) {
        let magics = [0x6744_6698_u32, 0x668e_33ef, 0x6e8a_278c];
        let all = [&magics[headers].to_be_bytes()[..], &bytes].concat();
        hear(ALL_HEADERS[headers], &all, 4096);
    }
}
