//! New arrays: everything is looked at and worked out for all devices before anything is written
//! to the first.

use crate::clock::since_1970_s;
use crate::positioned;
use crate::probe::{self, Probe};
use crate::room::FOR_ALL;
use crate::signatures::Sighting;
use crate::{
    CloseError, OpenError, OpenOptions, Stack, TooSmall, attach, identity, journal, random, spare,
    zeros,
};
use spindles_block::{BlockIndex, BlockSize, MemberIndex, RequestError, SizeBytes};
use spindles_engine::{Policy, WriteHole};
use spindles_format::{
    AreaKind, ArrayRecord, BITMAPS, ChecksumKind, DeviceRecord, Features, JournalDevice,
    JournalRecord, MEMBER_BLOCKS_MAX, MemberRecord, MemberState, SLOT_BYTES, SUPERBLOCK_BYTES,
    SharedAreas, SpareRecord, Text, Uuid, areas_for, device_bytes_for, give_bad_blocks,
    give_checksums, give_regions,
};
use spindles_layout::{Expression, Geometry, GeometryError, Layout, Level, Spec, chunk_blocks};
use std::fs::File;
use std::io;
use std::path::Path;
use thiserror::Error;

mod inner;
mod writing;

pub(crate) use inner::{Inner, Wanted};
use writing::Writing;

/// How an array is to be created.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The array's name.
    pub name: String,
    /// Its block.
    pub block_size: BlockSize,
    /// The chunk of all its levels; `None` for each level's default.
    pub chunk_bytes: Option<u64>,
    /// What is done about crashes; `None` for each level's default.
    pub consistency: Option<&'static Policy>,
    /// How blocks are summed up, in arrays of devices; `None` for CRC-32C where a record is kept of
    /// what a crash may leave, and else not at all.
    pub checksum: Option<ChecksumKind>,
    /// Devices that become spares of the array.
    pub spares: Vec<String>,
    /// A device of its own for the journal.
    pub journal: Option<String>,
    /// Let it be written while members are away that could have gone on alone, without being asked for
    /// it: see `assemble::AssembleOptions::degraded`.
    pub degraded_writes: bool,
    /// Take devices that hold something.
    pub force: bool,
    /// How the devices are to be opened.
    pub open: OpenOptions,
}

impl CreateOptions {
    /// Blocks of 4096 bytes, chunks of the level's size, safe after a crash; devices that hold
    /// something are refused.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            block_size: BlockSize::B4096,
            chunk_bytes: None,
            consistency: None,
            checksum: None,
            spares: Vec::new(),
            journal: None,
            degraded_writes: false,
            force: false,
            open: OpenOptions::default(),
        }
    }
}

impl CreateOptions {
    /// How blocks are summed up.
    fn checksum(&self) -> ChecksumKind {
        let is_exact = |policy: &Policy| policy.write_hole == WriteHole::Closed;
        self.checksum.unwrap_or(match self.consistency {
            Some(policy) if !is_exact(policy) => ChecksumKind::None,
            Some(_) | None => ChecksumKind::Crc32c,
        })
    }
}

/// An array that was created.
#[derive(Clone, Debug)]
pub struct Created {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uuid: Uuid,
    /// Its level.
    pub level: &'static Level,
    /// The layout's name; empty where the level has no choice.
    pub layout: String,
    /// The chunk size.
    pub chunk_bytes: u64,
    /// The block.
    pub block_bytes: u32,
    /// How many members it has.
    pub members: u8,
    /// What it holds.
    pub bytes: u64,
    /// How blocks are summed up.
    pub checksum: ChecksumKind,
    /// How data and redundancy came to agree.
    pub sync: Sync,
    /// What was overwritten with `force`: device and what it was.
    pub wiped: Vec<(String, String)>,
    /// Spares that are too small for some of its members.
    pub small_spares: Vec<TooSmall>,
    /// Members much of which is not used, since others are smaller: each with how many bytes that is.
    pub unused: Vec<(String, u64)>,
}

/// How data and redundancy of a new array came to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// There is no redundancy.
    NotNeeded,
    /// Nothing is written yet: all reads as zeros, and redundancy is made as regions are used.
    Unwritten,
    /// All devices are known to hold zeros, so they agree.
    KnownZero,
    /// The whole array was gone through.
    Done,
    /// The caller stopped it.
    Stopped,
}

