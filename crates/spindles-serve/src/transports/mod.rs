//! Transports: the ways in which programs reach an array. Each is a folder or file, and a table
//! row.

mod fuse;
mod nbd;
mod reclaim; // Not a row: shared by fuse and ublk.
mod ublk;
mod users; // Not a row: finds users of a file or device.
mod watcher; // Not a row: shared by fuse and ublk.

use crate::certificates::Certificates;
use crate::server_handle::ServerHandle;
use std::error::Error;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Weak;
pub use users::{User, by_users, lasts};
use watcher::Find;
pub use watcher::{WatcherCommand, watch};

/// A transport: a way to reach an array.
#[derive(Debug)]
pub struct Transport {
    /// The command-line option, without dashes.
    pub name: &'static str,
    /// Placeholder for the option's value in help texts.
    pub value: &'static str,
    /// Help text of the option.
    pub help: &'static str,
    /// True if one listener serves all exports; otherwise each export has its own.
    pub is_shared: bool,
    /// Finds the mount or device that a watcher outside the sandbox looks after; `None` if the
    /// transport has no watcher.
    watched: Option<Find>,
    /// Creates a listener and checks the option's value. No client can connect yet.
    pub bind: Bind,
}

/// Creates a listener for the option's value.
pub type Bind = fn(&str, &ListenerOptions) -> Result<Box<dyn Listener>, ListenerError>;

/// All transports.
pub static TRANSPORTS: &[&Transport] = &[&nbd::TRANSPORT, &fuse::TRANSPORT, &ublk::TRANSPORT];

/// Options for listeners.
#[derive(Clone, Debug, Default)]
pub struct ListenerOptions {
    /// Allows other machines to connect without encryption.
    pub allow_plaintext: bool,
    /// Requires other machines to use TLS with these certificates.
    pub certificates: Option<Certificates>,
    /// True if the export has no other listener: the server ends if its mount or device is removed
    /// from outside.
    pub is_only: bool,
    /// Starts the watcher outside the sandbox. Transports of the kernel need one to remove their
    /// mount or device.
    pub watcher: Option<WatcherCommand>,
    /// Receives messages about refused clients.
    pub tell: Option<fn(&str)>,
}

impl ListenerOptions {
    fn watcher(&self) -> Result<&WatcherCommand, ListenerError> {
        let none = || ListenerError::Refused("no process watches this mount or device".into());
        self.watcher.as_ref().ok_or_else(none)
    }
}

/// The listener can't be created.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// The option's value is invalid.
    #[error("{0}")]
    Usage(String),
    /// A system call failed, or the kernel lacks what the listener needs.
    #[error(transparent)]
    Refused(Box<dyn Error + Send + Sync>),
}

/// A file or block device made by a transport, as its users see it.
pub trait ExposedFile: Debug + Send + Sync {
    /// Returns its path.
    fn path(&self) -> PathBuf;

    /// Returns the users; `None` if nothing uses it, or only for a moment. Waits for that moment.
    ///
    /// # Errors
    ///
    /// The users can't be determined.
    fn users(&self) -> io::Result<Option<Vec<User>>>;

    /// Returns a message about what no longer works, for example because the watcher has ended.
    fn loss(&self) -> Option<String>;
}

/// A listener of a transport, where clients connect.
pub trait Listener: Debug + Send {
    /// Returns the address of an export for programs, once the listener is open.
    fn address(&self, export: &str) -> String;

    /// Does what the sandbox forbids. The server enters the sandbox between this and `open`.
    ///
    /// # Errors
    ///
    /// A system call failed.
    fn prepare(&mut self, _servers: &[ServerHandle]) -> io::Result<()> {
        Ok(())
    }

    /// Accepts clients from now on, until the process ends. A single export is also the default
    /// one. May wait for the servers of the exports, which are running by now.
    ///
    /// # Errors
    ///
    /// A system call failed.
    fn open(&mut self, servers: &[ServerHandle]) -> io::Result<()>;

    /// Returns a remark for the user who starts the server, once the listener is open.
    fn remark(&self) -> Option<String> {
        None
    }

    /// Returns the file or block device that it made, so that `stop` can find its users. `None` if
    /// clients reconnect.
    fn seen(&self) -> Option<Weak<dyn ExposedFile>> {
        None
    }

    /// Removes what it left in the file system, after the server has ended. Returns a warning if
    /// there is one.
    fn close(&mut self) -> Option<String>;

    /// The folder from which `close` removes it: the sandbox permits no other removal.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Returns true if the process has more locked memory than its limit, and must keep
    /// `CAP_IPC_LOCK`.
    fn needs_ipc_lock(&self) -> bool {
        false
    }
}
