//! Requests and replies, byte for byte as in the protocol's description, and decoded again.

#![expect(clippy::big_endian_bytes, reason = "the byte order of the protocol")]

use proptest::prelude::*;
use spindles_nbd::transmission::{
    Command, Extent, Failure, Headers, Replies, ReplyHead, ReplyKind, Request, extents_of,
    failure_of,
};
use spindles_nbd::{CommandFlags, Violation};

const ALL_HEADERS: [Headers; 3] = [Headers::Simple, Headers::Structured, Headers::Extended];

const REQUEST: Request = Request {
    flags: CommandFlags::FUA,
    command: Command::Write,
    cookie: 0x0102_0304_0506_0708,
    offset_bytes: 0x1000,
    bytes: 0x200,
};

fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).expect("a half byte");
    let digits = |byte: &u8| [digit(byte >> 4), digit(byte & 15)];
    bytes.iter().flat_map(digits).collect()
}

/// The bytes are taken from the protocol's description, since few clients support extended headers
/// yet.
#[test]
fn requests_match_the_protocol() {
    let encoded = |headers| {
        let mut bytes = Vec::new();
        REQUEST.encode(headers, &mut bytes);
        hex(&bytes)
    };
    let head = "00010001 0102030405060708 0000000000001000".replace(' ', "");
    assert_eq!(encoded(Headers::Simple), format!("25609513{head}00000200"));
    assert_eq!(encoded(Headers::Structured), encoded(Headers::Simple));
    assert_eq!(
        encoded(Headers::Extended),
        format!("21e41c71{head}0000000000000200")
    );
}

/// Returns the bytes of a reply in hexadecimal.
fn reply(headers: Headers, say: &dyn Fn(Replies, &mut Vec<u8>)) -> String {
    let mut bytes = Vec::new();
    say(Replies { headers }, &mut bytes);
    hex(&bytes)
}

#[test]
fn replies_match_the_protocol() {
    let check = |say: &dyn Fn(Replies, &mut Vec<u8>), expected: [&str; 3]| {
        for (headers, expected) in ALL_HEADERS.into_iter().zip(expected) {
            assert_eq!(
                reply(headers, say),
                expected.replace(' ', ""),
                "{headers:?}"
            );
        }
    };
    check(
        &|replies, into| replies.done(&REQUEST, into),
        [
            "67446698 00000000 0102030405060708",
            "67446698 00000000 0102030405060708",
            "6e8a278c 0001 0000 0102030405060708 0000000000001000 0000000000000000",
        ],
    );
    check(
        &|replies, into| replies.data(&REQUEST, into),
        [
            "67446698 00000000 0102030405060708",
            "668e33ef 0001 0001 0102030405060708 00000208 0000000000001000",
            "6e8a278c 0001 0001 0102030405060708 0000000000001000 0000000000000208 \
             0000000000001000",
        ],
    );
    check(
        &|replies, into| replies.failed(&REQUEST, Failure::Io, "no", into),
        [
            "67446698 00000005 0102030405060708",
            "668e33ef 0001 8001 0102030405060708 00000008 00000005 0002 6e6f",
            "6e8a278c 0001 8001 0102030405060708 0000000000001000 0000000000000008 00000005 0002 \
             6e6f",
        ],
    );
}

#[test]
fn replies_of_block_status_match_the_protocol() {
    let extents = [
        Extent {
            bytes: 0x100,
            hole: false,
            zero: false,
        },
        Extent {
            bytes: 0x100,
            hole: true,
            zero: true,
        },
    ];
    let status = |headers| {
        reply(headers, &|replies, into| {
            replies.status(&REQUEST, 1, &extents, into);
        })
    };
    let expected = "668e33ef 0001 0005 0102030405060708 00000014 00000001
        00000100 00000000 00000100 00000003";
    assert_eq!(
        status(Headers::Structured),
        expected.replace(char::is_whitespace, "")
    );
    let expected = "6e8a278c 0001 0006 0102030405060708 0000000000001000 0000000000000028
        00000001 00000002 0000000000000100 0000000000000000 0000000000000100 0000000000000003";
    assert_eq!(
        status(Headers::Extended),
        expected.replace(char::is_whitespace, "")
    );
}

