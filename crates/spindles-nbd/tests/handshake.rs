//! Both sides of the handshake against each other, and against clients that are old, broken or
//! hostile.

#![expect(clippy::big_endian_bytes, reason = "the byte order of the protocol")]

use proptest::prelude::*;
use spindles_nbd::handshake::{
    Agreed, BlockSizes, Client, Export, HandshakeStep, Progress, Server, Tls, Wanted,
};
use spindles_nbd::transmission::Headers;
use spindles_nbd::{TransmissionFlags, Violation};

const SIZES: BlockSizes = BlockSizes {
    min_bytes: 1,
    preferred_bytes: 4096,
    payload_bytes_max: 32 << 20,
};

fn exports() -> Vec<Export> {
    let export = |name: &str, bytes| Export {
        name: name.to_owned(),
        description: format!("the array {name}"),
        bytes,
        flags: TransmissionFlags::HAS_FLAGS
            .with(TransmissionFlags::SEND_FLUSH)
            .with(TransmissionFlags::SEND_DF),
        block_sizes: SIZES,
    };
    vec![export("pool", 1 << 30), export("tank", 5 << 20)]
}

fn wanted(export: &str, tls: bool, headers: Headers) -> Wanted {
    Wanted {
        export: export.to_owned(),
        tls,
        headers,
    }
}

/// Runs a handshake, with bytes arriving in pieces of `piece` bytes. Returns what both sides agreed
/// on, and how often TLS started.
fn shake(wanted: Wanted, tls: Tls, piece: usize) -> Result<(Agreed, Agreed, u32), String> {
    let (mut client, mut server) = (Client::new(wanted), Server::new(tls));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let (mut mine, mut theirs, mut encrypted) = (None, None, 0);
    for _ in 0..100_000 {
        down.append(server.output());
        let part: Vec<u8> = down.drain(..piece.min(down.len())).collect();
        if !part.is_empty() && mine.is_none() {
            let (used, progress) = client.receive(&part).map_err(|error| error.to_string())?;
            assert_eq!(used, part.len(), "the server says no more than is asked");
            match progress {
                Progress::Receive => {}
                Progress::StartTls => {
                    client.encrypted();
                    encrypted += 1;
                }
                Progress::Transmit(agreed) => mine = Some(agreed),
                Progress::Refused(why) => return Err(why),
            }
        }
        up.append(client.output());
        let part: Vec<u8> = up.drain(..piece.min(up.len())).collect();
        if !part.is_empty() {
            let received = server.receive(&exports(), &part);
            let (used, step) = received.map_err(|error| error.to_string())?;
            assert_eq!(used, part.len());
            match step {
                HandshakeStep::Receive => {}
                HandshakeStep::StartTls => server.encrypted(),
                HandshakeStep::Transmit(agreed) => theirs = Some(agreed),
                HandshakeStep::End => return Err("it ended".to_owned()),
            }
        }
        if let (Some(mine), Some(theirs)) = (&mine, &theirs) {
            return Ok((mine.clone(), theirs.clone(), encrypted));
        }
    }
    panic!("the handshake does not come to an end");
}

#[test]
fn both_sides_agree() {
    for headers in [Headers::Simple, Headers::Structured, Headers::Extended] {
        for (tls, wants_tls) in [
            (Tls::Never, false),
            (Tls::Offered, false),
            (Tls::Offered, true),
            (Tls::Required, true),
        ] {
            for piece in [1, 7, 1000] {
                let wanted = wanted("tank", wants_tls, headers);
                let (mine, theirs, encrypted) = shake(wanted, tls, piece).unwrap();
                assert_eq!(mine, theirs);
                assert_eq!((mine.bytes, mine.headers), (5 << 20, headers));
                assert_eq!(mine.allocation.is_some(), headers > Headers::Simple);
                assert_eq!(mine.block_sizes, Some(SIZES));
                let df = mine.flags.contains(TransmissionFlags::SEND_DF);
                assert_eq!(df, headers > Headers::Simple);
                assert_eq!(encrypted, u32::from(wants_tls));
            }
        }
    }
}

#[test]
fn unavailable_exports_and_tls_are_refused_with_a_reason() {
    let refusal = |wanted, tls| shake(wanted, tls, 1000).unwrap_err();
    let none = refusal(wanted("nothing", false, Headers::Extended), Tls::Never);
    assert_eq!(none, "there is no export of that name");
    let without = refusal(wanted("pool", false, Headers::Simple), Tls::Required);
    assert_eq!(without, "begin with TLS");
    let with = refusal(wanted("pool", true, Headers::Simple), Tls::Never);
    assert_eq!(with, "this server has no TLS");
}

#[test]
fn the_empty_name_selects_the_first_export() {
    let (mine, theirs, _) =
        shake(wanted("", false, Headers::Structured), Tls::Never, 1000).unwrap();
    assert_eq!((mine.bytes, theirs.export.as_str()), (1 << 30, "pool"));
    assert_eq!(theirs.allocation, Some(1));
}

