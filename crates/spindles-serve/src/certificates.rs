//! The certificates of a server, in the layout that nbdkit, libnbd, QEMU and libvirt have.

use rustls::crypto::ring;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ServerConfig, ServerConnection};
use spindles_io::scan::shell_word;
use spindles_io::tls::pem::{self, AUTHORITY};
use spindles_io::tls::{CertificatesError, explain};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

/// Who the server is, and the key that shows it.
const SERVER: &str = "server-cert.pem";
const KEY: &str = "server-key.pem";

/// Which clients are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Those that show a certificate of the authority.
    Certified,
    /// All.
    Any,
}

/// The certificates of a server.
#[derive(Clone, Debug)]
pub struct Certificates {
    config: Arc<ServerConfig>,
    warning: Option<String>,
}

impl Certificates {
    /// Reads those in a folder: `server-cert.pem`, `server-key.pem` and, where clients are to show certificates,
    /// `ca-cert.pem` and perhaps `ca-crl.pem`.
    ///
    /// # Errors
    ///
    /// One is missing, or can't be used.
    pub fn read(folder: &Path, clients: Clients) -> Result<Self, CertificatesError> {
        let own = pem::certificates(&folder.join(SERVER))?;
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
        // A client that comes again shows its certificate again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            warning: exposure(&folder.join(KEY)),
        })
    }

    /// What somebody should know of them.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// A connection that is about to begin.
    pub(crate) fn connection(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.config))
    }
}

/// That others than its owner may read a key, if so: whoever has it can pass for the server.
fn exposure(key: &Path) -> Option<String> {
    let mode = key.metadata().ok()?.permissions().mode() & 0o777;
    (mode & 0o044 != 0).then(|| {
        let key = key.display().to_string();
        format!(
            "{key} has mode {mode:04o}, so that others than its owner may read the private key: `chmod 600 {}`",
            shell_word(&key)
        )
    })
}

/// Who knows which clients have a certificate of the authority.
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
