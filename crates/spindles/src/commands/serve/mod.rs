//! `spindles serve`: exports an array or a device to other programs.

mod arguments;
mod confinement;
mod control;
mod export;
mod listeners;
mod reporting;
mod subject;
mod targets;

use super::{Command, serve_watch};
use crate::documents::tools as documents;
use crate::failure::Usage;
use crate::interrupt;
use crate::output::{begin_log, write_log};
use crate::serving::{Serving, Way};
use crate::ui::Ui;
use anyhow::bail;
use arguments::Arguments;
use clap::{ArgMatches, Args, FromArgMatches as _};
use control::{Commands, Sockets};
use export::{Beginning, Export, ExportEvent, Service};
use listeners::{Listeners, Ways};
use reporting::{Reporter, States};
use spindles_block::counted;
use spindles_serve::control::Control;
use spindles_serve::metrics::MetricsServer;
use spindles_serve::sandbox::helper::Helper;
use spindles_serve::{
    Certificates, Listener, ListenerOptions, Readiness, Served, ServerHandle, Stopper,
};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use targets::What;

pub(crate) static COMMAND: Command = Command {
    name: "serve",
    about: "Serve arrays or devices over NBD, as files or as block devices",
    details: "With --nbd the array is an export under its name for every program that speaks \
              NBD: the kernel's client, QEMU and libvirt, nbdcopy, nbdkit. ADDR is unix:PATH, \
              a PORT of this machine, or HOST:PORT; give --nbd several times for several \
              addresses. Every client that can connect can read and write the whole array, and \
              nothing is encrypted over a network. Therefore an ADDR that other machines can \
              reach needs --tls, or --allow-plaintext. With --tls DIR, clients of a PORT must \
              use TLS and show a certificate signed by the authority of ca-cert.pem. DIR also \
              holds server-cert.pem and server-key.pem. Clients of a unix:PATH may use TLS. \
              While the array is served, no other command writes to it.\n\n\
              Several arrays are several exports of one server: give their names, or their \
              devices. Commands find each array by its name, and spindles stop ends one of \
              them. The server runs until the last array is stopped.\n\n\
              With --fuse the array appears as that file, for every program and for loop \
              devices. The file is created if it does not exist; otherwise it must be empty. \
              For several arrays, give one file for each, in the same order. Before you stop \
              the server, unmount file systems on the file and detach its loop devices.\n\n\
              With --ublk the array is a block device of this machine, if the kernel has ublk; \
              this needs root. If the server dies, or is stopped while the device is open, the \
              device stays. Its users wait until the array is served with --ublk again. \
              Otherwise the device disappears with the server.\n\n\
              The command runs until Ctrl-C or SIGTERM. Then it completes the requests in \
              flight and closes the arrays cleanly. A crash of the server is like any other \
              crash: the next use recovers the array, and all flushed writes are there.\n\n\
              For trials, the command also serves memory, such as mem:1G, and arrays on \
              memory: these are new, and disappear when the command ends. With --as-is it \
              serves a file or device itself, with its current contents. Then only the device \
              itself can make writes whole after a crash.\n\n\
              plain:EXPR is the array of these members as they lie, without superblocks: \
              disks of another system, or of one that is lost. missing stands for an absent \
              member. It is read only unless --writable is given.\n\n\
              spindles serve pool --nbd unix:/run/pool.sock\n\
              qemu-system-x86_64 -drive file=nbd+unix:///?socket=/run/pool.sock,format=raw\n\
              spindles serve pool --nbd 10809\n\
              nbd-client 127.0.0.1 10809 /dev/nbd0 -name pool\n\
              spindles serve pool music --nbd 10809\n\
              nbdinfo --list nbd://127.0.0.1\n\
              spindles serve pool --nbd 0.0.0.0 --tls /etc/pki/spindles\n\
              nbdinfo 'nbds://server.example/pool?tls-certificates=/etc/pki/client'\n\
              spindles serve pool --fuse /run/pool.img\n\
              losetup --find --show --direct-io=on --sector-size 4096 /run/pool.img\n\
              spindles serve pool --ublk auto\n\
              mkfs.xfs /dev/ublkb0\n\
              spindles serve 'raid5(mem:1G,mem:1G,mem:1G)' --nbd 10809\n\
              spindles serve disk.img --as-is --nbd 10809\n\
              spindles serve 'plain:raid5:left-asymmetric(a,missing,c)' --chunk 279K --nbd 10809",
    hidden: false,
    arguments: |command| Arguments::augment_args(listeners::with_options(command)),
    run,
};

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arc::new(Arguments::from_arg_matches(matches)?);
    let readiness = Readiness::from_environment();
    let served = serve(matches, &arguments, &readiness, ui);
    if let Err(error) = &served {
        // The last status no longer holds.
        readiness.status(&format!("ended: {error:#}"));
    }
    served
}

