//! Addresses that a server listens on.

use crate::certificates::Certificates;
use crate::control::folder_of;
use crate::left_behind::Fleeting;
use rustix::system::uname;
use spindles_admin::scan::shell_word;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// The default port of the protocol.
const PORT: u16 = 10809;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A TCP port of this machine.
    Tcp(SocketAddr),
}

/// An invalid address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum AddressError {
    /// The text has no valid form.
    #[error("{0:?} is not an address: give {meant}", meant = meant(.0))]
    Form(String),
    /// The host name can't be resolved.
    #[error("{host}: there is no such host: {reason}")]
    Host {
        /// The host name as given.
        host: String,
        /// The system's error message.
        reason: String,
    },
}

/// Suggests a valid form.
fn meant(text: &str) -> String {
    if text.starts_with(['/', '.']) {
        format!("unix:{text} for a socket there")
    } else if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("a PORT up to {}", u16::MAX)
    } else {
        "unix:PATH, PORT, HOST, or HOST:PORT".to_owned()
    }
}

impl Address {
    /// Returns the socket file to remove when listening ends; `None` for TCP.
    pub(super) fn socket(&self) -> Option<Fleeting> {
        match self {
            Self::Unix(path) => Some(Fleeting(path.clone())),
            Self::Tcp(_) => None,
        }
    }

    /// Returns the folder of the socket file; `None` for TCP.
    pub(super) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(folder_of(path)),
            Self::Tcp(_) => None,
        }
    }

    /// Returns the URI of an export for clients. With certificates they use TLS and a host name
    /// from the certificate.
    pub(super) fn uri(&self, export: &str, certificates: Option<&Certificates>) -> String {
        let export = escaped(export);
        match self {
            Self::Unix(path) => {
                // Absolute, for clients in other folders.
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                let socket = shell_word(&path.display().to_string()).into_owned();
                format!("nbd+unix:///{export}?socket={socket}")
            }
            Self::Tcp(address) => {
                let scheme = certificates.map_or("nbd", |_| "nbds");
                format!("{scheme}://{}/{export}", reachable(*address, certificates))
            }
        }
    }

    /// Returns true if only this machine can connect.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => address.ip().is_loopback(),
        }
    }
}

/// Returns an address that others can connect to: for an unspecified address, the name of this
/// machine.
fn reachable(address: SocketAddr, certificates: Option<&Certificates>) -> String {
    let own = uname();
    match own.nodename().to_str() {
        Ok(name) if address.ip().is_unspecified() && !name.is_empty() => {
            let name = certificates.map_or(name, |certificates| certificates.host(name));
            format!("{name}:{}", address.port())
        }
        _ => address.to_string(),
    }
}

/// Escapes an export name for a URI.
fn escaped(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(escape).collect()
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let form = || AddressError::Form(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err(form())
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        if let Ok(port) = text.parse() {
            let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
            return Ok(Self::Tcp(SocketAddr::new(host, port)));
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(form()); // Too large for a port.
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Tcp(address));
        }
        if let Ok(host) = text.parse() {
            return Ok(Self::Tcp(SocketAddr::new(host, PORT)));
        }
        if text.is_empty() || text.contains('/') {
            return Err(form());
        }
        let found = if text.contains(':') {
            text.to_socket_addrs()
        } else {
            (text, PORT).to_socket_addrs()
        };
        let address = found.map_err(|error| AddressError::Host {
            host: text.to_owned(),
            reason: error.to_string(),
        })?;
        address.map(Self::Tcp).next().ok_or_else(form)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_forms_are_parsed() {
        let tcp = |text: &str| Ok(Address::Tcp(text.parse().unwrap()));
        for (text, expected) in [
            (
                "unix:/run/pool.sock",
                Ok(Address::Unix("/run/pool.sock".into())),
            ),
            ("10810", tcp("127.0.0.1:10810")),
            ("127.0.0.1:0", tcp("127.0.0.1:0")),
            ("192.0.2.7", tcp("192.0.2.7:10809")),
            ("::1", tcp("[::1]:10809")),
            ("[2001:db8::1]:99", tcp("[2001:db8::1]:99")),
            ("99999", Err(AddressError::Form("99999".to_owned()))),
            ("unix:", Err(AddressError::Form("unix:".to_owned()))),
            ("", Err(AddressError::Form(String::new()))),
            (
                "/run/pool.sock",
                Err(AddressError::Form("/run/pool.sock".to_owned())),
            ),
        ] {
            assert_eq!(text.parse::<Address>(), expected, "{text}");
        }
    }

    #[test]
    fn invalid_addresses_are_refused_with_the_valid_forms() {
        for (text, wanted) in [
            ("/run/s", "give unix:/run/s for"),
            ("99999", "a PORT up to 65535"),
            ("", "unix:PATH, PORT,"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn printed_addresses_accept_connections() {
        let uri = |text: &str| text.parse::<Address>().unwrap().uri("a b", None);
        assert_eq!(uri("127.0.0.1:9"), "nbd://127.0.0.1:9/a%20b");
        assert_eq!(uri("[2001:db8::1]:9"), "nbd://[2001:db8::1]:9/a%20b");
        let name = uname();
        let name = name.nodename().to_str().unwrap();
        for all in ["0.0.0.0:9", "[::]:9"] {
            assert_eq!(uri(all), format!("nbd://{name}:9/a%20b"));
        }
    }

    #[test]
    fn local_addresses_are_recognized() {
        for (text, local) in [
            ("unix:a", true),
            ("99", true),
            ("[::1]:9", true),
            ("0.0.0.0:9", false),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().is_local(), local, "{text}");
        }
    }
}
