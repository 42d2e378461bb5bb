//! Arrays from the superblocks of their devices: given in any order, nested arrays inside out,
//! what can't take part refused by name and reason.

use crate::clock::{since_1970_s, utc};
use crate::probe::Probe;
use crate::report::positions;
pub use crate::report::{ArrayReport, Growing, JournalReport, MemberReport, SpareReport};
use crate::signatures::Sighting;
use crate::spare::Spare;
use crate::{
    CloseError, NodeId, OpenError, OpenOptions, Stack, Target, attach, identity, random, settle,
};
use spindles_block::{BlockIndex, BufferId, MemberIndex, MemberSet, RequestError};
use spindles_engine::{
    Command, Config, GrowthTarget, JOB_RATE, Limits, POLICIES, Persistence, PlanError, Policy,
    READ_POLICIES, geometry_of, plan_abort, plan_growth,
};
use spindles_format::{
    ArrayRecord, AssembleError as ChooseError, Assembly, BadBlocks, DecodeError, DeviceRecord,
    Found, JournalDevice, Reason, Refusal, SLOT_BYTES, SUPERBLOCK_BYTES, Text, Uuid, choose,
};
use spindles_layout::{Geometry, Level, Redundancy};
use std::cmp::Ordering;
use std::time::Duration;
use thiserror::Error;

/// How an array is to be assembled. `Default` opens for writing and takes no risk.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the opening"
)]
pub struct AssembleOptions {
    /// How devices are to be opened; the block size is the array's.
    pub open: OpenOptions,
    /// Open an unclean degraded array with parity too.
    pub force: bool,
    /// Write to an array also while members are away that could have gone on alone, so that what they
    /// hold may be newer. From then on it is known that those are not.
    pub degraded: bool,
    /// Only put in order what a crash left: no growth and no rebuild goes on, and no member that
    /// returns is brought up to date. With `keep_spares` nothing else is written then.
    pub only_recovers: bool,
    /// Leave spares alone that are given with the array.
    pub keep_spares: bool,
}

/// An assembled array.
pub struct Assembled {
    /// The array, to be read and written.
    pub target: Box<dyn Target>,
    /// What it is made of.
    pub report: ArrayReport,
}

impl std::fmt::Debug for Assembled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assembled")
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

/// Why no array came of the devices given.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// A device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The array could not be closed.
    #[error(transparent)]
    Close(#[from] CloseError),
    /// Two names for one device.
    #[error("{}: leave one out", attach::same(first, second))]
    SameDevice {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// One of two devices with the same journal is a copy of the other.
    #[error(
        "{first} and {second} are both the device with the journal of one array{}: one is a copy of the other; leave one out",
        older.as_ref().map(|older| format!(", and {older} is the older one")).unwrap_or_default()
    )]
    TwoJournals {
        /// One.
        first: String,
        /// The other.
        second: String,
        /// The one that was logged on last longer ago, where they tell.
        older: Option<String>,
    },
    /// A device carries something else.
    #[error(
        "{device} has no Spindles superblock: it carries {what}; leave it out, or check that it is the device you mean"
    )]
    SomethingElse {
        /// The device.
        device: String,
        /// What it carries.
        what: &'static str,
    },
    /// None of the devices is a member.
    #[error(
        "{devices}: what is given are spares and devices of journals alone; give the members of the array too"
    )]
    NoMembers {
        /// What was given.
        devices: String,
    },
    /// The superblocks don't make an array.
    #[error(transparent)]
    Choose(#[from] ChooseError),
    /// The superblocks name a level, layout or policy that there is not.
    #[error("array '{array}': {what}: use a newer version of Spindles")]
    Unknown {
        /// The array.
        array: String,
        /// What is not known.
        what: String,
    },
    /// More is missing than the level survives.
    #[error(
        "array '{array}' can't be opened: {missing} of {members} missing, more than {survives}{}",
        because(refused)
    )]
    Incomplete {
        /// The array.
        array: String,
        /// What survives less: "raid5 survives".
        survives: String,
        /// Which members.
        missing: String,
        /// Of how many.
        members: usize,
        /// What was refused, and why.
        refused: Vec<String>,
    },
    /// It was not closed, and with members missing parity can't tell what was in flight.
    #[error(
        "array '{array}' was not closed in order and {missing} of {members} missing{}: what was being written then can't be told from damage{}; {}bring the missing members back, or use --force to open it all the same and check the data yourself",
        if *lacks_journal { ", and the device of its journal too" } else { "" },
        because(refused),
        if *lacks_journal { "give the device of its journal, which tells that, or " } else { "" }
    )]
    UncleanDegraded {
        /// The array.
        array: String,
        /// Which members.
        missing: String,
        /// Of how many.
        members: usize,
        /// What was in flight lies on a device of its own, which was not given.
        lacks_journal: bool,
        /// What was refused, and why.
        refused: Vec<String>,
    },
    /// What is away may be newer than what is here.
    #[error(
        "array '{array}' lacks {missing} of {members}, which could have gone on alone and may be newer than \
         what is here (last written {}); what is written now can never be put together with that: bring \
         the missing back, or go on without them by --degraded, or for good by spindles set \
         --degraded-writes allow{}",
        utc(*last_written_s),
        because(refused)
    )]
    MayBeNewer {
        /// The array.
        array: String,
        /// Which members.
        missing: String,
        /// Of how many.
        members: usize,
        /// When what is here was last written, in seconds since 1970.
        last_written_s: u64,
        /// What was refused, and why.
        refused: Vec<String>,
    },
    /// It can't become what it shall.
    #[error("array '{array}' can't grow that way: {reason}")]
    CantGrow {
        /// The array.
        array: String,
        /// Why.
        reason: PlanError,
    },
    /// It has begun to become that.
    #[error(
        "array '{array}': a part of it is moved already, so its growth can't be given up any more; `spindles grow` with its devices alone goes on with it"
    )]
    TooLate {
        /// The array.
        array: String,
    },
    /// Every inner array lacks too much.
    #[error("{lost}")]
    NothingLeft {
        /// Each of them, and why.
        lost: String,
    },
    /// A superblock could not be written to a member that lags.
    #[error(
        "{device}: its superblock can't be brought up to date: {source}; leave it out to assemble the array without it"
    )]
    CatchUp {
        /// The device.
        device: String,
        /// Why.
        source: RequestError,
    },
    /// A device answered at first, and does not any more.
    #[error("{device}: it stopped answering while the array was opened: {why}")]
    Died {
        /// The device.
        device: String,
        /// What it answered.
        why: String,
    },
    /// Somebody wrote superblocks while we looked.
    #[error("the superblocks changed while they were read: try again")]
    Changed,
}

