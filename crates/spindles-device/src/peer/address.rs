//! Addresses of exports: `nbd://HOST[:PORT]/EXPORT` and `nbd+unix:///EXPORT?socket=PATH`, as in
//! NBD's URI specification. With `nbds` instead of `nbd`, and `tls-certificates=DIR` after the `?`
//! as in libnbd, the connection is encrypted.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// The port assigned to NBD.
const PORT: u16 = 10809;

/// Location of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) server: Server,
    /// The export's name; empty for the server's default export.
    pub(crate) export: String,
    /// `Some` if the connection is encrypted.
    pub(crate) tls: Option<Tls>,
}

/// How the client verifies the server, and identifies itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    /// The folder of the certificates.
    pub(crate) certificates: PathBuf,
    /// Name in the server's certificate, if it differs from the host's.
    pub(crate) hostname: Option<String>,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Host { name: String, port: u16 },
    Socket(PathBuf),
}

impl Server {
    /// Returns a string that is the same for all addresses of one server, as far as addresses show.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Host { .. } => self.to_string(),
            Self::Socket(path) => {
                let path = path.canonicalize().unwrap_or_else(|_| path.clone());
                path.display().to_string()
            }
        }
    }
}

/// Returns true if a name is an address, of any kind.
#[must_use]
pub fn is_address(name: &str) -> bool {
    name.contains("://")
}

impl Address {
    /// Parses an address. The error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or("it is no address")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (is_local, is_encrypted) = match scheme {
            "nbd" => (false, false),
            "nbd+unix" => (true, false),
            "nbds" => (false, true),
            "nbds+unix" => (true, true),
            _ => return Err("its kind is unknown"),
        };
        let query = Query::read(query)?;
        let server = match query.socket {
            None if is_local => return Err("the path of the socket is not given"),
            None => host_of(host)?,
            Some(_) if !is_local => return Err("a socket has an address of the form nbd+unix://"),
            Some(socket) if host.is_empty() => Server::Socket(socket),
            Some(_) => return Err("a socket has no host: add a '/'"),
        };
        let tls = match (query.certificates, query.hostname) {
            (None, None) if !is_encrypted => None,
            _ if !is_encrypted => return Err("with TLS it begins with nbds://, or nbds+unix://"),
            (None, _) => {
                return Err(
                    "its certificates are not given: write ?tls-certificates=DIR behind it",
                );
            }
            (Some(certificates), hostname) => Some(Tls {
                certificates,
                hostname,
            }),
        };
        let export = String::from_utf8(decoded(path)?).map_err(|_| "the export is not UTF-8")?;
        if export.len() > spindles_nbd::STRING_BYTES_MAX || export.contains('\0') {
            return Err("no export has such a name");
        }
        Ok(Self {
            server,
            export,
            tls,
        })
    }
}

fn host_of(text: &str) -> Result<Server, &'static str> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']').ok_or("the host lacks its ']'")?;
            (name, port)
        }
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => Ok(PORT),
        None => Err("there is text between the host and its port"),
        Some(port) => match port.parse() {
            Ok(0) | Err(_) => Err("the port is no number from 1 to 65535"),
            Ok(port) => Ok(port),
        },
    }?;
    if name.is_empty() {
        return Err("the host is not given");
    }
    if name.contains('@') {
        return Err("a server of this kind has no users");
    }
    let name = String::from_utf8(decoded(name)?).map_err(|_| "the host is not UTF-8")?;
    let name = name.to_ascii_lowercase();
    Ok(Server::Host { name, port })
}

/// Parameters after the `?`.
#[derive(Default)]
struct Query {
    socket: Option<PathBuf>,
    certificates: Option<PathBuf>,
    hostname: Option<String>,
}

