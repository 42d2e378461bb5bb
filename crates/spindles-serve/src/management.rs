//! Access to a served array for commands on other threads.

use crate::events::{EventBus, ServerEvent, Subscriber};
use crate::numbers::ServerNumbers;
use crate::server_handle::ServerHandle;
use spindles_admin::assemble::SpareReport;
use spindles_admin::assemble::{ArrayReport, AssembleError, AssembleOptions, assemble};
use spindles_admin::host::{
    Reopen, Reopened, Restructure, Served, belonging, holds_journal, is_plain, is_spare,
    may_belong, report_of,
};
use spindles_admin::rebuild::RebuildProgress;
use spindles_admin::scrub::ScrubProgress;
use spindles_admin::spare::Taken;
use spindles_array::errors::AttachError;
use spindles_array::{
    ArraySnapshot, Incident, LostBytes, Managed, PlaceWanted, PutOut, Target, TooSmall,
};
use spindles_block::{BlockIndex, MemberIndex};
use spindles_device::{CloseError, Examined, device_of, holds_superblock, is_address};
use spindles_engine::{CommandError, Event, Scrub, Status};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a command waits for events before it checks the progress of its job.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long the server tries to reopen an array that was closed for a change. Clients wait
/// meanwhile, and lose the array after that.
const REOPEN_MAX: Duration = Duration::from_mins(1);

/// A served array.
#[derive(Clone, Debug)]
pub struct Handle {
    server: ServerHandle,
    bus: EventBus,
    /// Devices it was assembled from, without spares, and devices added since that the target need
    /// not have open.
    given: Arc<Mutex<Vec<String>>>,
    options: AssembleOptions,
    /// The last report read from its superblocks.
    said: Arc<Mutex<ArrayReport>>,
}

impl Handle {
    /// Creates a handle for the array of a server, assembled from the devices `given` (absolute
    /// names), with this report.
    #[must_use]
    pub fn new(
        server: &ServerHandle,
        bus: &EventBus,
        given: &[String],
        options: &AssembleOptions,
        report: &ArrayReport,
    ) -> Self {
        let is_spare = |device: &String| report.spares.iter().any(|spare| spare.name == *device);
        let given = given.iter().filter(|device| !is_spare(device));
        let given = given.cloned().collect();
        Self {
            server: server.clone(),
            bus: bus.clone(),
            given: Arc::new(Mutex::new(given)),
            options: AssembleOptions {
                // No other server can have written to members that went missing meanwhile.
                degraded: true,
                force: false,
                ..options.clone()
            },
            said: Arc::new(Mutex::new(report.clone())),
        }
    }

    /// The name of the export; it never changes.
    #[must_use]
    pub fn export(&self) -> String {
        self.server.export().name
    }

    /// Subscribes to all events from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscriber {
        self.bus.subscribe()
    }

    /// Returns the server's counters; `None` if the server has ended.
    #[must_use]
    pub fn numbers(&self) -> Option<ServerNumbers> {
        self.server.numbers()
    }
}