impl AssembleError {
    /// The same where these devices died before.
    fn without(mut self, died: Vec<String>) -> Self {
        if let Self::Incomplete { refused, .. } | Self::UncleanDegraded { refused, .. } = &mut self
        {
            refused.extend(died);
        }
        self
    }
}

pub(crate) fn because(refused: &[String]) -> String {
    let mut text = String::new();
    for refusal in refused {
        text.push_str("; ");
        text.push_str(refusal);
    }
    text
}

/// What one device says.
#[derive(Debug)]
pub struct Examined {
    /// What was read of it.
    pub found: Found,
    /// What else it carries.
    pub sightings: Vec<Sighting>,
    /// Its copy of the array's list of bad blocks.
    pub bad_blocks: Vec<BadBlocks>,
}

/// Reads what a device says, even while it is in use. Nothing is opened for writing.
pub fn examine(device: &str) -> Result<Examined, OpenError> {
    let probe = Probe::peek(device)?;
    Ok(Examined {
        found: probe.found(),
        sightings: probe.sightings()?,
        bad_blocks: probe.bad_blocks(),
    })
}

/// Assembles the array that these devices, in any order, belong to. With an error, nothing was
/// written to any of them.
pub fn assemble(devices: &[&str], options: &AssembleOptions) -> Result<Assembled, AssembleError> {
    build(devices, options, None).map(Build::into_assembled)
}

/// What an array is to become that is assembled.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// It begins to grow.
    Grow(GrowthTarget),
    /// It is again what it was before it began to grow.
    Abort,
    /// Its journal lies on this device, or on its members where that is zeros.
    Journal(Uuid),
    /// Whether it, and arrays inside it, may be written while members are away that may be newer.
    DegradedWrites(bool),
    /// It is called otherwise, and so are the arrays inside it.
    Name(NewName),
}

/// The name of an array, and the one it gets.
#[derive(Clone, Debug)]
pub(crate) struct NewName {
    pub(crate) from: String,
    pub(crate) to: String,
}

impl NewName {
    /// What that array is called then: an array inside another has the name of that, and numbers.
    fn of(&self, name: &str) -> Option<Text<64>> {
        let numbers = name.strip_prefix(&self.from)?;
        let of_it = numbers.is_empty() || numbers.starts_with('.');
        Text::new(&format!("{}{numbers}", self.to)).filter(|_| of_it)
    }
}

/// As `assemble`, of an array that changes: opened for reading only, it is only looked at whether
/// that is possible.
pub(crate) fn assemble_to_change(
    devices: &[&str],
    options: &AssembleOptions,
    change: &Change,
) -> Result<Assembled, AssembleError> {
    build(devices, options, Some(change)).map(Build::into_assembled)
}

/// How a resync of an assembled array ended.
#[derive(Clone, Debug)]
pub struct Resynced {
    /// The array, as it was found.
    pub report: ArrayReport,
    /// Whether it went through; otherwise `progress` stopped it, and it begins anew next time.
    pub through: bool,
}

