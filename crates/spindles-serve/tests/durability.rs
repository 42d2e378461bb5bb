//! Durability promised to clients: the members are flushed before the reply.

#![allow(clippy::big_endian_bytes, reason = "the byte order of the protocol")]
#![allow(clippy::print_stdout, reason = "what is skipped")]

use spindles_array::{Target, open_device};
use spindles_device::OpenOptions;
use spindles_serve::{
    Listener, ListenerOptions, Server, ServerHandle, ServerLimits, Stopper, TRANSPORTS,
    WatcherCommand, watch,
};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A served device of 8 MiB.
struct Served {
    /// `None` once it has ended.
    thread: Option<JoinHandle<()>>,
    stopper: Stopper,
    handle: ServerHandle,
    listener: Box<dyn Listener>,
}

impl Served {
    fn flushes(&self) -> u64 {
        let flushes = |target: &mut dyn Target| target.counters().total().flushes;
        self.handle.call(flushes).expect("it serves")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().expect("it has not ended").join();
        let message = self.listener.close();
        assert!(thread::panicking() || ended.is_ok());
        assert!(thread::panicking() || message.is_none(), "{message:?}");
    }
}

/// Arguments that start this program as a watcher; the watcher's own arguments follow.
const WATCHER: [&str; 2] = ["--exact", "public::watcher_process"];

/// Runs the watcher if this program was started as one.
#[test]
fn watcher_process() {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words = arguments.strip_prefix(&WATCHER.map(OsString::from));
    if let Some(words @ [listener, ..]) = words
        && listener == "fuse"
    {
        watch(words).expect("it was started by a listener");
    }
}

/// Serves the device with a transport on an address. Fails if the listener can't be opened.
fn serve(transport: &str, address: &str) -> Result<Served, String> {
    let (send, receive) = mpsc::channel();
    let thread = thread::spawn(move || {
        let target = open_device("mem:8M", &OpenOptions::default()).expect("memory");
        let limits = ServerLimits::default();
        let server = Server::new(target, "disk", String::new(), limits);
        let (server, handle) = server.expect("it serves");
        let reached = (server.stopper(), handle);
        send.send(reached).expect("it is waited for");
        let ended = server.run(|_, _| {}).expect("it was stopped");
        ended.close().expect("all is durable");
    });
    let (stopper, handle) = receive.recv().expect("it serves");
    let row = TRANSPORTS.iter().find(|row| row.name == transport);
    let row = row.expect("a transport");
    let options = ListenerOptions {
        watcher: Some(WatcherCommand {
            program: std::env::current_exe().expect("a program"),
            arguments: WATCHER.map(OsString::from).to_vec(),
        }),
        ..ListenerOptions::default()
    };
    let listener = (row.bind)(address, &options);
    let mut served = Served {
        thread: Some(thread),
        stopper,
        handle,
        listener: listener.expect("the address is free"),
    };
    let handles = std::slice::from_ref(&served.handle);
    let prepared = served.listener.prepare(handles);
    let opened = prepared.and_then(|()| served.listener.open(handles));
    opened.map_err(|error| error.to_string())?;
    Ok(served)
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

/// Sends a request, and waits for its successful reply.
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
fn a_flush_is_answered_after_the_members_are_flushed() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let served = serve("nbd", &format!("unix:{}", socket.display())).expect("it listens");
    let (mut writes, mut flushes) = (connect(&socket), connect(&socket));
    ask(&mut writes, 1, &[7; 4096]);
    ask(&mut writes, 1, &[8; 1000]);
    // Flushes are counted with each turn of the server: this turn comes after the writes.
    ask(&mut writes, 5, &[]);
    assert_eq!(served.flushes(), 0);
    // Flushes on another connection count once each.
    for count in 1..4 {
        ask(&mut flushes, 3, &[]);
        ask(&mut flushes, 5, &[]);
        assert_eq!(served.flushes(), count);
    }
}

/// Without a timer: the turn that answers the flush makes the call again.
#[test]
fn a_call_is_repeated_until_it_has_a_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let served = serve("nbd", &format!("unix:{}", socket.display())).expect("it listens");
    let (result, results) = mpsc::channel();
    let flushed_over = |count: u64| {
        let (handle, result) = (served.handle.clone(), result.clone());
        thread::spawn(move || {
            let flushes = |target: &mut dyn Target| target.counters().total().flushes;
            let over =
                handle.call_until(move |target| Some(flushes(target)).filter(|it| *it > count));
            result.send(over).expect("it is waited for");
        })
    };
    let threads = [flushed_over(0), flushed_over(1)];
    assert_eq!(served.flushes(), 0);
    assert!(results.try_recv().is_err());
    let mut stream = connect(&socket);
    ask(&mut stream, 3, &[]);
    ask(&mut stream, 5, &[]);
    let limit = Duration::from_mins(1);
    assert_eq!(results.recv_timeout(limit), Ok(Some(1)));
    // The other one waits until the server ends.
    assert!(results.try_recv().is_err());
    drop((stream, served));
    assert_eq!(results.recv_timeout(limit), Ok(None));
    for thread in threads {
        thread.join().expect("it ends");
    }
}

#[test]
fn an_fsync_is_answered_after_the_members_are_flushed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let served = match serve("fuse", &path.display().to_string()) {
        Ok(served) => served,
        Err(reason) => {
            let name = "an_fsync_is_answered_after_the_members_are_flushed";
            return println!("SKIPPED: {name}: {reason}");
        }
    };
    let open = || File::options().read(true).write(true).open(&path);
    let (writes, flushes) = (open().expect("it is there"), open().expect("it is there"));
    writes.write_all_at(&[7; 4096], 0).expect("it writes");
    writes.write_all_at(&[8; 1000], 5000).expect("it writes");
    let mut back = [0; 1000];
    writes.read_exact_at(&mut back, 5000).expect("it reads");
    assert_eq!((back, served.flushes()), ([8; 1000], 0));
    for count in 1..4 {
        flushes.sync_all().expect("it flushes");
        assert_eq!(served.flushes(), count);
    }
    drop((writes, flushes));
    drop(served);
    assert!(!path.exists(), "the file is left");
}
