//! Commands on a served array: the server runs them, and the process that was started prints their
//! output.

use crate::commands;
use crate::failure::{STATUS_FAILED, Usage};
use crate::interrupt;
use crate::ui::Ui;
use anyhow::Context as _;
use serde_json::Value;
use spindles_format::Uuid;
use spindles_io::host::Served as _;
use spindles_io::notice;
use spindles_io::scan::{FoundArray, Given, lines, shell_word};
use spindles_io::sockets::{connect_to, is_full, listens};
use spindles_serve::control::{Answer, Answers, Ask, Asked, Silent};
use spindles_serve::sandbox::Sandbox;
use spindles_serve::{Handle, Offer, Origin, Seen, Stopper, User, lasts};
use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::thread;

/// Servers asked at the same time, at most.
const ASKED_AT_ONCE: usize = 32;

/// The server that has the array of a command.
#[derive(Debug)]
pub(crate) struct InServer(PathBuf);

impl InServer {
    /// Finds a server that has one of these arrays.
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
    /// Another user's server has it, or several arrays have that name.
    pub(crate) fn called(name: &str) -> anyhow::Result<Option<Self>> {
        let mut denied = None;
        let mut served = Vec::new();
        for (uuid, path) in notice::sockets_named(name) {
            match connect_to(&path) {
                Ok(_) => served.push((uuid, path)),
                Err(error) if is_full(&error) => served.push((uuid, path)),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => denied = Some(path),
                // A server left it behind.
                Err(_) => {}
            }
        }
        if served.len() > 1 {
            let known = ask_each(&served);
            anyhow::bail!(
                "several arrays that are served are called '{name}': give the UUID of the one you mean in place of the \
                 name{}",
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
        "served by root, and its server does the commands of root alone: do it as root, as with sudo ({})",
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
                    "{device} is a spare of array '{name}', which is served: `spindles spare remove {} --array {}` makes a \
                     plain device of it; nothing was changed",
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

/// An array that this process serves, and how it serves it.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// The array.
    pub(crate) array: Uuid,
    /// Gives access to it.
    pub(crate) handle: Handle,
    /// Stops serving it.
    pub(crate) stopper: Stopper,
    /// Set if nothing may be written.
    pub(crate) read_only: bool,
    /// Addresses for clients, once known.
    pub(crate) addresses: Arc<OnceLock<Vec<String>>>,
    /// Exports as a file or block device.
    pub(crate) seen: Vec<Weak<dyn Seen>>,
    /// The sandbox, if the process entered one.
    pub(crate) sandbox: Option<Sandbox>,
    /// The other exports of this process.
    pub(crate) others: Vec<Offer>,
}

/// An array that this process serves, for the commands of other processes.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    way: Way,
    ended: Arc<Ended>,
}

/// How serving ended; empty until then.
#[derive(Debug, Default)]
struct Ended {
    /// Notes for the user, or the error.
    result: Mutex<Option<Result<Vec<String>, String>>>,
    is_known: Condvar,
}

impl Serving {
    pub(crate) fn new(way: Way) -> Self {
        Self {
            way,
            ended: Arc::default(),
        }
    }

    /// Returns the reason if a server does not run such a command.
    pub(crate) fn refuses(&self, command: &str, arguments: &[String]) -> Option<String> {
        const READ: [&str; 4] = ["status", "scrub", "resync", "stop"];
        if self.way.read_only && !READ.contains(&command) {
            return Some("the array is served for reading only".to_owned());
        }
        if !["status", "stop"].contains(&command) {
            let snapshot = self.way.handle.managed().snapshot();
            let outermost = snapshot.first().filter(|it| it.status.stopped_writing);
            if let Some(array) = outermost {
                return Some(format!(
                    "array '{}' has failed, and nothing more is done with it here: `spindles status` says why; bring \
                     back what it lacks, then stop the server, and serve it again",
                    array.name
                ));
            }
        }
        let is_own = |word: &&String| {
            let path = std::fs::canonicalize(word);
            path.is_ok_and(|path| self.files().any(|own| own == path))
        };
        // Opening it would deadlock: the server would wait for itself.
        let own = arguments.iter().find(is_own);
        own.map(|word| format!("{word} is the array itself: take another device"))
    }

    /// Addresses for clients.
    pub(crate) fn addresses(&self) -> &[String] {
        self.way.addresses.get().map_or(&[], Vec::as_slice)
    }

    /// Paths at which the array itself appears as a file or block device.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let files = self.addresses().iter().map(Path::new);
        files.filter(|file| file.is_absolute())
    }

    /// Returns the first of its files and block devices that is in use, with its users.
    ///
    /// # Errors
    ///
    /// The users can't be determined.
    pub(crate) fn in_use(&self) -> anyhow::Result<Option<(PathBuf, Vec<User>)>> {
        for seen in self.way.seen.iter().filter_map(Weak::upgrade) {
            let path = seen.path();
            let users = seen.users().with_context(|| {
                format!(
                    "whether {} is in use can't be told, and --force stops it all the same",
                    path.display()
                )
            })?;
            if let Some(users) = users {
                return Ok(Some((path, users)));
            }
        }
        Ok(None)
    }

    /// Returns the clients over NBD, if there are any for a second: by then, programs that only
    /// probe are gone.
    pub(crate) fn lasting_clients(&self) -> Vec<Origin> {
        let clients = || {
            let numbers = self.handle().numbers();
            let clients = numbers.map_or_else(Vec::new, |numbers| numbers.clients);
            let origins = clients.into_iter().map(|client| client.origin);
            let over_nbd = origins.filter(|origin| origin.peer.is_some());
            over_nbd.collect::<Vec<_>>()
        };
        if lasts(|| !clients().is_empty()) {
            clients()
        } else {
            Vec::new()
        }
    }

    /// For people: the parts of serving the array that no longer work.
    pub(crate) fn losses(&self) -> Vec<String> {
        let seen = self.way.seen.iter().filter_map(Weak::upgrade);
        seen.filter_map(|seen| seen.loss()).collect()
    }

    /// The current name in the superblocks.
    pub(crate) fn name(&self) -> String {
        self.handle().report().name
    }

    /// Returns true if another export of this server has that name.
    pub(crate) fn is_other_export(&self, name: &str) -> bool {
        let mut others = self.way.others.iter().filter(|other| other.is_open());
        others.any(|other| other.export().name == name)
    }

    /// The sandbox, if the process entered one.
    pub(crate) fn sandbox(&self) -> Option<&Sandbox> {
        self.way.sandbox.as_ref()
    }

    /// The handle of the array.
    pub(crate) fn handle(&self) -> &Handle {
        &self.way.handle
    }

    /// The devices of the array, as if a command had been given its name.
    pub(crate) fn given(&self) -> Given {
        Given {
            devices: self.way.handle.devices(),
            arrays: vec![self.way.array],
            ..Given::default()
        }
    }

    /// Stops serving, and waits until the array is closed.
    pub(crate) fn stop(&self) -> Result<Vec<String>, String> {
        self.way.stopper.stop();
        let result = self.ended.result.lock();
        let mut result = result.unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = &*result {
                return result.clone();
            }
            let waited = self.ended.is_known.wait(result);
            result = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records that the array was closed, with notes for the user, or that closing it failed.
    pub(crate) fn end(&self, result: Result<Vec<String>, String>) {
        let ended = self.ended.result.lock();
        *ended.unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.ended.is_known.notify_all();
    }

    /// Runs a command line of another process, as if typed in that process's folder.
    pub(crate) fn answer(&self, ask: &Ask, answers: &Answers) {
        let status = match own_folder(&ask.folder) {
            Ok(()) => {
                let heard = self.handle().listen();
                let status = commands::execute_served(ask, answers, self);
                // All earlier events have been delivered when this call returns.
                self.handle().managed().is_working();
                for lacking in heard.lacking() {
                    answers.note(&format!("spindles: {lacking}\n"));
                }
                status
            }
            Err(error) => {
                answers.note(&format!("spindles: {}: {error}\n", ask.folder.display()));
                STATUS_FAILED
            }
        };
        answers.end(status);
    }
}

/// Gives this thread a working directory of its own, and changes to that folder.
fn own_folder(folder: &Path) -> std::io::Result<()> {
    spindles_serve::own_working_directory()?;
    std::env::set_current_dir(folder)
}
