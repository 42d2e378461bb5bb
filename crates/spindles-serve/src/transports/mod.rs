//! The ways by which other programs reach an array: a folder or a file and a row each.

mod fuse;
mod nbd;
mod reclaim; // Not a row: both doors to the kernel need it.
mod ublk;
mod users; // Not a row: who is asked to let go.

use crate::certificates::Certificates;
use crate::offer::Offer;
pub use fuse::{WatcherCommand, watch};
use std::error::Error;
use std::fmt::Debug;
use std::io;
use std::path::Path;
pub use users::{User, by_users, lasting_users};

/// A way to reach an array.
#[derive(Debug)]
pub struct Transport {
    /// Its option on the command line, without dashes.
    pub name: &'static str,
    /// How the value of that is called.
    pub value: &'static str,
    /// The option's line of help.
    pub help: &'static str,
    /// Whether one door is the way to all exports; otherwise each export has its own.
    pub is_shared: bool,
    /// Makes a door ready: nobody comes in yet, and what is wrong with the value shows.
    pub bind: Bind,
}

/// Makes a door ready for what was given, as the option's value.
pub type Bind = fn(&str, &DoorOptions) -> Result<Box<dyn Door>, DoorError>;

/// All of them.
pub static TRANSPORTS: &[&Transport] = &[&nbd::TRANSPORT, &fuse::TRANSPORT, &ublk::TRANSPORT];

/// What is asked of doors.
#[derive(Clone, Debug, Default)]
pub struct DoorOptions {
    /// Other machines may come without encryption.
    pub allow_plaintext: bool,
    /// Other machines must encrypt, with these.
    pub certificates: Option<Certificates>,
    /// There is no other door to the export: a server whose door is taken away from outside ends.
    pub is_only: bool,
    /// Starts a process that unmounts what is mounted when this one dies.
    pub watcher: Option<WatcherCommand>,
}

/// A door can't be made.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// What was asked makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The system refuses.
    #[error(transparent)]
    Refused(Box<dyn Error + Send + Sync>),
}

/// Where clients come in.
pub trait Door: Debug + Send {
    /// How programs name the array there, once it is open.
    fn address(&self, export: &str) -> String;

    /// Lets clients in from now on, until the process ends. Where there is one export, it is the one without a name too.
    /// It may wait for servers of exports, which run meanwhile.
    ///
    /// # Errors
    ///
    /// What the system refuses.
    fn open(&mut self, offers: &[Offer]) -> io::Result<()>;

    /// Takes away what it left in the file system: the server has ended. What somebody should know of that.
    fn close(&mut self) -> Option<String>;

    /// The folder from which `close` takes it away. Nothing else can be removed in the sandbox, which is entered
    /// between `bind` and `open`.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Whether `open` and `close` do only what is allowed in the sandbox.
    fn fits_sandbox(&self) -> bool {
        true
    }
}
