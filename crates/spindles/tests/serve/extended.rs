//! Extended headers, byte by byte as in the protocol description: few clients support them yet. The
//! server may choose error texts, the order of export information, and context numbers.

use super::{array, serve_what};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

const EXPORT_BYTES: u64 = 6 << 30;

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|char| !char.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).expect("digits");
    digits.chunks(2).map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).expect("a half byte");
    let digits = |byte: &u8| [digit(byte >> 4), digit(byte & 15)];
    bytes.iter().flat_map(digits).collect()
}

/// Sends bytes, and expects this reply.
fn exchange(stream: &mut UnixStream, say: &str, hear: &str) {
    stream.write_all(&unhex(say)).expect("it reads");
    let mut heard = vec![0; unhex(hear).len()];
    stream.read_exact(&mut heard).expect("it answers");
    assert_eq!(hex(&heard), hex(&unhex(hear)), "{say}");
}

/// Sends bytes, and expects this error. The rest of the reply is text for people.
fn fails(stream: &mut UnixStream, say: &str, cookie: &str, offset: &str, error: u32) {
    exchange(
        stream,
        say,
        &format!("6e8a278c 0001 8001 {cookie} {offset}"),
    );
    let mut lengths = [0; 14];
    stream.read_exact(&mut lengths).expect("it answers");
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |all, byte| all << 8 | u64::from(*byte))
    };
    let (payload, message) = (number(&lengths[..8]), number(&lengths[12..]));
    assert_eq!(number(&lengths[8..12]), u64::from(error), "{say}");
    assert_eq!(payload, 6 + message, "{say}");
    let mut text = vec![0; usize::try_from(message).expect("short")];
    stream.read_exact(&mut text).expect("it answers");
    assert!(std::str::from_utf8(&text).is_ok_and(|text| !text.is_empty()));
}

#[test]
fn extended_headers_match_the_protocol() {
    let pool = array("raid1", "a,b", 8 << 20);
    pool.make("disk", EXPORT_BYTES);
    let served = serve_what(&pool, &["disk", "--as-is"], "disk is served as it is");
    let mut stream = served.connect();
    let s = &mut stream;
    // "NBDMAGIC", "IHAVEOPT", fixed newstyle, and no zeroes.
    exchange(s, "", "4e42444d41474943 49484156454f5054 0003");
    exchange(
        s,
        "00000003 49484156454f5054 0000000b 00000000",
        "0003e889045565a9 0000000b 00000001 00000000",
    );
    // base:allocation of the nameless export.
    exchange(
        s,
        "49484156454f5054 0000000a 0000001b
         00000000 00000001 0000000f 626173653a616c6c6f636174696f6e",
        "0003e889045565a9 0000000a 00000004 00000013 00000001 626173653a616c6c6f636174696f6e
         0003e889045565a9 0000000a 00000001 00000000",
    );
    // 6 GiB, with all flags except read only, rotational, resizable and payloads of block status.
    exchange(
        s,
        "49484156454f5054 00000007 00000006 00000000 0000",
        "0003e889045565a9 00000007 00000003 0000000c 0000 0000000180000000 0ded
         0003e889045565a9 00000007 00000003 0000000e 0003 00000001 00001000 02000000
         0003e889045565a9 00000007 00000001 00000000",
    );
    // A write with FUA. The length in the request header is the payload's length.
    exchange(
        s,
        "21e41c71 0021 0001 1112131415161718 0000000000001000 0000000000000008 a1a2a3a4a5a6a7a8",
        "6e8a278c 0001 0000 1112131415161718 0000000000001000 0000000000000000",
    );
    let read = "21e41c71 0000 0000 2122232425262728 0000000000000ffc 0000000000000010";
    let read_head = "6e8a278c 0001 0001 2122232425262728 0000000000000ffc 0000000000000018
        0000000000000ffc";
    exchange(
        s,
        read,
        &format!("{read_head} 00000000 a1a2a3a4a5a6a7a8 00000000"),
    );
    exchange(
        s,
        "21e41c71 0000 0003 3132333435363738 0000000000000000 0000000000000000",
        "6e8a278c 0001 0000 3132333435363738 0000000000000000 0000000000000000",
    );
    // 5 GiB of block status: one extent with 64-bit numbers; then write zeroes, and trim.
    exchange(
        s,
        "21e41c71 0000 0007 4142434445464748 0000000000000800 0000000140000000",
        "6e8a278c 0001 0006 4142434445464748 0000000000000800 0000000000000018
         00000001 00000001 0000000140000000 0000000000000000",
    );
    exchange(
        s,
        "21e41c71 0000 0006 5152535455565758 0000000000000800 0000000140000000",
        "6e8a278c 0001 0000 5152535455565758 0000000000000800 0000000000000000",
    );
    exchange(s, read, &format!("{read_head} {}", "00".repeat(16)));
    exchange(
        s,
        "21e41c71 0000 0004 6162636465666768 0000000000000800 0000000140000000",
        "6e8a278c 0001 0000 6162636465666768 0000000000000800 0000000000000000",
    );
    let (cookie, offset) = ("7172737475767778", "0000000040000000");
    let mut fails = |command: &str, length: &str, payload: &str, error| {
        let say = format!("21e41c71 {command} {cookie} {offset} {length} {payload}");
        fails(s, &say, cookie, offset, error);
        // Both sides are still in sync afterwards.
        exchange(
            s,
            "21e41c71 0000 0003 3132333435363738 0000000000000000 0000000000000000",
            "6e8a278c 0001 0000 3132333435363738 0000000000000000 0000000000000000",
        );
    };
    let (no_space, invalid, overflow) = (28, 22, 75);
    // 5 GiB and a byte from 1 GiB on, and more than is possible.
    for length in ["0000000140000001", "ffffffffffffffff"] {
        fails("0000 0006", length, "", no_space);
        fails("0000 0004", length, "", invalid);
        fails("0000 0007", length, "", invalid);
        fails("0000 0000", length, "", invalid);
    }
    fails("0000 0000", "0000000140000000", "", overflow);
    // An unexpected payload is skipped: of a read, a block status, and an unknown command.
    for command in ["0020 0000", "0020 0007", "0020 0063"] {
        fails(command, "0000000000000008", "2122232425262728", invalid);
    }
    // A payload above the limit: the server does not wait for its end.
    let say = "21e41c71 0020 0000 7172737475767778 0000000000000000 0000000140000000";
    stream.write_all(&unhex(say)).expect("it reads");
    let count = stream.read(&mut [0; 1]);
    assert!(matches!(count, Ok(0) | Err(_)), "{count:?}");
    served.stop();
}
