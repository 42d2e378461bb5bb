//! A server that follows a test's script.

#![expect(clippy::big_endian_bytes, reason = "the byte order of the protocol")]

use spindles_nbd::TransmissionFlags as Flags;
use spindles_nbd::handshake::{BlockSizes, Export, HandshakeStep, Server, Tls};
use spindles_nbd::transmission::{Command, Failure, Headers, Replies, Request as Asked};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::ops::Range;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Size of the server's disk.
pub(super) const MIB: usize = 1 << 20;
pub(super) const BLOCK: usize = 4096;

/// How a server handles a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    Do,
    Fail(Failure),
    /// Ends the connection without a reply; does not execute the request.
    Close,
    /// Executes the request, replies, and ends the connection.
    DoAndClose,
    /// Does not reply.
    Ignore,
    /// Replies with these bytes, and ends the connection when the client has.
    Say(Vec<u8>),
    /// Replies once this many such requests have arrived, the last first.
    Gather(usize),
    /// Replies to a read in pieces: part of it as a hole, and the end before the beginning.
    Pieces,
}

/// Chooses the act for a request. Gets the number of the connection, the request's position in it,
/// both from 0, and the request.
pub(super) type Script = dyn Fn(usize, usize, &Asked) -> Act + Send + Sync;

pub(super) struct Served {
    url: String,
    /// Folder of the socket.
    _folder: Option<tempfile::TempDir>,
    pub(super) disk: Arc<Mutex<Vec<u8>>>,
    /// Received requests, such as `0 read 0+4096` on connection 0.
    log: Arc<Mutex<Vec<String>>>,
    /// Connections that the server has ended.
    pub(super) ended: Arc<AtomicUsize>,
}

pub(super) fn flags(all: &[Flags]) -> Flags {
    all.iter()
        .fold(Flags::HAS_FLAGS, |sum, flag| sum.with(*flag))
}

pub(super) fn usual() -> Export {
    Export {
        name: "x".to_owned(),
        description: String::new(),
        bytes: u64::try_from(MIB).unwrap(),
        flags: flags(&[Flags::SEND_FLUSH, Flags::SEND_FUA, Flags::SEND_WRITE_ZEROES]),
        block_sizes: BlockSizes {
            min_bytes: 1,
            preferred_bytes: 4096,
            payload_bytes_max: 32 << 20,
        },
    }
}

impl Served {
    /// Serves a disk of ones on a socket. `export` returns the export that the connection of this
    /// number sees.
    pub(super) fn new(
        export: impl Fn(usize) -> Export + Send + 'static,
        script: Box<Script>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let url = format!("nbd+unix:///x?socket={}", path.display());
        let accept = move || listener.accept().unwrap().0;
        Self::on(url, Some(folder), accept, export, script)
    }

    /// The same on a port, where bytes sent to a server that has ended are lost, not refused.
    pub(super) fn on_a_port(
        export: impl Fn(usize) -> Export + Send + 'static,
        script: Box<Script>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("nbd://{}/x", listener.local_addr().unwrap());
        let accept = move || listener.accept().unwrap().0;
        Self::on(url, None, accept, export, script)
    }

