//! Commands on a served array: the server runs them, and the process that was started prints their
//! output.

use crate::failure::Usage;
use crate::interrupt;
use crate::ui::Ui;
use serde_json::Value;
use spindles_admin::scan::{FoundArray, lines, shell_word};
use spindles_device::notice;
use spindles_device::sockets::{connect_to, is_full, listens};
use spindles_format::Uuid;
use spindles_serve::control::{Answer, Asked, Silent};
use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;

/// Servers asked at the same time, at most.
const ASKED_AT_ONCE: usize = 32;

/// The server that has the array of a command.
#[derive(Debug)]
pub(crate) struct InServer(PathBuf);

impl InServer {
    /// Finds a listening server that has one of these arrays open.
    pub(crate) fn of(arrays: &[Uuid]) -> Option<Self> {
        let mut sockets = arrays.iter().flat_map(|array| notice::sockets_of(*array));
        sockets.find(|path| listens(path)).map(Self)
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
            (Some((_, path)), _) => Ok(Some(Self(path))),
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
        "served by root, and its server does the commands of root alone: do it as root, as with \
         sudo ({})",
        socket.display()
    )
}

impl fmt::Display for InServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the array is served ({})", self.0.display())
    }
}

impl std::error::Error for InServer {}

/// An array of a server.
#[derive(Debug)]
pub(crate) struct Known {
    /// Its UUID.
    pub(crate) uuid: String,
    /// Its status as JSON, from its server.
    pub(crate) status: Result<Value, Unanswered>,
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
            None => write!(f, "its server does not say how it is"),
        }
    }
}

impl Known {
    /// Addresses for clients.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let status = self.status.as_ref().ok();
        let addresses = status.and_then(|status| status["served"]["addresses"].as_array());
        let addresses = addresses.into_iter().flatten().filter_map(Value::as_str);
        addresses.map(str::to_owned).collect()
    }
}

/// `'pool' (UUID: /srv/a.img, /srv/b.img), at nbd://127.0.0.1:10809/pool`.
impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uuid = &self.uuid;
        let status = match &self.status {
            Ok(status) => status,
            Err(why) => {
                let name = why.name.as_ref();
                let name = name.map_or_else(String::new, |name| format!("'{name}' "));
                return write!(f, "{name}{uuid}: {why}");
            }
        };
        let name = status["name"].as_str().unwrap_or_default();
        let (mut devices, addresses) = (Vec::new(), self.addresses());
        add_devices(status, &mut devices);
        write!(f, "'{name}' ({uuid}: {})", devices.join(", "))?;
        if !addresses.is_empty() {
            write!(f, ", at {}", addresses.join(" and "))?;
        }
        Ok(())
    }
}

/// Adds the devices of an array, and of those inside it, from its status.
fn add_devices<'a>(status: &'a Value, devices: &mut Vec<&'a str>) {
    for member in status["members"].as_array().into_iter().flatten() {
        devices.extend(member["device"].as_str());
        add_devices(&member["array"], devices);
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
        let Ok(status) = &array.status else {
            continue;
        };
        let spares = status["spares"].as_array().into_iter().flatten();
        for spare in spares.filter_map(|it| it["device"].as_str()) {
            let is_spare =
                |device: &&&str| whole(device).is_some_and(|it| Some(it) == whole(spare));
            if let Some(device) = devices.iter().find(is_spare) {
                let name = status["name"].as_str().unwrap_or(&array.uuid);
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
fn status_by(socket: &Path, uuid: &str) -> anyhow::Result<Option<Value>> {
    let words = ["status", uuid, "--json"].map(str::to_owned);
    let Some(mut asked) = Asked::ask(socket, &words, Path::new("/"), false)? else {
        return Ok(None);
    };
    let mut text = String::new();
    while let Some(answer) = asked.next_answer()? {
        if let Answer::Out(part) = answer {
            text.push_str(&part);
        }
    }
    let document: Value = serde_json::from_str(&text)?;
    if document["state"].is_null() {
        anyhow::bail!("that is no status");
    }
    Ok(Some(document))
}

/// How a command waits for the server that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// For a quick answer. Ctrl-C ends only this process: the server has nothing to stop.
    ForAnswer,
    /// For an end that may take any time. Ctrl-C ends only this process.
    ForEnd,
    /// Like `ForEnd`, but Ctrl-C asks the server to stop the command.
    UntilStopped,
}

/// Has a server run a command line, and prints its output. Returns the exit status.
///
/// # Errors
///
/// The server does not reply, which is [`Silent`], or has ended.
pub(crate) fn forward(
    server: &InServer,
    arguments: &[OsString],
    waits: Waits,
    ui: &Ui,
) -> anyhow::Result<u8> {
    let socket = &server.0;
    let words = arguments
        .iter()
        .map(|word| word.to_str().map(str::to_owned));
    let words: Option<Vec<String>> = words.collect();
    let words = words.ok_or_else(|| Usage::error("an argument is no text"))?;
    let folder = std::env::current_dir()?;
    // A member that is slow to reply delays every answer about its array.
    let Some(mut asked) = Asked::ask(socket, &words, &folder, true)? else {
        anyhow::bail!("the server of the array has just ended: try again");
    };
    if waits == Waits::ForAnswer {
        asked = asked.soon();
    }
    if waits == Waits::UntilStopped {
        interrupt::call(asked.stopper()?)?;
    }
    let mut bar = None;
    while let Some(answer) = asked.next_answer()? {
        match answer {
            Answer::Progress { what, done, total } => bar
                .get_or_insert_with(|| ui.progress_elsewhere(&what, total))
                .set(done),
            Answer::Out(text) => {
                bar = None;
                ui.out(&text);
            }
            Answer::Note(text) => {
                bar = None;
                ui.remark(&text);
            }
            Answer::End(status) => return Ok(status),
        }
    }
    anyhow::bail!("the server of the array ended before the command did")
}