/// Assembles an array and waits until its redundancy agrees with its data, that of arrays inside
/// it too. `progress` is told how many bytes are done and how many there are; with `false` it
/// stops the resync. With an error other than at closing, nothing was written.
pub fn resync(
    devices: &[&str],
    options: &AssembleOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Resynced, AssembleError> {
    let Assembled {
        mut target,
        mut report,
    } = assemble(devices, options)?;
    let through = settle(target.as_mut(), progress);
    attach::close(target, &mut report)?;
    Ok(Resynced { report, through })
}

/// As `build_of`. Devices that die meanwhile are left out, with their names.
fn build(
    devices: &[&str],
    options: &AssembleOptions,
    change: Option<&Change>,
) -> Result<Build, AssembleError> {
    let mut left = devices.to_vec();
    let mut died = Vec::new();
    let mut options = options.clone();
    loop {
        let mut all_heard_of = false;
        let error = match build_of(&left, &options, change, &mut all_heard_of) {
            Ok(mut build) => {
                build.report.refused.extend(died);
                return Ok(build);
            }
            Err(error) => error,
        };
        let (AssembleError::Died { device, .. } | AssembleError::CatchUp { device, .. }) = &error
        else {
            return Err(error.without(died));
        };
        let before = left.len();
        left.retain(|name| name != device);
        if left.is_empty() || left.len() == before {
            return Err(error);
        }
        // It was here, and is no newer than the others.
        options.degraded |= all_heard_of;
        died.push(match &error {
            AssembleError::CatchUp { device, source } => {
                let why = source.to_string();
                AssembleError::Died {
                    device: device.clone(),
                    why,
                }
                .to_string()
            }
            _ => error.to_string(),
        });
    }
}

/// `all_heard_of` is told once it is known that nothing which is away may be newer than what is here.
fn build_of(
    devices: &[&str],
    options: &AssembleOptions,
    change: Option<&Change>,
    all_heard_of: &mut bool,
) -> Result<Build, AssembleError> {
    let Gathered {
        devices,
        found,
        spares,
        journals,
        mut open,
    } = gather(devices, &options.open)?;
    refuse_copies(&journals)?;
    // Of arrays in arrays it is known when the inner ones are open.
    *all_heard_of = choose(&found).is_ok_and(|assembly| {
        let is_newer = |geometry| !may_be_newer(&assembly, &geometry).is_empty();
        assembly.array.parent == Uuid::NIL
            && understand(&assembly).is_ok_and(|(geometry, _)| !is_newer(geometry))
    });
    let devices = devices.as_slice();
    let new = |open: &OpenOptions, look_only| {
        let options = AssembleOptions {
            open: open.clone(),
            ..options.clone()
        };
        Build::new(devices, &found, &journals, &options, look_only, change)
    };
    if !open.read_only {
        // First for reading only, so that what can go wrong does so before anything is written.
        let reading = OpenOptions {
            read_only: true,
            ..open.clone()
        };
        open.read_only = new(&reading, true)?.report.must_read_only();
        *all_heard_of = true;
    }
    let mut build = new(&open, false)?;
    // What took force to open may still get its members back, and with them what is in doubt.
    let forced = options.force && build.report.is_degraded() && !build.report.is_clean();
    build.provide_spares(spares, options.keep_spares || forced);
    Ok(build)
}

/// The array that is no member of another, and that all or some of the devices given are at the
/// bottom of: its record, whether or not enough of it is there. Nothing is locked or written.
pub(crate) fn outermost(devices: &[&str]) -> Result<Option<ArrayRecord>, AssembleError> {
    let open = OpenOptions {
        read_only: true,
        unlocked: true,
        patience: Duration::ZERO,
        ..OpenOptions::default()
    };
    let gathered = gather(devices, &open)?;
    let (devices, found) = (&gathered.devices, &gathered.found);
    let options = looking(&gathered.open);
    let (mut opening, parts) = Opening::begin(devices, found, &[], &options, true, None)?;
    let parts = opening.open_inner(parts)?;
    let mut records = parts.iter().filter_map(|part| part.found.record().ok());
    Ok(records.next().map(|(array, _)| array.clone()))
}

/// Devices by what they say of themselves.
struct Gathered<'a> {
    /// Members, with what was found on each.
    devices: Vec<&'a str>,
    found: Vec<Found>,
    spares: Vec<Spare>,
    journals: Vec<(String, JournalDevice)>,
    /// How they are to be opened: with the block size of their array.
    open: OpenOptions,
}

fn gather<'a>(devices: &[&'a str], open: &OpenOptions) -> Result<Gathered<'a>, AssembleError> {
    let mut found = look(devices, open)?;
    let (members, spares) = set_apart(devices, &mut found, |found| {
        found.spare().map(|record| Spare {
            name: found.name.clone(),
            bytes: found.bytes,
            record: record.clone(),
        })
    });
    let (members, journals) = set_apart(&members, &mut found, |found| {
        let journal = found.journal_device()?;
        Some((found.name.clone(), *journal))
    });
    if members.is_empty() && !devices.is_empty() {
        return Err(AssembleError::NoMembers {
            devices: devices.join(", "),
        });
    }
    let block_size = found
        .iter()
        .find_map(|found| Some(found.record().ok()?.0.block_size));
    Ok(Gathered {
        devices: members,
        found,
        spares,
        journals,
        open: OpenOptions {
            block_size,
            ..open.clone()
        },
    })
}

/// For what is looked at, not used.
fn looking(open: &OpenOptions) -> AssembleOptions {
    AssembleOptions {
        open: open.clone(),
        force: true,
        degraded: true,
        ..AssembleOptions::default()
    }
}

/// What the array on these devices is, as its superblocks have it, whether or not it can be opened. What
/// is a member of another is opened to know that, for reading. Where too much is missing for that,
/// what was to be opened.
pub(crate) fn describe(
    devices: &[&str],
    open: &OpenOptions,
) -> Result<Vec<ArrayReport>, AssembleError> {
    let gathered = gather(devices, open)?;
    let options = looking(&gathered.open);
    let Gathered {
        devices,
        found,
        journals,
        ..
    } = &gathered;
    let (mut opening, parts) = Opening::begin(devices, found, journals, &options, true, None)?;
    let parts = opening.open_inner(parts)?;
    if parts.is_empty() && !opening.lost_reports.is_empty() {
        return Ok(opening.lost_reports);
    }
    let mut report = opening.describe(&parts)?.report;
    let spares = gathered.spares.iter().map(|spare| SpareReport {
        name: spare.name.clone(),
        bytes: spare.bytes,
        shared: spare.record.is_shared(),
    });
    report.spares.extend(spares);
    Ok(vec![report])
}

/// Takes out the devices that say something else than that they are members: none of them is ever
/// taken for one.
fn set_apart<'a, T>(
    devices: &[&'a str],
    found: &mut Vec<Found>,
    says: impl Fn(&Found) -> Option<T>,
) -> (Vec<&'a str>, Vec<T>) {
    let mut apart = Vec::new();
    let mut members = devices.to_vec();
    found.retain(|found| {
        let said = says(found);
        if said.is_some() {
            members.retain(|name| *name != found.name);
        }
        let is_member = said.is_none();
        apart.extend(said);
        is_member
    });
    (members, apart)
}

