//! Certificates and keys as files, in the layout that nbdkit, libnbd, QEMU and libvirt have.

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Whose signature the other side is known by.
pub const AUTHORITY: &str = "ca-cert.pem";
/// Certificates that it takes back.
const REVOKED: &str = "ca-crl.pem";

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

/// The authority in a folder.
///
/// # Errors
///
/// It is not there, or can't be used.
pub fn authority(folder: &Path) -> Result<RootCertStore, CertificatesError> {
    let path = folder.join(AUTHORITY);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&path)? {
        let added = roots.add(certificate);
        added.map_err(|error| CertificatesError::Unfit {
            path: path.clone(),
            reason: error.to_string(),
        })?;
    }
    Ok(roots)
}

/// What the authority in a folder takes back; nothing, where there is no list.
///
/// # Errors
///
/// It can't be read.
pub fn revoked(
    folder: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, CertificatesError> {
    let path = folder.join(REVOKED);
    if !path.exists() {
        return Ok(Vec::new());
    }
    all(&path, "list of revoked certificates")
}

/// The certificates in a file.
///
/// # Errors
///
/// There are none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificatesError> {
    all(path, "certificate")
}

/// The key in a file.
///
/// # Errors
///
/// There is none.
pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificatesError> {
    let key = PrivateKeyDer::from_pem_file(path);
    key.map_err(|error| unreadable(path, "private key", error))
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
