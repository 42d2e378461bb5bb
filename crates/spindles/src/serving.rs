//! An array that this process serves, for commands of other processes.

use crate::operation::Operation;
use crate::words;
use anyhow::Context as _;
use spindles_admin::host::Served as _;
use spindles_admin::scan::Given;
use spindles_format::Uuid;
use spindles_serve::sandbox::Sandbox;
use spindles_serve::{ExposedFile, Handle, Origin, ServerHandle, Stopper, User, lasts};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};

/// An array that this process serves, and how it serves it.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// The array.
    pub(crate) array: Uuid,
    /// Gives access to it.
    pub(crate) handle: Handle,
    /// Stops serving it.
    pub(crate) stopper: Stopper,
    /// True if clients and commands may not write to the array.
    pub(crate) read_only: bool,
    /// Addresses for clients, once known.
    pub(crate) addresses: Arc<OnceLock<Vec<String>>>,
    /// Exports as a file or block device.
    pub(crate) seen: Vec<Weak<dyn ExposedFile>>,
    /// The sandbox, if the process entered one.
    pub(crate) sandbox: Option<Sandbox>,
    /// Offers of the process's other exports.
    pub(crate) others: Vec<ServerHandle>,
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

    /// Returns the reason if the server does not perform an operation.
    pub(crate) fn refuses(&self, operation: &Operation) -> Option<String> {
        if self.way.read_only && !operation.is_for_read_only() {
            return Some(words::control::READ_ONLY.to_owned());
        }
        if !operation.is_for_failed() {
            let snapshot = self.way.handle.managed().snapshot();
            let outermost = snapshot.first().filter(|it| it.status.stopped_writing);
            if let Some(array) = outermost {
                return Some(words::control::has_failed(&array.name));
            }
        }
        let is_own = |device: &&String| {
            let path = std::fs::canonicalize(device);
            path.is_ok_and(|path| self.files().any(|own| own == path))
        };
        // A server that opens its own export waits for itself: a deadlock.
        let devices = operation.devices();
        devices
            .iter()
            .find(is_own)
            .map(|own| words::control::is_itself(own))
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
                    "can't find out whether {} is in use; --force stops it in any case",
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

    /// Identifies the array.
    pub(crate) fn array(&self) -> String {
        self.way.array.to_string()
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
}