/// Two devices that hold the same journal are a mistake, as two that are the same member.
fn refuse_copies(journals: &[(String, JournalDevice)]) -> Result<(), AssembleError> {
    for (at, (second, device)) in journals.iter().enumerate() {
        let same = |(_, other): &&(String, JournalDevice)| other.device_uuid == device.device_uuid;
        if let Some((first, other)) = journals[..at].iter().find(same) {
            let older = match other.stamps.cmp(&device.stamps) {
                Ordering::Less => Some(first),
                Ordering::Equal => None,
                Ordering::Greater => Some(second),
            };
            return Err(AssembleError::TwoJournals {
                first: first.clone(),
                second: second.clone(),
                older: older.cloned(),
            });
        }
    }
    Ok(())
}

/// What the devices say, if each of them says something and is another one.
fn look(devices: &[&str], open: &OpenOptions) -> Result<Vec<Found>, AssembleError> {
    if let Some((first, second)) = identity::same_device(devices) {
        return Err(AssembleError::SameDevice {
            first: devices[first].to_owned(),
            second: devices[second].to_owned(),
        });
    }
    let look_at = |device: &&str| {
        let probe = Probe::open_with(device, open)?;
        let found = probe.found();
        if found.record() == Err(DecodeError::NotOurs)
            && found.spare().is_none()
            && found.journal_device().is_none()
            && let Some(sighting) = probe.sightings()?.first()
        {
            return Err(AssembleError::SomethingElse {
                device: (*device).to_owned(),
                what: sighting.what,
            });
        }
        Ok(found)
    };
    devices.iter().map(look_at).collect()
}

/// Something that may be a member: a device, or an array inside another.
struct Part {
    node: NodeId,
    found: Found,
    /// Of an array.
    report: Option<ArrayReport>,
}

impl Part {
    fn parent(&self) -> Option<Uuid> {
        let (array, _) = self.found.record().ok()?;
        Some(array.parent).filter(|parent| *parent != Uuid::NIL)
    }

    fn array(&self) -> Option<Uuid> {
        self.found.record().ok().map(|(array, _)| array.uuid)
    }
}

/// An array that was put together, in its stack.
struct Build {
    stack: Stack,
    root: NodeId,
    report: ArrayReport,
}

impl Build {
    fn new(
        devices: &[&str],
        looked: &[Found],
        journals: &[(String, JournalDevice)],
        options: &AssembleOptions,
        look_only: bool,
        change: Option<&Change>,
    ) -> Result<Self, AssembleError> {
        let open = &options.open;
        let (mut opening, parts) =
            Opening::begin(devices, looked, journals, options, look_only, change)?;
        let parts = opening.open_inner(parts)?;
        if parts.is_empty() && !opening.lost.is_empty() {
            return Err(AssembleError::NothingLeft {
                lost: opening.lost.join("; "),
            });
        }
        let root = opening.open(&parts)?;
        if open.read_only && !look_only {
            opening.stack.end_look();
        }
        match root {
            Some(Part {
                node,
                report: Some(mut report),
                ..
            }) => Ok(Self {
                root: node,
                report: {
                    let journals = opening.journals.iter();
                    let unknown = journals
                        .map(|(name, ..)| format!("{name}: it has the journal of another array"));
                    report.refused.extend(unknown);
                    report
                },
                stack: opening.stack,
            }),
            _ => Err(ChooseError::NoDevices.into()),
        }
    }

    /// Gives the arrays their spares, which take the places of missing members at once.
    fn provide_spares(&mut self, spares: Vec<Spare>, keep: bool) {
        let mut useful = Vec::new();
        for spare in spares {
            let name = &spare.name;
            if let Some(why) = self.stack.spare_is_useless(&spare) {
                self.report.refused.push(format!("{name}: {why}"));
                continue;
            }
            self.report.spares.push(SpareReport {
                name: name.clone(),
                bytes: spare.bytes,
                shared: spare.record.is_shared(),
            });
            useful.push(spare);
        }
        if !keep {
            self.stack.provide_spares(useful);
        }
    }

    fn into_assembled(mut self) -> Assembled {
        self.report.taken = self.stack.spares_taken();
        Assembled {
            target: self.stack.into_target(self.root),
            report: self.report,
        }
    }
}

/// An array that is a member of another, and of which no other array given is a member.
fn innermost(parts: &[Part]) -> Option<Uuid> {
    let inner = || parts.iter().filter(|part| part.parent().is_some());
    let holds_others = |part: &&Part| parts.iter().any(|other| other.parent() == part.array());
    inner()
        .find(|part| !holds_others(part))
        .or_else(|| inner().next())?
        .array()
}

/// Opens a device that answered before.
fn add(stack: &mut Stack, device: &str) -> Result<NodeId, AssembleError> {
    let is_dead = |source: &std::io::Error| {
        let dead = [libc::ENXIO, libc::ENODEV, libc::EIO, libc::ENOMEDIUM];
        source
            .raw_os_error()
            .is_some_and(|code| dead.contains(&code))
    };
    stack.add_device(device).map_err(|error| match error {
        OpenError::Io { source, .. } if is_dead(&source) => AssembleError::Died {
            device: device.to_owned(),
            why: source.to_string(),
        },
        error => error.into(),
    })
}

/// What lies in the superblock slots of a node.
fn read_found(stack: &mut Stack, node: NodeId, name: String, bytes: u64) -> Found {
    let block_bytes = u64::from(stack.block_size().bytes());
    let slots = SLOT_BYTES.map(|offset| {
        let mut slot = vec![0; SUPERBLOCK_BYTES];
        let end = offset + u64::try_from(SUPERBLOCK_BYTES).expect("4096");
        if end > stack.blocks(node) * block_bytes {
            return Ok(Vec::new());
        }
        match stack.read(node, BlockIndex(offset / block_bytes), &mut slot) {
            Ok(()) => Ok(slot),
            Err(_) => Err(DecodeError::Unreadable),
        }
    });
    let slots = slots.each_ref().map(|slot| match slot {
        Ok(bytes) => Ok(bytes.as_slice()),
        Err(error) => Err(*error),
    });
    Found::new(name, bytes, slots)
}

