//! Certificates and keys as files, in the layout of nbdkit, libnbd, QEMU and libvirt.

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The authority that signs the other side's certificates.
pub const AUTHORITY: &str = "ca-cert.pem";
/// Certificates that the authority has revoked.
const REVOKED: &str = "ca-crl.pem";

/// Certificates that can't be used for TLS.
#[derive(Debug, Error)]
pub enum CertificatesError {
    /// A file can't be read.
    #[error("can't read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No authority to verify clients with.
    #[error(
        "{} is not there: clients are known by the signature of this certificate authority; put \
         its certificate there, or let any client in with --tls-any-client",
        path.display()
    )]
    NoAuthority {
        /// The expected path.
        path: PathBuf,
    },
    /// The file holds something else.
    #[error("{}: there is no {what} in it, as PEM and not encrypted", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Expected content.
        what: &'static str,
    },
    /// The certificates don't match, or can't be used safely.
    #[error("{}: {reason}", path.display())]
    Unfit {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Reads the authority's certificates in a folder.
///
/// # Errors
///
/// The file is missing, or can't be used.
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

/// Reads the certificates that the authority in a folder has revoked; none if there is no list.
///
/// # Errors
///
/// The list can't be read.
pub fn revoked(
    folder: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, CertificatesError> {
    let path = folder.join(REVOKED);
    if !path.exists() {
        return Ok(Vec::new());
    }
    all(&path, "list of revoked certificates")
}

/// Reads the certificates in a file.
///
/// # Errors
///
/// The file can't be read, or holds none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificatesError> {
    all(path, "certificate")
}

/// Reads the private key in a file.
///
/// # Errors
///
/// The file can't be read, or holds none.
pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificatesError> {
    let key = PrivateKeyDer::from_pem_file(path);
    key.map_err(|error| unreadable(path, "private key", error))
}

/// Reads all items of a kind in a file; fails if there are none.
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
