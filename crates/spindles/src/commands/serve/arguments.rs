//! The arguments of `spindles serve`.

use crate::arrays::Scan;
use crate::degraded::Degraded;
use crate::plain::Plain;
use crate::rate::Rate;
use clap::Args;
use clap::builder::PossibleValuesParser;
use spindles_engine::{READ_POLICIES, ReadPolicy};
use spindles_serve::{Certificates, CertificatesError, Clients, ListenerOptions};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(super) struct Arguments {
    /// Arrays: their names, or their devices in any order; or plain:EXPR; or mem:SIZE, null:SIZE or
    /// an array of these: 'raid1(mem:1G,mem:1G)'
    #[arg(value_name = "TARGET", required = true)]
    pub(super) targets: Vec<String>,
    /// Path of the control socket for commands on the array, which only this user can use: for
    /// programs that connect to it. The commands of spindles look elsewhere, and do not find it
    /// there
    #[arg(long, value_name = "PATH")]
    pub(super) control: Option<PathBuf>,
    /// Run this program on every event that an administrator must know about, such as a member that
    /// is out. It gets the arguments that mdadm's monitor passes: the event, the array, and the
    /// device, if any
    #[arg(long, value_name = "PROGRAM")]
    pub(super) on_event: Option<OsString>,
    /// Serve metrics for Prometheus over HTTP on this address: PORT, or HOST:PORT
    #[arg(long, value_name = "ADDR")]
    pub(super) metrics: Option<String>,
    /// Wait up to this many seconds for absent members that the arrays count on; then begin without
    /// them, if that is allowed
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(super) wait: u64,
    /// Clients can only read; nothing is written to the devices
    #[arg(long)]
    pub(super) read_only: bool,
    /// Serve the files or devices themselves, not the arrays on them
    #[arg(long)]
    pub(super) as_is: bool,
    /// Checksum of the blocks of a fresh array on memory: crc32c or none [default: crc32c]
    #[arg(long, value_name = "KIND")]
    pub(super) checksum: Option<String>,
    /// Also open an array with parity that lacks devices and was not closed cleanly: data near
    /// interrupted writes may be wrong
    #[arg(long)]
    pub(super) force: bool,
    /// Clients can also write to plain:EXPR, which is read only otherwise
    #[arg(long, conflicts_with = "read_only")]
    pub(super) writable: bool,
    #[command(flatten)]
    pub(super) plain: Plain,
    #[command(flatten)]
    pub(super) safety: Safety,
    #[command(flatten)]
    pub(super) scan: Scan,
    #[command(flatten)]
    pub(super) degraded: Degraded,
    #[command(flatten)]
    pub(super) rate: Rate,
    /// Which copy of a mirror to read: the one nearest to the last access, with the shortest queue,
    /// or in turn
    #[arg(
        long,
        value_name = "POLICY",
        value_parser = read_policies(),
        default_value = READ_POLICIES[0].name,
    )]
    pub(super) read_policy: String,
    /// For the lab, to measure the cost of flushes: with `ignored`, members get none. A crash may
    /// then lose data that clients were promised is durable
    #[arg(
        long,
        value_name = "HOW",
        value_parser = FLUSHES,
        default_value = FLUSHES[0],
        hide = true,
    )]
    pub(super) flushes: String,
}

/// Whether members get flushes.
pub(super) const FLUSHES: [&str; 2] = ["honoured", "ignored"];

fn read_policies() -> PossibleValuesParser {
    PossibleValuesParser::new(READ_POLICIES.iter().map(|policy| policy.name))
}

impl Arguments {
    pub(super) fn read_policy(&self) -> &'static ReadPolicy {
        ReadPolicy::by_name(&self.read_policy).expect("one of the possible values")
    }
}

// Protection of the array from others. No doc comment: clap would show it as the help of the
// command.
#[derive(Args)]
pub(super) struct Safety {
    /// Encrypt with TLS, with the certificates in this folder: server-cert.pem, server-key.pem and
    /// ca-cert.pem
    #[arg(long, value_name = "DIR")]
    pub(super) tls: Option<PathBuf>,
    /// Accept clients without a certificate: anyone who can connect can read and write
    #[arg(long, requires = "tls")]
    pub(super) tls_any_client: bool,
    /// Listen on addresses that other machines can reach, without encryption
    #[arg(long, conflicts_with = "tls")]
    pub(super) allow_plaintext: bool,
    /// Keep all rights of this user while clients are served, for systems on which dropping them
    /// fails
    #[arg(long)]
    pub(super) no_sandbox: bool,
}

impl Safety {
    pub(super) fn of_listeners(&self) -> Result<ListenerOptions, CertificatesError> {
        let clients = if self.tls_any_client {
            Clients::Any
        } else {
            Clients::Certified
        };
        let folder = self.tls.as_deref();
        let certificates = folder.map(|folder| Certificates::read(folder, clients));
        Ok(ListenerOptions {
            allow_plaintext: self.allow_plaintext,
            certificates: certificates.transpose()?,
            ..ListenerOptions::default()
        })
    }
}
