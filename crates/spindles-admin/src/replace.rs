//! Replaces a member of an array: opens the array, copies the active member to a blank replacement
//! device, and gives that the place. Then it closes the array and clears the superblock of the old
//! device. Redundancy is never reduced meanwhile.

use crate::assemble::{ArrayReport, AssembleOptions};
use crate::attach::{self, ChangeError, Use};
use crate::host::Host;
use crate::wipe;
use spindles_array::Managed;
use spindles_block::MemberIndex;
use spindles_device::probe::{Probe, glance};
use spindles_device::{clearing, identity};
use spindles_engine::{Event, MemberFaults, ReplaceEnd};

/// Options of a replacement.
#[derive(Clone, Debug, Default)]
pub struct ReplaceOptions {
    /// How to assemble the array.
    pub assemble: AssembleOptions,
    /// The member device.
    pub old: String,
    /// The replacement device.
    pub onto: String,
    /// True to overwrite data on the replacement device.
    pub overwrite: bool,
}

/// The result of a replacement.
#[derive(Clone, Debug)]
pub struct Replaced {
    /// The array as found.
    pub report: ArrayReport,
    /// The array of the member.
    pub array: String,
    /// The position of the member in `array`.
    pub member: MemberIndex,
    /// True if the old device went out meanwhile, so that the other members rebuilt its place.
    pub rebuilt: bool,
    /// Why the old device still has its superblock; `None` if it was cleared. With a superblock it
    /// must not be given alone.
    pub not_cleared: Option<String>,
    /// Data on the new device that was overwritten.
    pub wiped: Vec<(String, String)>,
}

/// Opens an array and copies an active member to a device that takes its place. `progress` gets the
/// bytes done and the total bytes of the array; it returns `false` to stop. Errors before the new
/// device is attached leave all devices unwritten. The array is unchanged after all errors but
/// `MemberLost` and `ReplaceFailed`.
pub fn replace<'a>(
    host: impl Into<Host<'a>>,
    options: &ReplaceOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Replaced, ChangeError> {
    let (old, onto) = (&options.old, &options.onto);
    let host = host.into();
    let devices = host.devices_but(&[onto]);
    let mut devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    if identity::same_device(&[devices.as_slice(), &[old]].concat()).is_none() {
        devices.push(old);
    }
    let host = host.or_on(&devices);
    host.let_go(&[onto]);
    let seen = attach::look_at_new(
        &devices,
        &[onto],
        Use::Place,
        options.overwrite,
        &options.assemble.open,
    )?;
    let looked = host.look(&options.assemble)?;
    looked.target.may_replace(old, onto)?;
    let wiped = if is_left_over(old, onto) {
        Vec::new()
    } else {
        attach::may_overwrite(
            &[onto],
            options.overwrite,
            &looked.report.uuids(),
            Use::Place,
            &options.assemble.open,
        )?
    };
    drop(looked);
    let mut opened = host.open(&options.assemble)?;
    let (array, member) = opened.target.replace(old, onto, seen[0])?;
    let mut outcome = Outcome {
        member,
        is_served: matches!(host, Host::Served(_)),
        replaced: None,
        rebuilt: false,
        ended: None,
        is_over: false,
    };
    work(opened.target.as_mut(), &array, &mut outcome, progress);
    let (has_now, status) = (opened.target.devices(), opened.target.status_of(&array));
    let before = opened.before.clone();
    let mut report = opened.close()?;
    if let (Some(faults), Some(status)) = (outcome.replaced, status) {
        report.note_replaced(&array, member, faults, &status, &before);
    }
    // Another command may have given either device a new role since.
    let is_free = |device: &str| !has_now.iter().any(|now| identity::share_bytes(now, device));
    if outcome.replaced.is_none() && is_free(onto) {
        leave_empty(onto);
    }
    outcome.check(&array, old, onto)?;
    // Both slots of all members durably record the new device, so the superblock on the old one
    // could only mislead.
    let not_cleared = is_free(old).then(|| wipe::clear(old).err()).flatten();
    Ok(Replaced {
        report,
        array,
        member,
        rebuilt: outcome.rebuilt,
        not_cleared: not_cleared.map(|error| error.to_string()),
        wiped,
    })
}

