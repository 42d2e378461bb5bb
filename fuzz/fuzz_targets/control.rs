//! Any bytes on the control socket are a request, or get an error reply. A command that
//! receives any bytes from a server ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use spindles_serve::control::{Answers, Asked, Control, OpenControl, Report, Request, VERSION};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::thread;
use tempfile::TempDir;

struct Sockets {
    folder: TempDir,
    /// Kept, since a drop removes the socket.
    _real: OpenControl,
    fake: UnixListener,
}

impl Sockets {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

static SOCKETS: LazyLock<Sockets> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let real = Control::bind(&folder.path().join("real")).expect("a socket");
    let real = real.open(Arc::new(|request: Result<Request<Value>, _>, answers: &Answers| {
        let status = if request.is_ok() { 0 } else { 2 };
        answers.send(&Report::<Value> {
            status,
            error: None,
            absent: None,
            document: None,
        });
    }));
    let fake = UnixListener::bind(folder.path().join("fake")).expect("a socket");
    Sockets {
        folder,
        _real: real.expect("it listens"),
        fake,
    }
});

/// Connects as a client that sends these bytes.
fn serve(data: &[u8]) {
    let mut stream = UnixStream::connect(SOCKETS.path("real")).expect("it listens");
    // Ignore errors: the server may close before it has read all bytes.
    drop(stream.write_all(data));
    drop(stream.shutdown(Shutdown::Write));
    let mut said = Vec::new();
    if stream.read_to_end(&mut said).is_err() || said.is_empty() {
        return;
    }
    let said = String::from_utf8(said).expect("text");
    let last = said.lines().last().expect("a line");
    assert!(last == r#"{"status":0}"# || last == r#"{"status":2}"#, "{said}");
}

/// Acts as a server that sends these bytes.
fn ask(data: &[u8]) {
    thread::scope(|scope| {
        let server = scope.spawn(|| SOCKETS.fake.accept().expect("a client connects").0);
        let request = Request {
            version: VERSION,
            array: String::new(),
            operation: "status",
            command: None,
            alive: false,
        };
        let asked = Asked::ask(&SOCKETS.path("fake"), &request);
        let asked = asked.expect("a socket").expect("it listens");
        let mut server = server.join().expect("it accepts");
        drop(server.write_all(data));
        drop(server);
        let mut lines = data.split(|&byte| byte == b'\n').count();
        // Any end is fine, an error too.
        drop(asked.report::<Value>(|_| {
            lines = lines.checked_sub(1).expect("an answer is a line");
        }));
    });
}

fuzz_target!(|data: &[u8]| {
    let (mode, data) = data.split_first().unwrap_or((&0, &[]));
    match mode & 3 {
        0 => serve(data),
        1 => ask(data),
        2 => serve(&[br#"{"version":2,"array":"","operation":""#, data, b"\"}\n"].concat()),
        _ => ask(&[br#"{"progress":""#, data, b"\"}\n{\"status\":0}\n"].concat()),
    }
});