/// The opening of one array after another.
struct Opening<'a> {
    stack: Stack,
    /// Devices that hold a journal, and that no array has yet.
    journals: Vec<(String, JournalDevice, NodeId)>,
    read_only: bool,
    /// Whether it can be opened, before it is opened for writing.
    look_only: bool,
    options: &'a AssembleOptions,
    /// What the array given shall become.
    change: Option<Change>,
    /// Inner arrays that could not be opened, and why: for the array around them.
    lost: Vec<String>,
    /// What they are.
    lost_reports: Vec<ArrayReport>,
}

/// What an array is whose superblocks were looked at.
struct Described {
    assembly: Assembly,
    geometry: Geometry,
    policy: &'static Policy,
    /// The device of its journal.
    journal: Option<(String, JournalDevice, NodeId)>,
    /// That which it is to have from now on.
    new_journal: Option<Uuid>,
    /// What it is to be called from now on.
    new_name: Option<Text<64>>,
    /// Whether it may be written without members that may have gone on alone, from now on.
    degraded_writes: Option<bool>,
    /// Whether its growth is taken back.
    aborts: bool,
    report: ArrayReport,
}

/// Whether the array knows what that device missed.
fn knows(refusal: &Refusal) -> bool {
    matches!(refusal.reason, Reason::Returning { .. })
}

impl<'a> Opening<'a> {
    /// With the devices open, and nothing made of them yet.
    fn begin(
        devices: &[&str],
        looked: &[Found],
        journals: &[(String, JournalDevice)],
        options: &'a AssembleOptions,
        look_only: bool,
        change: Option<&Change>,
    ) -> Result<(Self, Vec<Part>), AssembleError> {
        #[cfg(test)]
        crate::dying::opening();
        let open = &options.open;
        let mut stack = Stack::new(open)?;
        let mut parts = Vec::new();
        for (device, looked) in devices.iter().zip(looked) {
            let node = add(&mut stack, device)?;
            let bytes = looked.bytes;
            let found = read_found(&mut stack, node, (*device).to_owned(), bytes);
            if let (Err(error), Ok(_)) = (found.record(), looked.record())
                && let DecodeError::Unreadable | DecodeError::Short { .. } = error
            {
                return Err(AssembleError::Died {
                    device: (*device).to_owned(),
                    why: error.to_string(),
                });
            }
            if found.record() != looked.record() {
                return Err(AssembleError::Changed);
            }
            parts.push(Part {
                node,
                found,
                report: None,
            });
        }
        let journals = journals.iter().map(|(name, device)| {
            let node = add(&mut stack, name)?;
            let found = read_found(&mut stack, node, name.clone(), device.device_bytes);
            match found.journal_device() {
                Some(found) if found == device => Ok((name.clone(), *device, node)),
                Some(_) => Err(AssembleError::Changed),
                None => Err(AssembleError::Died {
                    device: name.clone(),
                    why: "what it says of itself can't be read".to_owned(),
                }),
            }
        });
        let journals = journals.collect::<Result<Vec<_>, AssembleError>>()?;
        let opening = Self {
            stack,
            journals,
            read_only: open.read_only,
            look_only,
            options,
            change: change.cloned(),
            lost: Vec::new(),
            lost_reports: Vec::new(),
        };
        Ok((opening, parts))
    }

    /// Opens inside out whatever is a member of another array. What is left is not.
    fn open_inner(&mut self, mut parts: Vec<Part>) -> Result<Vec<Part>, AssembleError> {
        while let Some(inner) = innermost(&parts) {
            let (members, others) = parts
                .into_iter()
                .partition(|part: &Part| part.array() == Some(inner));
            parts = others;
            parts.extend(self.open(&members)?);
        }
        Ok(parts)
    }