/// Replies of a server, by option and kind.
type Answers = Vec<(u32, u32, Vec<u8>)>;

/// A hand-written client: the bytes that it sends after the greeting.
struct ByHand(Vec<u8>);

impl ByHand {
    fn new(flags: u32) -> Self {
        Self(flags.to_be_bytes().to_vec())
    }

    fn option(mut self, option: u32, data: &[u8]) -> Self {
        self.0.extend(0x4948_4156_454f_5054_u64.to_be_bytes());
        self.0.extend(option.to_be_bytes());
        let length = u32::try_from(data.len()).expect("short");
        self.0.extend(length.to_be_bytes());
        self.0.extend(data);
        self
    }

    /// Returns the server's replies after its greeting, the number of bytes it did not use, and its
    /// state.
    fn send(self, tls: Tls) -> Result<(Answers, usize, HandshakeStep), Violation> {
        let mut server = Server::new(tls);
        let greeting: Vec<u8> = server.output().drain(..).collect();
        assert_eq!(greeting, b"NBDMAGICIHAVEOPT\x00\x03");
        let (used, step) = server.receive(&exports(), &self.0)?;
        let mut rest = &server.output()[..];
        let mut replies = Vec::new();
        while let Some((magic, after)) = rest.split_first_chunk() {
            if u64::from_be_bytes(*magic) != 0x0003_e889_0455_65a9 {
                replies.push((0, 0, rest.to_vec()));
                break;
            }
            let number =
                |at: usize| u32::from_be_bytes(after[at..at + 4].try_into().expect("4 bytes"));
            let end = 12 + usize::try_from(number(8)).expect("64 bits");
            replies.push((number(0), number(4), after[12..end].to_vec()));
            rest = &after[end..];
        }
        Ok((replies, self.0.len() - used, step))
    }
}

fn kinds(replies: &[(u32, u32, Vec<u8>)]) -> Vec<(u32, u32)> {
    replies.iter().map(|reply| (reply.0, reply.1)).collect()
}

const ERROR: u32 = 1 << 31;

#[test]
fn the_old_export_name_option_selects_an_export() {
    let (replies, left, step) = ByHand::new(0).option(1, b"tank").send(Tls::Never).unwrap();
    assert!(matches!(step, HandshakeStep::Transmit(agreed) if agreed.export == "tank"));
    assert_eq!((replies[0].2.len(), left), (134, 0));
    assert_eq!(replies[0].2[..10], [0, 0, 0, 0, 0, 0x50, 0, 0, 0, 5]);
    let (replies, ..) = ByHand::new(3).option(1, b"tank").send(Tls::Never).unwrap();
    assert_eq!(replies[0].2.len(), 10);
    let none = ByHand::new(3).option(1, b"none").send(Tls::Never);
    assert_eq!(none.unwrap_err(), Violation::NoSuchExport);
    let plain = ByHand::new(3).option(1, b"tank").send(Tls::Required);
    assert_eq!(plain.unwrap_err(), Violation::NotEncrypted);
}

#[test]
fn requests_sent_with_the_last_option_are_kept() {
    let mut client = ByHand::new(3).option(1, b"tank");
    client.0.extend([9; 28]);
    let (_, left, _) = client.send(Tls::Never).unwrap();
    assert_eq!(left, 28);
}

#[test]
fn options_are_listed_refused_and_skipped() {
    let (replies, _, step) = ByHand::new(3)
        .option(3, b"")
        .option(3, b"x")
        .option(4, b"")
        .option(77, &[0; 100])
        .option(5, b"")
        .option(9, b"")
        .option(6, &vec![0; 70_000])
        .option(6, b"\0\0\0\x04tank\0\0")
        .option(6, b"\0\0\0\x09tank\0\0")
        .option(6, b"\0\0\0\x04tank\0\x01")
        .option(2, b"")
        .send(Tls::Never)
        .unwrap();
    assert_eq!(step, HandshakeStep::End);
    let expected = [
        (3, 2),
        (3, 2),
        (3, 1),
        (3, ERROR | 3),
        (4, ERROR | 1),
        (77, ERROR | 1),
        (5, ERROR | 2),
        (9, ERROR | 3),
        (6, ERROR | 9),
        (6, 3),
        (6, 3),
        (6, 1),
        (6, ERROR | 3),
        (6, ERROR | 3),
        (2, 1),
    ];
    assert_eq!(kinds(&replies), expected);
    assert_eq!(replies[0].2, b"\0\0\0\x04poolthe array pool");
}