/// Why no array was created. Nothing was written, except where it says so.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The name can't be stored.
    #[error(
        "'{name}' can't be the name of an array: give 1 to {NAME_BYTES_MAX} bytes without '/', ',', ':', double quotes and control characters, with neither a '-' in front nor a space at an end"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The expression is a single device.
    #[error("{device} is a device: give an array of devices, as raid1({device},OTHER)")]
    NotAnArray {
        /// The device.
        device: String,
    },
    /// It is an array that there is.
    #[error(
        "{device} means an array that there is, and only devices can be given here: an array inside another is created together with it, as in raid1(raid0(DEV,DEV),DEV)"
    )]
    IsAnArray {
        /// The array.
        device: String,
    },
    /// The device does not outlive the command.
    #[error("{device} is gone when this command ends: give files or block devices")]
    DoesNotLast {
        /// The device.
        device: String,
    },
    /// There is no such file or device.
    #[error("there is no {device}: make a file with 'truncate -s 1G {device}', or check the name")]
    NotThere {
        /// The device.
        device: String,
    },
    /// Two names for one device.
    #[error("{}: an array needs different devices", attach::same(first, second))]
    SameDevice {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// A device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Devices hold something.
    #[error("{}; use --force to overwrite {}", occupied(devices), if devices.len() == 1 { "it" } else { "them" })]
    Occupied {
        /// Each device, and what it holds.
        devices: Vec<(String, String)>,
    },
    /// A device has too little room.
    #[error(transparent)]
    TooSmall(#[from] TooSmall),
    /// A device has more than the format can speak of.
    #[error(
        "{device} is too large: it has {bytes}, and with blocks of {block_bytes} bytes a member has at most {bytes_max}; divide it into partitions"
    )]
    TooLarge {
        /// The device.
        device: String,
        /// What it has.
        bytes: SizeBytes,
        /// What a member may have.
        bytes_max: SizeBytes,
        /// The block.
        block_bytes: u32,
    },
    /// The smallest device has no room for the bitmaps of so large an array.
    #[error(
        "{device} has no room for the bitmaps of an array of this size with chunks of {chunk}: leave it out, or take a larger --chunk"
    )]
    TooManyRegions {
        /// The device.
        device: String,
        /// The chunk.
        chunk: SizeBytes,
    },
    /// Checksums would not be exact after a crash.
    #[error(
        "checksums are kept exact by the journal, which --consistency {policy} does without: take --consistency journal, or --checksum none"
    )]
    Inexact {
        /// The policy.
        policy: &'static str,
    },
    /// Nothing of the array would be logged on the device for its journal.
    #[error("{device} can't have the journal: {why}")]
    NoJournal {
        /// The device.
        device: String,
        /// Why.
        why: &'static str,
    },
    /// The level can't be built that way.
    #[error("{0}")]
    Geometry(GeometryError),
    /// The operating system refused something. The devices may have been written to.
    #[error(
        "{device}: can't {action}: {source}; the array is not complete, create it again with --force"
    )]
    Io {
        /// The device.
        device: String,
        /// What was tried.
        action: &'static str,
        /// What the operating system says.
        source: io::Error,
    },
    /// A member could not be written. The devices may have been written to.
    #[error(
        "{device}: can't write the superblock: {source}; the array is not complete, create it again with --force"
    )]
    Superblock {
        /// The member.
        device: String,
        /// What it answered.
        source: RequestError,
    },
    /// A device could not become a spare.
    #[error(
        "{device} did not become a spare: {source}; the array itself is complete: try again with 'spindles spare add'"
    )]
    Spare {
        /// The device.
        device: String,
        /// Why.
        source: OpenError,
    },
    /// The new array could not be opened for its initial sync.
    #[error("array '{name}' was created and can't be opened: {source}")]
    Engine {
        /// The array.
        name: String,
        /// Why.
        source: spindles_engine::OpenError,
    },
    /// The new array could not be closed after its initial sync.
    #[error("array '{name}' was created, but {source}")]
    Close {
        /// The array.
        name: String,
        /// Why.
        source: CloseError,
    },
}

fn occupied(devices: &[(String, String)]) -> String {
    let each = devices
        .iter()
        .map(|(device, what)| format!("{device} holds {what}"));
    each.collect::<Vec<_>>().join("; ")
}

