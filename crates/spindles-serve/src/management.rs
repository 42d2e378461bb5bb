//! The way to an array that is served, for commands on other threads.

use crate::news::{Listener, News, Newsroom};
use crate::numbers::ServerNumbers;
use crate::offer::Offer;
use spindles_block::{BlockIndex, MemberIndex};
use spindles_engine::{Command, CommandError, Event, Scrub, Status};
use spindles_io::assemble::SpareReport;
use spindles_io::assemble::{ArrayReport, AssembleError, AssembleOptions, assemble};
use spindles_io::attach::AttachError;
use spindles_io::host::{
    Reopen, Reopened, Restructure, Served, absolute, belonging, belongs, holds_journal, is_plain,
    is_spare, may_belong, report_of,
};
use spindles_io::rebuild::RebuildProgress;
use spindles_io::scrub::ScrubProgress;
use spindles_io::spare::Taken;
use spindles_io::{
    ArraySnapshot, CloseError, Counters, Incident, LostBytes, Managed, PlaceWanted, PutOut, Target,
    TooSmall, is_address,
};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So long a command waits for news before it looks how far its job is.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// So long an array that was closed to be changed is tried to be opened again. Its clients wait, and it is theirs.
const REOPEN_MAX: Duration = Duration::from_mins(1);

/// An array that is served.
#[derive(Clone, Debug)]
pub struct Handle {
    offer: Offer,
    news: Newsroom,
    /// From which it was assembled, but for spares, and what came to it that its target need not have open.
    given: Arc<Mutex<Vec<String>>>,
    options: AssembleOptions,
    /// What its superblocks said when they were read last.
    said: Arc<Mutex<ArrayReport>>,
}

impl Handle {
    /// Of the array that a server has, as it was assembled: from these devices, which have whole names, with that report.
    #[must_use]
    pub fn new(
        offer: &Offer,
        news: &Newsroom,
        given: &[String],
        options: &AssembleOptions,
        report: &ArrayReport,
    ) -> Self {
        let is_spare = |device: &String| report.spares.iter().any(|it| it.name == *device);
        let given = given.iter().filter(|device| !is_spare(device));
        let given = given.cloned().collect();
        Self {
            offer: offer.clone(),
            news: news.clone(),
            given: Arc::new(Mutex::new(given)),
            options: AssembleOptions {
                // Nobody else can have written to what went out meanwhile.
                degraded: true,
                force: false,
                ..options.clone()
            },
            said: Arc::new(Mutex::new(report.clone())),
        }
    }

    /// The name of the export, which stays while it is served.
    #[must_use]
    pub fn export(&self) -> String {
        self.offer.export().name
    }

    /// All news from now on.
    #[must_use]
    pub fn listen(&self) -> Listener {
        self.news.listen()
    }

