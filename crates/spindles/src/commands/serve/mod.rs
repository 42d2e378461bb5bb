//! `spindles serve`: presents an array, or a device, to other programs.

mod confinement;
mod doors;
mod subject;
mod targets;
mod telling;

use super::{Command, serve_watch};
use crate::arrays::{self, Scan};
use crate::degraded::Degraded;
use crate::interrupt;
use crate::rate::Rate;
use crate::served::Serving;
use crate::ui::Ui;
use anyhow::{Context as _, bail};
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_io::notice;
use spindles_serve::control::{Control, OpenControl};
use spindles_serve::metrics::MetricsServer;
use spindles_serve::{
    Certificates, CertificatesError, Clients, DoorOptions, Handle, Readiness, Server, ServerLimits,
    TRANSPORTS, Watch, state_line,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use subject::Subject;
use telling::Teller;

pub(crate) static COMMAND: Command = Command {
    name: "serve",
    about: "Present an array or a device to other programs, as a network block device or as a file",
    details: "With --nbd the array is an export of that name for every program that speaks NBD: the kernel's \
              client, QEMU and libvirt, nbdcopy, nbdkit. ADDR is unix:PATH, a PORT of this machine, or HOST:PORT; \
              give --nbd several times for several. Whoever can connect can read and write all of the array, \
              and over a network nothing is encrypted: other addresses than those of this machine need --tls, or \
              --allow-plaintext. With --tls DIR clients of a PORT must use TLS and show a certificate that is \
              signed by the authority of ca-cert.pem; DIR holds server-cert.pem and server-key.pem too. Clients \
              of a unix:PATH may use it. While it is served no other command writes to the array.\n\n\
              With --fuse the array is that file, for every program and for loop devices. It is made if it is not \
              there, and must be empty otherwise. Before the server is stopped, what is on it has to be \
              unmounted, and loop devices detached.\n\n\
              The command goes on until Ctrl-C or SIGTERM: then what is under way is answered, and the array \
              is closed in order. A crash leaves it as any crash does: it is put in order when it is used again, \
              and what was answered after a flush is there.\n\n\
              For trials, memory can be served too, mem:1G, and arrays on it: these are fresh, and gone when the \
              command ends. With --as-is a file or device is served itself, with whatever is on it; nothing but the \
              device makes its writes whole after a crash.\n\n\
              spindles serve pool --nbd unix:/run/pool.sock\n\
              qemu-system-x86_64 -drive file=nbd+unix:///?socket=/run/pool.sock,format=raw\n\
              spindles serve pool --nbd 10809\n\
              nbd-client 127.0.0.1 10809 /dev/nbd0 -name pool\n\
              spindles serve pool --nbd 0.0.0.0 --tls /etc/pki/spindles\n\
              nbdinfo 'nbds://server.example/pool?tls-certificates=/etc/pki/client'\n\
              spindles serve pool --fuse /run/pool.img\n\
              losetup --find --show --direct-io=on --sector-size 4096 /run/pool.img\n\
              spindles serve 'raid5(mem:1G,mem:1G,mem:1G)' --nbd 10809\n\
              spindles serve disk.img --as-is --nbd 10809",
    hidden: false,
    forwards: false,
    arguments: |command| Arguments::augment_args(doors::with_options(command)),
    run,
};

#[derive(Args)]
struct Arguments {
    /// An array: its name, or its devices in any order; or mem:SIZE, null:SIZE or an array on these:
    /// 'raid1(mem:1G,mem:1G)'
    #[arg(value_name = "TARGET", required = true)]
    targets: Vec<String>,
    /// Listen for commands on the array there, as a socket of this user alone, and not where commands
    /// look by themselves that are given the array
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Run this program when an administrator must know something, such as that a member is out: with
    /// the event, the array, and the device where it is about one, as mdadm's monitor does
    #[arg(long, value_name = "PROGRAM")]
    on_event: Option<OsString>,
    /// Hand out metrics for Prometheus there, over HTTP: PORT, or HOST:PORT
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,
    /// Wait so long for members that the array counts on and that are not there yet; then it begins
    /// without them, where that is allowed
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u64,
    /// Clients can only read; nothing is written to the devices
    #[arg(long)]
    read_only: bool,
    /// Serve a file or device itself, and no array on it
    #[arg(long)]
    as_is: bool,
    /// How a fresh array on memory sums up its blocks: crc32c or none [default: crc32c]
    #[arg(long, value_name = "KIND")]
    checksum: Option<String>,
    /// Open an array with parity that lacks devices and was not closed in order too: data may be wrong
    /// near what was being written
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    safety: Safety,
    #[command(flatten)]
    scan: Scan,
    #[command(flatten)]
    degraded: Degraded,
    #[command(flatten)]
    rate: Rate,
}

// What keeps others from the array. No doc comment: it would stand for that of the command.
#[derive(Args)]
struct Safety {
    /// Encrypt with TLS, with the certificates in this folder: server-cert.pem, server-key.pem and ca-cert.pem
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// Let in clients that show no certificate: whoever can connect can read and write
    #[arg(long, requires = "tls")]
    tls_any_client: bool,
    /// Listen on addresses that other machines can reach, without encryption
    #[arg(long, conflicts_with = "tls")]
    allow_plaintext: bool,
    /// Keep all that this user may do while clients are served, for systems on which giving it up fails
    #[arg(long)]
    no_sandbox: bool,
}

impl Safety {
    fn of_doors(&self) -> Result<DoorOptions, CertificatesError> {
        let clients = if self.tls_any_client {
            Clients::Any
        } else {
            Clients::Certified
        };
        let folder = self.tls.as_deref();
        let certificates = folder.map(|folder| Certificates::read(folder, clients));
        Ok(DoorOptions {
            allow_plaintext: self.allow_plaintext,
            certificates: certificates.transpose()?,
            ..DoorOptions::default()
        })
    }
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let readiness = Readiness::from_environment();
    let metrics = arguments.metrics.as_deref();
    let metrics =
        metrics.map(|address| MetricsServer::bind(address, arguments.safety.allow_plaintext));
    let metrics = metrics.transpose().map_err(doors::refused)?;
    let mut teller = Teller {
        hook: telling::hook(arguments.on_event.as_ref())?,
        ui,
    };
    let what = targets::what(&arguments, &readiness, ui)?;
    let ways = TRANSPORTS.iter().filter_map(|transport| {
        let values = matches.get_many::<String>(transport.name);
        values.map(|values| values.len())
    });
    let doors = DoorOptions {
        is_only: ways.sum::<usize>() == 1,
        watcher: Some(serve_watch::command()?),
        ..arguments.safety.of_doors()?
    };
    let mut doors = doors::bind(matches, &doors)?;
    let subject = subject::open(what, &arguments);
    let subject = subject.inspect_err(|_| doors::close(&mut doors, ui))?;
    let Subject {
        target,
        name,
        called,
        but,
        description,
        warnings,
        array,
    } = subject;
    let limits = ServerLimits::default();
    let (mut server, offer) = Server::new(target, &name, description, limits)?;
    let stopper = server.stopper();
    let devices = array
        .as_ref()
        .map_or(Vec::new(), |(_, devices, _)| devices.clone());
    let serving = array.map(|(uuid, devices, options)| {
        let handle = Handle::new(&offer, &server.news(), &devices, &options);
        let files = doors.iter().map(|door| PathBuf::from(door.address(&name)));
        let files = files.filter(|file| file.is_absolute()).collect();
        Serving::new(uuid, handle, stopper.clone(), arguments.read_only, files)
    });
    let (mut control, mut named) = (None, None);
    if let Some(serving) = &serving {
        control = bind_control(arguments.control.as_deref(), serving)?;
        if arguments.control.is_none() {
            named = notice::name_socket(&name, serving.array());
        }
        if control.is_none() {
            ui.note("there can be no folder for a control socket: give --control PATH");
        }
    }
    let fits_sandbox = doors.iter().all(|door| door.fits_sandbox());
    if fits_sandbox && !arguments.safety.no_sandbox {
        let sandbox = confinement::enter(
            &arrays::names(&devices),
            &doors,
            control.as_ref(),
            &mut server,
        )?;
        if !sandbox.missing().is_empty() {
            let missing = sandbox.missing().join(", ");
            ui.note(format!(
                "the sandbox has only: {sandbox}; this system has no {missing}"
            ));
        }
    }
    let control = control.zip(serving.as_ref());
    let control = control.map(|(control, serving)| open_control(control, serving));
    let control = control.transpose()?;
    interrupt::call(move || stopper.stop())?;
    for door in &mut doors {
        door.open(std::slice::from_ref(&offer))?;
    }
    for door in &doors {
        // With --json too: it says that clients can come, by every door.
        ui.note(format!("{called} is served{but}: {}", door.address(&name)));
    }
    for warning in warnings {
        ui.note(warning);
    }
    if let Some(metrics) = metrics {
        ui.note(format!("{called} has metrics: {}", metrics.url()));
        metrics.open(&offer)?;
    }
    for alarm in Watch::begin(server.arrays()) {
        teller.tell(&alarm);
    }
    let mut state = state_line(server.arrays());
    readiness.ready(&state);
    let mut watch = Watch::default();
    let ended = server.run(|news, arrays| {
        if let Some(alarm) = watch.hear(news, arrays) {
            teller.tell(&alarm);
        }
        let now = state_line(arrays);
        if now != state {
            readiness.status(&now);
            state = now;
        }
    });
    readiness.stopping();
    doors::close(&mut doors, ui);
    let closed = ended.map_err(|error| error.to_string());
    let closed = closed.and_then(|server| server.close().map_err(|error| error.to_string()));
    if let Err(error) = &closed {
        teller.raise(&Watch::unclean(&name, error));
    }
    let closed = closed.map_err(|error| format!("{called}: {error}"));
    if let Some(serving) = serving {
        serving.end(closed.as_ref().map(|_| ()).map_err(String::clone));
    }
    if let Some(control) = control {
        control.close();
    }
    if let Some(named) = named {
        // Somebody may have removed it already.
        drop(std::fs::remove_file(named));
    }
    teller.close();
    let closed = match closed {
        Ok(closed) => closed,
        Err(error) => bail!("{error}"),
    };
    ui.line(format!(
        "{called} is closed: {} clients, {} requests",
        closed.connections, closed.requests
    ));
    ui.json(&json!({
        "name": name,
        "connections": closed.connections,
        "requests": closed.requests,
        "payload_bytes": closed.payload_bytes,
        "copied_bytes": closed.copied_bytes,
        "read_bytes": closed.read_bytes,
    }));
    Ok(())
}

/// A socket for commands on the array: there, or where other commands of this user look for it.
fn bind_control(asked: Option<&Path>, serving: &Serving) -> anyhow::Result<Option<Control>> {
    let own = || notice::own_socket(serving.array());
    let Some(path) = asked.map(Path::to_owned).or_else(own) else {
        return Ok(None);
    };
    let control = Control::bind(&path).with_context(|| path.display().to_string())?;
    Ok(Some(control))
}

/// Lets commands in.
fn open_control(control: Control, serving: &Serving) -> anyhow::Result<OpenControl> {
    let serving = serving.clone();
    Ok(control.open(Arc::new(move |ask, answers| serving.answer(ask, answers)))?)
}