fn serve(
    matches: &ArgMatches,
    arguments: &Arc<Arguments>,
    readiness: &Readiness,
    ui: &Ui,
) -> anyhow::Result<()> {
    let metrics = bind_metrics(arguments)?;
    let mut reporter = Reporter {
        hook: reporting::hook(arguments.on_event.as_ref())?,
        ui,
    };
    let whats = targets::exports(arguments, readiness, ui)?;
    let options = listener_options(arguments)?;
    let mut listeners = Listeners::bind(matches, &options, whats.len())?;
    let exports = open_all(whats, arguments)?;
    begin_log();
    let handles: Vec<ServerHandle> = exports.iter().map(|export| export.handle.clone()).collect();
    let page = metrics.as_ref().map(MetricsServer::url);
    let prepared = listeners.prepare(&handles).map_err(anyhow::Error::from);
    let prepared = prepared.and_then(|()| prepare(&exports, &listeners, arguments, ui));
    let prepared = prepared.and_then(|prepared| {
        metrics.map_or(Ok(()), |metrics| metrics.open(&handles))?;
        Ok(prepared)
    });
    let Prepared {
        commands,
        addresses: seen_at,
        helper,
    } = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            exports.into_iter().for_each(Export::close);
            return Err(error);
        }
    };
    let mut states = States::new(&exports);
    let beginnings: Vec<Beginning> = exports.iter().map(Export::beginning).collect();
    let (sender, events) = channel();
    let (threads, gives) = start(exports, commands, &sender);
    drop(sender);
    let opened = listeners.open(&handles);
    match &opened {
        Ok(()) => {
            note_addresses(&beginnings, &listeners, &seen_at, &mut states, ui);
            let certificates = options.certificates.as_ref();
            for remark in remarks(&beginnings, &listeners, page.as_deref(), certificates) {
                ui.note(remark);
            }
            for alarm in beginnings.iter().flat_map(|beginning| &beginning.alarms) {
                reporter.report(alarm);
            }
            readiness.ready(&states.to_string());
        }
        Err(_) => beginnings
            .iter()
            .for_each(|beginning| beginning.stopper.stop()),
    }
    hand_over(listeners, gives);
    let ended = until_all_end(&events, states, &mut reporter, readiness);
    for thread in threads {
        thread.join().unwrap_or_else(|panic| resume_unwind(panic));
    }
    drop(reporter);
    if let Some(helper) = helper {
        helper.close();
    }
    opened?;
    print_counts(ended?, ui);
    Ok(())
}

/// Binds the address of the metrics page.
fn bind_metrics(arguments: &Arguments) -> anyhow::Result<Option<MetricsServer>> {
    let metrics = arguments.metrics.as_deref();
    let metrics =
        metrics.map(|address| MetricsServer::bind(address, arguments.safety.allow_plaintext));
    metrics.transpose().map_err(listeners::refused)
}

/// Returns the options of the listeners.
fn listener_options(arguments: &Arguments) -> anyhow::Result<ListenerOptions> {
    Ok(ListenerOptions {
        watcher: Some(serve_watch::command()?),
        tell: Some(|line| write_log(&format!("spindles: {line}\n"))),
        ..arguments.safety.of_listeners()?
    })
}

/// Starts to serve the exports. Returns their threads, and the channels that hand each thread its
/// listeners.
fn start(
    exports: Vec<Export>,
    commands: Vec<Option<Commands>>,
    sender: &Sender<ExportEvent>,
) -> (Vec<JoinHandle<()>>, Vec<Sender<Ways>>) {
    let threads = exports.into_iter().zip(commands).enumerate();
    let threads = threads.map(|(number, (export, commands))| {
        let (give, ways) = channel();
        let thread = export.serve(Service {
            number,
            ways,
            commands,
            events: sender.clone(),
        });
        (thread, give)
    });
    threads.unzip()
}

