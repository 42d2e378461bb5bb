//! What is asked of an array beside its requests: how it is, and to do something with its devices.

use crate::counters::Counters;
use crate::errors::AttachError;
use crate::progress::{RebuildProgress, ScrubProgress};
use crate::report::{SpareReport, Taken};
use crate::{ArraySnapshot, CloseError, Incident, LostBytes, SpaceNews, TooSmall};
use spindles_block::{BlockIndex, MemberIndex};
use spindles_engine::{Command, CommandError, Event, Scrub, Status};

/// A member that was put out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutOut {
    /// Its array.
    pub array: String,
    /// That, or the array around it: what commands are given.
    pub outermost: String,
    /// Its position.
    pub member: MemberIndex,
    /// The spare that is to take its place, where one fits: at once where the array stays open.
    pub spare: Option<String>,
}

/// The place that a device is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceWanted {
    /// That of the first missing member.
    First,
    /// That of this member, which is missing.
    Missing(MemberIndex),
    /// This one, which a growth added.
    Added(MemberIndex),
}

impl From<Option<MemberIndex>> for PlaceWanted {
    fn from(member: Option<MemberIndex>) -> Self {
        member.map_or(Self::First, Self::Missing)
    }
}

/// The management of a target. Whoever has only this may be elsewhere: another thread carries the requests.
pub trait Managed {
    /// The devices that it counts on: of members that are not out, of journals, and spares.
    fn devices(&self) -> Vec<String>;

    /// What the member devices were asked since the target was opened.
    fn counters(&self) -> Counters;

    /// The state of an array; `None` for anything else.
    fn status(&self) -> Option<Status> {
        None
    }

    /// The state of the array of that name: this one, or one inside it.
    fn status_of(&self, _array: &str) -> Option<Status> {
        None
    }

    /// All arrays of the target that are in use, each before those inside it. Allocates.
    fn snapshot(&self) -> Vec<ArraySnapshot> {
        Vec::new()
    }

    /// Asks something of an array. To close it, use `close`.
    ///
    /// # Errors
    ///
    /// Why the array did not take it; anything else than an array has no members.
    fn command(&mut self, _command: Command) -> Result<(), CommandError> {
        Err(CommandError::NoSuchMember)
    }

    /// The next event of an array, with the array's name.
    fn next_event(&mut self) -> Option<(String, Event)> {
        None
    }

    /// Where a place of a member of that array lies at last, through arrays inside it without redundancy: the name of
    /// the array, its member, the block of that, counted from the start of its device, and how many follow it in
    /// order.
    fn lowest_place(
        &self,
        _array: &str,
        _member: MemberIndex,
        _block: BlockIndex,
    ) -> Option<(String, MemberIndex, BlockIndex, u32)> {
        None
    }

    /// Goes on with what is under way, jobs in the background included, and waits for its next
    /// step. `false` when nothing is under way.
    fn work(&mut self) -> bool {
        false
    }

    /// Whether a server that had it has ended: nothing is known of it any more, nor done with it.
    fn has_ended(&self) -> bool {
        false
    }

    /// Whether anything is under way, requests and jobs in the background.
    fn is_working(&self) -> bool {
        false
    }

