//! Modelled disks in virtual time, each known to this thread by its name.
//!
//! Disks that share an event queue form a [`Room`]. A disk keeps its contents as long as the room
//! stands, so that arrays on it are closed and opened as on real ones. Only waiting advances the
//! time: to the next event of the room, or to the moment at which the waiter wants to be woken.

mod contents;

use crate::Clock;
use crate::at_rest::AtRest;
use crate::queues::Wait;
use crate::transfer::Tag;
use contents::Contents;
use spindles_block::{Instant, MemberResult};
use spindles_model::{
    Account, Answer, DeviceId, Draw, DriveTexts, Fault, Link, LinkId, Parameters, Work, World,
    parse_drive, parse_preset, preset,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The begin of the names of modelled disks.
pub const PREFIX: &str = "model:";

thread_local! {
    static DISKS: RefCell<BTreeMap<String, Disk>> = const { RefCell::new(BTreeMap::new()) };
}

/// Returns the disk of that name.
pub(crate) fn find(name: &str) -> Option<Disk> {
    DISKS.with_borrow(|disks| disks.get(name).cloned())
}

/// Returns the parameters of a disk, by the name of a model, the file of its parameters, or the
/// folder of a measured drive.
///
/// # Errors
///
/// The file that can't be read, or its mistake.
pub fn parameters(name: &str) -> Result<Parameters, String> {
    if name.is_empty() {
        return Err("give the name of a model, such as exos-x18-18tb".to_owned());
    }
    let path = Path::new(name);
    let read = |path: &Path| {
        let text = fs::read_to_string(path);
        text.map_err(|error| format!("{}: {error}", path.display()))
    };
    let parameters = if path.is_dir() {
        let [drive, seek, extents] =
            ["drive.toml", "seek.csv", "extents.csv"].map(|file| read(&path.join(file)));
        parse_drive(&DriveTexts {
            folder: name,
            drive: &drive?,
            seek: &seek?,
            extents: &extents?,
        })
    } else if path.is_file() {
        parse_preset(name, &read(path)?)
    } else {
        preset(name)
    };
    let parameters = parameters.map_err(|fault| fault.to_string())?;
    if !parameters.kind.is_disk() {
        let kind = parameters.kind.name;
        return Err(format!("{name} is a {kind}, and members are disks"));
    }
    Ok(parameters)
}

/// Returns true if the medium of these disks turns.
pub(crate) fn is_rotational(parameters: &Parameters) -> bool {
    parameters.kind.name == "mechanical"
}

/// Returns where the time of a disk's requests went; `None` if no modelled disk has that name.
#[must_use]
pub fn account_of(name: &str) -> Option<Account> {
    let disk = find(name)?;
    let state = disk.shared.state();
    Some(state.world.account(disk.id))
}

/// The bytes that the disks of a room store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Only the metadata of arrays. Payload is zeros, with zero parity and constant checksums: no
    /// computation is needed.
    Metadata,
    /// Metadata and payload, as real devices do.
    All,
}

/// Modelled disks with one event queue. They vanish with the room.
#[derive(Debug)]
pub struct Room {
    shared: Arc<Shared>,
    names: Vec<String>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    now_ns: Arc<AtomicU64>,
    stored: Stored,
}

#[derive(Debug, Default)]
struct State {
    world: World,
    contents: Vec<Contents>,
    answers: Vec<Answer>,
    /// Results of the operations of each port.
    done: Vec<VecDeque<Tag>>,
}

/// A disk of a room.
#[derive(Clone, Debug)]
pub struct Disk {
    shared: Arc<Shared>,
    id: DeviceId,
    is_rotational: bool,
}

/// The way of one target to the disks of a room.
#[derive(Debug)]
pub struct Port {
    shared: Arc<Shared>,
    number: u32,
    in_flight: usize,
}

impl Room {
    /// Builds a room without disks.
    #[must_use]
    pub fn new(stored: Stored) -> Self {
        let shared = Shared {
            state: Mutex::default(),
            now_ns: Arc::default(),
            stored,
        };
        Self {
            shared: Arc::new(shared),
            names: Vec::new(),
        }
    }

