//! `spindles stop`: stops serving an array.

use super::Command;
use crate::arrays::{self, Scan};
use crate::documents::tools::Stopped;
use crate::operation::Stop;
use crate::operations::{self, Outcome, Perform};
use crate::plain;
use crate::served::{InServer, by_root};
use crate::serving::Serving;
use crate::several::do_each;
use crate::ui::Ui;
use anyhow::{anyhow, bail};
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::assemble::{AssembleError, AssembleOptions, look};
use spindles_admin::create::vanishes;
use spindles_admin::host::Served as _;
use spindles_admin::scan::Given;
use spindles_admin::survey::{Server, server_of, servers_given};
use spindles_device::OpenOptions;
use spindles_serve::{User, by_users};
use std::time::Duration;

pub(crate) static COMMAND: Command = Command {
    name: "stop",
    about: "Stop serving arrays: complete requests in flight, and close each array cleanly",
    details: "Does the same as Ctrl-C in the terminal of spindles serve, but from anywhere, \
              and waits until the array is closed. Unlike Ctrl-C, it refuses while the file of \
              --fuse or the block device of --ublk is in use, or NBD clients are connected. It \
              then names the users, and how each one releases the array. Several arrays are \
              stopped one after the other, even if one can't be; the exit status is the \
              highest of theirs. Commands can't find a target that is not a lasting array: \
              memory, or a target of --as-is. For such a target the command names the process; \
              kill ends it cleanly.\n\n\
              spindles stop pool\n\
              spindles stop pool music",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

/// Clients that a refusal names, at most.
const NAMED_MAX: usize = 5;

#[derive(Args)]
struct Arguments {
    /// Stop even while the array is in use, as Ctrl-C does. Users of the file get errors, and
    /// unwritten data of a file system on it is lost. Users of the block device wait until the
    /// array is served with --ublk again. NBD clients lose their connection; many of them reconnect
    /// when the array is served again
    #[arg(long)]
    force: bool,
    /// Place all that the stage holds, however long that takes. Otherwise the array closes after
    /// 10 s at most, and places the rest when it is used again
    #[arg(long)]
    place: bool,
    /// The array: its name, or its devices in any order; or the names of several
    #[arg(value_name = "ARRAY|DEV", required = true)]
    devices: Vec<String>,
    #[command(flatten)]
    scan: Scan,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    if let Some(fresh) = arguments
        .devices
        .iter()
        .find(|device| vanishes_or_is_plain(device))
    {
        return Err(end_of_server(fresh, &servers_given(fresh)));
    }
    let several = arrays::several(&arguments.devices)?;
    if !several.is_empty() {
        let force = arguments.force.then(|| "--force".to_owned());
        let place = arguments.place.then(|| "--place".to_owned());
        let command = [COMMAND.name.to_owned()]
            .into_iter()
            .chain(force)
            .chain(place);
        let command: Vec<String> = command.chain(arguments.scan.words()).collect();
        return do_each(&command, &several, ui);
    }
    let found = arguments.scan.search(&arguments.devices, &[], ui)?;
    if found.server.is_none() {
        return Err(why_not(&found.given, &arguments.devices.join(" ")));
    }
    let Arguments { force, place, .. } = arguments;
    operations::run(Stop { force, place }, &found, ui).map(drop)
}

/// Returns true for a plain array, for memory, or for an array on it.
fn vanishes_or_is_plain(target: &str) -> bool {
    plain::is_plain(target) || arrays::expression(target).is_ok_and(|array| vanishes(&array))
}

/// Explains how to end a server of something other than an array that commands find.
fn end_of_server(what: &str, servers: &[Server]) -> anyhow::Error {
    let process = |server: &Server| match &server.another {
        None => format!("`kill {}`", server.pid),
        Some(owner) => format!("`kill {}` as {owner}", server.pid),
    };
    let processes: Vec<String> = servers.iter().map(process).collect();
    if processes.is_empty() {
        return anyhow!("no server that this user may see serves {what}");
    }
    anyhow!(
        "{what} is served without being an array that commands find: {} ends its server in order, \
         with all that it serves",
        processes.join(" or ")
    )
}

/// Explains why no server of the array accepts commands from this user.
fn why_not(given: &Given, called: &str) -> anyhow::Error {
    let devices = arrays::names(&given.devices);
    match server_of(&devices) {
        Some(Server {
            pid,
            another: Some(owner),
        }) => {
            let user = owner.strip_prefix("user ").unwrap_or(&owner);
            return anyhow!(
                "the array is served by {owner} (pid {pid}), and its server does the commands of \
                 {owner} alone: do it as that user, as with `sudo -u {user}`"
            );
        }
        // Served with `--as-is`, or with its socket elsewhere.
        Some(Server { pid, another: None }) => {
            return anyhow!(
                "{}: no command finds the server, which has it with --as-is or with --control: \
                 `kill {pid}` ends it in order, with all that it serves",
                given.devices.join(", ")
            );
        }
        None => {}
    }
    if let Some(socket) = InServer::denied(&given.arrays) {
        return anyhow!("the array is {}", by_root(&socket));
    }
    let options = AssembleOptions {
        force: true,
        degraded: true,
        open: OpenOptions {
            read_only: true,
            busy_timeout: Duration::ZERO,
            ..OpenOptions::default()
        },
        ..AssembleOptions::default()
    };
    match look(&devices, &options) {
        // Another process has a device open: the error names it.
        Err(AssembleError::Open(error)) => {
            anyhow!("no server of this user, or of root, has {called}: {error}")
        }
        _ => anyhow!("no server serves {called}"),
    }
}

impl Perform for Stop {
    fn perform(&self, _given: &Given, ui: &Ui) -> anyhow::Result<Outcome<Stopped>> {
        let serving = ui.serving();
        let serving = serving.ok_or_else(|| anyhow!("no server serves the array"))?;
        let name = serving.name();
        if !self.force {
            refuse_in_use(serving, &name)?;
        }
        if self.place {
            serving.handle().managed().place_staged();
        }
        match serving.stop() {
            Ok(notes) => notes.iter().for_each(|note| ui.note(note)),
            Err(error) => bail!("{error}"),
        }
        ui.line(format!("array '{name}' is no longer served, and closed"));
        Ok(Outcome::of(Stopped {
            stopped: true,
            name,
        }))
    }
}

/// Refuses while the file or block device is in use: to its users, its end is a disk that is pulled
/// out.
fn refuse_in_use(serving: &Serving, name: &str) -> anyhow::Result<()> {
    let Some((path, users)) = serving.in_use()? else {
        return refuse_clients(serving, name);
    };
    let path = path.display();
    let remedies: Vec<String> = users.iter().map(User::remedy).collect();
    let first = match remedies.as_slice() {
        [] => "end the processes that use it".to_owned(),
        remedies => remedies.join("; "),
    };
    bail!(
        "{path}, which is array '{name}', is in use {}: it is served as before. To stop it, first: \
         {first}. `spindles stop --help` says what --force does to them",
        by_users(&users)
    )
}

/// Refuses while clients are connected: a client that does not reconnect loses its disk.
fn refuse_clients(serving: &Serving, name: &str) -> anyhow::Result<()> {
    let clients = serving.lasting_clients();
    let (named, more) = clients.split_at(clients.len().min(NAMED_MAX));
    let named: Vec<String> = named.iter().map(ToString::to_string).collect();
    if named.is_empty() {
        return Ok(());
    }
    let more = match more.len() {
        0 => String::new(),
        count => format!(", and {count} more"),
    };
    bail!(
        "array '{name}' is in use over NBD by {}{more}: it is served as before. To stop it, \
         disconnect these first (`nbd-client -d`, `qemu-nbd -d`, or end the program), or cut their \
         connections: --force",
        named.join(", ")
    )
}
