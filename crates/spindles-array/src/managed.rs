//! Management of a target apart from its requests: its state, and commands on its devices.

use crate::errors::AttachError;
use crate::progress::{RebuildProgress, ScrubProgress};
use crate::spare_report::{SpareReport, Taken};
use crate::{ArraySnapshot, Incident, LostBytes, TooSmall};
use spindles_block::{BlockIndex, MemberIndex};
use spindles_device::CloseError;
use spindles_device::seen::Examined;
use spindles_engine::{CommandError, Event, Scrub, Status};

/// A member that was taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutOut {
    /// Its array.
    pub array: String,
    /// The outermost array, which commands take: `array` itself, or the one around it.
    pub outermost: String,
    /// Its position.
    pub member: MemberIndex,
    /// The spare that will take the place, if one fits. The spare takes it at once if the array
    /// stays open.
    pub spare: Option<String>,
}

/// The place for a new device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceWanted {
    /// The place of the first missing member.
    First,
    /// The place of this missing member.
    Missing(MemberIndex),
    /// The place of this member, which a growth added.
    Added(MemberIndex),
}

impl From<Option<MemberIndex>> for PlaceWanted {
    fn from(member: Option<MemberIndex>) -> Self {
        member.map_or(Self::First, Self::Missing)
    }
}

impl std::fmt::Debug for dyn Managed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.devices()).finish()
    }
}

/// The management of a target. The requests may run in another thread.
pub trait Managed {
    /// Returns the devices that it counts on: members that are not out, journals, and spares.
    fn devices(&self) -> Vec<String>;

    /// Returns the state of an array; `None` for other targets.
    fn status(&self) -> Option<Status> {
        None
    }

    /// Returns the state of the array with that name. Also finds inner arrays.
    fn status_of(&self, _array: &str) -> Option<Status> {
        None
    }

    /// Returns all arrays of the target that are in use, each before those inside it. Allocates.
    fn snapshot(&self) -> Vec<ArraySnapshot> {
        Vec::new()
    }

    /// Returns the next event of an array, with the array's name.
    fn next_event(&mut self) -> Option<(String, Event)> {
        None
    }

    /// Resolves a block of a member through inner arrays without redundancy. Returns the innermost
    /// array's name, its member, and the block from the start of that device, with the number of
    /// blocks that follow it contiguously.
    fn lowest_place(
        &self,
        _array: &str,
        _member: MemberIndex,
        _block: BlockIndex,
    ) -> Option<(String, MemberIndex, BlockIndex, u32)> {
        None
    }

    /// Continues pending work, including background jobs, and waits for its next step. Returns
    /// `false` if nothing is pending.
    fn work(&mut self) -> bool {
        false
    }

    /// Returns true if the server of this array has ended. Its state is then unknown, and commands
    /// have no effect.
    fn has_ended(&self) -> bool {
        false
    }

    /// Returns true if requests or background jobs are pending.
    fn is_working(&self) -> bool {
        false
    }