    /// Adds a link for the disks that are added later.
    pub fn add_link(&mut self, link: Link) -> LinkId {
        self.shared.state().world.add_link(link)
    }

    /// Adds a disk full of zeros behind a chain of links, from the disk to the host. Returns its
    /// name. A disk of that name in an earlier room is no longer found.
    ///
    /// # Errors
    ///
    /// The parameter that makes no disk.
    pub fn add(
        &mut self,
        name: &str,
        parameters: &Parameters,
        draw: &Draw,
        chain: &[LinkId],
    ) -> Result<String, Fault> {
        let mut state = self.shared.state();
        let id = state.world.add_disk(parameters, draw, chain)?;
        state.contents.push(Contents::default());
        drop(state);
        let name = format!("{PREFIX}{name}");
        let disk = Disk {
            shared: Arc::clone(&self.shared),
            id,
            is_rotational: is_rotational(parameters),
        };
        DISKS.with_borrow_mut(|disks| disks.insert(name.clone(), disk));
        self.names.push(name.clone());
        Ok(name)
    }

    /// Returns its clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.shared.clock()
    }

    /// Returns where the time of each disk's requests went, in the order of the disks.
    #[must_use]
    pub fn accounts(&self) -> Vec<Account> {
        let state = self.shared.state();
        let disks = 0..u32::try_from(state.contents.len()).expect("few disks");
        disks
            .map(|disk| state.world.account(DeviceId(disk)))
            .collect()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let is_ours = |disk: &Disk| Arc::ptr_eq(&disk.shared, &self.shared);
        // The thread may be ending.
        let _thread_ends = DISKS.try_with(|disks| {
            let mut disks = disks.borrow_mut();
            for name in &self.names {
                if disks.get(name).is_some_and(is_ours) {
                    disks.remove(name);
                }
            }
        });
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant(self.now_ns.load(Ordering::Relaxed))
    }

    fn clock(&self) -> Clock {
        Clock::Virtual(Arc::clone(&self.now_ns))
    }
}

impl State {
    /// Advances the time, and hands the answers to their ports.
    fn advance(&mut self, to: Instant) {
        self.answers.clear();
        self.world.advance(to, &mut self.answers);
        for answer in &self.answers {
            let (port, tag) = unpacked(answer.tag);
            self.done[port].push_back(tag);
        }
    }
}

/// Names an operation of a port in the world.
fn packed(port: u32, Tag(tag): Tag) -> spindles_model::Tag {
    assert!(u32::try_from(tag).is_ok(), "tags of a target are small");
    spindles_model::Tag(u64::from(port) << 32 | tag)
}

fn unpacked(spindles_model::Tag(tag): spindles_model::Tag) -> (usize, Tag) {
    let port = usize::try_from(tag >> 32).expect("64 bits");
    (port, Tag(tag & u64::from(u32::MAX)))
}

impl Disk {
    /// Returns its size.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.shared.state().world.capacity_bytes(self.id)
    }

    /// Returns true if its medium turns.
    #[must_use]
    pub fn is_rotational(&self) -> bool {
        self.is_rotational
    }

    /// Opens a port to the room of the disk.
    #[must_use]
    pub fn port(&self) -> Port {
        let mut state = self.shared.state();
        let number = u32::try_from(state.done.len()).expect("few openings");
        state.done.push(VecDeque::new());
        Port {
            shared: Arc::clone(&self.shared),
            number,
            in_flight: 0,
        }
    }

    /// Reads stored bytes. `fills` is true if the caller needs the zeros of the rest, too.
    pub fn read(&self, offset_bytes: u64, into: &mut [u8], fills: bool) {
        let state = self.shared.state();
        state.contents_of(self.id).read(offset_bytes, into, fills);
    }

    /// Stores bytes.
    pub fn write(&self, offset_bytes: u64, from: &[u8]) {
        let mut state = self.shared.state();
        state.contents_mut(self.id).write(offset_bytes, from);
    }

    /// Turns a range into zeros.
    pub fn clear(&self, offset_bytes: u64, bytes: u64) {
        let mut state = self.shared.state();
        state.contents_mut(self.id).clear(offset_bytes, bytes);
    }
}