impl Handle {
    fn said(&self) -> ArrayReport {
        let said = self.said.lock();
        said.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn given(&self) -> Vec<String> {
        let given = self.given.lock();
        given.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the devices that the target expects, and those that it has open.
    fn known(&self) -> (Vec<String>, Vec<String>) {
        self.server
            .call(|target| counted_on_and_open(target))
            .unwrap_or_default()
    }

    /// Returns the devices to reopen the array from.
    fn to_open(&self, target: &dyn Target) -> Vec<String> {
        let (mut devices, _) = counted_on_and_open(target);
        devices.retain(|device| may_belong(device));
        let is_new = |device: &String| !devices.contains(device);
        let journals = self.given().into_iter();
        let journals: Vec<String> = journals
            .filter(|device| holds_journal(device) && is_new(device))
            .collect();
        devices.extend(journals);
        devices
    }
}

/// Returns the devices that the target expects, and those that it has open. A spare is only in the
/// first list until it replaces a member here, and in neither once another array has taken it.
fn counted_on_and_open(target: &dyn Target) -> (Vec<String>, Vec<String>) {
    let open = target.facts().devices.iter();
    let open: Vec<String> = open.map(|device| device.name.clone()).collect();
    let mut counted_on = target.devices();
    counted_on.retain(|device| open.contains(device) || is_spare(device));
    (counted_on, open)
}

impl Served for Handle {
    fn devices(&self) -> Vec<String> {
        // Includes the devices of members that are out, which may come back.
        let (counted_on, open) = self.known();
        let given = self.given();
        let all = counted_on.iter().chain(&open).chain(&given);
        let mut known = BTreeSet::new();
        let devices: Vec<String> = all
            .filter(|device| known.insert(*device))
            .cloned()
            .collect();
        // A removed device may belong to another array by now.
        belonging(&devices, &open, &self.said())
    }

    fn managed(&self) -> Box<dyn Managed> {
        Box::new(Remote {
            server: self.server.clone(),
            events: self.bus.subscribe(),
            taken: Vec::new(),
            worked: true,
        })
    }

    fn report(&self) -> ArrayReport {
        // If inner arrays failed, their superblocks are readable, but not those of the outer array.
        let now = report_of(&self.devices());
        let open = self.server.call(|target| target.snapshot());
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(mut report) = now
            && report.uuid == said.uuid
        {
            report.keep_open(&said, &open.unwrap_or_default());
            *said = report;
        }
        said.clone()
    }

    fn remember(&self, device: &str) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        // Skip a device already listed from an earlier role.
        if !given.iter().any(|known| known == device) {
            given.push(device.to_owned());
        }
    }

    fn reopen(&self, restructure: Restructure<'_>, reopen: Reopen) -> Result<(), AssembleError> {
        let Restructure {
            more,
            without,
            moves,
        } = restructure;
        // The array is closed only if its devices can be opened again.
        spindles_device::may_open_devices()?;
        let is_known = more.is_none_or(|more| self.given().iter().any(|device| device == more));
        let (comes, without) = (more.map(str::to_owned), without.map(str::to_owned));
        let (done, result) = channel();
        let (refused, this) = (done.clone(), self.clone());
        let (known, exchanged) = channel();
        // Run both steps on the server's thread, so that no device joins in between and is left
        // out.
        let decide = move |target: &mut dyn Target| {
            if let Err(error) = target.may_restructure(comes.as_deref(), moves) {
                drop(refused.send(Err(AssembleError::Attach(Box::new(error)))));
                return false;
            }
            let before = this.to_open(target);
            if let Some(comes) = &comes {
                this.remember(comes);
            }
            // The device may get its superblock only now.
            let is_new = |comes: &String| !before.contains(comes);
            let more = comes.filter(is_new);
            let all: Vec<String> = before.iter().cloned().chain(more).collect();
            drop(known.send((before, all)));
            true
        };
        let (options, array) = (self.options.clone(), self.said());
        self.server.exchange(decide, move |target| {
            let (before, all) = exchanged.recv().unwrap_or_default();
            let mut devices = all.clone();
            devices.retain(|device| without.as_ref() != Some(device));
            // Keep the locks, so that no other program claims a device while the array is closed.
            let keeping = options.open.locks.keep();
            let closed = target.close();
            let changed = if closed.is_ok() {
                let here = devices.iter().filter(|device| is_here(device));
                let here: Vec<&str> = here.map(String::as_str).collect();
                reopen(&here, &options)
            } else {
                Reopened::AsBefore
            };
            let (opened, failed) = match changed {
                Reopened::Open(target) => (Ok(target), false),
                Reopened::Closed => (
                    open_again(&array, &[&devices, &before], &options, false),
                    false,
                ),
                Reopened::AsBefore => (open_again(&array, &[&all, &before], &options, true), true),
            };
            drop(keeping);
            // The requester may be gone.
            drop(done.send(closed.map(|()| failed).map_err(AssembleError::from)));
            opened.map_err(|error| error.to_string())
        });
        // If the server has ended, nothing changed.
        let failed = result.recv().unwrap_or(Err(AssembleError::Changed));
        if let (Some(more), false, Ok(true)) = (more, is_known, &failed) {
            let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            given.retain(|device| device != more);
        }
        failed.map(drop)
    }
}

/// Reopens the array from the devices in `lists` that can be reached. Uses the first list that
/// makes an array. Later lists are tried only if `at_once`, or once time is up. Once time is up,
/// unreadable devices and devices of another array are left out, too.
fn open_again(
    array: &ArrayReport,
    lists: &[&[String]],
    options: &AssembleOptions,
    at_once: bool,
) -> Result<Box<dyn Target>, AssembleError> {
    let end = Instant::now() + REOPEN_MAX;
    loop {
        let is_over = Instant::now() >= end;
        let lists = lists
            .iter()
            .take(if at_once || is_over { lists.len() } else { 1 });
        let mut failed = None;
        for devices in lists {
            // The change may have turned some devices into plain ones.
            let mut left = devices.to_vec();
            left.retain(|device| !is_plain(device) && is_here(device));
            if is_over {
                left = belonging(&left, &[], array);
            }
            let left: Vec<&str> = left.iter().map(String::as_str).collect();
            match assemble(&left, options) {
                Ok(assembled) => return Ok(assembled.target),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if is_over => return Err(error),
            _ => std::thread::sleep(LOOK_INTERVAL),
        }
    }
}

/// Returns true if a device can be opened now. An NBD export may become reachable later.
fn is_here(device: &str) -> bool {
    !is_address(&device_of(device)) || holds_superblock(device)
}

/// Executes requests on the thread that owns the target.
struct Remote {
    server: ServerHandle,
    events: Subscriber,
    taken: Vec<Taken>,
    /// True if a job was running at the last check.
    worked: bool,
}

impl Remote {
    fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut dyn Target) -> T + Send + 'static,
    ) -> Option<T> {
        self.server.call(call)
    }

