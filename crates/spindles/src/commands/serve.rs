//! `spindles serve`: presents an array, or a device, to other programs.

use super::{Command, create, outside, serve_watch};
use crate::arrays::{self, Scan};
use crate::degraded::Degraded;
use crate::failure::Usage;
use crate::interrupt;
use crate::rate::Rate;
use crate::served::Serving;
use crate::ui::Ui;
use anyhow::{Context as _, bail};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_format::ChecksumKind;
use spindles_format::Uuid;
use spindles_io::assemble::{AssembleOptions, assemble};
use spindles_io::create::CreateOptions;
use spindles_io::{OpenOptions, Target, notice, open_device, scratch, wipe};
use spindles_layout::Expression;
use spindles_serve::control::{Control, OpenControl};
use spindles_serve::metrics::MetricsServer;
use spindles_serve::sandbox::helper::{Helper, Rules};
use spindles_serve::sandbox::{self, Needs, Sandbox};
use spindles_serve::{
    Alarm, Certificates, CertificatesError, Clients, Door, DoorError, DoorOptions, Handle, News,
    Opening, Readiness, Server, ServerLimits, TRANSPORTS, Transport, Watch, state_line,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks whether members have come.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) static COMMAND: Command = Command {
    name: "serve",
    about: "Present an array or a device to other programs: as a network block device, a file or a block device",
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
              With --ublk the array is a block device of this machine, where its kernel has ublk; that takes root. When \
              the server dies, or is stopped while somebody has the device open, it stays, and they wait until the array \
              is served with --ublk again. Otherwise it goes with the server.\n\n\
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
              spindles serve pool --ublk auto\n\
              mkfs.xfs /dev/ublkb0\n\
              spindles serve 'raid5(mem:1G,mem:1G,mem:1G)' --nbd 10809\n\
              spindles serve disk.img --as-is --nbd 10809",
    hidden: false,
    forwards: false,
    arguments: |command| Arguments::augment_args(with_transports(command)),
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

/// Gives up what is not needed any more, now that the devices are open. What needs more later is asked of a helper.
fn enter_sandbox(
    devices: &[&str],
    doors: &[Box<dyn Door>],
    control: Option<&Control>,
    server: &mut Server,
) -> anyhow::Result<Sandbox> {
    let rules = Rules {
        folders: devices.iter().filter_map(|name| folder_of(name)).collect(),
        hook: None,
    };
    let helper = Helper::start(outside::command(&rules));
    let helper =
        helper.context("can't start the helper of the sandbox; --no-sandbox does without")?;
    let opener = move |name: &str, flags| helper.open(Path::new(name), flags);
    spindles_io::open_devices_by(Box::new(opener));
    let removes_from = doors.iter().filter_map(|door| door.folder());
    let removes_from = removes_from.chain(control.map(Control::folder));
    let entered = sandbox::enter(&Needs {
        writes_in: notice::own_folder().into_iter().collect(),
        removes_from: removes_from.map(Path::to_owned).collect(),
        // To come back after a connection is lost.
        connects: devices.iter().any(|name| spindles_io::is_address(name)),
    });
    server.restart_threads()?;
    Ok(entered)
}

/// Where a file lies that is a device.
fn folder_of(device: &str) -> Option<PathBuf> {
    let path = Path::new(device).canonicalize().ok()?;
    let is_file = path.metadata().is_ok_and(|it| it.is_file());
    path.parent().filter(|_| is_file).map(Path::to_owned)
}

/// An option for each transport; at least one has to be given.
fn with_transports(command: clap::Command) -> clap::Command {
    let option = |transport: &&Transport| {
        Arg::new(transport.name)
            .long(transport.name)
            .value_name(transport.value)
            .help(transport.help)
            .action(ArgAction::Append)
    };
    let names = TRANSPORTS.iter().map(|transport| transport.name);
    let one = ArgGroup::new("transports").args(names);
    let command = command.args(TRANSPORTS.iter().map(option));
    command.group(one.multiple(true).required(true))
}

/// The doors that are asked for.
fn bind(matches: &ArgMatches, options: &DoorOptions) -> anyhow::Result<Vec<Box<dyn Door>>> {
    let of = |transport: &&'static Transport| {
        let values = matches.get_many::<String>(transport.name);
        let bind = transport.bind;
        let values = values.into_iter().flatten();
        let doors = values.map(|value| bind(value, options));
        doors.collect::<Vec<_>>()
    };
    let doors: Result<Vec<_>, _> = TRANSPORTS.iter().flat_map(of).collect();
    doors.map_err(refused)
}

fn refused(error: DoorError) -> anyhow::Error {
    match error {
        DoorError::Usage(what) => Usage::error(what),
        DoorError::Refused(_) => error.into(),
    }
}