/// The longest name; the record has room for the numbers of inner arrays behind it.
const NAME_BYTES_MAX: usize = 48;

/// Creates an array. While one without bitmaps is made consistent, `progress` is told how many
/// bytes are done, of how many; with `false` it ends that, and the array stays as it is.
pub fn create(
    expression: &Expression,
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Created, CreateError> {
    check_name(&options.name)?;
    let leaves = expression.leaves();
    let spares = options.spares.iter().chain(&options.journal);
    let all: Vec<&str> = (leaves.iter().copied())
        .chain(spares.map(String::as_str))
        .collect();
    if let Some((first, second)) = identity::same_device(&all) {
        return Err(CreateError::SameDevice {
            first: all[first].to_owned(),
            second: all[second].to_owned(),
        });
    }
    let devices = all.iter().map(|name| Device::look(name));
    let mut devices = devices.collect::<Result<Vec<_>, _>>()?;
    let mut spares = devices.split_off(leaves.len());
    let journal = spares.split_off(options.spares.len()).pop();
    let sizes: Vec<u64> = devices.iter().map(|device| device.probe.bytes).collect();
    let mut planner = Planner::new(options, &sizes);
    let mut root = planner.array(expression, &options.name, Uuid::NIL)?;
    let redundant = root.is_redundant();
    let leaf_records = planner.leaf_records;
    let mut small_spares = Vec::new();
    for spare in &spares {
        small_spares.extend(spare.may_stand_for(&leaves, &leaf_records)?);
    }
    let journal_record = journal.as_ref().map(|device| root.plan_journal(device));
    let journal_record = journal_record.transpose()?;
    let newcomers = devices.iter().chain(&spares).chain(&journal);
    let occupied = refuse_occupied(newcomers, options.force)?;
    drop(journal); // Or nobody could write to it.
    let journal = journal_record;
    let known_zero = devices.iter().zip(&leaf_records).all(|(device, record)| {
        let block_bytes = u64::from(record.block_size.bytes());
        let from = record.data_start().0 * block_bytes;
        device
            .probe
            .is_hole(from, from + record.data_blocks() * block_bytes)
    });
    let sightings: Vec<Vec<Sighting>> =
        devices.into_iter().map(|device| device.sightings).collect();

    let agrees = !redundant || known_zero;
    let writing = Writing::plan(&root, agrees, options.open.requests_max)?;
    // Everything is opened, so that none is in use, before the first is written to.
    let mut stack = Stack::new(&OpenOptions {
        block_size: Some(options.block_size),
        read_only: false,
        ..options.open.clone()
    })?;
    let nodes = leaves.iter().map(|name| stack.add_device(name));
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    let spares = spares.into_iter().map(|spare| {
        let record = SpareRecord {
            device_uuid: new_uuid()?,
            device_bytes: spare.probe.bytes,
            arrays: vec![root.record.uuid],
        };
        Ok((spare.name, record))
    });
    let spares = spares.collect::<Result<Vec<_>, CreateError>>()?;
    for name in (spares.iter().map(|(name, _)| name)).chain(journal.iter().map(|(name, _)| name)) {
        spare::may_write(name)?;
    }
    for (device, sightings) in leaves.iter().zip(&sightings) {
        wipe(device, sightings).map_err(|source| CreateError::Io {
            device: (*device).to_owned(),
            action: "clear what it holds",
            source,
        })?;
    }
    if let Some((name, device)) = &journal {
        spare::make(name, false, &device.encode())?;
    }
    let opened = writing.write(&mut stack, &mut nodes.into_iter())?;
    let sync = match (redundant, known_zero) {
        (false, _) => Sync::NotNeeded,
        (true, _) if options.consistency.is_none_or(Policy::has_regions) => Sync::Unwritten,
        (true, true) => Sync::KnownZero,
        (true, false) => Sync::Done,
    };
    let sync = writing::finish(stack, opened, sync, &options.name, progress)?;
    for (name, record) in spares {
        spare::make(&name, false, &record.encode()).map_err(|source| CreateError::Spare {
            device: name,
            source,
        })?;
    }
    let block_bytes = u64::from(options.block_size.bytes());
    Ok(Created {
        name: options.name.clone(),
        uuid: root.record.uuid,
        level: root.geometry.level(),
        layout: root.geometry.layout_name(),
        chunk_bytes: u64::from(root.geometry.chunk_blocks()) * block_bytes,
        block_bytes: options.block_size.bytes(),
        members: root.record.members,
        bytes: root.geometry.blocks() * block_bytes,
        checksum: root.record.checksum,
        sync,
        wiped: occupied,
        small_spares,
        unused: root.unused(),
    })
}

pub(crate) fn check_name(name: &str) -> Result<(), CreateError> {
    let fine = (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('-')
        && !name.contains(['/', ',', ':', '"'])
        && name.trim() == name
        && !name.contains(char::is_control);
    fine.then_some(()).ok_or_else(|| CreateError::Name {
        name: name.to_owned(),
    })
}

/// A device as it is before.
struct Device {
    name: String,
    probe: Probe,
    sightings: Vec<Sighting>,
}

impl Device {
    fn look(name: &str) -> Result<Self, CreateError> {
        if name.starts_with("array:") && !Path::new(name).exists() {
            return Err(CreateError::IsAnArray {
                device: name.to_owned(),
            });
        }
        let probe = match Probe::open(name) {
            Err(OpenError::Io { device, source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                return Err(CreateError::NotThere { device });
            }
            probe => probe?,
        };
        if matches!(probe.backend, "mem" | "null") {
            return Err(CreateError::DoesNotLast {
                device: name.to_owned(),
            });
        }
        Ok(Self {
            name: name.to_owned(),
            sightings: probe.sightings()?,
            probe,
        })
    }

    /// For which of these members it has too little room: an error where for all.
    fn may_stand_for(
        &self,
        names: &[&str],
        members: &[DeviceRecord],
    ) -> Result<Option<TooSmall>, CreateError> {
        let fits = |member: &DeviceRecord| {
            areas_for(self.probe.bytes, member.block_size, member.member)
                .is_ok_and(|areas| areas.data_blocks() >= member.data_blocks())
        };
        let unfit: Vec<_> = names
            .iter()
            .zip(members)
            .filter(|(_, it)| !fits(it))
            .collect();
        let needed = unfit.iter().map(|(_, member)| member.device_bytes);
        let small = |bytes| TooSmall::new(&self.name, self.probe.bytes, bytes);
        if unfit.len() == members.len() {
            let least = needed.min().expect("an array has devices");
            return Err(small(least).into());
        }
        let names: Vec<&str> = unfit.iter().map(|(name, _)| **name).collect();
        let part = format!(" for the place of {}", names.join(", "));
        Ok(needed
            .max()
            .map(|most| small(most).with_part(part, FOR_ALL)))
    }

    /// What it holds that nobody wants overwritten, if anything. This decides for every command. To find
    /// out whether a file holds data of no known kind it has to be read, so that is skipped with `force`.
    fn holds(&self, force: bool) -> Result<Option<String>, OpenError> {
        let known = self.probe.holds(&self.sightings);
        if known.is_some() || force {
            return Ok(known);
        }
        let data = self.probe.first_data();
        let data = data.map_err(|source| probe::failed(&self.name, "read", source))?;
        Ok(data.map(|at| format!("data of no known kind, from byte {at} on")))
    }
}

/// An array worked out.
struct Plan {
    record: ArrayRecord,
    geometry: Geometry,
    policy: &'static Policy,
    records: Vec<DeviceRecord>,
    members: Vec<Member>,
    /// What people call the members.
    names: Vec<String>,
}

enum Member {
    Device,
    Array(Box<Plan>),
}

impl Plan {
    /// Makes a device that of the journal.
    fn plan_journal(&mut self, device: &Device) -> Result<(String, JournalDevice), CreateError> {
        let Device { name, probe, .. } = device;
        let logs = self.policy.write_hole == WriteHole::Closed;
        let sums = self.record.checksum != ChecksumKind::None;
        let is_something = self.geometry.parity_chunks() > 0 || sums;
        let device = journal::plan(name, probe.bytes, self.record.uuid, logs, is_something)?;
        self.record.journal.device = device.device_uuid;
        self.record.note_journal_device();
        Ok((name.clone(), device))
    }

    /// Members of it, and of arrays inside it, more than a hundredth of whose room for data it does
    /// not use, and how many bytes that is.
    fn unused(&self) -> Vec<(String, u64)> {
        let mut unused = Vec::new();
        let places = self.names.iter().zip(&self.members).zip(&self.records);
        for (index, ((name, member), record)) in (0_u8..).zip(places) {
            if let Member::Array(inner) = member {
                unused.extend(inner.unused());
            }
            let has = record.data_blocks();
            let left = has - self.geometry.member_blocks_used(MemberIndex(index));
            if left > has / 100 && left >= 2 * u64::from(self.geometry.chunk_blocks()) {
                let block_bytes = u64::from(record.block_size.bytes());
                unused.push((name.clone(), left * block_bytes));
            }
        }
        unused
    }

    fn is_redundant(&self) -> bool {
        self.geometry.redundancy() > 0
            || self.members.iter().any(|member| match member {
                Member::Device => false,
                Member::Array(inner) => inner.is_redundant(),
            })
    }
}

/// Works arrays out, from the leaves up.
struct Planner<'a> {
    options: &'a CreateOptions,
    /// How long the devices are, from left to right.
    sizes: std::slice::Iter<'a, u64>,
    created_s: u64,
    /// Of the devices, from left to right.
    leaf_records: Vec<DeviceRecord>,
}

impl<'a> Planner<'a> {
    fn new(options: &'a CreateOptions, sizes: &'a [u64]) -> Self {
        Self {
            options,
            sizes: sizes.iter(),
            created_s: since_1970_s(),
            leaf_records: Vec::new(),
        }
    }

    fn array(
        &mut self,
        expression: &Expression,
        name: &str,
        parent: Uuid,
    ) -> Result<Plan, CreateError> {
        let (level, layout, members) = match expression {
            Expression::Leaf(device) => {
                return Err(CreateError::NotAnArray {
                    device: device.clone(),
                });
            }
            Expression::Array {
                level,
                layout,
                members,
            } => (*level, *layout, members),
        };
        let uuid = new_uuid()?;
        let block_size = self.options.block_size;
        let mut plan_members = Vec::new();
        let mut records = Vec::new();
        let mut names = Vec::new();
        for (index, member) in (0_u8..).zip(members) {
            let (member, name, bytes) = match member {
                Expression::Leaf(device) => {
                    let bytes = self.sizes.next().expect("a device for every leaf");
                    (Member::Device, device.clone(), *bytes)
                }
                Expression::Array { .. } => {
                    let name = format!("{name}.{index}");
                    let inner = self.array(member, &name, uuid)?;
                    let bytes = inner.geometry.blocks() * u64::from(block_size.bytes());
                    let name = format!("array '{name}'");
                    (Member::Array(Box::new(inner)), name, bytes)
                }
            };
            let bytes_max = MEMBER_BLOCKS_MAX * u64::from(block_size.bytes());
            if bytes > bytes_max {
                return Err(CreateError::TooLarge {
                    device: name,
                    bytes: SizeBytes(bytes),
                    bytes_max: SizeBytes(bytes_max),
                    block_bytes: block_size.bytes(),
                });
            }
            let record = areas_for(bytes, block_size, MemberIndex(index))
                .map_err(|_| self.no_room(level, layout, members.len(), &name, bytes))?;
            if matches!(member, Member::Device) {
                self.leaf_records.push(record);
            }
            plan_members.push(member);
            records.push(record);
            names.push(name);
        }
        let geometry = self.geometry(level, layout, &records, &names)?;
        // An array of arrays has those of its members.
        let of_devices = plan_members.iter().any(|it| matches!(it, Member::Device));
        let checksum = match self.options.checksum() {
            kind if of_devices => kind,
            _ => ChecksumKind::None,
        };
        let sums = checksum != ChecksumKind::None;
        let policy = self.options.consistency;
        let policy =
            policy.unwrap_or_else(|| Policy::default_for(geometry.parity_chunks() > 0 || sums));
        if sums && policy.write_hole != WriteHole::Closed {
            return Err(CreateError::Inexact {
                policy: policy.name,
            });
        }
        let mut record = self.record(&geometry, &records, policy, name, uuid, parent)?;
        if (geometry.redundancy() > 0 || sums) && policy.has_regions() {
            let group_bytes = u64::from(geometry.chunk_blocks())
                * u64::from(geometry.data_chunks())
                * u64::from(block_size.bytes());
            if !give_regions(&mut record, &mut records, geometry.groups(), group_bytes) {
                let least = records.iter().min_by_key(|record| record.device_bytes);
                let least = usize::from(least.expect("an array has members").member.0);
                return Err(CreateError::TooManyRegions {
                    device: names[least].clone(),
                    chunk: SizeBytes(
                        u64::from(geometry.chunk_blocks()) * u64::from(block_size.bytes()),
                    ),
                });
            }
        }
        if geometry.redundancy() > 0 {
            give_bad_blocks(&mut record, &mut records);
        }
        give_checksums(&mut record, &mut records, checksum);
        Ok(Plan {
            record,
            geometry,
            policy,
            records,
            members: plan_members,
            names,
        })
    }

    fn geometry(
        &self,
        level: &'static Level,
        layout: Option<Layout>,
        records: &[DeviceRecord],
        names: &[String],
    ) -> Result<Geometry, CreateError> {
        let block_size = self.options.block_size;
        let chunk = self
            .options
            .chunk_bytes
            .unwrap_or(u64::from(level.chunk_bytes));
        let spec = Spec {
            level,
            layout,
            chunk_blocks: chunk_blocks(chunk, block_size).map_err(CreateError::Geometry)?,
            member_blocks: records.iter().map(DeviceRecord::data_blocks).collect(),
        };
        Geometry::new(&spec).map_err(|error| match error {
            GeometryError::MemberTooSmall { member, .. } => {
                let at = usize::from(member.0);
                let bytes = records[at].device_bytes;
                self.no_room(level, layout, records.len(), &names[at], bytes)
            }
            error => CreateError::Geometry(error),
        })
    }

    /// How much a member needs that has too little, whatever it lacks.
    fn no_room(
        &self,
        level: &'static Level,
        layout: Option<Layout>,
        members: usize,
        device: &str,
        bytes: u64,
    ) -> CreateError {
        let block_size = self.options.block_size;
        let chunk = self.options.chunk_bytes;
        let chunk = chunk.unwrap_or(u64::from(level.chunk_bytes));
        let chunk_blocks = match chunk_blocks(chunk, block_size) {
            Ok(blocks) => blocks,
            Err(error) => return CreateError::Geometry(error),
        };
        let spec = Spec {
            level,
            layout,
            chunk_blocks,
            member_blocks: vec![0; members],
        };
        let blocks = match Geometry::new(&spec) {
            Err(GeometryError::MemberTooSmall { blocks_min, .. }) => blocks_min,
            Err(error) => return CreateError::Geometry(error),
            Ok(_) => 1,
        };
        let data_bytes = blocks * u64::from(block_size.bytes());
        let needed_bytes = device_bytes_for(data_bytes, block_size, &SharedAreas::default());
        let part = format!(
            " for a member of {} with chunks of {}",
            level.name,
            SizeBytes(chunk)
        );
        TooSmall::new(device, bytes, needed_bytes)
            .with_part(part, " or a smaller --chunk")
            .into()
    }

    fn record(
        &self,
        geometry: &Geometry,
        records: &[DeviceRecord],
        policy: &Policy,
        name: &str,
        uuid: Uuid,
        parent: Uuid,
    ) -> Result<ArrayRecord, CreateError> {
        let mut member = [MemberRecord::NONE; 64];
        for (place, record) in member.iter_mut().zip(records) {
            *place = MemberRecord {
                device_uuid: new_uuid()?,
                data_blocks: record.data_blocks(),
                state: MemberState::Active,
            };
        }
        Ok(ArrayRecord {
            uuid,
            parent,
            name: Text::new(name).ok_or_else(|| CreateError::Name {
                name: self.options.name.clone(),
            })?,
            created_s: self.created_s,
            last_written_s: self.created_s,
            last_scrub_s: 0,
            scrub_left_blocks: 0,
            generation: 1,
            session: 0,
            past: Default::default(),
            block_size: self.options.block_size,
            level: Text::new(geometry.level().name).expect("level names are short"),
            layout: Text::new(&geometry.layout_name()).expect("layout names are short"),
            chunk_blocks: geometry.chunk_blocks(),
            region_groups: 0,
            members: geometry.members(),
            clean: false,
            degraded_writes: self.options.degraded_writes,
            consistency: Text::new(policy.name).expect("short too"),
            journal: JournalRecord::default(),
            scrub_mark: BlockIndex(0),
            growth: spindles_format::GrowthRecord::default(),
            checksum: ChecksumKind::None,
            shared: SharedAreas::of(records),
            features: Features::default(),
            member,
        })
    }
}

/// Looks at a device that is to be overwritten: what it holds, which is an error unless `force`.
pub(crate) fn may_overwrite(
    device: &str,
    force: bool,
) -> Result<Vec<(String, String)>, CreateError> {
    refuse_occupied(std::iter::once(&Device::look(device)?), force)
}

/// What a file or device that is held for writing has on it that nobody wants overwritten.
pub(crate) fn occupant_of_held(name: &str) -> Result<Option<String>, OpenError> {
    let probe = Probe::held(name).map_err(|source| probe::failed(name, "open", source))?;
    let device = Device {
        name: name.to_owned(),
        sightings: probe.sightings()?,
        probe,
    };
    device.holds(false)
}

/// Which devices hold something, and what: an error unless `force`.
///
/// A regular file has to be empty: it may hold anything. A block device has to be without what is
/// known, as for the `mkfs` of any file system: reading all of a disk takes hours, and one that was
/// wiped still holds old data.
fn refuse_occupied<'a>(
    devices: impl Iterator<Item = &'a Device>,
    force: bool,
) -> Result<Vec<(String, String)>, CreateError> {
    let mut occupied = Vec::new();
    for device in devices {
        if let Some(what) = device.holds(force)? {
            occupied.push((device.name.clone(), what));
        }
    }
    if !occupied.is_empty() && !force {
        return Err(CreateError::Occupied { devices: occupied });
    }
    Ok(occupied)
}

/// Looks at a device that is to hold something new.
pub(crate) fn look(device: &str) -> Result<Probe, CreateError> {
    Ok(Device::look(device)?.probe)
}

/// Clears a device that is held and about to become a member: what anybody may find on it,
/// superblock slots and all areas of metadata included.
pub(crate) fn clear(device: &str, record: &DeviceRecord) -> io::Result<()> {
    forget(device)?;
    clear_areas(device, record)
}

/// Clears a spare that is held and about to become a member, but for that it is a spare.
pub(crate) fn clear_spare(device: &str, record: &DeviceRecord) -> io::Result<()> {
    let file = File::options().write(true).open(device)?;
    positioned::write_all_at(&file, &[0; SUPERBLOCK_BYTES], SLOT_BYTES[1])?;
    clear_areas(device, record)
}

/// Makes zeros of everything known on a device that is held, superblock slots included.
pub(crate) fn forget(device: &str) -> io::Result<()> {
    let sightings = Probe::held(device)?.sightings();
    wipe(device, &sightings.map_err(io::Error::other)?)
}

/// Makes a device that held nothing but what is ours one that holds nothing: a file of zeros, or a
/// block device without anything known.
pub(crate) fn empty(device: &str) -> io::Result<()> {
    forget(device)?;
    let file = File::options().write(true).open(device)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        zeros::make(&file, 0, metadata.len())?;
    }
    file.sync_all()
}