    /// Calls `call` with the name of a device.
    fn with<T: Send + 'static>(
        &self,
        device: &str,
        call: impl FnOnce(&mut dyn Target, &str) -> Result<T, AttachError> + Send + 'static,
    ) -> Result<T, AttachError> {
        let name = device.to_owned();
        let done = self.server.call(move |target| call(target, &name));
        done.unwrap_or_else(|| {
            Err(AttachError::Refused {
                device: device.to_owned(),
                reason: CommandError::Closing,
            })
        })
    }
}

impl Managed for Remote {
    fn devices(&self) -> Vec<String> {
        self.call(|target| target.devices()).unwrap_or_default()
    }

    fn status(&self) -> Option<Status> {
        self.call(|target| target.status())?
    }

    fn status_of(&self, array: &str) -> Option<Status> {
        let array = array.to_owned();
        self.call(move |target| target.status_of(&array))?
    }

    fn snapshot(&self) -> Vec<ArraySnapshot> {
        self.call(|target| target.snapshot()).unwrap_or_default()
    }

    fn next_event(&mut self) -> Option<(String, Event)> {
        loop {
            match self.events.next()? {
                ServerEvent::Engine { array, event, .. } => return Some((array, event)),
                ServerEvent::Taken(taken) => self.taken.push(taken),
                // Subscribers report these themselves; the array is unchanged.
                ServerEvent::NotBack { .. }
                | ServerEvent::Unguarded { .. }
                | ServerEvent::Space { .. }
                | ServerEvent::Grows(_)
                | ServerEvent::State(_) => {}
            }
        }
    }

    fn lowest_place(
        &self,
        array: &str,
        member: MemberIndex,
        block: BlockIndex,
    ) -> Option<(String, MemberIndex, BlockIndex, u32)> {
        let array = array.to_owned();
        self.call(move |target| target.lowest_place(&array, member, block))?
    }

    fn work(&mut self) -> bool {
        // The caller must still get the events of a job that ended since it last took events, so
        // return `false` one check later.
        let works = self.is_working();
        let worked = std::mem::replace(&mut self.worked, works);
        self.events.wait(LOOK_INTERVAL);
        worked
    }

