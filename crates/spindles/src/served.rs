//! Operations on a served array: the server performs them, and the process that was started prints
//! their results.

use crate::documents::Devices as DeviceList;
use crate::documents::array::Array;
use crate::documents::status::Status as StatusDocument;
use crate::interrupt;
use crate::operation::{Devices, Operation, Status};
use crate::ui::Ui;
use anyhow::Context as _;
use serde::de::DeserializeOwned;
use spindles_admin::scan::{FoundArray, lines, shell_word};
use spindles_device::notice;
use spindles_device::sockets::{connect_to, is_full, listens};
use spindles_format::Uuid;
use spindles_serve::control::{Answer, Asked, Report, Request, Silent, VERSION};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;

/// Servers asked at the same time, at most.
const ASKED_AT_ONCE: usize = 32;

/// The server that has the array of an operation.
#[derive(Debug)]
pub(crate) struct InServer {
    /// The UUID of the array.
    pub array: String,
    /// The control socket.
    socket: PathBuf,
}

impl InServer {
    /// Finds a listening server that has one of these arrays open.
    pub(crate) fn of(arrays: &[Uuid]) -> Option<Self> {
        let sockets_of = |array: &Uuid| notice::sockets_of(*array).into_iter();
        arrays.iter().find_map(|array| {
            let socket = sockets_of(array).find(|path| listens(path))?;
            let array = array.to_string();
            Some(Self { array, socket })
        })
    }

    /// Finds a socket of one of these arrays to which this user may not connect.
    pub(crate) fn denied(arrays: &[Uuid]) -> Option<PathBuf> {
        let sockets = arrays.iter().flat_map(|array| notice::sockets_of(*array));
        let is_denied = |path: &PathBuf| {
            let connected = connect_to(path);
            connected.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        };
        { sockets }.find(is_denied)
    }

    /// Finds the server of the array with this name, wherever its devices are.
    ///
    /// # Errors
    ///
    /// Another user's server has the array open, or several arrays have that name.
    pub(crate) fn called(name: &str) -> anyhow::Result<Option<Self>> {
        let mut denied = None;
        let mut served = Vec::new();
        for (uuid, path) in notice::sockets_named(name) {
            match connect_to(&path) {
                Ok(_) => served.push((uuid, path)),
                Err(error) if is_full(&error) => served.push((uuid, path)),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => denied = Some(path),
                // The socket is left over from a server that ended.
                Err(_) => {}
            }
        }
        if served.len() > 1 {
            let known = ask_each(&served);
            anyhow::bail!(
                "several arrays that are served are called '{name}': give the UUID of the one you \
                 mean in place of the name{}",
                lines("", &known)
            );
        }
        match (served.pop(), denied) {
            (Some((array, socket)), _) => Ok(Some(Self { array, socket })),
            (None, None) => match notice::renamed(name) {
                None => Ok(None),
                Some(now) => anyhow::bail!(
                    "array '{name}' is called '{now}' now: it was renamed while it is served"
                ),
            },
            (None, Some(path)) => anyhow::bail!("array '{name}' is {}", by_root(&path)),
        }
    }
}

/// For people: the server behind this socket does not accept commands from this user. The server is
/// root's: only the folders of this user and of root are searched.
pub(crate) fn by_root(socket: &Path) -> String {
    format!(
        "served by root, whose server accepts commands of root only: run it as root, as with \
         sudo ({})",
        socket.display()
    )
}

/// An array of a server.
#[derive(Debug)]
pub(crate) struct Known {
    /// Its UUID.
    pub(crate) uuid: String,
    /// Its status, from its server.
    pub(crate) status: Result<StatusDocument<Array>, Unanswered>,
}

