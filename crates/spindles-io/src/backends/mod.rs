//! Everything that can be a device at a leaf: a row per kind.

mod device;
mod file;
mod mem;
mod nbd;
mod null;
mod opening; // Not a row: what file and device share.

use crate::at_rest::{Access, AtRest};
use crate::later::Later;
use crate::locks::Held;
use crate::{BackendFacts, DeviceFacts, OpenError, OpenOptions};
use rustix::fs::stat;
use spindles_block::{BlockSize, MemberResult};
use std::fmt::{self, Debug};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Makes a new device in a folder, with that name and so many bytes.
type Fresh = fn(&Path, &str, u64) -> io::Result<String>;

/// A second way to a device.
type AtRestOf = fn(&str, Access) -> io::Result<Box<dyn AtRest>>;

/// A kind of device.
pub struct Backend {
    /// What is the same of all its devices.
    pub facts: BackendFacts,
    /// How a user writes one.
    pub syntax: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Whether what the user wrote is of this kind; the first row that says yes has it.
    matches: fn(&str) -> bool,
    open: fn(&str, &OpenOptions) -> Result<Opened, OpenError>,
    /// A second way to a device that whoever asks has open. `None` where there is nothing at rest.
    at_rest: Option<AtRestOf>,
    fresh: Option<Fresh>,
}

/// All kinds; `file` is last because it takes what is left.
pub static BACKENDS: &[&Backend] = &[
    &mem::BACKEND,
    &null::BACKEND,
    &nbd::BACKEND,
    &device::BACKEND,
    &file::BACKEND,
];

impl Backend {
    /// The one that would open what the user wrote.
    ///
    /// # Panics
    ///
    /// Never: the last row takes what is left.
    #[must_use]
    pub fn of(name: &str) -> &'static Self {
        BACKENDS
            .iter()
            .find(|backend| (backend.matches)(name))
            .expect("the last row takes what is left")
    }

    /// Makes a new device of this kind, of so many bytes, in a folder where that matters, and says
    /// how it is written; `None` for what nobody can make.
    pub fn fresh(&self, folder: &Path, name: &str, bytes: u64) -> Option<io::Result<String>> {
        self.fresh.map(|make| make(folder, name, bytes))
    }
}

impl PartialEq for Backend {
    fn eq(&self, other: &Self) -> bool {
        self.facts == other.facts
    }
}

impl Eq for Backend {}

impl Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backend({})", self.facts.name)
    }
}

/// An open device.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) facts: DeviceFacts,
    pub(crate) medium: Medium,
    /// What is held as long as it is open: the file that a loop device stands on, and loop devices that
    /// stand on it.
    pub(crate) held: Vec<Held>,
}

/// How a device does what it is asked.
#[derive(Debug)]
pub(crate) enum Medium {
    /// At once.
    Inline(Box<dyn Inline>),
    /// Through the target's queue.
    File(OwnedFd),
    /// Later, by itself.
    Later(Box<dyn Later>),
}

impl Medium {
    /// The same for whoever waits; `None` for what lives in memory: it is fresh each time.
    pub(crate) fn at_rest(self) -> Option<Box<dyn AtRest>> {
        match self {
            Self::Inline(_) => None,
            Self::File(file) => Some(Box::new(File::from(file))),
            Self::Later(later) => Some(later.at_rest()),
        }
    }
}

/// A device that does everything at once, without a system call and without an allocation.
pub(crate) trait Inline: Debug {
    /// Fills `into` from what is at `offset_bytes`.
    fn read(&mut self, offset_bytes: u64, into: &mut [u8]) -> MemberResult;
    /// Stores `from` there.
    fn write(&mut self, offset_bytes: u64, from: &[u8]) -> MemberResult;
    /// Makes zeros of `bytes` there.
    fn zero(&mut self, offset_bytes: u64, bytes: u64) -> MemberResult;
    /// Makes everything durable.
    fn flush(&mut self) -> MemberResult;
}

/// Opens what the user wrote.
pub(crate) fn open(name: &str, options: &OpenOptions) -> Result<Opened, OpenError> {
    if name.starts_with("array:") && stat(name).is_err() {
        return Err(OpenError::NotADevice {
            device: name.to_owned(),
            kind: "an array, where a device is wanted",
        });
    }
    if name.is_empty() {
        return Err(OpenError::NoName);
    }
    (Backend::of(name).open)(name, options)
}

/// Checks that a device can serve blocks of this size. Every opening asks this, and every command that takes a device
/// asks it before it writes.
pub(crate) fn check_blocks(facts: &DeviceFacts, block_size: BlockSize) -> Result<(), OpenError> {
    let block_bytes = block_size.bytes();
    if facts.backend.whole_sectors_only && facts.sector_bytes > block_bytes {
        return Err(OpenError::BlockSize {
            device: facts.name.clone(),
            sector_bytes: facts.sector_bytes,
            block_bytes,
        });
    }
    Ok(())
}

/// A second way to a device that whoever asks has open.
pub(crate) fn at_rest(name: &str, access: Access) -> io::Result<Box<dyn AtRest>> {
    let at_rest = Backend::of(name).at_rest;
    let at_rest = at_rest.ok_or(io::ErrorKind::Unsupported)?;
    at_rest(name, access)
}