    /// What the array of these parts is, as its superblocks have it.
    fn describe(&mut self, parts: &[Part]) -> Result<Described, AssembleError> {
        let found: Vec<Found> = parts.iter().map(|part| part.found.clone()).collect();
        let mut assembly = choose(&found)?;
        let name = assembly.array.name.to_string();
        let inner = assembly.array.parent != Uuid::NIL;
        let (mut new_journal, mut new_name, mut degraded_writes) = (None, None, None);
        let mut aborts = false;
        match &self.change {
            Some(Change::Name(names)) => new_name = names.of(&name),
            Some(Change::DegradedWrites(allowed)) => degraded_writes = Some(*allowed),
            Some(Change::Grow(_) | Change::Abort | Change::Journal(_)) | None => {}
        }
        match self.change.take_if(|_| !inner) {
            None | Some(Change::Name(_) | Change::DegradedWrites(_)) => {}
            Some(Change::Journal(device)) => new_journal = Some(device),
            Some(Change::Abort) => {
                let array = name.clone();
                assembly = back(&assembly).ok_or(AssembleError::TooLate { array })?;
                aborts = true;
            }
            Some(Change::Grow(target)) => {
                let of_arrays = parts.iter().any(|part| part.report.is_some());
                let planned = plan(&assembly, &target, of_arrays, self.read_only);
                planned
                    .map(|planned| assembly = planned)
                    .map_err(|reason| AssembleError::CantGrow {
                        array: name.clone(),
                        reason,
                    })?;
            }
        }
        let array = &assembly.array;
        let (geometry, policy) = understand(&assembly)?;
        let mut refused: Vec<String> = assembly.refused.iter().map(Refusal::to_string).collect();
        if !inner {
            refused.append(&mut self.lost);
        }
        let journal = self.take_journal(array);
        refused.extend(self.refuse_journals(array));
        let block_bytes = u64::from(array.block_size.bytes());
        // While it grows it holds what it held.
        let bytes = geometry.older().unwrap_or(&geometry).blocks() * block_bytes;
        let members = (0_u8..).zip(&assembly.devices).map(|(member, index)| {
            let part = index.map(|index| &parts[index]);
            let lagging = assembly.lagging.contains(MemberIndex(member));
            member_report(part, lagging, &assembly, member)
        });
        let report = ArrayReport {
            name,
            uuid: array.uuid,
            level: geometry.level(),
            layout: geometry.layout_name(),
            consistency: policy.name,
            checksum: array.checksum.name(),
            chunk_bytes: u64::from(array.chunk_blocks) * block_bytes,
            block_bytes: array.block_size.bytes(),
            bytes,
            generation: array.generation,
            last_written_s: array.last_written_s,
            last_scrub_s: array.last_scrub_s,
            scrub_stopped_bytes: array.scrub_mark.0.saturating_mul(block_bytes),
            clean: array.clean,
            failed: !geometry.survives(assembly.missing),
            read_only: assembly.read_only,
            for_writing: !self.read_only && !assembly.read_only,
            unheard_of: assembly.unheard_of(),
            may_be_newer: may_be_newer(&assembly, &geometry),
            degraded_writes: degraded_writes.unwrap_or(array.degraded_writes),
            growing: array.growth.older.as_ref().map(|older| Growing {
                level: older.level.as_str().to_owned(),
                members: usize::from(older.members),
                chunk_bytes: u64::from(older.chunk_blocks) * block_bytes,
                moved_bytes: (older.mark.0 * block_bytes).min(bytes),
            }),
            journal: match &journal {
                Some((name, ..)) => JournalReport::Device(name.clone()),
                None if array.journal.device == Uuid::NIL => JournalReport::Members,
                None => JournalReport::DeviceMissing,
            },
            members: members.collect(),
            refused,
            returning: (assembly.refused.iter().filter(|refusal| knows(refusal)))
                .filter_map(|refusal| refusal.member)
                .collect(),
            spares: Vec::new(),
            taken: Vec::new(),
            mishaps: Vec::new(),
        };
        Ok(Described {
            assembly,
            geometry,
            policy,
            journal,
            new_journal,
            new_name,
            degraded_writes,
            aborts,
            report,
        })
    }

    /// Opens the array of these parts. `None` for an inner array that lacks too much: the array
    /// around it may do without.
    fn open(&mut self, parts: &[Part]) -> Result<Option<Part>, AssembleError> {
        let Described {
            assembly,
            geometry,
            policy,
            journal,
            new_journal,
            new_name,
            degraded_writes,
            aborts,
            mut report,
        } = self.describe(parts)?;
        let array = &assembly.array;
        let name = report.name.clone();
        let inner = array.parent != Uuid::NIL;
        if report.failed {
            let error = AssembleError::Incomplete {
                array: name,
                survives: survives(array),
                missing: positions(assembly.missing),
                members: assembly.devices.len(),
                refused: report.refused,
            };
            if !inner {
                return Err(error);
            }
            self.lost.push(error.to_string());
            report.refused = Vec::new();
            self.lost_reports.push(report);
            return Ok(None);
        }

        let read_only = self.read_only || assembly.read_only;
        let may_be_newer = report.may_be_newer;
        let writes = (self.look_only || !self.read_only) && !assembly.read_only;
        let may_write = self.options.degraded || array.degraded_writes;
        if writes && !may_be_newer.is_empty() && !may_write {
            return Err(AssembleError::MayBeNewer {
                array: name,
                missing: positions(may_be_newer),
                members: assembly.devices.len(),
                last_written_s: array.last_written_s,
                refused: report.refused,
            });
        }
        if !read_only {
            self.catch_up(&assembly, parts)?;
        }
        let drawn = match self.options.open.drawn {
            Some(drawn) => drawn,
            None => random::nonce()?,
        };
        let mut config = Config {
            read_only,
            // What an array around it keeps there has checksums of its own, and a replay that only
            // writing allows is not needed to know what the arrays are.
            look_only: self.look_only || read_only && inner,
            tears: false,
            force: self.options.force,
            only_recovers: self.options.only_recovers,
            job_rate: self.options.open.job_rate,
            faults: spindles_engine::FaultLimits::DEFAULT,
            ..config(
                array,
                assembly.records.clone(),
                geometry,
                policy,
                assembly.nonce(drawn),
                self.options.open.requests_max,
            )
        };
        if let Some(persistence) = &mut config.persistence {
            persistence.opened_s = persistence
                .opened_s
                .filter(|_| self.options.open.drawn.is_none());
            if let Some(allowed) = degraded_writes {
                persistence.array.degraded_writes = allowed;
                persistence.changed = true;
            }
            persistence.journal_device = journal.as_ref().map(|(_, device, _)| *device);
            if let Some(device) = new_journal {
                if !array.clean || array.growth.older.is_some() {
                    return Err(AssembleError::Changed);
                }
                // Nothing that is logged counts: the array is clean.
                persistence.array.journal.device = device;
                persistence.array.journal.tail = 0;
                persistence.array.journal.on_device = false;
                persistence.array.note_journal_device();
                persistence.journal_device = None;
                persistence.changed = true;
            }
            if aborts && !read_only && !array.clean {
                // What is logged speaks of groups as the growing array counts them.
                return Err(AssembleError::Changed);
            }
            persistence.changed |= aborts;
            if let Some(name) = new_name {
                persistence.array.name = name;
                persistence.changed = true;
            }
        }
        let mut nodes: Vec<Option<NodeId>> = (assembly.devices.iter())
            .map(|index| index.map(|index| parts[index].node))
            .collect();
        let returns = !read_only && !self.options.only_recovers;
        let returning = (assembly.refused.iter())
            .filter(|_| returns)
            .filter(|refusal| knows(refusal));
        let returning = returning.filter_map(|refusal| {
            let (_, device) = parts[refusal.found].found.record().ok()?;
            Some((device.member, *device, parts[refusal.found].node))
        });
        let returning: Vec<_> = returning.collect();
        for (member, _, node) in &returning {
            nodes[usize::from(member.0)] = Some(*node);
        }
        let lacks_journal = array.journal.on_device && journal.is_none();
        let node = self
            .stack
            .add_array_with_journal(
                &name,
                config,
                &nodes,
                journal.as_ref().map(|(_, _, node)| *node),
            )
            .map_err(|error| {
                let (array, members) = (name.clone(), assembly.devices.len());
                match error {
                    spindles_engine::OpenError::BeyondTolerance { missing } => {
                        AssembleError::Incomplete {
                            array,
                            survives: survives(&assembly.array),
                            missing: positions(missing),
                            members,
                            refused: report.refused.clone(),
                        }
                    }
                    spindles_engine::OpenError::UncleanDegraded { missing } => {
                        AssembleError::UncleanDegraded {
                            array,
                            missing: positions(missing),
                            members,
                            lacks_journal,
                            refused: report.refused.clone(),
                        }
                    }
                }
            })?;
        for (member, device, _) in returning {
            let device = Box::new(device);
            // Where that is not possible the array goes on without it, as the refusal says.
            let taken = self.stack.command(node, Command::Return { member, device });
            debug_assert!(taken.is_ok(), "{taken:?}");
        }
        let bytes = self.stack.blocks(node) * u64::from(array.block_size.bytes());
        report.bytes = bytes;
        if let Some(growing) = &mut report.growing {
            growing.moved_bytes = growing.moved_bytes.min(bytes);
        }
        let found = read_found_of_array(&mut self.stack, node, &name, bytes, inner);
        Ok(Some(Part {
            node,
            found,
            report: Some(report),
        }))
    }

