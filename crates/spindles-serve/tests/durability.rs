//! What a client is told to be durable is: the members were flushed before it was answered.

#![allow(clippy::big_endian_bytes, reason = "the byte order of the protocol")]

use spindles_io::{OpenOptions, Target, open_device};
use spindles_serve::{DoorOptions, Offer, Server, ServerLimits, Stopper, TRANSPORTS};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// A device of 8 MiB that is served, and how often it was flushed.
struct Served {
    thread: JoinHandle<()>,
    stopper: Stopper,
    offer: Offer,
}

impl Served {
    fn flushes(&self) -> u64 {
        let flushes = |target: &mut dyn Target| target.counters().total().flushes;
        self.offer.call(flushes).expect("it serves")
    }
}

fn serve(socket: &Path) -> Served {
    let (send, receive) = mpsc::channel();
    let address = format!("unix:{}", socket.display());
    let thread = thread::spawn(move || {
        let target = open_device("mem:8M", &OpenOptions::default()).expect("memory");
        let limits = ServerLimits::default();
        let server = Server::new(target, "disk", String::new(), limits);
        let (server, offer) = server.expect("it serves");
        let nbd = TRANSPORTS.iter().find(|transport| transport.name == "nbd");
        let nbd = nbd.expect("a transport");
        let door = (nbd.bind)(&address, &DoorOptions::default());
        door.expect("it listens")
            .open(std::slice::from_ref(&offer))
            .expect("a thread");
        send.send((server.stopper(), offer))
            .expect("it is waited for");
        let ended = server.run(|_| {}).expect("it was stopped");
        ended.close().expect("all is durable");
    });
    let (stopper, offer) = receive.recv().expect("it serves");
    Served {
        thread,
        stopper,
        offer,
    }
}

fn connect(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.read_exact(&mut [0; 18]).expect("it greets");
    let mut choice = 3_u32.to_be_bytes().to_vec();
    choice.extend(b"IHAVEOPT");
    choice.extend(1_u32.to_be_bytes());
    choice.extend(4_u32.to_be_bytes());
    choice.extend(b"disk");
    stream.write_all(&choice).expect("it reads");
    stream.read_exact(&mut [0; 10]).expect("it answers");
    stream
}

/// Asks, and waits for the answer: all went well.
fn ask(stream: &mut UnixStream, command: u16, payload: &[u8]) {
    let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
    request.extend([0, 0]);
    request.extend(command.to_be_bytes());
    request.extend([0; 16]);
    request.extend(u32::try_from(payload.len()).expect("short").to_be_bytes());
    request.extend(payload);
    stream.write_all(&request).expect("it reads");
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).expect("it answers");
    assert_eq!(reply[4..8], [0; 4], "command {command}");
}

#[test]
fn a_flush_is_answered_when_the_members_are_flushed() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let served = serve(&socket);
    let (mut writes, mut flushes) = (connect(&socket), connect(&socket));
    ask(&mut writes, 1, &[7; 4096]);
    ask(&mut writes, 1, &[8; 1000]);
    // Counted with every turn of the server: this one came after the writes.
    ask(&mut writes, 5, &[]);
    assert_eq!(served.flushes(), 0);
    // On another connection, and once for each.
    for count in 1..4 {
        ask(&mut flushes, 3, &[]);
        ask(&mut flushes, 5, &[]);
        assert_eq!(served.flushes(), count);
    }
    served.stopper.stop();
    served.thread.join().expect("it ends");
}
