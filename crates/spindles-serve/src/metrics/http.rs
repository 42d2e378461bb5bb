//! A minimal HTTP/1.1 server for one page.

use super::address;
use super::metric::Facts;
use super::page::{MEDIA_TYPE, page};
use super::rows::{HISTOGRAMS, METRICS};
use crate::listening::{next_client, port_failed};
use crate::server_handle::ServerHandle;
use crate::transports::ListenerError;
use crate::under_way::UnderWay;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Most requests in progress.
const ASKS_MAX: usize = 8;
/// Longest request in bytes: its line and headers.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Time limit for a client to send its request, and again to read the response.
const ASK_MAX: Duration = Duration::from_secs(5);

/// Serves the metrics page over HTTP.
#[derive(Debug)]
pub struct MetricsServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsServer {
    /// Listens on PORT of this machine, or on HOST:PORT. No request is answered yet.
    ///
    /// # Errors
    ///
    /// The address is invalid, reachable from other machines without permission, or refused by the
    /// system.
    pub fn bind(text: &str, allow_plaintext: bool) -> Result<Self, ListenerError> {
        let asked = address::parse(text, allow_plaintext).map_err(ListenerError::Usage)?;
        let listener = TcpListener::bind(asked);
        let listener = listener.and_then(|listener| listener.local_addr().map(|at| (listener, at)));
        let (listener, address) = listener.map_err(|error| {
            ListenerError::Refused(Box::new(io::Error::new(
                error.kind(),
                format!("--metrics: {}", port_failed(asked, &error)),
            )))
        })?;
        Ok(Self { listener, address })
    }

    /// The URL of the page.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Answers requests from now on, until the process ends.
    ///
    /// # Errors
    ///
    /// The thread can't be started.
    pub fn open(self, servers: &[ServerHandle]) -> io::Result<()> {
        let servers: Arc<[ServerHandle]> = servers.into();
        let thread = thread::Builder::new().name("spindles-metrics".to_owned());
        thread.spawn(move || accept(&self.listener, &servers))?;
        Ok(())
    }
}

fn accept(listener: &TcpListener, servers: &Arc<[ServerHandle]>) {
    let under_way = UnderWay::new(ASKS_MAX);
    loop {
        let (stream, _) = next_client(|| listener.accept());
        if !under_way.begin(Duration::ZERO) {
            continue; // Dropping the stream closes it.
        }
        let servers = Arc::clone(servers);
        let thread = thread::Builder::new().name("spindles-metrics".to_owned());
        // Ignore clients that disconnect.
        let work = move || drop(answer(stream, &servers));
        drop(under_way.spawn(thread, work));
    }
}

fn answer(mut stream: TcpStream, servers: &[ServerHandle]) -> io::Result<()> {
    let response = match receive(&mut stream)? {
        Some(head) => respond(&head, || {
            let facts: Vec<Facts> = servers.iter().filter_map(Facts::of).collect();
            (!facts.is_empty()).then(|| page(METRICS, HISTOGRAMS, &facts))
        }),
        None => plain("431 Request Header Fields Too Large"),
    };
    stream.set_write_timeout(Some(ASK_MAX))?;
    stream.write_all(response.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // Closing a socket with unread data would discard the response.
    let end = Instant::now() + ASK_MAX;
    let mut rest = [0; 1024];
    while stream.read(&mut rest)? > 0 && Instant::now() < end {}
    Ok(())
}

/// Receives the line and headers of a request; `None` if they are too long.
fn receive(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let end = Instant::now() + ASK_MAX;
    let mut request = Vec::new();
    let mut bytes = [0; 1024];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut bytes)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        request.extend(&bytes[..count]);
        if request.len() > REQUEST_BYTES_MAX {
            return Ok(None);
        }
    }
    Ok(Some(String::from_utf8_lossy(&request).into_owned()))
}

/// Returns the response to a request. `page` renders the page; it returns `None` if no server is
/// left.
fn respond(head: &str, page: impl FnOnce() -> Option<String>) -> String {
    let line = head.lines().next().unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let [method, path, version] = words.as_slice() else {
        return plain("400 Bad Request");
    };
    if !version.starts_with("HTTP/1.") {
        return plain("400 Bad Request");
    }
    if path.split('?').next() != Some("/metrics") {
        return plain("404 Not Found");
    }
    if *method != "GET" {
        return plain("405 Method Not Allowed");
    }
    match page() {
        Some(page) => response("200 OK", MEDIA_TYPE, &page),
        None => plain("503 Service Unavailable"),
    }
}

fn plain(status: &str) -> String {
    response(status, "text/plain; charset=utf-8", &format!("{status}\n"))
}

fn response(status: &str, media_type: &str, body: &str) -> String {
    let allow = if status.starts_with("405") {
        "Allow: GET\r\n"
    } else {
        ""
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: \
         {}\r\n{allow}Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str, page: Option<&str>) -> String {
        let response = respond(head, || page.map(str::to_owned));
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        head.split(' ').nth(1).expect("a status").to_owned()
    }

    #[test]
    fn only_the_metrics_page_is_served() {
        for (line, page, wanted) in [
            ("GET /metrics HTTP/1.1", Some("a 1\n"), "200"),
            ("GET /metrics?x=1 HTTP/1.0", Some("a 1\n"), "200"),
            ("GET /metrics HTTP/1.1", None, "503"),
            ("POST /metrics HTTP/1.1", Some(""), "405"),
            ("GET / HTTP/1.1", Some(""), "404"),
            ("GET /metrics/../etc/passwd HTTP/1.1", Some(""), "404"),
            ("GET /metrics HTTP/2", Some(""), "400"),
            ("GET /metrics", Some(""), "400"),
            ("", Some(""), "400"),
        ] {
            assert_eq!(status(&format!("{line}\r\n\r\n"), page), wanted, "{line}");
        }
    }
}
