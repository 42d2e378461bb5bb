//! Any bytes from a client, in the handshake and as requests after it, are answered or end the
//! connection. How the bytes are split makes no difference.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindles_nbd::TransmissionFlags;
use spindles_nbd::handshake::{Agreed, BlockSizes, Export, Server, HandshakeStep, Tls};
use spindles_nbd::transmission::{
    Command, Extent, Failure, Headers, Replies, ReplyHead, Request, extents_of, failure_of,
};

fn export(name: &str) -> Export {
    Export {
        name: name.to_owned(),
        description: "an array".to_owned(),
        bytes: 1 << 30,
        flags: TransmissionFlags::ALL,
        block_sizes: BlockSizes {
            min_bytes: 1,
            preferred_bytes: 4096,
            payload_bytes_max: 32 << 20,
        },
    }
}

/// The end of a handshake: an error, incomplete, or agreement with the number of bytes left.
type Outcome = Result<Option<(Option<Agreed>, usize)>, String>;

/// Returns everything that the server sends, and the end of the handshake.
fn shake(tls: Tls, bytes: &[u8], piece: usize) -> (Vec<u8>, Outcome) {
    let exports = [export("pool"), export("tank")];
    let mut server = Server::new(tls);
    let mut said = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(piece.min(rest.len()));
        let received = server.receive(&exports, part);
        said.append(server.output());
        let (used, step) = match received {
            Ok(received) => received,
            Err(violation) => return (said, Err(violation.to_string())),
        };
        rest = after;
        let left = part.len() - used + rest.len();
        match step {
            HandshakeStep::Receive => assert_eq!(used, part.len()),
            HandshakeStep::StartTls => server.encrypted(),
            HandshakeStep::Transmit(agreed) => return (said, Ok(Some((Some(agreed), left)))),
            HandshakeStep::End => return (said, Ok(Some((None, left)))),
        }
    }
    (said, Ok(None))
}

/// Returns flags and options built from the bytes, with right magic numbers and lengths, so that
/// the options are reached.
fn framed(mut data: &[u8]) -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    while let [option, length, rest @ ..] = data {
        let (of_option, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes.extend(b"IHAVEOPT");
        bytes.extend(u32::from(*option % 13).to_be_bytes());
        bytes.extend(u32::try_from(of_option.len()).unwrap().to_be_bytes());
        bytes.extend(of_option);
        data = rest;
    }
    bytes
}

/// A client can decode each reply to a request.
fn replies(headers: Headers, request: &Request) {
    let replies = Replies { headers };
    let mut said = Vec::new();
    replies.done(request, &mut said);
    let end = said.len();
    replies.failed(request, Failure::Io, "it failed", &mut said);
    assert!(ReplyHead::decode(headers, &said).unwrap().is_some());
    let (head, length) = ReplyHead::decode(headers, &said[end..]).unwrap().unwrap();
    assert_eq!(head.cookie, request.cookie);
    if headers != Headers::Simple {
        failure_of(&said[end + length..]).unwrap();
        let extents = [Extent {
            bytes: request.bytes.max(1),
            hole: true,
            zero: false,
        }];
        said.clear();
        replies.status(request, 1, &extents, &mut said);
        let (_, length) = ReplyHead::decode(headers, &said).unwrap().unwrap();
        let read = extents_of(&said[length..], headers == Headers::Extended);
        assert_eq!(read, Ok((1, extents.to_vec())));
    }
}

fn requests(headers: Headers, mut bytes: &[u8]) {
    let length = Request::encoded_bytes(headers);
    while let Ok(Some(request)) = Request::decode(headers, bytes) {
        let mut again = Vec::new();
        request.encode(headers, &mut again);
        assert_eq!(again, bytes[..length]);
        replies(headers, &request);
        let payload = match request.command {
            Command::Write => usize::try_from(request.bytes).unwrap_or(usize::MAX),
            _ => 0,
        };
        bytes = &bytes[length..];
        bytes = &bytes[payload.min(bytes.len())..];
    }
}

fuzz_target!(|data: &[u8]| {
    let (mode, data) = data.split_first().unwrap_or((&0, &[]));
    let bytes = match mode & 1 {
        0 => data.to_vec(),
        _ => framed(data),
    };
    let piece = 1 + usize::from(mode >> 2);
    // Bytes between STARTTLS and TLS are refused, so the split makes a difference there.
    if mode & 2 != 0 {
        drop(shake(Tls::Required, &bytes, piece));
        return;
    }
    let (said, outcome) = shake(Tls::Never, &bytes, usize::MAX);
    assert_eq!(shake(Tls::Never, &bytes, piece), (said, outcome.clone()));
    if let Ok(Some((Some(agreed), left))) = outcome {
        requests(agreed.headers, &bytes[bytes.len() - left..]);
    }
    for headers in [Headers::Simple, Headers::Extended] {
        requests(headers, data);
    }
});