    /// Returns the bytes of the target's arrays whose redundancy agrees with data, and the total
    /// bytes. They differ while a resync runs, and after one that left a place out of sync.
    fn in_sync_bytes(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Begins a scrub of each array of the target that keeps redundancy. Arrays with only checksums
    /// are scrubbed too, unless an array above them could repair them.
    ///
    /// # Errors
    ///
    /// If an array refuses it; `NoRedundancy` if no array qualifies.
    fn begin_scrub(&mut self, _scrub: Scrub) -> Result<(), CommandError> {
        Err(CommandError::NoRedundancy)
    }

    /// Begins a second scrub, of the arrays that the finished first scrub skipped. It finds errors
    /// that the arrays above did not repair. Returns true if the first scrub skipped any.
    ///
    /// # Errors
    ///
    /// As for `begin_scrub`.
    fn begin_scrub_below(&mut self, _scrub: Scrub) -> Result<bool, CommandError> {
        Ok(false)
    }

    /// Lets a close place everything that is staged, however long that takes.
    fn place_staged(&mut self) {}

    /// Stops the running jobs with that name that may be stopped.
    fn stop_job(&mut self, _name: &'static str) {}

    /// Returns the progress of the scrubs.
    fn scrub_progress(&self) -> ScrubProgress {
        ScrubProgress::default()
    }

    /// Checks that `attach` would find a place for that device.
    ///
    /// # Errors
    ///
    /// If `attach` would fail.
    fn may_attach(&self, _device: &str, _wanted: PlaceWanted) -> Result<(), AttachError> {
        Err(AttachError::NothingMissing)
    }

    /// Attaches a device at the wanted place, overwriting its contents, and begins to fill it.
    /// `seen`: the state of the device when examined. Returns the array and the position.
    ///
    /// # Errors
    ///
    /// Nothing was written to the device, unless clearing it failed.
    fn attach(
        &mut self,
        _device: &str,
        _wanted: PlaceWanted,
        _seen: Examined,
    ) -> Result<(String, MemberIndex), AttachError> {
        Err(AttachError::NothingMissing)
    }

    /// Brings back a missing member that returned on that device, and begins to write the blocks
    /// that it missed. Returns the array and the position.
    ///
    /// # Errors
    ///
    /// If the device belongs to no such member. The device was not written then.
    fn bring_back(&mut self, device: &str) -> Result<(String, MemberIndex), AttachError> {
        Err(AttachError::NotReturning {
            device: device.to_owned(),
        })
    }

    /// Checks that `fail` would take out the member on that device.
    ///
    /// # Errors
    ///
    /// If `fail` would fail.
    fn may_fail(&self, device: &str) -> Result<(), AttachError> {
        Err(AttachError::NotMember {
            device: device.to_owned(),
            active: Vec::new(),
        })
    }

    /// Takes out the member on that device.
    ///
    /// # Errors
    ///
    /// If it can't be taken out.
    fn fail(&mut self, device: &str) -> Result<PutOut, AttachError> {
        Err(AttachError::NotMember {
            device: device.to_owned(),
            active: Vec::new(),
        })
    }

    /// Closes the device of a member that is out. Other programs can then open the device. Returns
    /// the array and the position.
    ///
    /// # Errors
    ///
    /// If the device belongs to no member that is out.
    fn let_go(&mut self, device: &str) -> Result<(String, MemberIndex), AttachError> {
        Err(AttachError::NotOut {
            device: device.to_owned(),
            out: Vec::new(),
        })
    }

    /// Gives the arrays a labelled spare, which fills a missing place now or later. Returns the
    /// place that it took at once, or failed to take; `None` if no place was vacant.
    ///
    /// # Errors
    ///
    /// If it has no label, or is of no use to the arrays.
    fn provide_spare(&mut self, device: &str) -> Result<Option<Taken>, AttachError> {
        Err(AttachError::TakenAlready {
            device: device.to_owned(),
        })
    }

    /// Removes a spare from the arrays' list. Returns true if the list contained the device.
    fn withdraw_spare(&mut self, _device: &str) -> bool {
        false
    }

    /// Checks that no array uses a device or is about to, so that it may be given away.
    ///
    /// # Errors
    ///
    /// The device's role.
    fn may_leave(&self, _device: &str) -> Result<(), AttachError> {
        Ok(())
    }

    /// Returns the members that a spare on this device would be too small for.
    ///
    /// # Errors
    ///
    /// If the device is too small for every member.
    fn may_be_spare(&self, _device: &str) -> Result<Vec<TooSmall>, AttachError> {
        Err(AttachError::NothingMissing)
    }

    /// Returns the free spares of its arrays. Allocates.
    fn spares(&self) -> Vec<SpareReport> {
        Vec::new()
    }

    /// Returns the spares taken since the last call because a member went out.
    fn spares_taken(&mut self) -> Vec<Taken> {
        Vec::new()
    }

    /// Returns the incidents on the devices of its arrays since the target was opened. Allocates.
    fn incidents(&self) -> Vec<Incident> {
        Vec::new()
    }

    /// Returns the bytes that its arrays have lost and that were not written since, in order for
    /// each array. Allocates.
    fn lost(&self) -> Vec<LostBytes> {
        Vec::new()
    }

    /// Checks that `replace` would find that member, and room on that device.
    ///
    /// # Errors
    ///
    /// If `replace` would fail.
    fn may_replace(&self, old: &str, _device: &str) -> Result<(), AttachError> {
        let device = old.to_owned();
        Err(AttachError::NotActive {
            device,
            active: Vec::new(),
        })
    }

    /// Begins to copy the member on the device `old` to another device, overwriting that. `seen`:
    /// the state of the other device when examined. Returns the array and the position.
    ///
    /// # Errors
    ///
    /// Nothing was written to the device, unless clearing it failed.
    fn replace(
        &mut self,
        old: &str,
        _device: &str,
        _seen: Examined,
    ) -> Result<(String, MemberIndex), AttachError> {
        let device = old.to_owned();
        Err(AttachError::NotActive {
            device,
            active: Vec::new(),
        })
    }

    /// Returns the progress of the devices being filled or copied onto; `None` if there are none.
    fn rebuild_progress(&self) -> Option<RebuildProgress> {
        None
    }

    /// Completes the requests in flight, makes all data durable, marks an array clean, and closes
    /// the devices.
    ///
    /// # Errors
    ///
    /// If not all data became durable.
    fn close(self: Box<Self>) -> Result<(), CloseError>;
}

/// Waits until redundancy agrees with data in all arrays of a target. `progress` gets the bytes
/// done and the total bytes; it returns `false` to stop waiting. Returns true if all are in sync.
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