    /// Of how many bytes of the target's arrays redundancy agrees with data, and of how many there
    /// are: unequal while a resync is under way or left some place out of sync.
    fn in_sync_bytes(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Begins a scrub of each of the target's arrays that keeps redundancy, or has checksums and no array
    /// above it that could mend what they find.
    ///
    /// # Errors
    ///
    /// Why an array did not take it; `NoRedundancy` where none has any.
    fn begin_scrub(&mut self, _scrub: Scrub) -> Result<(), CommandError> {
        Err(CommandError::NoRedundancy)
    }

    /// When that has come to its end: begins a scrub of the arrays that were left out, which finds what
    /// those above them did not mend. Whether there are any.
    ///
    /// # Errors
    ///
    /// As `begin_scrub`.
    fn begin_scrub_below(&mut self, _scrub: Scrub) -> Result<bool, CommandError> {
        Ok(false)
    }

    /// Stops the jobs of that name that are under way and may be stopped.
    fn stop_job(&mut self, _name: &'static str) {}

    /// How far they are.
    fn scrub_progress(&self) -> ScrubProgress {
        ScrubProgress::default()
    }

    /// Whether `attach` would find a place for that device.
    ///
    /// # Errors
    ///
    /// Why not.
    fn may_attach(&self, _device: &str, _wanted: PlaceWanted) -> Result<(), AttachError> {
        Err(AttachError::NothingMissing)
    }

    /// Puts a device, whatever is on it, in the place that is wanted, and begins to fill it. In which array, and where.
    ///
    /// # Errors
    ///
    /// Nothing was written to the device, unless it could not be cleared.
    fn attach(
        &mut self,
        _device: &str,
        _wanted: PlaceWanted,
    ) -> Result<(String, MemberIndex), AttachError> {
        Err(AttachError::NothingMissing)
    }

    /// Lets a member that is missing, and came back on that device, have what it missed. In which array, and where.
    ///
    /// # Errors
    ///
    /// The device is no such member. Nothing was written to it.
    fn bring_back(&mut self, device: &str) -> Result<(String, MemberIndex), AttachError> {
        Err(AttachError::NotReturning {
            device: device.to_owned(),
        })
    }

    /// Puts the member out that a device is.
    ///
    /// # Errors
    ///
    /// Why not.
    fn fail(&mut self, device: &str) -> Result<PutOut, AttachError> {
        Err(AttachError::NotMember {
            device: device.to_owned(),
            active: Vec::new(),
        })
    }

    /// Closes the device of a member that is out, so that others may have it. In which array, and where.
    ///
    /// # Errors
    ///
    /// It is no such device.
    fn let_go(&mut self, device: &str) -> Result<(String, MemberIndex), AttachError> {
        Err(AttachError::NotOut {
            device: device.to_owned(),
            out: Vec::new(),
        })
    }

    /// Gives the arrays a spare that has its label: it takes the place of what is missing now or later. The place that
    /// it took at once, or tried to, where it did.
    ///
    /// # Errors
    ///
    /// It has none, or is of no use to them.
    fn provide_spare(&mut self, device: &str) -> Result<Option<Taken>, AttachError> {
        Err(AttachError::TakenAlready {
            device: device.to_owned(),
        })
    }

    /// Forgets a spare. Whether there was one.
    fn withdraw_spare(&mut self, _device: &str) -> bool {
        false
    }

    /// Whether no array uses a device, nor is about to: so it can be a plain device.
    ///
    /// # Errors
    ///
    /// What it is.
    fn may_leave(&self, _device: &str) -> Result<(), AttachError> {
        Ok(())
    }

    /// Whether the arrays may be closed to be changed, and opened again. `device` is one that comes to them with the
    /// change, which `moves` what an array that grows can't move.
    ///
    /// # Errors
    ///
    /// What is under way, or what the device is.
    fn may_restructure(&self, _device: Option<&str>, _moves: bool) -> Result<(), AttachError> {
        Ok(())
    }

    /// For which members a device is too small that is to be a spare.
    ///
    /// # Errors
    ///
    /// Where it is for all of them.
    fn may_be_spare(&self, _device: &str) -> Result<Vec<TooSmall>, AttachError> {
        Err(AttachError::NothingMissing)
    }

    /// The spares of its arrays that are not taken. Allocates.
    fn spares(&self) -> Vec<SpareReport> {
        Vec::new()
    }

    /// Spares that were taken since this was asked last, because a member went out.
    fn spares_taken(&mut self) -> Vec<Taken> {
        Vec::new()
    }

    /// Whether clients' writes get space, where that has changed since this was asked last.
    fn space_news(&mut self) -> Vec<SpaceNews> {
        Vec::new()
    }

    /// What went wrong on the devices of its arrays since the target was opened. Allocates.
    fn incidents(&self) -> Vec<Incident> {
        Vec::new()
    }

    /// Which members its arrays lack, for people. Allocates.
    fn lacks(&self) -> Option<String> {
        None
    }

    /// What is lost of its arrays and was not written since, in order for each array. Allocates.
    fn lost(&self) -> Vec<LostBytes> {
        Vec::new()
    }

    /// Whether `replace` would find that member, and room on that device.
    ///
    /// # Errors
    ///
    /// Why not.
    fn may_replace(&self, old: &str, _device: &str) -> Result<(), AttachError> {
        let device = old.to_owned();
        Err(AttachError::NotActive {
            device,
            active: Vec::new(),
        })
    }

    /// Begins to copy the member that the device `old` is onto another device, whatever is on that.
    /// In which array, and where.
    ///
    /// # Errors
    ///
    /// Nothing was written to the device, unless it could not be cleared.
    fn replace(&mut self, old: &str, _device: &str) -> Result<(String, MemberIndex), AttachError> {
        let device = old.to_owned();
        Err(AttachError::NotActive {
            device,
            active: Vec::new(),
        })
    }

    /// How far the devices are that are being filled, or copied onto; `None` where none is.
    fn rebuild_progress(&self) -> Option<RebuildProgress> {
        None
    }

    /// Answers what is in flight, makes everything durable, marks an array as clean, closes the
    /// devices.
    ///
    /// # Errors
    ///
    /// When not everything became durable.
    fn close(self: Box<Self>) -> Result<(), CloseError>;
}

/// Waits until redundancy agrees with data in all arrays of a target. `progress` gets how many bytes
/// are done and how many there are; with `false` it stops the waiting. Returns whether all are in sync.
pub fn await_resync(target: &mut dyn Managed, progress: &mut dyn FnMut(u64, u64) -> bool) -> bool {
    loop {
        let (in_sync, total) = target.in_sync_bytes();
        if target.has_ended() {
            return false;
        }
        let goes_on = progress(in_sync, total);
        if in_sync == total {
            return true;
        }
        if !goes_on || !target.work() {
            return false;
        }
    }
}