impl Query {
    fn read(text: &str) -> Result<Self, &'static str> {
        let mut query = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value)?;
            let path = || PathBuf::from(OsString::from_vec(value.clone()));
            let is_again = match key {
                _ if value.is_empty() => true,
                "socket" => query.socket.replace(path()).is_some(),
                "tls-certificates" => query.certificates.replace(path()).is_some(),
                "tls-hostname" => {
                    let name = String::from_utf8(value).map_err(|_| "the host is not UTF-8")?;
                    query.hostname.replace(name).is_some()
                }
                _ => true,
            };
            if is_again {
                return Err(
                    "only socket=PATH, tls-certificates=DIR and tls-hostname=NAME, each once, \
                     may follow the '?'",
                );
            }
        }
        Ok(query)
    }
}

/// Decodes `%` escapes of two hexadecimal digits.
fn decoded(text: &str) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(*rest.next()?).to_digit(16);
        let number = digit().zip(digit()).map(|(high, low)| high * 16 + low);
        let byte = number.and_then(|number| u8::try_from(number).ok());
        bytes.push(byte.ok_or("a '%' without two hexadecimal digits after it: write %25 for it")?);
    }
    Ok(bytes)
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { name, port } => write!(f, "{name}:{port}"),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        match Address::parse(text) {
            Ok(address) => {
                let by = address.tls.map(|tls| {
                    let name = tls.hostname.map(|name| format!(", as {name}"));
                    format!(
                        " by {}{}",
                        tls.certificates.display(),
                        name.unwrap_or_default()
                    )
                });
                let by = by.unwrap_or_default();
                format!("{} '{}'{by}", address.server, address.export)
            }
            Err(what) => format!("no: {what}"),
        }
    }

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("nbd://h1/x", "h1:10809 'x'"),
            ("nbd://H1:7/a/b", "h1:7 'a/b'"),
            ("nbd://h1", "h1:10809 ''"),
            ("nbd://[::1]:7/", "::1:7 ''"),
            ("nbd://[fe80::1%25eth0]", "fe80::1%eth0:10809 ''"),
            ("nbd+unix:///?socket=/tmp/c.sock", "/tmp/c.sock ''"),
            ("nbd+unix:///a%20b%2c?socket=a%3fb", "a?b 'a b,'"),
            ("nbd+unix:///x", "no: the path of the socket is not given"),
            (
                "nbd+unix://x?socket=s",
                "no: a socket has no host: add a '/'",
            ),
            (
                "nbd+unix:///?sock=s",
                "no: only socket=PATH, tls-certificates=DIR and tls-hostname=NAME, each once, \
                 may follow the '?'",
            ),
            (
                "nbd+unix:///?socket=",
                "no: only socket=PATH, tls-certificates=DIR and tls-hostname=NAME, each once, \
                 may follow the '?'",
            ),
            (
                "nbds://h?tls-certificates=a&tls-certificates=b",
                "no: only socket=PATH, tls-certificates=DIR and tls-hostname=NAME, each once, \
                 may follow the '?'",
            ),
            (
                "nbds://h:7/x?tls-certificates=/etc/a%20b",
                "h:7 'x' by /etc/a b",
            ),
            (
                "nbds+unix:///x?socket=s&tls-certificates=d&tls-hostname=h",
                "s 'x' by d, as h",
            ),
            (
                "nbd://h/x?tls-certificates=d",
                "no: with TLS it begins with nbds://, or nbds+unix://",
            ),
            (
                "nbd://h?socket=s",
                "no: a socket has an address of the form nbd+unix://",
            ),
            ("nbd:///x", "no: the host is not given"),
            ("nbd://h:0/", "no: the port is no number from 1 to 65535"),
            ("nbd://h:x/", "no: the port is no number from 1 to 65535"),
            ("nbd://[::1/", "no: the host lacks its ']'"),
            (
                "nbd://[::1]7/",
                "no: there is text between the host and its port",
            ),
            ("nbd://me@h/", "no: a server of this kind has no users"),
            (
                "nbd://h/%4",
                "no: a '%' without two hexadecimal digits after it: write %25 for it",
            ),
            ("nbd://h/%ff", "no: the export is not UTF-8"),
            ("nbd://h/%00", "no: no export has such a name"),
            (
                "nbds://h/x",
                "no: its certificates are not given: write ?tls-certificates=DIR behind it",
            ),
            ("iscsi://h/x", "no: its kind is unknown"),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }
}
