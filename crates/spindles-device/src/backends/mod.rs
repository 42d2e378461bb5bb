//! The table of all kinds of devices at a leaf.

mod device;
mod file;
mod mem;
mod model;
mod nbd;
mod null;
mod opening; // Not a row: shared by file and device.
mod paced;
mod slice;

use crate::at_rest::{Access, AtRest, SliceAtRest};
use crate::later::Later;
use crate::locks::Held;
use crate::modelled::Disk;
use crate::slices::device_of;
use crate::{BackendFacts, DeviceFacts, OpenError, OpenOptions};
use rustix::fs::stat;
use spindles_block::{BlockSize, MemberResult};
use std::fmt::{self, Debug};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;

pub(crate) use slice::cut;

/// Makes a new device of this name and size in a folder; returns how a user writes it.
type Fresh = fn(&Path, &str, u64) -> io::Result<String>;

/// Opens a device for synchronous access.
type AtRestOf = fn(&str, Access) -> io::Result<Box<dyn AtRest>>;

/// A kind of device.
pub struct Backend {
    /// Facts common to all devices of this kind.
    pub facts: BackendFacts,
    /// How a user writes such a device.
    pub syntax: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Returns true if the user's text is of this kind. The first matching row wins.
    matches: fn(&str) -> bool,
    open: fn(&str, &OpenOptions) -> Result<Opened, OpenError>,
    /// Opens a device for synchronous access while the caller has it open; `None` if nothing is at
    /// rest.
    at_rest: Option<AtRestOf>,
    fresh: Option<Fresh>,
}

/// All kinds; `file` is last because it matches all other text.
pub static BACKENDS: &[&Backend] = &[
    &slice::BACKEND,
    &mem::BACKEND,
    &model::BACKEND,
    &paced::BACKEND,
    &null::BACKEND,
    &nbd::BACKEND,
    &device::BACKEND,
    &file::BACKEND,
];

impl Backend {
    /// Returns the kind that opens the user's text.
    ///
    /// # Panics
    ///
    /// Never: the last row matches any text.
    #[must_use]
    pub fn of(name: &str) -> &'static Self {
        BACKENDS
            .iter()
            .find(|backend| (backend.matches)(name))
            .expect("the last row takes what is left")
    }

    /// Returns the facts of the kind of a device; those of the whole device for a slice.
    #[must_use]
    pub fn facts_of(name: &str) -> &'static BackendFacts {
        &Self::of(&device_of(name)).facts
    }

    /// Makes a new device of this kind and size, in a folder if it needs one, and returns how a
    /// user writes it. `None` if this kind can't be made.
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
pub struct Opened {
    /// Facts about it.
    pub facts: DeviceFacts,
    /// The file, memory or connection with its bytes.
    pub medium: Medium,
    /// Files held while it is open: the file below a loop device, and the loop devices on this
    /// device.
    pub held: Vec<Held>,
    /// The bytes of the medium that the device has; `None` for all.
    pub part: Option<Range<u64>>,
}

impl Opened {
    /// Returns the device for synchronous access; `None` if it lives in memory, because each
    /// opening makes a new one. Also returns what to hold meanwhile.
    pub(crate) fn at_rest(self) -> (Option<Box<dyn AtRest>>, Vec<Held>) {
        let whole = match self.medium {
            Medium::Inline(_) => None,
            Medium::File(file) => Some(Box::new(File::from(file)) as Box<dyn AtRest>),
            Medium::Later(later) => Some(later.at_rest()),
            Medium::Modelled(disk) => Some(Box::new(disk) as Box<dyn AtRest>),
        };
        let device = whole.map(|whole| match self.part {
            None => whole,
            Some(bytes) => Box::new(SliceAtRest { whole, bytes }),
        });
        (device, self.held)
    }
}

/// How a device executes operations.
#[derive(Debug)]
pub enum Medium {
    /// Immediately.
    Inline(Box<dyn Inline>),
    /// Through the target's queue.
    File(OwnedFd),
    /// The device completes operations asynchronously by itself.
    Later(Box<dyn Later>),
    /// In virtual time.
    Modelled(Disk),
}

/// A device that executes everything immediately, without a system call or an allocation.
pub trait Inline: Debug {
    /// Reads from `offset_bytes` into `into`.
    fn read(&mut self, offset_bytes: u64, into: &mut [u8]) -> MemberResult;
    /// Writes `from` at `offset_bytes`.
    fn write(&mut self, offset_bytes: u64, from: &[u8]) -> MemberResult;
    /// Writes `bytes` zeros at `offset_bytes`.
    fn zero(&mut self, offset_bytes: u64, bytes: u64) -> MemberResult;
    /// Makes everything durable.
    fn flush(&mut self) -> MemberResult;
}

/// Opens the device that the user wrote.
pub fn open(name: &str, options: &OpenOptions) -> Result<Opened, OpenError> {
    let is_array = name.starts_with("array:") || name.starts_with("plain:");
    if is_array && stat(name).is_err() {
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

/// Checks that a device can serve blocks of this size. Every opening checks this, and so does every
/// command before it writes to a device.
pub fn check_blocks(facts: &DeviceFacts, block_size: BlockSize) -> Result<(), OpenError> {
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

/// Opens a device for synchronous access while the caller has it open.
pub fn at_rest(name: &str, access: Access) -> io::Result<Box<dyn AtRest>> {
    let at_rest = Backend::of(name).at_rest;
    let at_rest = at_rest.ok_or(io::ErrorKind::Unsupported)?;
    at_rest(name, access)
}