/// Reports the addresses of the exports, and records them for the status and for commands.
fn note_addresses(
    beginnings: &[Beginning],
    listeners: &Listeners,
    seen_at: &[Arc<OnceLock<Vec<String>>>],
    states: &mut States,
    ui: &Ui,
) {
    for (number, beginning) in beginnings.iter().enumerate() {
        let addresses = listeners.addresses(number, &beginning.name);
        beginning.tell(&addresses, ui);
        states.open(number, &addresses);
        // Each is set only once.
        seen_at[number].set(addresses).ok();
    }
}

/// Lists the remarks of listeners, the metrics page of each export, and a warning on certificates.
fn remarks(
    beginnings: &[Beginning],
    listeners: &Listeners,
    page: Option<&str>,
    certificates: Option<&Certificates>,
) -> Vec<String> {
    let mut remarks: Vec<String> = listeners.all().filter_map(Listener::remark).collect();
    if let Some(page) = page {
        let called = beginnings.iter().map(|beginning| &beginning.called);
        remarks.extend(called.map(|called| format!("{called} has metrics: {page}")));
    }
    let warning = certificates.and_then(Certificates::warning);
    remarks.extend(warning.map(str::to_owned));
    remarks
}

/// Hands each thread its listeners.
fn hand_over(listeners: Listeners, gives: Vec<Sender<Ways>>) {
    for (give, ways) in gives.into_iter().zip(Ways::of(listeners)) {
        // The thread closes the listeners when it ends. If it has panicked, `join` reports that.
        drop(give.send(ways));
    }
}

