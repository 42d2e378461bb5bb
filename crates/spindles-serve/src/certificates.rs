//! The TLS certificates of a server, in the directory layout of nbdkit, libnbd, QEMU and libvirt.

use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    NoClientAuth, NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier,
};
use rustls::{CertificateError, Error, ServerConfig, ServerConnection};
use spindles_admin::scan::shell_word;
use spindles_device::tls::pem::{self, AUTHORITY};
use spindles_device::tls::{CertificatesError, explain};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

/// The server's certificate.
const SERVER: &str = "server-cert.pem";
/// The certificate in a client's folder instead.
const CLIENT: &str = "client-cert.pem";
const KEY: &str = "server-key.pem";

/// The clients that may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Clients with a certificate of the authority.
    Certified,
    /// All clients.
    Any,
}

/// The certificates of a server.
#[derive(Clone, Debug)]
pub struct Certificates {
    config: Arc<ServerConfig>,
    /// Host names in the server's certificate, by which clients know it.
    names: Vec<String>,
    warning: Option<String>,
}

impl Certificates {
    /// Reads the certificates in a folder: `server-cert.pem` and `server-key.pem`. If clients must
    /// present certificates, also `ca-cert.pem` and, if present, `ca-crl.pem`.
    ///
    /// # Errors
    ///
    /// A file is missing or unusable.
    pub fn read(folder: &Path, clients: Clients) -> Result<Self, CertificatesError> {
        if folder.join(CLIENT).exists() && !folder.join(SERVER).exists() {
            return Err(CertificatesError::Unfit {
                path: folder.to_owned(),
                reason: format!(
                    "it has {CLIENT}, which is for clients, and no {SERVER}: give the folder with \
                     the server's certificates"
                ),
            });
        }
        if !folder.is_dir() {
            return Err(CertificatesError::Unfit {
                path: folder.to_owned(),
                reason: format!("there is no such folder: give the one with {SERVER} and {KEY}"),
            });
        }
        let own = pem::certificates(&folder.join(SERVER))?;
        let names = names_of(own.first());
        let key = pem::key(&folder.join(KEY))?;
        let verifier = match clients {
            Clients::Certified => verifier(folder)?,
            Clients::Any => Arc::new(NoClientAuth),
        };
        let unfit = |error: rustls::Error| CertificatesError::Unfit {
            path: folder.to_owned(),
            reason: format!("{SERVER} and {KEY} can't be used: {}", explain(&error)),
        };
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions();
        let config = config.map_err(unfit)?.with_client_cert_verifier(verifier);
        let mut config = config.with_single_cert(own, key).map_err(unfit)?;
        // No session resumption: a returning client must present its certificate again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            names,
            warning: exposure(&folder.join(KEY)),
        })
    }

    /// A warning for the administrator, if there is one.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The host name that clients should use: `machine` if the certificate has it, else a name from
    /// the certificate.
    pub(crate) fn host<'a>(&'a self, machine: &'a str) -> &'a str {
        let is_plain = |name: &&String| !name.contains('*');
        if self.names.iter().any(|name| name == machine) {
            return machine;
        }
        self.names
            .iter()
            .find(is_plain)
            .map_or(machine, String::as_str)
    }

    /// Starts a TLS session for a new connection.
    pub(crate) fn connection(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.config))
    }
}

/// Returns the subject of a certificate for messages: `CN=host, O=Example`. `None` without a
/// readable subject.
pub(crate) fn subject_of(certificate: &CertificateDer<'_>) -> Option<String> {
    // Certificate ::= SEQUENCE { tbsCertificate SEQUENCE { [0] version, serialNumber, signature,
    // issuer, validity, subject, ..
    let (certificate, _) = der(certificate, SEQUENCE)?;
    let (mut rest, _) = der(certificate, SEQUENCE)?;
    if let Some((_, after)) = der(rest, VERSION) {
        rest = after;
    }
    for tag in [INTEGER, SEQUENCE, SEQUENCE, SEQUENCE] {
        rest = der(rest, tag)?.1;
    }
    let (mut names, _) = der(rest, SEQUENCE)?;
    let mut parts = Vec::new();
    while let Some((set, after)) = der(names, SET) {
        let (pair, _) = der(set, SEQUENCE)?;
        let (kind, value) = der(pair, OBJECT_IDENTIFIER)?;
        let known = ATTRIBUTES.iter().find(|(id, _)| *id == kind);
        if let (Some((_, name)), Some(value)) = (known, element(value)) {
            let value = String::from_utf8_lossy(value.contents);
            parts.push(format!("{name}={}", value.replace(char::is_control, "?")));
        }
        names = after;
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;

/// The displayed attributes of a subject, by object identifier.
const ATTRIBUTES: &[(&[u8], &str)] = &[
    (&[0x55, 0x04, 3], "CN"),
    (&[0x55, 0x04, 6], "C"),
    (&[0x55, 0x04, 7], "L"),
    (&[0x55, 0x04, 8], "ST"),
    (&[0x55, 0x04, 10], "O"),
    (&[0x55, 0x04, 11], "OU"),
];

/// A DER element, and the bytes after it.
struct Element<'a> {
    tag: u8,
    contents: &'a [u8],
    rest: &'a [u8],
}

/// Returns the contents of the first DER element if it has this tag, and the bytes after it.
fn der(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let found = element(bytes).filter(|found| found.tag == tag)?;
    Some((found.contents, found.rest))
}

/// Parses the first DER element.
fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let (&[tag, first], mut rest) = bytes.split_first_chunk()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let (octets, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if octets.len() > size_of::<u32>() {
            return None;
        }
        length = octets
            .iter()
            .fold(0, |sum, octet| sum << 8 | usize::from(*octet));
        rest = after;
    }
    let (contents, rest) = rest.split_at_checked(length)?;
    Some(Element {
        tag,
        contents,
        rest,
    })
}

/// Returns the host names of a certificate. It verifies a name that no host has: the error lists
/// the names.
fn names_of(certificate: Option<&CertificateDer<'_>>) -> Vec<String> {
    let absent = ServerName::try_from("absent.invalid").expect("a name");
    let certificate =
        certificate.and_then(|certificate| ParsedCertificate::try_from(certificate).ok());
    let known = certificate.map(|certificate| verify_server_name(&certificate, &absent));
    let Some(Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
        presented,
        ..
    }))) = known
    else {
        return Vec::new();
    };
    let hosts = presented.iter().filter_map(|name| {
        let name = name.strip_prefix("DnsName(\"")?;
        name.strip_suffix("\")").map(str::to_owned)
    });
    hosts.collect()
}

/// Returns a warning if others than the owner may read the key: they could impersonate the server.
fn exposure(key: &Path) -> Option<String> {
    let mode = key.metadata().ok()?.permissions().mode() & 0o777;
    (mode & 0o044 != 0).then(|| {
        let key = key.display().to_string();
        format!(
            "{key} has mode {mode:04o}, so other users may read the private key: run `chmod 600 \
             {}`",
            shell_word(&key)
        )
    })
}

/// Creates the verifier that accepts clients with a certificate of the authority.
fn verifier(folder: &Path) -> Result<Arc<dyn ClientCertVerifier>, CertificatesError> {
    let path = folder.join(AUTHORITY);
    if !path.exists() {
        return Err(CertificatesError::NoAuthority { path });
    }
    let roots = pem::authority(folder)?;
    let lists = pem::revoked(folder)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.with_crls(lists).build();
    verifier.map_err(|error| CertificatesError::Unfit {
        path,
        reason: error.to_string(),
    })
}