    fn has_ended(&self) -> bool {
        self.call(|_| ()).is_none()
    }

    fn is_working(&self) -> bool {
        self.call(|target| target.is_working()).unwrap_or(false)
    }

    fn in_sync_bytes(&self) -> (u64, u64) {
        self.call(|target| target.in_sync_bytes()).unwrap_or((0, 0))
    }

    fn begin_scrub(&mut self, scrub: Scrub) -> Result<(), CommandError> {
        let done = self.call(move |target| target.begin_scrub(scrub));
        done.unwrap_or(Err(CommandError::Closing))
    }

    fn begin_scrub_below(&mut self, scrub: Scrub) -> Result<bool, CommandError> {
        let done = self.call(move |target| target.begin_scrub_below(scrub));
        done.unwrap_or(Err(CommandError::Closing))
    }

    fn stop_job(&mut self, name: &'static str) {
        self.call(move |target| target.stop_job(name));
    }

    fn scrub_progress(&self) -> ScrubProgress {
        self.call(|target| target.scrub_progress())
            .unwrap_or_default()
    }

    fn may_attach(&self, device: &str, wanted: PlaceWanted) -> Result<(), AttachError> {
        self.with(device, move |target, device| {
            target.may_attach(device, wanted)
        })
    }

    fn attach(
        &mut self,
        device: &str,
        wanted: PlaceWanted,
        seen: Examined,
    ) -> Result<(String, MemberIndex), AttachError> {
        self.with(device, move |target, device| {
            target.attach(device, wanted, seen)
        })
    }

    fn bring_back(&mut self, device: &str) -> Result<(String, MemberIndex), AttachError> {
        self.with(device, |target, device| target.bring_back(device))
    }

    fn may_fail(&self, device: &str) -> Result<(), AttachError> {
        self.with(device, |target, device| target.may_fail(device))
    }

    fn fail(&mut self, device: &str) -> Result<PutOut, AttachError> {
        self.with(device, |target, device| target.fail(device))
    }

    fn let_go(&mut self, device: &str) -> Result<(String, MemberIndex), AttachError> {
        self.with(device, |target, device| target.let_go(device))
    }

    fn provide_spare(&mut self, device: &str) -> Result<Option<Taken>, AttachError> {
        self.with(device, |target, device| target.provide_spare(device))
    }

    fn withdraw_spare(&mut self, device: &str) -> bool {
        self.with(device, |target, device| Ok(target.withdraw_spare(device)))
            .unwrap_or(false)
    }

    fn may_leave(&self, device: &str) -> Result<(), AttachError> {
        self.with(device, |target, device| target.may_leave(device))
    }

    fn may_be_spare(&self, device: &str) -> Result<Vec<TooSmall>, AttachError> {
        self.with(device, |target, device| target.may_be_spare(device))
    }

    fn spares(&self) -> Vec<SpareReport> {
        self.call(|target| target.spares()).unwrap_or_default()
    }

    fn spares_taken(&mut self) -> Vec<Taken> {
        std::mem::take(&mut self.taken)
    }

    fn incidents(&self) -> Vec<Incident> {
        self.call(|target| target.incidents()).unwrap_or_default()
    }

    fn lost(&self) -> Vec<LostBytes> {
        self.call(|target| target.lost()).unwrap_or_default()
    }

    fn may_replace(&self, old: &str, device: &str) -> Result<(), AttachError> {
        let old = old.to_owned();
        self.with(device, move |target, device| {
            target.may_replace(&old, device)
        })
    }

    fn replace(
        &mut self,
        old: &str,
        device: &str,
        seen: Examined,
    ) -> Result<(String, MemberIndex), AttachError> {
        let old = old.to_owned();
        self.with(device, move |target, device| {
            target.replace(&old, device, seen)
        })
    }

    fn rebuild_progress(&self) -> Option<RebuildProgress> {
        self.call(|target| target.rebuild_progress())?
    }

    /// The server closes the array.
    fn close(self: Box<Self>) -> Result<(), CloseError> {
        Ok(())
    }
}