    fn on<S: Read + Write>(
        url: String,
        folder: Option<tempfile::TempDir>,
        accept: impl Fn() -> S + Send + 'static,
        export: impl Fn(usize) -> Export + Send + 'static,
        script: Box<Script>,
    ) -> Self {
        let disk = Arc::new(Mutex::new(vec![1; MIB]));
        let log = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicUsize::new(0));
        let (of_thread, log_of_thread) = (Arc::clone(&disk), Arc::clone(&log));
        let count = Arc::clone(&ended);
        std::thread::spawn(move || {
            for number in 0.. {
                let mut client = accept();
                let export = export(number);
                if let Some(headers) = shake(&mut client, &export) {
                    let act = |at, request: &Asked| script(number, at, request);
                    serve(
                        &mut client,
                        headers,
                        &of_thread,
                        &log_of_thread,
                        number,
                        &act,
                    );
                }
                drop(client);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self {
            url,
            _folder: folder,
            disk,
            log,
            ended,
        }
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    /// Returns the logged requests, joined by `; `.
    pub(super) fn log(&self) -> String {
        self.log.lock().unwrap().join("; ")
    }
}

fn shake(client: &mut (impl Read + Write), export: &Export) -> Option<Headers> {
    let mut server = Server::new(Tls::Never);
    loop {
        client.write_all(&std::mem::take(server.output())).ok()?;
        let mut bytes = [0; 4096];
        let read = client.read(&mut bytes).ok().filter(|read| *read > 0)?;
        let step = server.receive(std::slice::from_ref(export), &bytes[..read]);
        match step.unwrap().1 {
            HandshakeStep::Receive => {}
            HandshakeStep::Transmit(agreed) => {
                client.write_all(server.output()).ok()?;
                return Some(agreed.headers);
            }
            HandshakeStep::StartTls | HandshakeStep::End => return None,
        }
    }
}

/// Serves requests until the client or the script ends the connection.
fn serve(
    client: &mut (impl Read + Write),
    headers: Headers,
    disk: &Mutex<Vec<u8>>,
    log: &Mutex<Vec<String>>,
    number: usize,
    script: &dyn Fn(usize, &Asked) -> Act,
) -> Option<()> {
    let replies = Replies { headers };
    let mut gathered: Vec<Vec<u8>> = Vec::new();
    let mut at = 0;
    loop {
        let (request, payload) = receive(client, headers)?;
        log.lock().unwrap().push(log_entry(number, &request));
        // Always execute the superblock reads at the start of a connection.
        let is_first = request.command == Command::Read && request.bytes == 4096 && at < 2;
        let looks = number == 0 || is_first;
        let act = if looks && at < 2 {
            Act::Do
        } else {
            script(at, &request)
        };
        at += 1;
        let mut answer = Vec::new();
        match (&act, request.command) {
            (Act::Pieces, Command::Read) => {
                answer = pieces(&request, &disk.lock().unwrap()[range_of(&request)]);
            }
            (Act::Do | Act::DoAndClose | Act::Gather(_) | Act::Pieces, _) => {
                let mut disk = disk.lock().unwrap();
                answer = execute(replies, &request, &payload, &mut disk);
            }
            (Act::Fail(failure), _) => replies.failed(&request, *failure, "no", &mut answer),
            (Act::Close, _) => return None,
            (Act::Ignore, _) => {}
            (Act::Say(bytes), _) => {
                client.write_all(bytes).ok()?;
                client.read_to_end(&mut Vec::new()).ok()?;
                return None;
            }
        }
        if let Act::Gather(count) = act {
            gathered.push(answer);
            if gathered.len() == count {
                gathered
                    .drain(..)
                    .rev()
                    .try_for_each(|bytes| client.write_all(&bytes))
                    .ok()?;
            }
        } else {
            client.write_all(&answer).ok()?;
        }
        if act == Act::DoAndClose {
            return None;
        }
    }
}

/// Receives a request and the payload of a write; `None` if the client has ended the connection.
fn receive(client: &mut impl Read, headers: Headers) -> Option<(Asked, Vec<u8>)> {
    let mut head = vec![0; Asked::encoded_bytes(headers)];
    client.read_exact(&mut head).ok()?;
    let request = Asked::decode(headers, &head).unwrap().unwrap();
    if request.command == Command::Disconnect {
        return None;
    }
    let mut payload = Vec::new();
    if request.command == Command::Write {
        payload = vec![0; range_of(&request).len()];
        client.read_exact(&mut payload).ok()?;
    }
    Some((request, payload))
}

/// Returns the bytes of the disk that a request addresses.
fn range_of(request: &Asked) -> Range<usize> {
    let (from, bytes) = (request.offset_bytes, request.bytes);
    usize::try_from(from).unwrap()..usize::try_from(from + bytes).unwrap()
}

/// Returns the log entry of a request on the connection of that number.
fn log_entry(number: usize, request: &Asked) -> String {
    let (from, bytes) = (request.offset_bytes, request.bytes);
    let fua = if request.flags.contains(spindles_nbd::CommandFlags::FUA) {
        " fua"
    } else {
        ""
    };
    let what = format!("{:?}", request.command).to_lowercase();
    format!("{number} {what}{fua} {from}+{bytes}")
}

/// Executes a request on the disk; returns the reply.
fn execute(replies: Replies, request: &Asked, payload: &[u8], disk: &mut [u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    let range = range_of(request);
    match request.command {
        Command::Read => {
            replies.data(request, &mut answer);
            answer.extend(&disk[range]);
            return answer;
        }
        Command::Write => disk[range].copy_from_slice(payload),
        Command::WriteZeroes => disk[range].fill(0),
        _ => {}
    }
    replies.done(request, &mut answer);
    answer
}

/// Returns the extended reply to a read, in separate chunks: its second half, a hole of one block,
/// then the rest of the first half.
fn pieces(request: &Asked, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let half = data.len() / 2;
    let part = |from: usize, to: usize, last: u16, bytes: &mut Vec<u8>| {
        let offset = request.offset_bytes + u64::try_from(from).unwrap();
        let payload = u64::try_from(to - from).unwrap() + 8;
        bytes.extend([0x6e, 0x8a, 0x27, 0x8c]);
        bytes.extend(last.to_be_bytes());
        bytes.extend(1_u16.to_be_bytes());
        bytes.extend(request.cookie.to_be_bytes());
        bytes.extend(request.offset_bytes.to_be_bytes());
        bytes.extend(payload.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(&data[from..to]);
    };
    part(half, data.len(), 0, &mut bytes);
    bytes.extend([0x6e, 0x8a, 0x27, 0x8c, 0, 0, 0, 2]);
    bytes.extend(request.cookie.to_be_bytes());
    bytes.extend(request.offset_bytes.to_be_bytes());
    bytes.extend(12_u64.to_be_bytes());
    bytes.extend(request.offset_bytes.to_be_bytes());
    bytes.extend(u32::try_from(BLOCK).unwrap().to_be_bytes());
    part(BLOCK, half, 1, &mut bytes);
    bytes
}