    /// The device that the array has for its journal, if it was given, and is as long as it was.
    fn take_journal(&mut self, array: &ArrayRecord) -> Option<(String, JournalDevice, NodeId)> {
        let at = self.journals.iter().position(|(_, device, node)| {
            let bytes = self.stack.blocks(*node) * u64::from(array.block_size.bytes());
            device.array == array.uuid
                && device.device_uuid == array.journal.device
                && !device.is_outdated(array)
                && device.device_bytes <= bytes + u64::from(array.block_size.bytes())
        })?;
        Some(self.journals.remove(at))
    }

    /// Why the other devices that had, or have, the journal of the array are none of its now.
    fn refuse_journals(&mut self, array: &ArrayRecord) -> Vec<String> {
        let of_it = |(_, device, _): &mut (_, JournalDevice, _)| device.array == array.uuid;
        let refused = self.journals.extract_if(.., of_it);
        let why = |(name, device, node): (String, JournalDevice, NodeId)| {
            let block_bytes = u64::from(array.block_size.bytes());
            let (has, had) = (self.stack.blocks(node) * block_bytes, device.device_bytes);
            let place = if array.journal.device == Uuid::NIL {
                "its members"
            } else {
                "another device"
            };
            if device.device_uuid != array.journal.device {
                format!(
                    "{name}: outdated: the array had its journal there, and has it on {place} now; \
                     leave it out, or give it to something else with --force"
                )
            } else if had > has + block_bytes {
                format!(
                    "{name}: truncated: it has {has} bytes and had {had} when it got the journal"
                )
            } else {
                format!(
                    "{name}: outdated: an old copy of the device with the journal, or it went back in \
                     time; what was being written is not told by it"
                )
            }
        };
        refused.map(why).collect()
    }

    /// Writes the newest superblock to members that missed it.
    fn catch_up(&mut self, assembly: &Assembly, parts: &[Part]) -> Result<(), AssembleError> {
        for member in assembly.lagging.iter() {
            let at = usize::from(member.0);
            let (Some(index), Some(device)) = (assembly.devices[at], &assembly.records[at]) else {
                unreachable!("a member that lags is there");
            };
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            spindles_format::encode(&assembly.array, device, &mut bytes);
            let slot = device.slot_block(assembly.array.generation);
            self.stack
                .write(parts[index].node, slot, &bytes)
                .map_err(|source| AssembleError::CatchUp {
                    device: parts[index].found.name.clone(),
                    source,
                })?;
        }
        Ok(())
    }
}

/// What an engine is opened with for an array with superblocks.
pub(crate) fn config(
    array: &ArrayRecord,
    records: Vec<Option<DeviceRecord>>,
    geometry: Geometry,
    policy: &'static Policy,
    nonce: u64,
    requests_max: u32,
) -> Config {
    let data_start = |record: &Option<DeviceRecord>| {
        let start = record.as_ref().map(DeviceRecord::data_start);
        start.unwrap_or(BlockIndex(0))
    };
    Config {
        geometry,
        block_size: array.block_size,
        missing: (0_u8..)
            .zip(&records)
            .filter(|(_, record)| record.is_none())
            .map(|(member, _)| MemberIndex(member))
            .collect(),
        data_start: records.iter().map(data_start).collect(),
        persistence: Some(Persistence {
            array: Box::new(array.clone()),
            devices: records,
            changed: false,
            journal_device: None,
            nonce,
            opened_s: Some(since_1970_s()),
        }),
        clean: array.clean,
        read_only: false,
        look_only: false,
        only_recovers: false,
        tears: false,
        force: false,
        consistency: policy,
        read_policy: READ_POLICIES[0],
        write_mostly: MemberSet::EMPTY,
        job_rate: JOB_RATE,
        faults: spindles_engine::FaultLimits::DEFAULT,
        limits: Limits::for_depth(requests_max, array.block_size),
        scratch: BufferId::NONE,
        metadata: BufferId::NONE,
    }
}

