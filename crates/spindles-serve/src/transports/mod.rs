//! The ways by which other programs reach an array: a folder or a file and a row each.

mod fuse;
mod nbd;
mod reclaim; // Not a row: both doors to the kernel need it.
mod ublk;
mod users; // Not a row: who is asked to let go.
mod watcher; // Not a row: both need it.

use crate::certificates::Certificates;
use crate::offer::Offer;
use std::error::Error;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Weak;
pub use users::{User, by_users, lasts};
use watcher::Find;
pub use watcher::{WatcherCommand, watch};

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
    /// What a process outside of the sandbox looks after, for doors that have one.
    watched: Option<Find>,
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
    /// Starts a process outside of the sandbox. Doors of the kernel have one, which ends what they made.
    pub watcher: Option<WatcherCommand>,
    /// Who is told of clients that were refused.
    pub tell: Option<fn(&str)>,
}

impl DoorOptions {
    fn watcher(&self) -> Result<&WatcherCommand, DoorError> {
        let none = || DoorError::Refused("there is no program that looks after this door".into());
        self.watcher.as_ref().ok_or_else(none)
    }
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

/// A file or block device that a door made, as others use it.
pub trait Seen: Debug + Send + Sync {
    /// Where it is.
    fn path(&self) -> PathBuf;

    /// Who uses it, where somebody does for longer than a moment. Waits for that moment.
    ///
    /// # Errors
    ///
    /// That can't be told.
    fn users(&self) -> io::Result<Option<Vec<User>>>;

    /// What does not work any more as the process is gone that looks after it, for people.
    fn loss(&self) -> Option<String>;
}

/// Where clients come in.
pub trait Door: Debug + Send {
    /// How programs name the array there, once it is open.
    fn address(&self, export: &str) -> String;

    /// Does what the sandbox does not allow, which is entered between this and `open`.
    ///
    /// # Errors
    ///
    /// What the system refuses.
    fn prepare(&mut self, _offers: &[Offer]) -> io::Result<()> {
        Ok(())
    }

    /// Lets clients in from now on, until the process ends. Where there is one export, it is the one without a name too.
    /// It may wait for servers of exports, which run meanwhile.
    ///
    /// # Errors
    ///
    /// What the system refuses.
    fn open(&mut self, offers: &[Offer]) -> io::Result<()>;

    /// What whoever starts the server has to know of it, once it is open.
    fn remark(&self) -> Option<String> {
        None
    }

    /// The file or block device that it made, so that `stop` can ask who uses it. `None` where clients reconnect.
    fn seen(&self) -> Option<Weak<dyn Seen>> {
        None
    }

    /// Takes away what it left in the file system: the server has ended. What somebody should know of that.
    fn close(&mut self) -> Option<String>;

    /// The folder from which `close` takes it away. Nothing else can be removed in the sandbox.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Whether the process has more memory locked than its limit, and so has to keep `CAP_IPC_LOCK`.
    fn needs_ipc_lock(&self) -> bool {
        false
    }
}
