//! An answer, and how it is sent to the client.

use crate::request::Refusal;
use rustix::rand::{GetRandomFlags, getrandom};
use spindles_report::page::Page;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: Status,
    /// Media type of the content.
    pub(crate) media: &'static str,
    /// Further fields of the head: name and value.
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Body,
}

/// The content of an answer.
#[derive(Debug)]
pub(crate) enum Body {
    /// A text.
    Text(String),
    /// The first bytes of a file, which may grow meanwhile.
    File(File, u64),
}

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    MovedPermanently,
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    HeadTooLarge,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::MovedPermanently => "308 Permanent Redirect",
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
        }
    }
}

/// Fields of every head. No answer may be cached, because it may be outdated a moment later, and no
/// page of another origin may use it.
const FIELDS: &str = "Cache-Control: no-store\r\nConnection: close\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n\
    X-Content-Type-Options: nosniff\r\n";
/// The policy of everything but pages: no scripts, no resources, no frames.
const NOTHING: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

impl Response {
    /// Creates a page, which may run its own script and style and nothing else.
    pub(crate) fn page(status: Status, mut page: Page) -> Self {
        let nonce = nonce();
        if let Some(served) = &mut page.served {
            served.nonce.clone_from(&nonce);
        }
        let policy = format!(
            "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; \
             style-src-elem 'nonce-{nonce}'; style-src-attr 'unsafe-inline'; connect-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        );
        Self {
            status,
            media: "text/html; charset=utf-8",
            fields: vec![("Content-Security-Policy", policy)],
            body: Body::Text(page.html()),
        }
    }

    /// Creates an answer that is not a page.
    pub(crate) fn plain(status: Status, media: &'static str, body: Body) -> Self {
        Self {
            status,
            media,
            fields: vec![("Content-Security-Policy", NOTHING.to_owned())],
            body,
        }
    }

    /// Returns the answer to a refused request; `None` if the client is gone.
    pub(crate) fn refusal(refusal: Refusal) -> Option<Self> {
        let (status, text) = match refusal {
            Refusal::Malformed => (
                Status::BadRequest,
                "This server does not understand the request.",
            ),
            Refusal::Method => (
                Status::MethodNotAllowed,
                "This server is read-only: use GET or HEAD.",
            ),
            Refusal::TooLarge => (
                Status::HeadTooLarge,
                "The header of the request is too large.",
            ),
            Refusal::Gone => return None,
        };
        let mut response = Self::text(status, text);
        if status == Status::MethodNotAllowed {
            response.fields.push(("Allow", "GET, HEAD".to_owned()));
        }
        Some(response)
    }

    /// Creates an answer of one line of text.
    pub(crate) fn text(status: Status, text: &str) -> Self {
        let body = Body::Text(format!("{text}\n"));
        Self::plain(status, "text/plain; charset=utf-8", body)
    }

    /// Adds a field to the head.
    pub(crate) fn with(mut self, name: &'static str, value: String) -> Self {
        self.fields.push((name, value));
        self
    }

    /// Sends the answer; only its head if `head_only`.
    pub(crate) fn send(self, stream: &mut TcpStream, head_only: bool) -> io::Result<()> {
        let length = match &self.body {
            Body::Text(text) => text.len().to_string(),
            Body::File(_, bytes) => bytes.to_string(),
        };
        let mut head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {length}\r\n{FIELDS}",
            self.status.line(),
            self.media,
        );
        for (name, value) in &self.fields {
            // A line break in a value would begin another field.
            let value: String = value.chars().filter(|c| !c.is_control()).collect();
            write!(head, "{name}: {value}\r\n").expect("strings take everything");
        }
        head += "\r\n";
        stream.write_all(head.as_bytes())?;
        match self.body {
            _ if head_only => {}
            Body::Text(text) => stream.write_all(text.as_bytes())?,
            Body::File(file, bytes) => {
                io::copy(&mut file.take(bytes), stream)?;
            }
        }
        stream.flush()
    }
}

/// Returns an unpredictable word of 128 bits.
fn nonce() -> String {
    let mut bytes = [0; 16];
    let mut done = 0;
    while done < bytes.len() {
        // Fails only if a signal interrupted it: a kernel without random numbers is too old for
        // this program.
        done += getrandom(&mut bytes[done..], GetRandomFlags::empty()).unwrap_or(0);
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