/// Inner arrays are parts of another: their contents say of which and where.
fn read_found_of_array(
    stack: &mut Stack,
    node: NodeId,
    name: &str,
    bytes: u64,
    inner: bool,
) -> Found {
    let name = format!("array '{name}'");
    if inner {
        read_found(stack, node, name, bytes)
    } else {
        Found::new(
            name,
            bytes,
            [Err(DecodeError::NotOurs), Err(DecodeError::NotOurs)],
        )
    }
}

fn member_report(
    part: Option<&Part>,
    lagging: bool,
    assembly: &Assembly,
    member: u8,
) -> MemberReport {
    match part {
        None => MemberReport::Missing {
            out_since: match assembly.array.member[usize::from(member)].state {
                spindles_format::MemberState::Active
                | spindles_format::MemberState::Rebuilding { .. } => None,
                spindles_format::MemberState::Missing { out_since } => Some(out_since),
            },
        },
        Some(Part {
            report: Some(report),
            ..
        }) => MemberReport::Array(Box::new(report.clone())),
        Some(Part { found, .. }) => MemberReport::Device {
            name: found.name.clone(),
            lagging,
            filled_bytes: match assembly.array.member[usize::from(member)].state {
                spindles_format::MemberState::Rebuilding { mark, .. } => {
                    Some(mark.0 * u64::from(assembly.array.block_size.bytes()))
                }
                spindles_format::MemberState::Active
                | spindles_format::MemberState::Missing { .. } => None,
            },
        },
    }
}

/// What an array was found to be, with the record that it begins to grow with; as it was found where
/// that is only looked at.
fn plan(
    assembly: &Assembly,
    target: &GrowthTarget,
    of_arrays: bool,
    read_only: bool,
) -> Result<Assembly, PlanError> {
    if of_arrays {
        return Err(PlanError::Inner);
    }
    let devices: Vec<DeviceRecord> = assembly.records.iter().flatten().copied().collect();
    if devices.len() < assembly.records.len() {
        return Err(PlanError::Degraded);
    }
    let array = plan_growth(&assembly.array, &devices, target)?;
    let mut planned = assembly.clone();
    if read_only {
        return Ok(planned);
    }
    if !assembly.array.clean {
        return Err(PlanError::Unclean);
    }
    planned.missing = planned.missing.union(array.missing());
    planned.records.resize(usize::from(array.members), None);
    planned.devices.resize(usize::from(array.members), None);
    planned.array = array;
    Ok(planned)
}

/// Members of which nothing is here, where they hold by themselves all data of the array: they may have gone
/// on alone.
fn may_be_newer(assembly: &Assembly, geometry: &Geometry) -> MemberSet {
    let unheard_of = assembly.unheard_of();
    let others = MemberSet::all(geometry.members()).difference(unheard_of);
    if geometry.survives(others) {
        unheard_of
    } else {
        MemberSet::EMPTY
    }
}

/// What an array was found to be, with the record of what it was before it began to grow. `None` where
/// it does not grow, or where a part of it has moved.
fn back(assembly: &Assembly) -> Option<Assembly> {
    let mut back = assembly.clone();
    back.array = plan_abort(&assembly.array)?;
    let count = usize::from(back.array.members);
    let added = |set: MemberSet| set.difference(MemberSet::all(back.array.members));
    back.missing = assembly.missing.difference(added(assembly.missing));
    back.lagging = assembly.lagging.difference(added(assembly.lagging));
    back.records.truncate(count);
    back.devices.truncate(count);
    Some(back)
}

/// What the names in the record mean.
/// Who survives less than is missing of an array.
fn survives(array: &ArrayRecord) -> String {
    let Some(older) = &array.growth.older else {
        return format!("{} survives", array.level);
    };
    let may_be_missing = |level: &str, members: u8| match Level::by_name(level)?.redundancy {
        Redundancy::Parity(parity) => Some(parity),
        Redundancy::CopyOnEveryMember => members.checked_sub(1),
        Redundancy::None | Redundancy::Copies => None,
    };
    let before = may_be_missing(older.level.as_str(), older.members);
    let after = may_be_missing(array.level.as_str(), array.members);
    let most = before.zip(after).map(|(before, after)| before.min(after));
    let most = most.map(|most| match most {
        1 => ": only one may be missing".to_owned(),
        most => format!(": only {most} may be missing"),
    });
    format!(
        "it survives while it grows from {} on {} members{}",
        older.level,
        older.members,
        most.unwrap_or_default()
    )
}

fn understand(assembly: &Assembly) -> Result<(Geometry, &'static Policy), AssembleError> {
    let array = &assembly.array;
    let unknown = |what: String| AssembleError::Unknown {
        array: array.name.to_string(),
        what,
    };
    let geometry = geometry_of(array).map_err(|error| unknown(error.to_string()))?;
    let policy = POLICIES
        .iter()
        .find(|policy| policy.name == array.consistency.as_str())
        .ok_or_else(|| {
            unknown(format!(
                "there is no consistency policy '{}'",
                array.consistency
            ))
        })?;
    Ok((geometry, policy))
}