fn clear_areas(device: &str, record: &DeviceRecord) -> io::Result<()> {
    let file = File::options().write(true).open(device)?;
    for kind in BITMAPS {
        let area = record.area(kind).expect("a member has all areas");
        let zeros = vec![0; usize::try_from(area.length_bytes).expect("at most 128 KiB")];
        positioned::write_all_at(&file, &zeros, area.offset_bytes)?;
    }
    let area = record
        .area(AreaKind::CHECKSUMS)
        .expect("a member has all areas");
    zeros::make(&file, area.offset_bytes, area.length_bytes)?;
    file.sync_all()
}

/// A new identity.
pub(crate) fn new_uuid() -> Result<Uuid, CreateError> {
    Ok(Uuid::from_random(random::bytes()?))
}

/// Makes zeros of everything known on a device and of all up to the end of the superblock slots.
fn wipe(device: &str, sightings: &[Sighting]) -> io::Result<()> {
    let file = File::options().write(true).open(device)?;
    let superblock = u64::try_from(SUPERBLOCK_BYTES).expect("4096");
    let start = (0, SLOT_BYTES[1] + superblock);
    let magics = sightings
        .iter()
        .map(|sighting| (sighting.offset_bytes, sighting.length_bytes));
    for (offset, length) in magics.chain([start]) {
        let zeros = vec![0; usize::try_from(length).expect("some KiB")];
        positioned::write_all_at(&file, &zeros, offset)?;
    }
    file.sync_all()
}