impl State {
    fn contents_of(&self, disk: DeviceId) -> &Contents {
        &self.contents[index(disk.0)]
    }

    fn contents_mut(&mut self, disk: DeviceId) -> &mut Contents {
        &mut self.contents[index(disk.0)]
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("64 bits")
}

impl AtRest for Disk {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.capacity_bytes())
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        Self::read(self, offset, into, true);
        Ok(())
    }

    fn write(&self, from: &[u8], offset: u64) -> io::Result<()> {
        Self::write(self, offset, from);
        Ok(())
    }

    fn make_zeros(&self, from: u64, bytes: u64) -> io::Result<()> {
        self.clear(from, bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn in_file(&self) -> Option<(&File, u64)> {
        None
    }

    fn is_hole(&self, from: u64, to: u64) -> Option<bool> {
        let state = self.shared.state();
        Some(state.contents_of(self.id).is_hole(from, to))
    }
}

impl Port {
    /// Returns the clock of the room.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.shared.clock()
    }

    /// Returns what the disks store.
    #[must_use]
    pub fn stored(&self) -> Stored {
        self.shared.stored
    }

    /// Returns true if a disk is in the same room.
    #[must_use]
    pub fn reaches(&self, disk: &Disk) -> bool {
        Arc::ptr_eq(&self.shared, &disk.shared)
    }

    /// Sends an operation to a disk. `next_done` returns its tag later.
    pub fn start(&mut self, disk: &Disk, tag: Tag, work: Work) {
        assert!(self.reaches(disk), "a disk of this room");
        let tag = packed(self.number, tag);
        let mut state = self.shared.state();
        state.world.submit(self.shared.now(), disk.id, tag, work);
        self.in_flight += 1;
    }

    /// Returns the next operation that is done.
    pub fn next_done(&mut self) -> Option<(Tag, MemberResult)> {
        let mut state = self.shared.state();
        let tag = state.done[index(self.number)].pop_front()?;
        self.in_flight -= 1;
        Some((tag, Ok(())))
    }

    /// Returns the number of operations that `next_done` has not returned.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Lets the clock go on to a moment if nothing happens in the room until then, and `next_done`
    /// has nothing. Otherwise returns false, and the time stays.
    pub fn skip_to(&mut self, moment: Instant) -> bool {
        let shared = &self.shared;
        let mut state = shared.state();
        let is_quiet = state.done[index(self.number)].is_empty()
            && state.world.next_event().is_none_or(|event| event > moment);
        if is_quiet && moment > shared.now() {
            state.advance(moment);
            shared.now_ns.store(moment.0, Ordering::Relaxed);
        }
        is_quiet
    }

    /// Waits in virtual time until an operation of this port is done.
    ///
    /// # Panics
    ///
    /// If it waits forever and nothing is in flight.
    pub fn turn(&mut self, wait: Wait) {
        let shared = &self.shared;
        let mut state = shared.state();
        let until = match wait {
            Wait::No => Some(shared.now()),
            Wait::AtMost(time) => {
                let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                Some(Instant(shared.now().0.saturating_add(time_ns)))
            }
            Wait::Forever => None,
        };
        while state.done[index(self.number)].is_empty() {
            let event = state.world.next_event();
            let to = match (event, until) {
                (Some(event), Some(until)) => event.min(until),
                (Some(event), None) => event,
                (None, Some(until)) => until,
                (None, None) => panic!(
                    "nothing to wait for in virtual time, with {} operations in flight",
                    self.in_flight
                ),
            };
            state.advance(to);
            shared.now_ns.store(to.0, Ordering::Relaxed);
            if until == Some(to) {
                break;
            }
        }
    }
}
