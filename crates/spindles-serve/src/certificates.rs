//! The certificates of a server, in the layout that nbdkit, libnbd, QEMU and libvirt have.

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Who the server is, and the key that shows it.
const SERVER: &str = "server-cert.pem";
const KEY: &str = "server-key.pem";
/// Whose signature clients are known by.
const AUTHORITY: &str = "ca-cert.pem";
/// Certificates of clients that it takes back.
const REVOKED: &str = "ca-crl.pem";

/// Which clients are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Those that show a certificate of the authority.
    Certified,
    /// All.
    Any,
}

/// No TLS with these certificates.
#[derive(Debug, Error)]
pub enum CertificatesError {
    /// A file can't be read.
    #[error("can't read {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Nobody could say who is a client.
    #[error(
        "{} is not there: clients are known by the signature of this certificate authority; put its \
         certificate there, or let any client in with --tls-any-client",
        path.display()
    )]
    NoAuthority {
        /// Where it is looked for.
        path: PathBuf,
    },
    /// It is something else.
    #[error("{}: there is no {what} in it, as PEM and not encrypted", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
    },
    /// They don't go together, or are of a kind that nobody should use.
    #[error("{}: {reason}", path.display())]
    Unfit {
        /// The file, or the folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The certificates of a server.
#[derive(Clone, Debug)]
pub struct Certificates(Arc<ServerConfig>);

impl Certificates {
    /// Reads those in a folder: `server-cert.pem`, `server-key.pem` and, where clients are to show certificates,
    /// `ca-cert.pem` and perhaps `ca-crl.pem`.
    ///
    /// # Errors
    ///
    /// One is missing, or can't be used.
    pub fn read(folder: &Path, clients: Clients) -> Result<Self, CertificatesError> {
        let own = certificates(&folder.join(SERVER))?;
        let path = folder.join(KEY);
        let key = PrivateKeyDer::from_pem_file(&path);
        let key = key.map_err(|error| unreadable(&path, "private key", error))?;
        let verifier = match clients {
            Clients::Certified => verifier(folder)?,
            Clients::Any => Arc::new(NoClientAuth),
        };
        let unfit = |error: rustls::Error| CertificatesError::Unfit {
            path: folder.to_owned(),
            reason: format!("{SERVER} and {KEY} can't be used: {error}"),
        };
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions();
        let config = config.map_err(unfit)?.with_client_cert_verifier(verifier);
        let mut config = config.with_single_cert(own, key).map_err(unfit)?;
        // A client that comes again shows its certificate again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }

    /// A connection that is about to begin.
    pub(crate) fn connection(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.0))
    }
}

/// Who knows which clients have a certificate of the authority.
fn verifier(folder: &Path) -> Result<Arc<dyn ClientCertVerifier>, CertificatesError> {
    let path = folder.join(AUTHORITY);
    if !path.exists() {
        return Err(CertificatesError::NoAuthority { path });
    }
    let unfit = |reason: String| CertificatesError::Unfit {
        path: path.clone(),
        reason,
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&path)? {
        let added = roots.add(certificate);
        added.map_err(|error| unfit(error.to_string()))?;
    }
    let revoked = folder.join(REVOKED);
    let lists = if revoked.exists() {
        all(&revoked, "list of revoked certificates")?
    } else {
        Vec::<CertificateRevocationListDer<'_>>::new()
    };
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.with_crls(lists).build();
    verifier.map_err(|error| unfit(error.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificatesError> {
    all(path, "certificate")
}

/// All of a kind in a file, and at least one.
fn all<T: PemObject>(path: &Path, what: &'static str) -> Result<Vec<T>, CertificatesError> {
    let failed = |error| unreadable(path, what, error);
    let all = T::pem_file_iter(path).map_err(failed)?;
    let all: Vec<T> = all.collect::<Result<_, _>>().map_err(failed)?;
    if all.is_empty() {
        return Err(failed(pem::Error::NoItemsFound));
    }
    Ok(all)
}

fn unreadable(path: &Path, what: &'static str, error: pem::Error) -> CertificatesError {
    let path = path.to_owned();
    match error {
        pem::Error::Io(source) => CertificatesError::File { path, source },
        _ => CertificatesError::Content { path, what },
    }
}