#[test]
fn a_client_parses_replies_of_a_server() {
    for headers in ALL_HEADERS {
        let mut bytes = Vec::new();
        let replies = Replies { headers };
        replies.done(&REQUEST, &mut bytes);
        replies.failed(&REQUEST, Failure::NoSpace, "it is full", &mut bytes);
        if headers > Headers::Simple {
            let extent = Extent {
                bytes: 0x200,
                hole: true,
                zero: true,
            };
            replies.status(&REQUEST, 1, &[extent], &mut bytes);
        }
        replies.data(&REQUEST, &mut bytes);
        let mut heads = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            for cut in 0..ReplyHead::BYTES_MAX.min(rest.len()) {
                if let Ok(Some((_, length))) = ReplyHead::decode(headers, &rest[..cut]) {
                    assert!(length <= cut, "it claims more than it was given");
                }
            }
            let (head, length) = ReplyHead::decode(headers, rest).unwrap().unwrap();
            rest = &rest[length..];
            assert_eq!((head.cookie, head.last), (REQUEST.cookie, true));
            let here = usize::try_from(head.payload_bytes).unwrap().min(rest.len());
            let (payload, after) = rest.split_at(here);
            match head.kind {
                ReplyKind::Error => {
                    assert_eq!(
                        failure_of(payload).unwrap(),
                        (Failure::NoSpace, "it is full")
                    );
                }
                ReplyKind::Status { extended } => {
                    let (context, extents) = extents_of(payload, extended).unwrap();
                    assert_eq!((context, extents.len(), extents[0].bytes), (1, 1, 0x200));
                }
                _ => {}
            }
            heads.push(head.kind);
            rest = after;
        }
        let expected: &[ReplyKind] = match headers {
            Headers::Simple => &[
                ReplyKind::Simple(None),
                ReplyKind::Simple(Some(Failure::NoSpace)),
                ReplyKind::Simple(None),
            ],
            Headers::Structured => &[
                ReplyKind::Simple(None),
                ReplyKind::Error,
                ReplyKind::Status { extended: false },
                ReplyKind::Data,
            ],
            Headers::Extended => &[
                ReplyKind::None,
                ReplyKind::Error,
                ReplyKind::Status { extended: true },
                ReplyKind::Data,
            ],
        };
        assert_eq!(heads, expected);
    }
}

#[test]
fn a_desynchronized_peer_is_detected_immediately() {
    for headers in ALL_HEADERS {
        assert!(matches!(
            Request::decode(headers, &[0; 4]),
            Err(Violation::Magic { found: 0, .. })
        ));
        assert!(ReplyHead::decode(headers, &[0; 4]).is_err());
    }
    let mut bytes = Vec::new();
    REQUEST.encode(Headers::Simple, &mut bytes);
    assert!(Request::decode(Headers::Extended, &bytes).is_err());
}

proptest! {
    #[test]
    fn requests_round_trip(
        command in 0_u16..9,
        cookie: u64,
        offset_bytes: u64,
        bytes: u32,
        flags: u16,
        headers in 0_usize..3,
        cut in 0_usize..32,
    ) {
        let headers = ALL_HEADERS[headers];
        let mut whole = Vec::new();
        let request = Request {
            flags: CommandFlags(flags),
            command: Command::Read,
            cookie,
            offset_bytes,
            bytes: bytes.into(),
        };
        request.encode(headers, &mut whole);
        whole[6..8].copy_from_slice(&command.to_be_bytes());
        prop_assert_eq!(whole.len(), Request::encoded_bytes(headers));
        let back = Request::decode(headers, &whole).unwrap().unwrap();
        let mut again = Vec::new();
        back.encode(headers, &mut again);
        prop_assert_eq!(&again, &whole);
        let fields = (back.cookie, back.offset_bytes, back.bytes);
        prop_assert_eq!(fields, (cookie, offset_bytes, bytes.into()));
        if cut < whole.len() {
            prop_assert_eq!(Request::decode(headers, &whole[..cut]), Ok(None));
        }
    }

    #[test]
    fn any_bytes_are_a_reply_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        for headers in ALL_HEADERS {
            ReplyHead::decode(headers, &bytes).ok();
        }
        failure_of(&bytes).ok();
        extents_of(&bytes, true).ok();
        extents_of(&bytes, false).ok();
    }
}