/// Reports the events of exports until the last one has ended. Returns their counts, in order.
fn until_all_end(
    events: &Receiver<ExportEvent>,
    mut states: States,
    reporter: &mut Reporter<'_>,
    readiness: &Readiness,
) -> anyhow::Result<Vec<documents::Served>> {
    let ui = reporter.ui;
    let mut closed = Vec::new();
    let mut failed = Vec::new();
    for event in events {
        match event {
            ExportEvent::Note(note) => ui.note(note),
            ExportEvent::Alarm(alarm) => reporter.report(&alarm),
            ExportEvent::Event(alarm) => reporter.raise(&alarm),
            ExportEvent::Renamed(number, name) => states.rename(number, name),
            ExportEvent::State(number, state) => {
                states.set(number, state);
                readiness.status(&states.to_string());
            }
            ExportEvent::Ends(number) => {
                states.end(number);
                if states.are_over() {
                    readiness.stopping();
                } else {
                    readiness.status(&states.to_string());
                }
            }
            ExportEvent::Closed(number, Ok(served)) => {
                ui.line(format!(
                    "{} is closed: {}, {}",
                    states.called(number),
                    counted(served.connections, "client"),
                    counted(served.requests, "request")
                ));
                closed.push((number, document(states.name(number), &served)));
            }
            ExportEvent::Closed(number, Err(error)) => {
                let error = format!("{}: {error}", states.called(number));
                // While other arrays are served, the command's result is not visible yet.
                if !states.are_over() {
                    ui.note(&error);
                }
                failed.push(error);
            }
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    closed.sort_by_key(|(number, _)| *number);
    Ok(closed.into_iter().map(|(_, document)| document).collect())
}

/// Prints the JSON document of the command.
fn print_counts(exports: Vec<documents::Served>, ui: &Ui) {
    match <[_; 1]>::try_from(exports) {
        Ok([only]) => ui.json(&only),
        Err(exports) => ui.json(&documents::AllServed { exports }),
    }
}

/// Returns the JSON document of an export.
fn document(name: &str, served: &Served) -> documents::Served {
    documents::Served {
        name: name.to_owned(),
        connections: served.connections,
        requests: served.requests,
        payload_bytes: served.payload_bytes,
        copied_bytes: served.copied_bytes,
        read_bytes: served.read_bytes,
    }
}

/// Opens all exports, or none. Opening an array writes to it, so all refusals come before: if one
/// array is refused, no other has changed.
fn open_all(whats: Vec<What>, arguments: &Arc<Arguments>) -> anyhow::Result<Vec<Export>> {
    if whats.len() > 1 {
        check_all(&whats, arguments)?;
    }
    let (arrays, others): (Vec<_>, Vec<_>) =
        (whats.into_iter().enumerate()).partition(|(_, what)| matches!(what, What::Assembled(_)));
    let mut exports: Vec<(usize, Export)> = Vec::new();
    for (at, mut what) in others.into_iter().chain(arrays) {
        if let What::Assembled(devices) = &mut what {
            // An array opened before may have taken a shared spare.
            devices.retain(|device| !exports.iter().any(|(_, it)| it.has_taken(device)));
        }
        match Export::open(what, arguments) {
            Ok(export) => exports.push((at, export)),
            Err(error) => {
                for (_, export) in exports {
                    export.close();
                }
                return Err(error);
            }
        }
    }
    exports.sort_by_key(|(at, _)| *at);
    Ok(exports.into_iter().map(|(_, export)| export).collect())
}

/// Rejects several targets if one can't be served, or if two have the same name.
fn check_all(whats: &[What], arguments: &Arguments) -> anyhow::Result<()> {
    let mut names = Vec::new();
    for what in whats {
        let name = subject::name(what, arguments)?;
        if names.contains(&name) {
            return Err(Usage::error(format!(
                "two of these are called '{name}', and clients could not distinguish them: \
                 serve one with its own server, or rename an array that has superblocks with \
                 spindles rename"
            )));
        }
        names.push(name);
    }
    Ok(())
}

/// The addresses of exports, once known.
type Addresses = Vec<Arc<OnceLock<Vec<String>>>>;

/// The parts of a server apart from its listeners.
struct Prepared {
    commands: Vec<Option<Commands>>,
    addresses: Addresses,
    /// The helper outside of the sandbox.
    helper: Option<Arc<Helper>>,
}

/// Binds the control sockets, whose commands wait until the exports are served, and enters the
/// sandbox.
fn prepare(
    exports: &[Export],
    listeners: &Listeners,
    arguments: &Arguments,
    ui: &Ui,
) -> anyhow::Result<Prepared> {
    let asked = arguments.control.as_deref();
    let sockets = exports.iter().map(|export| {
        let sockets = export
            .array()
            .map(|array| Sockets::bind(array, &export.name, asked));
        sockets.transpose()
    });
    let sockets: Vec<Option<Sockets>> = sockets.collect::<anyhow::Result<_>>()?;
    let controls = || sockets.iter().flatten().map(|sockets| &sockets.control);
    if controls().any(Option::is_none) {
        ui.note("there can be no folder for a control socket: give --control PATH");
    }
    let (mut sandbox, mut helper) = (None, None);
    if !arguments.safety.no_sandbox {
        let folders = controls().flatten().map(Control::folder);
        let folders = folders.map(Path::to_owned).collect();
        let (entered, outside) = confinement::enter(exports, listeners, folders)?;
        if !entered.missing().is_empty() {
            let missing = entered.missing().join(", ");
            ui.note(format!(
                "the sandbox has only: {entered}; this system has no {missing}"
            ));
        }
        (sandbox, helper) = (Some(entered), Some(outside));
    }
    let addresses: Addresses = exports.iter().map(|_| Arc::default()).collect();
    let commands = (addresses.iter())
        .zip(exports)
        .zip(sockets)
        .enumerate()
        .map(|(number, ((addresses, export), sockets))| {
            let Some((handle, sockets)) = export.handle().zip(sockets) else {
                return Ok(None);
            };
            let serving = Serving::new(Way {
                array: export.array().expect("there is a way to it"),
                handle,
                stopper: export.stopper.clone(),
                read_only: arguments.read_only,
                addresses: Arc::clone(addresses),
                seen: listeners.seen(number),
                sandbox: sandbox.clone(),
                others: (exports.iter().enumerate())
                    .filter(|(other, _)| *other != number)
                    .map(|(_, other)| other.handle.clone())
                    .collect(),
            });
            sockets.open(serving).map(Some)
        });
    let commands: Vec<Option<Commands>> = commands.collect::<anyhow::Result<_>>()?;
    let stoppers: Vec<_> = exports
        .iter()
        .map(|export| export.stopper.clone())
        .collect();
    interrupt::call(move || stoppers.iter().for_each(Stopper::stop))?;
    Ok(Prepared {
        commands,
        addresses,
        helper,
    })
}
