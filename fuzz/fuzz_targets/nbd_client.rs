//! Any bytes from a server, in the handshake and as replies after it, are understood or end the
//! connection. How the bytes are split makes no difference, and no unrequested data is accepted.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindles_nbd::handshake::{Agreed, Client, Progress, Wanted};
use spindles_nbd::replies::{Arrival, Asked, Awaited, Receiver};
use spindles_nbd::transmission::{Command, Headers};

/// The end of a handshake: an error, incomplete, a refusal, or agreement; with the number of bytes
/// left.
type Outcome = Result<Option<(Result<Agreed, String>, usize)>, String>;

/// Returns everything that the client sends, and the end of the handshake.
fn shake(headers: Headers, bytes: &[u8], piece: usize) -> (Vec<u8>, Outcome) {
    let mut client = Client::new(Wanted {
        export: "pool".to_owned(),
        tls: false,
        headers,
    });
    let mut said = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(piece.min(rest.len()));
        let received = client.receive(part);
        said.append(client.output());
        let (used, progress) = match received {
            Ok(received) => received,
            Err(violation) => return (said, Err(violation.to_string())),
        };
        rest = after;
        let left = part.len() - used + rest.len();
        match progress {
            Progress::Receive => assert_eq!(used, part.len()),
            Progress::StartTls => panic!("the client did not request TLS"),
            Progress::Transmit(agreed) => return (said, Ok(Some((Ok(agreed), left)))),
            Progress::Refused(why) => return (said, Ok(Some((Err(why), left)))),
        }
    }
    (said, Ok(None))
}

/// Returns a greeting and option replies built from the bytes, with right magic numbers and
/// lengths.
fn framed_options(mut data: &[u8]) -> Vec<u8> {
    let kinds = [1, 2, 3, 4, 1 << 31 | 1, 1 << 31 | 2, 1 << 31 | 6, 77_u32];
    let mut bytes = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
    while let [kind, length, rest @ ..] = data {
        let (payload, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes.extend(0x0003_e889_0455_65a9_u64.to_be_bytes());
        bytes.extend(7_u32.to_be_bytes());
        bytes.extend(kinds[usize::from(kind % 8)].to_be_bytes());
        bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
        bytes.extend(payload);
        data = rest;
    }
    bytes
}

/// Returns replies built from the bytes, with right magic numbers and lengths.
fn framed_replies(headers: Headers, mut data: &[u8]) -> Vec<u8> {
    let kinds = [0, 1, 2, 5, 6, 0x8001, 0x8002, 77_u16];
    let mut bytes = Vec::new();
    while let [head, cookie, length, rest @ ..] = data {
        let (payload, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        let cookie = u64::from(cookie % 4).to_be_bytes();
        let kind = kinds[usize::from(head % 8)].to_be_bytes();
        let flags = u16::from(head >> 7).to_be_bytes();
        let length = u64::try_from(payload.len()).unwrap();
        match headers {
            Headers::Simple => {
                bytes.extend(0x6744_6698_u32.to_be_bytes());
                bytes.extend(u32::from(head % 8).to_be_bytes());
                bytes.extend(cookie);
            }
            Headers::Structured => {
                bytes.extend(0x668e_33ef_u32.to_be_bytes());
                bytes.extend([flags, kind].concat());
                bytes.extend(cookie);
                bytes.extend(u32::try_from(length).unwrap().to_be_bytes());
            }
            Headers::Extended => {
                bytes.extend(0x6e8a_278c_u32.to_be_bytes());
                bytes.extend([flags, kind].concat());
                bytes.extend(cookie);
                bytes.extend([0; 8]);
                bytes.extend(length.to_be_bytes());
            }
        }
        bytes.extend(payload);
        data = rest;
    }
    bytes
}

/// Open requests by their cookies.
struct Requests([Option<Awaited>; 4]);

impl Asked for Requests {
    fn awaited(&mut self, cookie: u64) -> Option<&mut Awaited> {
        self.0.get_mut(usize::try_from(cookie).ok()?)?.as_mut()
    }
}

/// Returns the arrivals if the bytes come in pieces of this size; `Err` if that ends the
/// connection.
fn hear(headers: Headers, bytes: &[u8], piece: usize) -> Vec<Result<Arrival, String>> {
    let mut asked = Requests([
        Some(Awaited::new(Command::Read, 0x1000, 16)),
        Some(Awaited::new(Command::Read, 0, 1 << 20)),
        Some(Awaited::new(Command::Write, 0x2000, 16)),
        Some(Awaited::new(Command::Flush, 0, 0)),
    ]);
    let mut receiver = Receiver::new(headers);
    let mut arrivals = Vec::new();
    let mut filled = [0; 4];
    let (mut start, mut end) = (0, 0);
    loop {
        let (used, arrival) = match receiver.next(&bytes[start..end], &mut asked) {
            Ok(next) => next,
            Err(violation) => {
                arrivals.push(Err(violation.to_string()));
                return arrivals;
            }
        };
        start += used;
        assert!(start <= end, "it uses more than it was given");
        let Some(arrival) = arrival else {
            if end == bytes.len() {
                return arrivals;
            }
            end = bytes.len().min(end.saturating_add(piece));
            continue;
        };
        match arrival {
            Arrival::Data {
                cookie,
                from_bytes,
                bytes: count,
            }
            | Arrival::Zeros {
                cookie,
                from_bytes,
                bytes: count,
            } => {
                let of = asked.awaited(cookie).expect("it was asked");
                assert_eq!(of.command, Command::Read);
                assert!(count > 0 && from_bytes + count <= of.bytes);
                let filled = &mut filled[usize::try_from(cookie).unwrap()];
                *filled += count;
                assert!(*filled <= of.bytes, "more than was asked for");
                if matches!(arrival, Arrival::Data { .. }) {
                    start += usize::try_from(count).unwrap();
                    if start > bytes.len() {
                        arrivals.push(Ok(arrival));
                        return arrivals;
                    }
                    end = end.max(start);
                }
            }
            Arrival::Over { cookie, result } => {
                let at = usize::try_from(cookie).unwrap();
                let of = asked.0[at].take().expect("it was asked");
                if of.command == Command::Read && result.is_ok() {
                    assert_eq!(filled[at], of.bytes, "a read is over before all has come");
                }
            }
        }
        arrivals.push(Ok(arrival));
    }
}

fuzz_target!(|data: &[u8]| {
    let (mode, data) = data.split_first().unwrap_or((&0, &[]));
    let all = [Headers::Simple, Headers::Structured, Headers::Extended];
    let headers = all[usize::from(mode >> 1) % 3];
    let piece = 1 + usize::from(mode >> 3);
    let (options, replies) = match mode & 1 {
        0 => (data.to_vec(), data.to_vec()),
        _ => (framed_options(data), framed_replies(headers, data)),
    };
    let at_once = shake(headers, &options, usize::MAX);
    assert_eq!(shake(headers, &options, piece), at_once);
    let at_once = hear(headers, &replies, usize::MAX);
    assert_eq!(hear(headers, &replies, piece), at_once);
});
