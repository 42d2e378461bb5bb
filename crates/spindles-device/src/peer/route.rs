//! The route to an export: its address, and with TLS the certificates that identify its server.

use super::address::{Address, Server};
use super::socket::Socket;
use crate::tls::Trust;
use rustls::pki_types::ServerName;
use std::io;
use std::time::Instant;

/// Name expected of a server on a socket, unless the address gives another.
const LOCAL: &str = "localhost";

/// The route to an export. Its certificates are already loaded.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) address: Address,
    tls: Option<(Trust, ServerName<'static>)>,
}

impl Route {
    /// Returns the route to an address. The error is a message for the user about the certificates.
    pub(crate) fn to(address: Address) -> Result<Self, String> {
        let tls = address.tls.as_ref().map(|tls| {
            let own = match &address.server {
                Server::Host { name, .. } => name,
                Server::Socket(_) => LOCAL,
            };
            let name = tls.hostname.clone().unwrap_or_else(|| own.to_owned());
            let name = ServerName::try_from(name.clone())
                .map_err(|_| format!("no certificate has the name {name}: give tls-hostname"))?;
            let trust = Trust::of(&tls.certificates).map_err(|error| error.to_string())?;
            Ok::<_, String>((trust, name))
        });
        let tls = tls.transpose()?;
        Ok(Self { address, tls })
    }

    /// Returns true if the connection is to be encrypted.
    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Encrypts a connection, after client and server agreed to.
    pub(super) fn encrypt(&self, socket: Socket, until: Instant) -> io::Result<Socket> {
        let (trust, name) = self.tls.as_ref().expect("TLS was asked for");
        socket.encrypt(|socket| trust.shake_hands(name, socket), until)
    }
}
