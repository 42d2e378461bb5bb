//! `spindles serve`: presents an array to other programs.

use super::Command;
use crate::arrays::{self, ArrayArguments};
use crate::degraded::Degraded;
use crate::failure::Usage;
use crate::interrupt;
use crate::rate::Rate;
use crate::ui::Ui;
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_engine::Event;
use spindles_io::assemble::{AssembleOptions, assemble};
use spindles_io::{OpenOptions, scan, why_out};
use spindles_serve::{Address, Certificates, Clients, Front, Server, ServerLimits};
use std::path::PathBuf;

pub(crate) static COMMAND: Command = Command {
    name: "serve",
    about: "Present an array to other programs, as a network block device",
    details: "With --nbd the array is an export of that name for every program that speaks NBD: the kernel's \
              client, QEMU and libvirt, nbdcopy, nbdkit. ADDR is unix:PATH, a PORT of this machine, or HOST:PORT; \
              give --nbd several times for several. Whoever can connect can read and write all of the array, \
              and over a network nothing is encrypted: other addresses than those of this machine need --tls, or \
              --allow-plaintext. With --tls DIR clients of a PORT must use TLS and show a certificate that is \
              signed by the authority of ca-cert.pem; DIR holds server-cert.pem and server-key.pem too. Clients \
              of a unix:PATH may use it. While it is served no other command writes to the array.\n\n\
              The command goes on until Ctrl-C or SIGTERM: then what is under way is answered, and the array \
              is closed in order. A crash leaves it as any crash does: it is put in order when it is used again, \
              and what was answered after a flush is there.\n\n\
              spindles serve pool --nbd unix:/run/pool.sock\n\
              qemu-system-x86_64 -drive file=nbd+unix:///?socket=/run/pool.sock,format=raw\n\
              spindles serve pool --nbd 10809\n\
              nbd-client 127.0.0.1 10809 /dev/nbd0 -name pool\n\
              spindles serve pool --nbd 0.0.0.0 --tls /etc/pki/spindles\n\
              nbdinfo 'nbds://server.example/pool?tls-certificates=/etc/pki/client'",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// Listen there for NBD clients: unix:PATH, PORT, or HOST:PORT
    #[arg(long, value_name = "ADDR", required = true)]
    nbd: Vec<String>,
    /// Clients can only read; nothing is written to the devices
    #[arg(long)]
    read_only: bool,
    /// Encrypt with TLS, with the certificates in this folder: server-cert.pem, server-key.pem and ca-cert.pem
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// Let in clients that show no certificate: whoever can connect can read and write
    #[arg(long, requires = "tls")]
    tls_any_client: bool,
    /// Listen on addresses that other machines can reach, without encryption
    #[arg(long, conflicts_with = "tls")]
    allow_plaintext: bool,
    /// Open an array with parity that lacks devices and was not closed in order too: data may be wrong
    /// near what was being written
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    array: ArrayArguments,
    #[command(flatten)]
    degraded: Degraded,
    #[command(flatten)]
    rate: Rate,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let addresses = arguments.nbd.iter().map(|text| text.parse::<Address>());
    let addresses = addresses.collect::<Result<Vec<_>, _>>();
    let addresses = addresses.map_err(Usage::error)?;
    let open = addresses.iter().find(|address| !address.is_local());
    if let Some(address) = open
        && !arguments.allow_plaintext
        && arguments.tls.is_none()
    {
        return Err(Usage::error(format!(
            "{address}: other machines can reach it, and nothing is encrypted: give --tls with certificates, \
             --allow-plaintext if the network is safe, or an address of this machine"
        )));
    }
    let clients = if arguments.tls_any_client {
        Clients::Any
    } else {
        Clients::Certified
    };
    let certificates = arguments.tls.as_deref();
    let certificates = certificates.map(|folder| Certificates::read(folder, clients));
    let certificates = certificates.transpose()?;
    let devices = arguments.array.devices(&[], ui)?;
    let options = AssembleOptions {
        force: arguments.force,
        degraded: arguments.degraded.degraded,
        open: OpenOptions {
            read_only: arguments.read_only,
            ..arguments.rate.options()
        },
        ..AssembleOptions::default()
    };
    let fronts = addresses.iter().map(Front::bind);
    let fronts = fronts.collect::<Result<Vec<_>, _>>()?;
    let array = assemble(&arrays::names(&devices), &options);
    let array = array.inspect_err(|_| addresses.iter().for_each(Address::remove))?;
    let name = array.report.name.clone();
    let description = format!("{} of {}", array.report.level, array.report.members.len());
    let limits = ServerLimits::default();
    let (mut server, offer) = Server::new(array.target, &name, description, limits)?;
    let stopper = server.stopper();
    interrupt::call(move || stopper.stop())?;
    for front in fronts {
        // With --json too: it says when clients can come.
        ui.note(format!(
            "array '{name}' is served: {}",
            uri(front.address(), &name, certificates.is_some())
        ));
        front.open(vec![offer.clone()], certificates.clone())?;
    }
    let ended = server.run(|target| {
        while let Some((array, event)) = target.next_event() {
            if let Some(told) = told(&event) {
                ui.note(format!("array '{array}': {told}"));
            }
        }
    });
    for address in &addresses {
        address.remove();
    }
    let closed = server.close();
    ended?;
    let closed = match closed {
        Ok(closed) => closed,
        Err(error) => bail!("array '{name}': {error}"),
    };
    ui.line(format!(
        "array '{name}' is closed: {} clients, {} requests",
        closed.connections, closed.requests
    ));
    ui.json(&json!({
        "name": name,
        "connections": closed.connections,
        "requests": closed.requests,
        "payload_bytes": closed.payload_bytes,
        "copied_bytes": closed.copied_bytes,
    }));
    Ok(())
}

/// What an administrator is to know of an event.
fn told(event: &Event) -> Option<String> {
    Some(match event {
        Event::MemberOut { member, reason } => {
            let why = why_out(*reason);
            format!("member {member} is out: {why}; the array is degraded")
        }
        Event::ArrayFailed { missing } => {
            format!("more members are out than it survives: {missing:?}; nothing more is written")
        }
        Event::JournalDeviceOut { error } => {
            format!("the device of its journal is out: {error}; writes are logged on the members")
        }
        Event::Lost { block, blocks } => {
            format!(
                "a crash took {blocks} blocks from block {block} on: they answer errors until they are written"
            )
        }
        Event::RebuildStarted { member } => format!("member {member} is being filled"),
        Event::RebuildDone { member } => format!("member {member} is active again"),
        Event::NotFilled { member, blocks, .. } => {
            format!(
                "{blocks} blocks of member {member} can't be filled: other members can't be read there"
            )
        }
        _ => return None,
    })
}

/// As programs take it.
fn uri(address: &Address, export: &str, encrypted: bool) -> String {
    match address {
        Address::Unix(path) => {
            let socket = scan::shell_word(&path.display().to_string()).into_owned();
            format!("nbd+unix:///{export}?socket={socket}")
        }
        Address::Tcp(address) if encrypted => format!("nbds://{address}/{export}"),
        Address::Tcp(address) => format!("nbd://{address}/{export}"),
    }
}