/// A server that does not report the state of its array.
#[derive(Debug)]
pub(crate) struct Unanswered {
    /// The name of its array, if known.
    pub(crate) name: Option<String>,
    /// `None` if the server replies to others, but not to this user.
    pub(crate) silent: Option<Silent>,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.silent {
            Some(silent) => silent.fmt(f),
            None => write!(f, "its server does not report its state"),
        }
    }
}

impl Known {
    /// Addresses for clients.
    pub(crate) fn addresses(&self) -> &[String] {
        let server = self
            .status
            .as_ref()
            .ok()
            .and_then(|status| status.served.as_ref());
        server.map_or(&[], |server| &server.addresses)
    }
}

/// `'pool' (UUID: /srv/a.img, /srv/b.img), at nbd://127.0.0.1:10809/pool`.
impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uuid = &self.uuid;
        let array = match &self.status {
            Ok(status) => &status.array,
            Err(why) => {
                let name = why.name.as_ref();
                let name = name.map_or_else(String::new, |name| format!("'{name}' "));
                return write!(f, "{name}{uuid}: {why}");
            }
        };
        let (mut devices, addresses) = (Vec::new(), self.addresses());
        add_devices(array, &mut devices);
        write!(f, "'{}' ({uuid}: {})", array.name, devices.join(", "))?;
        if !addresses.is_empty() {
            write!(f, ", at {}", addresses.join(" and "))?;
        }
        Ok(())
    }
}

/// Adds the devices of an array, and of those inside it.
fn add_devices<'a>(array: &'a Array, devices: &mut Vec<&'a str>) {
    for member in &array.members {
        devices.extend(member.device.as_deref());
        if let Some(inner) = &member.array {
            add_devices(inner, devices);
        }
    }
}

/// Lists served arrays that the scan of devices did not find, for an error about an unknown name.
pub(crate) fn also_served(found: &[FoundArray]) -> String {
    let is_found = |array: &Known| found.iter().any(|it| it.uuid.to_string() == array.uuid);
    let mut others = known();
    others.retain(|array| !is_found(array));
    lines("\nServed:", &others)
}

/// Lists the arrays of all servers on this machine, as far as this user may know.
pub(crate) fn known() -> Vec<Known> {
    let mut known: Vec<Known> = Vec::new();
    for array in ask_each(&notice::sockets()) {
        known.retain(|other| other.uuid != array.uuid || other.status.is_ok());
        if known.iter().all(|other| other.uuid != array.uuid) {
            known.push(array);
        }
    }
    known
}

/// Rejects spares of served arrays: the server does not keep them open, and would still count on
/// them.
///
/// # Errors
///
/// A device is such a spare.
pub(crate) fn check_no_spares(devices: &[&str]) -> anyhow::Result<()> {
    let whole = |device: &str| std::fs::canonicalize(device).ok();
    for array in known() {
        let Ok(StatusDocument { array, .. }) = &array.status else {
            continue;
        };
        for spare in array.spares.iter().map(|spare| &spare.device) {
            let is_spare =
                |device: &&&str| whole(device).is_some_and(|it| Some(it) == whole(spare));
            if let Some(device) = devices.iter().find(is_spare) {
                let name = &array.name;
                anyhow::bail!(
                    "{device} is a spare of array '{name}', which is served: `spindles spare \
                     remove {} --array {}` makes a plain device of it; nothing was changed",
                    shell_word(device),
                    shell_word(name)
                );
            }
        }
    }
    Ok(())
}

/// Asks the servers on these sockets for their status, all at once, so that silent ones cost their
/// time limit only once. Skips sockets that servers left behind.
fn ask_each(sockets: &[(String, PathBuf)]) -> Vec<Known> {
    let ask = |(uuid, path): &(String, PathBuf)| ask_status(uuid, path);
    let at_once = |some: &[(String, PathBuf)]| {
        thread::scope(|scope| {
            let asked = some.iter().map(|it| scope.spawn(move || ask(it)));
            let asked: Vec<_> = asked.collect();
            let known = asked.into_iter().filter_map(|it| it.join().ok().flatten());
            known.collect::<Vec<Known>>()
        })
    };
    sockets.chunks(ASKED_AT_ONCE).flat_map(at_once).collect()
}