/// The outcome of a replacement, as its events report it.
struct Outcome {
    member: MemberIndex,
    /// True if a server has the array open. The server continues other pending work.
    is_served: bool,
    /// The faults that the member had, once it is replaced.
    replaced: Option<MemberFaults>,
    rebuilt: bool,
    ended: Option<ReplaceEnd>,
    /// True if no later event is about this replacement.
    is_over: bool,
}

impl Outcome {
    /// Returns true if the work has to continue.
    fn goes_on(&self) -> bool {
        !self.is_served || !self.is_over
    }

    /// Records an event of the array; returns true if the work has to continue.
    fn note(&mut self, event: &Event) -> bool {
        // Another replacement in that array may have begun since.
        if self.is_over {
            return self.goes_on();
        }
        match *event {
            Event::ReplaceDone { member, faults } if member == self.member => {
                (self.replaced, self.is_over) = (Some(faults), true);
            }
            Event::ReplaceEnded { member, why } if member == self.member => {
                self.ended = Some(why);
                self.is_over = why != ReplaceEnd::MemberLost;
            }
            Event::RebuildDone { member } if member == self.member => {
                (self.rebuilt, self.is_over) = (true, true);
            }
            Event::RebuildIncomplete { .. } => return false,
            _ => {}
        }
        self.goes_on()
    }

    /// Checks that the new device has the place of `old`.
    fn check(&self, array: &str, old: &str, onto: &str) -> Result<(), ChangeError> {
        let [array, old, onto] = [array, old, onto].map(str::to_owned);
        Err(match self.ended {
            None if self.replaced.is_some() => return Ok(()),
            Some(ReplaceEnd::MemberLost) if self.rebuilt => return Ok(()),
            None | Some(ReplaceEnd::Stopped) => ChangeError::ReplaceStopped { array, old, onto },
            Some(ReplaceEnd::MemberLost) => ChangeError::MemberLost { array, old, onto },
            Some(ReplaceEnd::ReplacementLost(_)) => {
                ChangeError::ReplacementFailed { array, old, onto }
            }
            Some(ReplaceEnd::Unreadable { failed }) => {
                ChangeError::Unreadable { array, old, failed }
            }
            Some(ReplaceEnd::ArrayFailed) => ChangeError::ReplaceFailed { array, old },
        })
    }
}

/// Works until the replacement in `array` ends, or stops it if `progress` returns `false`.
fn work(
    target: &mut dyn Managed,
    array: &str,
    outcome: &mut Outcome,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) {
    // A server may fill other devices meanwhile.
    let job = outcome.is_served.then_some((array, "replace"));
    loop {
        let on_event = &mut |of: String, event| {
            if of == array {
                outcome.note(&event)
            } else {
                outcome.goes_on()
            }
        };
        let is_done = attach::work_through(target, job, on_event, progress);
        if is_done || outcome.ended.is_some() || target.has_ended() {
            return;
        }
        // A job can't be stopped before it has begun. If it became a rebuild, that continues next
        // time.
        target.stop_job("replace");
        target.work();
    }
}

/// Returns true if an earlier replacement of `old` was killed right after it wrote to `onto`. Only
/// the superblock on `onto` records that `onto` has the place.
fn is_left_over(old: &str, onto: &str) -> bool {
    let [Some(old), Some(onto)] = [old, onto].map(glance) else {
        return false;
    };
    match (old.record(), onto.record()) {
        (Ok((array, member)), Ok((newest, place))) => {
            newest.uuid == array.uuid
                && newest.follows(array)
                && newest.generation == array.generation + 1
                && place.member == member.member
        }
        _ => false,
    }
}

/// Clears a partial copy, and any spare label, from a device that did not become a member. If that
/// fails, it stays a spare.
fn leave_empty(onto: &str) {
    if Probe::open(onto).is_ok_and(|probe| probe.found().array().is_none()) {
        drop(clearing::empty(onto));
    }
}