    /// What the server did until now; `None` where it has ended.
    #[must_use]
    pub fn numbers(&self) -> Option<ServerNumbers> {
        self.offer.numbers()
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

    /// What its target counts on, and what that has open.
    fn known(&self) -> (Vec<String>, Vec<String>) {
        self.offer
            .call(|target| counted_on_and_open(target))
            .unwrap_or_default()
    }

    /// The devices from which it is opened when its server closed it.
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

/// What a target counts on, and what it has open. A spare is in the first alone, until it takes a place here: where another
/// array has taken it, it is in none.
fn counted_on_and_open(target: &dyn Target) -> (Vec<String>, Vec<String>) {
    let open = target.facts().devices.iter();
    let open: Vec<String> = open.map(|device| device.name.clone()).collect();
    let mut counted_on = target.devices();
    counted_on.retain(|device| open.contains(device) || is_spare(device));
    (counted_on, open)
}

impl Handle {
    /// Returns true if one of these words of a command line means this array: its name, its UUID, or a device that it has
    /// or that its superblock says belongs to it.
    #[must_use]
    pub fn is_meant_by(&self, words: &[String]) -> bool {
        let report = self.report();
        let mut devices = self.given();
        devices.extend(
            self.offer
                .call(|target| target.devices())
                .unwrap_or_default(),
        );
        let (uuid, devices) = (report.uuid.to_string(), BTreeSet::from_iter(devices));
        let is_known = |word: &String| {
            *word == report.name || *word == uuid || devices.contains(&absolute(word))
        };
        let belongs = |word: &String| {
            report_of(std::slice::from_ref(word)).is_ok_and(|it| it.uuid == report.uuid)
        };
        words.iter().any(is_known) || words.iter().any(belongs)
    }
}

impl Served for Handle {
    fn devices(&self) -> Vec<String> {
        // Those of members that are out too, which may come back.
        let (counted_on, open) = self.known();
        let given = self.given();
        let all = counted_on.iter().chain(&open).chain(&given);
        let mut known = BTreeSet::new();
        let devices: Vec<String> = all.filter(|it| known.insert(*it)).cloned().collect();
        // What was let go may be another array's by now.
        belonging(&devices, &open, &self.said())
    }

    fn managed(&self) -> Box<dyn Managed> {
        Box::new(Remote {
            offer: self.offer.clone(),
            news: self.news.listen(),
            taken: Vec::new(),
            worked: true,
        })
    }

    fn report(&self) -> ArrayReport {
        // When inner arrays have failed, their superblocks can be read, but not those of the array around them.
        let now = report_of(&self.devices());
        let open = self.offer.call(|target| target.snapshot());
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
        let device = absolute(device);
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have had another part before.
        if !given.contains(&device) {
            given.push(device);
        }
    }

    fn reopen(&self, restructure: Restructure<'_>, reopen: Reopen) -> Result<(), AssembleError> {
        let Restructure {
            more,
            without,
            moves,
        } = restructure;
        let is_known = more.is_none_or(|more| self.given().contains(&absolute(more)));
        let (comes, without) = (more.map(absolute), without.map(absolute));
        let (done, result) = channel();
        let (refused, this) = (done.clone(), self.clone());
        let (known, exchanged) = channel();
        // Both on the thread that has it, so that nothing comes between: no device that joins is left out.
        let decide = move |target: &mut dyn Target| {
            if let Err(error) = target.may_restructure(comes.as_deref(), moves) {
                drop(refused.send(Err(AssembleError::Attach(Box::new(error)))));
                return false;
            }
            let before = this.to_open(target);
            if let Some(comes) = &comes {
                this.remember(comes);
            }
            // It may get its label only now.
            let is_new = |comes: &String| !before.contains(comes);
            let more = comes.filter(is_new);
            let all: Vec<String> = before.iter().cloned().chain(more).collect();
            drop(known.send((before, all)));
            true
        };
        let (options, array) = (self.options.clone(), self.said());
        self.offer.exchange(decide, move |target| {
            let (before, all) = exchanged.recv().unwrap_or_default();
            let mut devices = all.clone();
            devices.retain(|device| without.as_ref() != Some(device));
            // No other program gets a device while the array is closed.
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
            // Who asked may be gone.
            drop(done.send(closed.map(|()| failed).map_err(AssembleError::from)));
            opened.map_err(|error| error.to_string())
        });
        // Where the server has ended it was not changed.
        let failed = result.recv().unwrap_or(Err(AssembleError::Changed));
        if let (Some(more), false, Ok(true)) = (more, is_known, &failed) {
            let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            given.retain(|device| *device != absolute(more));
        }
        failed.map(drop)
    }
}

/// Opens the array again, on those devices that were open a moment ago and can be reached. Takes the first of these lists of devices that makes an
/// array; all but the first only if `at_once`, or when time is up. Then it goes on without devices that can't be read or
/// belong to another array by now.
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
            // What was changed may have made plain devices of some.
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

/// Whether a device can be opened now: an export may answer later.
fn is_here(device: &str) -> bool {
    !is_address(device) || belongs(device)
}

/// Does with the target what it is asked, on the thread that has it.
struct Remote {
    offer: Offer,
    news: Listener,
    taken: Vec<Taken>,
    /// Whether anything was under way when that was last asked.
    worked: bool,
}

impl Remote {
    fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut dyn Target) -> T + Send + 'static,
    ) -> Option<T> {
        self.offer.call(call)
    }

    /// The same with a device, which is named for the server.
    fn with<T: Send + 'static>(
        &self,
        device: &str,
        call: impl FnOnce(&mut dyn Target, &str) -> Result<T, AttachError> + Send + 'static,
    ) -> Result<T, AttachError> {
        let name = absolute(device);
        let done = self.offer.call(move |target| call(target, &name));
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

    fn counters(&self) -> Counters {
        self.call(|target| target.counters()).unwrap_or_default()
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

    fn command(&mut self, command: Command) -> Result<(), CommandError> {
        let done = self.call(move |target| target.command(command));
        done.unwrap_or(Err(CommandError::Closing))
    }

    fn next_event(&mut self) -> Option<(String, Event)> {
        loop {
            match self.news.next()? {
                News::Event { array, event, .. } => return Some((array, event)),
                News::Taken(taken) => self.taken.push(taken),
                // Reported as such; the array is as it was.
                News::NotBack { .. }
                | News::Unguarded { .. }
                | News::Space { .. }
                | News::Grows(_) => {}
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
        // What ended since the caller last took the events has some that the caller must still get: `false` comes
        // one look later.
        let works = self.is_working();
        let worked = std::mem::replace(&mut self.worked, works);
        std::thread::sleep(LOOK_INTERVAL);
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
    ) -> Result<(String, MemberIndex), AttachError> {
        self.with(device, move |target, device| target.attach(device, wanted))
    }

    fn bring_back(&mut self, device: &str) -> Result<(String, MemberIndex), AttachError> {
        self.with(device, |target, device| target.bring_back(device))
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

    fn may_restructure(&self, device: Option<&str>, moves: bool) -> Result<(), AttachError> {
        let device = device.map(absolute);
        let done = self.call(move |target| target.may_restructure(device.as_deref(), moves));
        done.unwrap_or(Ok(()))
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

    fn lacks(&self) -> Option<String> {
        self.call(|target| target.lacks())?
    }

    fn lost(&self) -> Vec<LostBytes> {
        self.call(|target| target.lost()).unwrap_or_default()
    }

    fn may_replace(&self, old: &str, device: &str) -> Result<(), AttachError> {
        let old = absolute(old);
        self.with(device, move |target, device| {
            target.may_replace(&old, device)
        })
    }

    fn replace(&mut self, old: &str, device: &str) -> Result<(String, MemberIndex), AttachError> {
        let old = absolute(old);
        self.with(device, move |target, device| target.replace(&old, device))
    }

    fn rebuild_progress(&self) -> Option<RebuildProgress> {
        self.call(|target| target.rebuild_progress())?
    }

    /// The server has it.
    fn close(self: Box<Self>) -> Result<(), CloseError> {
        Ok(())
    }
}