/// Waits for members that the array counts on. Whoever starts this is told.
fn await_members(arguments: &Arguments, readiness: &Readiness, ui: &Ui) {
    let limit = Duration::from_secs(arguments.wait);
    let begun = Instant::now();
    let mut told = None;
    while let Some(absent) = arguments.scan.awaited(&arguments.targets) {
        if begun.elapsed() >= limit {
            let seconds = arguments.wait;
            ui.note(format!("{absent}: that did not change in {seconds} s"));
            return;
        }
        if told.as_ref() != Some(&absent) {
            ui.note(format!("waiting: {absent}"));
            readiness.status(&format!("waiting: {absent}"));
            told = Some(absent);
        }
        std::thread::sleep(LOOK_INTERVAL.min(limit));
    }
}

/// Tells alarms to people, and to the program that is run for them.
struct Teller<'a> {
    hook: Option<Helper>,
    ui: &'a Ui,
}

impl Teller<'_> {
    fn tell(&mut self, alarm: &Alarm) {
        self.ui.note(&alarm.message);
        self.raise(alarm);
    }

    /// Has the program run for what people are told elsewhere.
    fn raise(&mut self, alarm: &Alarm) {
        let raised = self.hook.as_ref().map(|hook| hook.run_hook(alarm));
        if let Some(Err(error)) = raised {
            self.ui
                .note(format!("nothing is run for events any more: {error}"));
            self.hook = None;
        }
    }

    /// Waits for the program, for a while.
    fn close(self) {
        if let Some(hook) = self.hook {
            hook.close();
        }
    }
}

