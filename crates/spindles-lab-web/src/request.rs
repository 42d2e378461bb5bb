//! Reads the head of a request, within limits on size and time, and parses it.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::io::{self, Read as _};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

/// Largest head of a request, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Most fields in the head.
const FIELDS_MAX: usize = 64;

/// A parsed request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// True if the client wants only the head of the answer.
    pub(crate) head_only: bool,
    /// The path as sent, still percent-encoded; begins with a slash.
    pub(crate) path: String,
    /// The query: the text after the question mark.
    pub(crate) query: String,
    /// The host that the client addressed, without port.
    pub(crate) host: String,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The request can't be parsed, or is none for this server.
    Malformed,
    /// The method is not GET or HEAD.
    Method,
    /// The head is too large.
    TooLarge,
    /// The client sent no complete head in time, or closed the connection: nothing is answered.
    Gone,
}

/// Reads the head of a request, for at most `time`.
pub(crate) fn read(stream: &mut TcpStream, time: Duration) -> Result<Request, Refusal> {
    let deadline = Instant::now() + time;
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(Refusal::Gone);
        }
        let read = match stream.read(&mut piece) {
            Ok(0) => return Err(Refusal::Gone),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(Refusal::Gone),
        };
        bytes.extend_from_slice(&piece[..read]);
        if let Some(request) = parse(&bytes)? {
            return Ok(request);
        }
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
    }
}

/// Parses the request at the beginning of these bytes; `None` if its head is not complete.
fn parse(bytes: &[u8]) -> Result<Option<Request>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length > HEAD_BYTES_MAX => {
            return Err(Refusal::TooLarge);
        }
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooLarge),
        Err(_) => return Err(Refusal::Malformed),
    }
    let head_only = match head.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Refusal::Method),
    };
    let target = head.path.unwrap_or_default();
    if !target.starts_with('/') {
        return Err(Refusal::Malformed);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut hosts = head
        .headers
        .iter()
        .filter(|field| field.name.eq_ignore_ascii_case("host"));
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Refusal::Malformed);
    };
    let host = std::str::from_utf8(host.value).map_err(|_| Refusal::Malformed)?;
    Ok(Some(Request {
        head_only,
        path: path.to_owned(),
        query: query.to_owned(),
        host: without_port(host).to_owned(),
    }))
}

/// Removes the port: `localhost` from `localhost:7118`, `::1` from `[::1]:7118`.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// Returns true if this host name can only mean this machine. This defends against DNS rebinding: a
/// foreign page whose name was made to resolve to this machine asks under that name.
pub(crate) fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Percent-decodes a part of a path; `None` if the result is not UTF-8.
pub(crate) fn decoded(part: &str) -> Option<String> {
    let text = percent_decode_str(part).decode_utf8();
    text.ok().map(Cow::into_owned)
}

impl Request {
    /// Returns the values of this query parameter.
    pub(crate) fn values(&self, name: &str) -> Vec<String> {
        let pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        pairs
            .filter(|(found, _)| *found == name)
            .filter_map(|(_, value)| decoded(&value.replace('+', " ")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed() {
        let request =
            parse(b"HEAD /runs/a%20b/?run=a+b&run=%2B&x HTTP/1.1\r\nHOST: [::1]:80\r\n\r\n");
        let request = request.unwrap().unwrap();
        assert!(request.head_only);
        assert_eq!(request.path, "/runs/a%20b/");
        assert_eq!(request.values("run"), ["a b", "+"]);
        assert_eq!(request.host, "::1");
        assert_eq!(parse(b"GET / HTTP/1.1\r\nHost: a"), Ok(None));
    }

    #[test]
    fn invalid_requests_are_refused() {
        let many = format!(
            "GET / HTTP/1.1\r\n{}\r\n",
            "A: b\r\n".repeat(FIELDS_MAX + 1)
        );
        let long = format!(
            "GET / HTTP/1.1\r\nA: {}\r\n\r\n",
            "b".repeat(HEAD_BYTES_MAX)
        );
        for (text, refusal) in [
            ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::Method),
            ("BREW / HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::Method),
            (
                "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
                Refusal::Malformed,
            ),
            ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::Malformed),
            ("GET / HTTP/1.1\r\n\r\n", Refusal::Malformed),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                Refusal::Malformed,
            ),
            ("\u{1}\u{3}\u{1}", Refusal::Malformed),
            ("GET / HTTP/9\r\n", Refusal::Malformed),
            (&many, Refusal::TooLarge),
            (&long, Refusal::TooLarge),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(refusal), "{text}");
        }
    }

    #[test]
    fn only_local_host_names_are_accepted() {
        for (host, is) in [
            ("localhost:7118", true),
            ("LOCALHOST", true),
            ("127.0.0.1:1", true),
            ("127.8.8.8", true),
            ("[::1]:80", true),
            ("::1", false),
            ("evil.example:7118", false),
            ("localhost.evil.example", false),
            ("192.168.1.1", false),
            ("", false),
        ] {
            assert_eq!(is_this_machine(without_port(host)), is, "{host}");
        }
    }
}
