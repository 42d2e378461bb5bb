//! The client's side: certificates that verify servers, and the client's own.

use super::pem::{self, CertificatesError};
use super::words::explain;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The client's certificate, and its private key in `KEY`.
const CLIENT: &str = "client-cert.pem";
const KEY: &str = "client-key.pem";

/// Configurations read so far. A process that has given up access to files continues with these.
static READ: Mutex<BTreeMap<PathBuf, Trust>> = Mutex::new(BTreeMap::new());

/// The authority that verifies servers, and the client's own certificate.
#[derive(Clone, Debug)]
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Reads the certificates in a folder: `ca-cert.pem`, optionally `ca-crl.pem`, and for servers
    /// that verify clients `client-cert.pem` and `client-key.pem`. Reads a folder once per process.
    pub(crate) fn of(folder: &Path) -> Result<Self, CertificatesError> {
        let path = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trust) = read.get(&path) {
            return Ok(trust.clone());
        }
        let trust = Self::read(&path)?;
        read.insert(path, trust.clone());
        Ok(trust)
    }

    fn read(folder: &Path) -> Result<Self, CertificatesError> {
        let unfit = |reason: String| CertificatesError::Unfit {
            path: folder.to_owned(),
            reason,
        };
        let provider = Arc::new(ring::default_provider());
        let roots = Arc::new(pem::authority(folder)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let verifier = verifier.with_crls(pem::revoked(folder)?).build();
        let verifier = verifier.map_err(|error| unfit(error.to_string()))?;
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions();
        let config = config.map_err(|error| unfit(error.to_string()))?;
        let config = config.with_webpki_verifier(verifier);
        let own = folder.join(CLIENT);
        let config = if own.exists() {
            let key = pem::key(&folder.join(KEY))?;
            let config = config.with_client_auth_cert(pem::certificates(&own)?, key);
            config.map_err(|error| {
                let why = explain(&error);
                unfit(format!("{CLIENT} and {KEY} can't be used: {why}"))
            })?
        } else {
            config.with_no_client_auth()
        };
        Ok(Self(Arc::new(config)))
    }

    /// Does the handshake with a server of this name, on a socket that waits.
    pub(crate) fn shake_hands(
        &self,
        name: &ServerName<'static>,
        socket: &mut (impl Read + Write),
    ) -> io::Result<ClientConnection> {
        let connection = ClientConnection::new(Arc::clone(&self.0), name.clone());
        let mut connection = connection.map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(socket)?;
        }
        Ok(connection)
    }
}
