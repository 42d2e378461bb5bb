//! Access to a served array for commands on other threads.

use crate::events::{EventBus, ServerEvent, Subscriber, locked};
use crate::numbers::ServerNumbers;
use crate::server_handle::ServerHandle;
use spindles_admin::assemble::SpareReport;
use spindles_admin::assemble::{ArrayReport, AssembleError, AssembleOptions, assemble};
use spindles_admin::host::{
    Reopen, Restructure, Served, Unchanged, belonging, holds_journal, is_plain, is_spare,
    may_belong, report_of,
};
use spindles_admin::rebuild::RebuildProgress;
use spindles_admin::scrub::ScrubProgress;
use spindles_admin::spare::Taken;
use spindles_array::errors::AttachError;
use spindles_array::tap::Tap;
use spindles_array::{
    ArraySnapshot, Incident, LostBytes, Managed, PlaceWanted, PutOut, Target, TooSmall,
};
use spindles_block::{BlockIndex, MemberIndex};
use spindles_device::{CloseError, Examined, device_of, holds_superblock, is_address};
use spindles_engine::{CommandError, Event, Scrub, Status};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
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

    /// Returns the place at which a recording of the array's accesses attaches.
    #[must_use]
    pub fn tap(&self) -> Tap {
        self.server.tap()
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

    fn said(&self) -> ArrayReport {
        locked(&self.said).clone()
    }

    fn given(&self) -> Vec<String> {
        locked(&self.given).clone()
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
        let known = self.server.call(|target| counted_on_and_open(target));
        let (counted_on, open) = known.unwrap_or_default();
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
        let mut said = locked(&self.said);
        if let Ok(mut report) = now
            && report.uuid == said.uuid
        {
            report.keep_open(&said, &open.unwrap_or_default());
            *said = report;
        }
        said.clone()
    }

    fn records_out(&self, array: &str, member: MemberIndex) -> Option<bool> {
        let array = array.to_owned();
        self.server.call_until(move |target| {
            let Some(status) = target.status_of(&array) else {
                return Some(false);
            };
            let is_out = !status.members[usize::from(member.0)].counted_on;
            (is_out || status.stopped_writing).then_some(is_out)
        })
    }

    fn remember(&self, device: &str) {
        let mut given = locked(&self.given);
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
            let changed = closed.is_ok().then(|| {
                let here = devices.iter().filter(|device| is_here(device));
                let here: Vec<&str> = here.map(String::as_str).collect();
                reopen(&here, &options)
            });
            let (opened, failed) = match changed {
                Some(Ok(Some(target))) => (Ok(target), false),
                Some(Ok(None)) => (
                    open_again(&array, &[&devices, &before], &options, false),
                    false,
                ),
                Some(Err(Unchanged)) | None => {
                    (open_again(&array, &[&all, &before], &options, true), true)
                }
            };
            drop(keeping);
            // The requester may be gone.
            drop(done.send(closed.map(|()| failed).map_err(AssembleError::from)));
            opened.map_err(|error| error.to_string())
        });
        // If the server has ended, nothing changed.
        let failed = result.recv().unwrap_or(Err(AssembleError::Changed));
        if let (Some(more), false, Ok(true)) = (more, is_known, &failed) {
            let mut given = locked(&self.given);
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

/// Defines methods that call the target on the server's thread. Arguments in brackets are texts.
/// After the server's end the result is the value after `=`.
macro_rules! pass {
    (&self: $($name:ident($([$($text:ident)+])? $($value:ident: $type:ty),*)
        -> $result:ty = $ended:expr;)+) => {
        $(fn $name(&self, $($($text: &str,)+)? $($value: $type),*) -> $result {
            let ended = $ended;
            $($(let $text = $text.to_owned();)+)?
            let done = self.server.call(move |target| {
                target.$name($($(&$text,)+)? $($value),*)
            });
            done.unwrap_or(ended)
        })+
    };
    (&mut self: $($name:ident($([$($text:ident)+])? $($value:ident: $type:ty),*)
        -> $result:ty = $ended:expr;)+) => {
        $(fn $name(&mut self, $($($text: &str,)+)? $($value: $type),*) -> $result {
            let ended = $ended;
            $($(let $text = $text.to_owned();)+)?
            let done = self.server.call(move |target| {
                target.$name($($(&$text,)+)? $($value),*)
            });
            done.unwrap_or(ended)
        })+
    };
}

/// The result of a command on a device after the server's end.
fn closing<T>(device: &str) -> Result<T, AttachError> {
    Err(AttachError::Refused {
        device: device.to_owned(),
        reason: CommandError::Closing,
    })
}

impl Managed for Remote {
    pass! {
        &self:
        devices() -> Vec<String> = Vec::new();
        status() -> Option<Status> = None;
        status_of([array]) -> Option<Status> = None;
        snapshot() -> Vec<ArraySnapshot> = Vec::new();
        lowest_place([array] member: MemberIndex, block: BlockIndex)
            -> Option<(String, MemberIndex, BlockIndex, u32)> = None;
        is_working() -> bool = false;
        in_sync_bytes() -> (u64, u64) = (0, 0);
        scrub_progress() -> ScrubProgress = ScrubProgress::default();
        rebuild_progress() -> Option<RebuildProgress> = None;
        spares() -> Vec<SpareReport> = Vec::new();
        incidents() -> Vec<Incident> = Vec::new();
        lost() -> Vec<LostBytes> = Vec::new();
        may_attach([device] wanted: PlaceWanted) -> Result<(), AttachError> = closing(device);
        may_fail([device]) -> Result<(), AttachError> = closing(device);
        may_leave([device]) -> Result<(), AttachError> = closing(device);
        may_be_spare([device]) -> Result<Vec<TooSmall>, AttachError> = closing(device);
        may_replace([old device]) -> Result<(), AttachError> = closing(device);
    }

    pass! {
        &mut self:
        begin_scrub(scrub: Scrub) -> Result<(), CommandError> = Err(CommandError::Closing);
        begin_scrub_below(scrub: Scrub)
            -> Result<bool, CommandError> = Err(CommandError::Closing);
        stop_job(name: &'static str) -> () = ();
        place_staged() -> () = ();
        attach([device] wanted: PlaceWanted, seen: Examined)
            -> Result<(String, MemberIndex), AttachError> = closing(device);
        bring_back([device]) -> Result<(String, MemberIndex), AttachError> = closing(device);
        fail([device]) -> Result<PutOut, AttachError> = closing(device);
        let_go([device]) -> Result<(String, MemberIndex), AttachError> = closing(device);
        provide_spare([device]) -> Result<Option<Taken>, AttachError> = closing(device);
        withdraw_spare([device]) -> bool = false;
        replace([old device] seen: Examined)
            -> Result<(String, MemberIndex), AttachError> = closing(device);
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
                | ServerEvent::Stage { .. }
                | ServerEvent::Grows(_)
                | ServerEvent::State(_) => {}
            }
        }
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
        self.server.call(|_| ()).is_none()
    }

    fn spares_taken(&mut self) -> Vec<Taken> {
        std::mem::take(&mut self.taken)
    }

    /// The server closes the array.
    fn close(self: Box<Self>) -> Result<(), CloseError> {
        Ok(())
    }
}