/// What runs that program: a helper of its own, which is outside of the sandbox, and has nothing else to do.
fn hook(program: Option<&OsString>) -> anyhow::Result<Option<Helper>> {
    let Some(program) = program else {
        return Ok(None);
    };
    let path = Path::new(program);
    // Another name is looked for in PATH.
    if path.components().count() > 1 && !path.is_file() {
        let path = path.display();
        return Err(Usage::error(format!(
            "{path}: there is no such program to run for events"
        )));
    }
    let rules = Rules {
        hook: Some(path.to_owned()),
        ..Rules::default()
    };
    let helper = Helper::start(outside::command(&rules));
    Ok(Some(
        helper.context("can't start what runs programs for events")?,
    ))
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let readiness = Readiness::from_environment();
    let metrics = arguments.metrics.as_deref();
    let metrics =
        metrics.map(|address| MetricsServer::bind(address, arguments.safety.allow_plaintext));
    let metrics = metrics.transpose().map_err(refused)?;
    let mut teller = Teller {
        hook: hook(arguments.on_event.as_ref())?,
        ui,
    };
    let what = what(&arguments, &readiness, ui)?;
    let ways = TRANSPORTS.iter().filter_map(|transport| {
        let values = matches.get_many::<String>(transport.name);
        values.map(|values| values.len())
    });
    let doors = DoorOptions {
        is_only: ways.sum::<usize>() == 1,
        watcher: Some(serve_watch::command()?),
        ..arguments.safety.of_doors()?
    };
    let mut doors = bind(matches, &doors)?;
    let subject = open(what, &arguments);
    let subject = subject.inspect_err(|_| close(&mut doors, ui))?;
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
        offer.identify(uuid.0);
        let handle = Handle::new(&offer, &server.news(), &devices, &options);
        Serving::new(uuid, handle, stopper.clone(), arguments.read_only)
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
        let sandbox = enter_sandbox(
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
    let page = metrics.as_ref().map(MetricsServer::url);
    if let Some(metrics) = metrics {
        metrics.open(&offer)?;
    }
    let mut opening = Some(Opening::begin(doors, &offer)?);
    let mut opened = None;
    let mut state = state_line(server.arrays());
    let mut watch = Watch::default();
    let ended = server.run(|news, arrays| {
        if let News::Opened = news {
            let opening = opening.take().expect("doors are opened once");
            let (doors, _) = opened.insert(opening.end());
            let addresses: Vec<_> = doors.iter().map(|door| door.address(&name)).collect();
            for address in &addresses {
                // With --json too: it says that clients can come, by every door.
                ui.note(format!("{called} is served{but}: {address}"));
            }
            if let Some(serving) = &serving {
                let files = addresses.iter().map(PathBuf::from);
                serving.is_seen_as(files.filter(|file| file.is_absolute()).collect());
            }
            for warning in &warnings {
                ui.note(warning);
            }
            if let Some(page) = &page {
                ui.note(format!("{called} has metrics: {page}"));
            }
            for alarm in Watch::begin(arrays) {
                teller.tell(&alarm);
            }
            state = state_line(arrays);
            readiness.ready(&state);
            return;
        }
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
    let opened = opened.or_else(|| opening.map(Opening::end));
    let (mut doors, opened) = opened.expect("doors were opened");
    close(&mut doors, ui);
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
    opened?;
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

/// The server has ended, or never began.
fn close(doors: &mut [Box<dyn Door>], ui: &Ui) {
    for told in doors.iter_mut().filter_map(|door| door.close()) {
        ui.note(told);
    }
}

/// What is to be served.
enum What {
    /// The array on these devices.
    Assembled(Vec<String>),
    /// A device or an array that is gone when the server ends.
    Scratch(Expression, Option<ChecksumKind>),
    /// A file or device itself.
    AsIs(String),
}

/// What is served.
struct Subject {
    target: Box<dyn Target>,
    /// The name of the export.
    name: String,
    /// What an administrator calls it.
    called: String,
    /// What is to be known of it when it is served.
    but: &'static str,
    /// What it is to clients.
    description: String,
    /// What else is to be known of it.
    warnings: Vec<String>,
    /// The array that commands can be given for: its devices, and how it was opened.
    array: Option<(Uuid, Vec<String>, AssembleOptions)>,
}

/// What the arguments mean, once it is there. Nothing is opened.
fn what(arguments: &Arguments, readiness: &Readiness, ui: &Ui) -> anyhow::Result<What> {
    let checksum = arguments.checksum.as_deref().map(create::checksum);
    let checksum = checksum.transpose()?;
    let what = match &arguments.targets[..] {
        [device] if arguments.as_is => What::AsIs(device.clone()),
        _ if arguments.as_is => {
            return Err(Usage::error("--as-is serves one file or device: give one"));
        }
        [text] => match arrays::expression(text)? {
            expression if scratch::is_scratch(&expression) => What::Scratch(expression, checksum),
            Expression::Leaf(_) => assembled(arguments, readiness, ui)?,
            Expression::Array { .. } => {
                return Err(Usage::error(format!(
                    "{text}: arrays of files and devices are not made by serving them: make it with spindles \
                     create, and serve it by its name"
                )));
            }
        },
        _ => assembled(arguments, readiness, ui)?,
    };
    let is_fresh = matches!(what, What::Scratch(Expression::Array { .. }, _));
    if checksum.is_some() && !is_fresh {
        return Err(Usage::error(
            "--checksum is for a fresh array on memory: what else is served has its own, or none",
        ));
    }
    if arguments.control.is_some() && !matches!(what, What::Assembled(_)) {
        return Err(Usage::error(
            "--control is for commands on an array: there are none on what else is served",
        ));
    }
    Ok(what)
}

fn assembled(arguments: &Arguments, readiness: &Readiness, ui: &Ui) -> anyhow::Result<What> {
    if arguments.wait > 0 {
        await_members(arguments, readiness, ui);
    }
    let devices = arguments.scan.devices(&arguments.targets, &[], ui)?;
    Ok(What::Assembled(devices))
}

fn open(what: What, arguments: &Arguments) -> anyhow::Result<Subject> {
    let open = OpenOptions {
        read_only: arguments.read_only,
        ..arguments.rate.options()
    };
    match what {
        What::Assembled(devices) => {
            let options = AssembleOptions {
                force: arguments.force,
                degraded: arguments.degraded.degraded,
                open,
                ..AssembleOptions::default()
            };
            let array = assemble(&arrays::names(&devices), &options)?;
            let report = array.report;
            Ok(Subject {
                target: array.target,
                called: format!("array '{}'", report.name),
                but: "",
                description: format!("{} of {}", report.level, report.members.len()),
                warnings: report.warnings(),
                name: report.name,
                array: Some((report.uuid, devices, options)),
            })
        }
        What::Scratch(expression, checksum) => {
            let name = match &expression {
                Expression::Leaf(device) => device.clone(),
                Expression::Array { level, .. } => level.name.to_owned(),
            };
            let options = CreateOptions {
                checksum,
                open,
                ..CreateOptions::new(&name)
            };
            Ok(Subject {
                target: scratch::open_created(&expression, &options)?,
                called: expression.to_string(),
                but: ", and gone when this ends",
                description: expression.to_string(),
                name,
                warnings: Vec::new(),
                array: None,
            })
        }
        What::AsIs(device) => {
            let labelled = wipe::look(&[&device]).unwrap_or_default();
            if let Some(labelled) = labelled.first().filter(|_| !arguments.read_only) {
                bail!(
                    "{device} holds {}, which clients would overwrite: serve that, or give --read-only",
                    labelled.holds
                );
            }
            let name = Path::new(&device).file_name();
            let name = name.map_or_else(|| device.clone(), |it| it.to_string_lossy().into());
            Ok(Subject {
                target: open_device(&device, &open)?,
                called: device,
                but: " as it is, without an array",
                description: "a device".to_owned(),
                name,
                warnings: Vec::new(),
                array: None,
            })
        }
    }
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