#[test]
fn contexts_are_listed_and_set() {
    let query = |queries: &[&str]| {
        let mut data = b"\0\0\0\x04pool".to_vec();
        data.extend(u32::try_from(queries.len()).unwrap().to_be_bytes());
        for query in queries {
            data.extend(u32::try_from(query.len()).unwrap().to_be_bytes());
            data.extend(query.as_bytes());
        }
        data
    };
    let (replies, _, step) = ByHand::new(3)
        .option(8, b"")
        .option(8, b"")
        .option(9, &query(&[]))
        .option(9, &query(&["base:"]))
        .option(9, &query(&["qemu:dirty-bitmap:x"]))
        .option(10, &query(&["x:y", "base:allocation"]))
        .option(11, b"")
        .option(8, b"")
        .option(7, b"\0\0\0\x04pool\0\0")
        .send(Tls::Never)
        .unwrap();
    let expected = [
        (8, 1),
        (8, ERROR | 3),
        (9, 4),
        (9, 1),
        (9, 4),
        (9, 1),
        (9, 1),
        (10, 4),
        (10, 1),
        (11, 1),
        (8, ERROR | 0xa),
        (7, 3),
        (7, 3),
        (7, 1),
    ];
    assert_eq!(kinds(&replies), expected);
    let HandshakeStep::Transmit(agreed) = step else {
        panic!("it goes on");
    };
    assert_eq!(
        (agreed.headers, agreed.allocation),
        (Headers::Extended, Some(1))
    );
    // A context is selected for one export only; without a query none is selected.
    for (queries, export) in [(&["base:allocation"][..], "tank"), (&[], "pool")] {
        let go = [&b"\0\0\0\x04"[..], export.as_bytes(), b"\0\0"].concat();
        let client = ByHand::new(3).option(8, b"").option(10, &query(queries));
        let (_, _, step) = client.option(7, &go).send(Tls::Never).unwrap();
        assert!(matches!(step, HandshakeStep::Transmit(agreed) if agreed.allocation.is_none()));
    }
}

/// A man in the middle may have injected everything before TLS, including the negotiated options.
#[test]
fn negotiation_before_tls_is_discarded() {
    let injected = ByHand::new(3)
        .option(5, b"")
        .option(7, b"\0\0\0\x04pool\0\0");
    let error = injected.send(Tls::Required).unwrap_err();
    assert!(matches!(error, Violation::BytesBeforeTls(26)), "{error}");
    let (replies, _, step) = ByHand::new(3)
        .option(8, b"")
        .option(3, b"")
        .option(5, b"")
        .send(Tls::Required)
        .unwrap();
    assert_eq!(kinds(&replies), [(8, ERROR | 5), (3, ERROR | 5), (5, 1)]);
    assert_eq!(step, HandshakeStep::StartTls);
    // With optional TLS too, everything negotiated in plain text is discarded.
    let mut server = Server::new(Tls::Offered);
    let before = ByHand::new(3).option(8, b"").option(5, b"");
    let (_, step) = server.receive(&exports(), &before.0).unwrap();
    assert_eq!(step, HandshakeStep::StartTls);
    server.encrypted();
    let go = ByHand(Vec::new()).option(7, b"\0\0\0\x04pool\0\0");
    let (_, step) = server.receive(&exports(), &go.0).unwrap();
    assert!(matches!(step, HandshakeStep::Transmit(agreed) if agreed.headers == Headers::Simple));
}

#[test]
fn flooding_and_nonconforming_clients_are_disconnected() {
    let many = (0..5000).fold(ByHand::new(3), |client, _| client.option(3, b""));
    assert_eq!(
        many.send(Tls::Never).unwrap_err(),
        Violation::TooManyOptions
    );
    let unknown = ByHand::new(7).send(Tls::Never).unwrap_err();
    assert_eq!(unknown, Violation::Flags(7));
    let mut http = ByHand::new(3);
    http.0.extend(b"GET / HTTP/1.1\r\nHost: pool\r\n");
    assert!(matches!(
        http.send(Tls::Never).unwrap_err(),
        Violation::Magic { .. }
    ));
    let mut endless = ByHand::new(3).option(3, b"");
    let at = endless.0.len() - 4;
    endless.0[at..].copy_from_slice(&u32::MAX.to_be_bytes());
    let error = endless.send(Tls::Never).unwrap_err();
    assert_eq!(error, Violation::OptionBytes(u32::MAX));
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        options in proptest::collection::vec(
            (0_u32..13, proptest::collection::vec(any::<u8>(), 0..40)),
            0..6,
        ),
    ) {
        let mut server = Server::new(Tls::Never);
        server.receive(&exports(), &bytes).ok();
        let client = options.iter().fold(ByHand::new(3), |client, (option, data)| {
            client.option(*option, data)
        });
        Server::new(Tls::Never).receive(&exports(), &client.0).ok();
        let mut client = Client::new(wanted("pool", false, Headers::Extended));
        client.receive(b"NBDMAGICIHAVEOPT\x00\x03").unwrap();
        client.receive(&bytes).ok();
    }
}