/// Asks for a status; `None` if a server left the socket behind.
fn ask_status(uuid: &str, socket: &Path) -> Option<Known> {
    let status = match status_by(socket, uuid) {
        Ok(status) => Ok(status?),
        Err(error) => Err(Unanswered {
            name: notice::name_at(socket),
            silent: error.downcast_ref().and_then(Silent::of),
        }),
    };
    let uuid = uuid.to_owned();
    Some(Known { uuid, status })
}

/// Asks the server on this socket for the status of an array; `None` if no server listens.
fn status_by(socket: &Path, uuid: &str) -> anyhow::Result<Option<StatusDocument<Array>>> {
    let request = request(uuid, &Operation::Status(Status {}), false);
    let Some(asked) = Asked::ask(socket, &request)? else {
        return Ok(None);
    };
    let document = asked.report(drop)?.and_then(|report| report.document);
    document.context("that is no status").map(Some)
}

/// Makes the request for an operation.
fn request<'a>(array: &str, operation: &'a Operation, alive: bool) -> Request<&'a Operation> {
    let mut command = "spindles".to_owned();
    for word in std::env::args_os().skip(1) {
        command = format!("{command} {}", shell_word(&word.to_string_lossy()));
    }
    Request {
        version: VERSION,
        array: array.to_owned(),
        operation,
        command: Some(command).filter(|_| !operation.only_shows()),
        alive,
    }
}

impl InServer {
    /// Sends an operation to the server, and prints the answers until its report. Ctrl-C asks the
    /// server to end the operation, but ends only this process if nothing can be stopped.
    ///
    /// # Errors
    ///
    /// The server does not answer, which is [`Silent`], or has ended.
    pub(crate) fn perform<D: DeserializeOwned>(
        &self,
        operation: &Operation,
        ui: &Ui,
    ) -> anyhow::Result<Report<D>> {
        self.perform_into(operation, ui, &mut |text| ui.printed(text))
    }

    /// The same; `take` gets the text that the server prints.
    ///
    /// # Errors
    ///
    /// As of `perform`.
    pub(crate) fn perform_into<D: DeserializeOwned>(
        &self,
        operation: &Operation,
        ui: &Ui,
        take: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Report<D>> {
        let mut asked = self.ask(operation)?;
        if operation.only_shows() {
            asked = asked.soon();
        } else if !matches!(operation, Operation::Stop(_)) {
            interrupt::call(asked.stopper()?)?;
        }
        let mut bar = None;
        let report = asked.report(|answer| match answer {
            Answer::Progress {
                progress,
                done_bytes,
                total_bytes,
            } => bar
                .get_or_insert_with(|| ui.progress_elsewhere(&progress, total_bytes))
                .set(done_bytes),
            Answer::Text { text } => {
                bar = None;
                take(&text);
            }
            Answer::Note { note } => {
                bar = None;
                ui.remark(&note);
            }
            Answer::Alive { .. } => {}
        })?;
        report.context(ENDED)
    }

    /// Returns the devices of the array.
    pub(crate) fn devices(&self) -> anyhow::Result<Vec<String>> {
        let asked = self.ask(&Operation::Devices(Devices {}))?.soon();
        let document = asked.report(drop)?.and_then(|report| report.document);
        document
            .map(|DeviceList { devices }| devices)
            .context(ENDED)
    }

    /// Sends an operation to the server.
    fn ask(&self, operation: &Operation) -> anyhow::Result<Asked> {
        // A member that is slow to reply delays every answer about its array.
        let asked = Asked::ask(&self.socket, &request(&self.array, operation, true))?;
        asked.context("the server of the array has just ended: try again")
    }
}

const ENDED: &str = "the server of the array ended before the command did";
