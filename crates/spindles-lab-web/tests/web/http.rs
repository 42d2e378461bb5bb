//! A client that sends given bytes and reads until the end.

use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Returns the value of a field of the head.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = fields.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// Panics unless the answer has this status and its body contains these texts.
    pub(crate) fn says(&self, status: u16, texts: &[&str]) {
        assert_eq!(self.status, status, "{}{}", self.head, self.body);
        for text in texts {
            assert!(self.body.contains(text), "no {text:?} in {}", self.body);
        }
    }
}

/// Opens a connection with a read timeout.
pub(crate) fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_mins(2)))
        .expect("a timeout");
    stream
}

/// Sends these bytes and returns the answer.
pub(crate) fn sent(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = connected(address);
    stream.write_all(request).expect("it reads");
    read(&mut stream)
}

/// Reads the answer from a connection.
pub(crate) fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // The bytes read before an error count.
    drop(stream.read_to_end(&mut bytes));
    let text = String::from_utf8(bytes).expect("a text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Answer {
        status: status.unwrap_or(0),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

/// Requests this path.
pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    sent(address, request.as_bytes())
}
