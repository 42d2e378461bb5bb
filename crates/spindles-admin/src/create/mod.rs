//! Creates arrays. All devices are examined and the whole array is planned before the first write.

mod aliases;
mod choices;
mod devices;
mod fresh;
mod inner;
mod options;
mod plan;
mod writing;

pub use crate::errors::CreateError;
pub use choices::{Choice, choices, size_of};
pub use devices::occupant_of_held;
pub(crate) use devices::{look, may_overwrite};
pub use fresh::{fresh, vanishes};
pub use inner::Made;
pub(crate) use inner::{Inner, Wanted};
pub use options::CreateOptions;
pub(crate) use plan::plan_journal;
pub use writing::Sync;

use crate::errors::NAME_BYTES_MAX;
use crate::write_back::memory_bytes;
use devices::{Device, refuse_occupied};
use plan::{Plan, Planner};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use spindles_array::{NodeId, Stack, TooSmall, labels};
use spindles_device::seen::Examined;
use spindles_device::signatures::Sighting;
use spindles_device::{OpenError, OpenOptions, clearing, device_of, identity, random};
use spindles_engine::Policy;
use spindles_format::{ChecksumKind, JournalDevice, SpareRecord, Uuid};
use spindles_layout::{Expression, Level};
use std::path::Path;
use writing::Writing;

/// An array that was created.
#[derive(Clone, Debug)]
pub struct Created {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uuid: Uuid,
    /// Its level.
    pub level: &'static Level,
    /// The layout's name; empty if the level has only one.
    pub layout: String,
    /// The chunk size.
    pub chunk_bytes: u64,
    /// The block size.
    pub block_bytes: u32,
    /// Number of members.
    pub members: u8,
    /// The capacity.
    pub bytes: u64,
    /// The checksum of every block.
    pub checksum: ChecksumKind,
    /// The most bytes that its stage holds; 0 without one.
    pub stage_bytes: u64,
    /// How data and redundancy were made to agree.
    pub sync: Sync,
    /// Data overwritten with `force`: each device, and a description.
    pub wiped: Vec<(String, String)>,
    /// Spares that are too small for some members, with the shortfall.
    pub small_spares: Vec<TooSmall>,
    /// Members with much unused room, because others are smaller, and the unused bytes.
    pub unused: Vec<(String, u64)>,
}

/// Creates an array. During the initial sync of an array without bitmaps, `progress` gets the bytes
/// done and the total bytes. It returns `false` to stop the sync and leave the array as it is.
pub fn create(
    expression: &Expression,
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Created, CreateError> {
    check_name(&options.name)?;
    New::plan(expression, options)?.make(options, progress)
}

/// A planned array, before the first write.
struct New<'a> {
    plan: Plan,
    /// Its devices, from left to right.
    leaves: Vec<&'a str>,
    /// Signatures on them that must be cleared.
    sightings: Vec<Vec<Sighting>>,
    /// True if all of them are known to hold zeros.
    known_zero: bool,
    /// The examined state of all devices.
    seen: Vec<(String, Examined)>,
    spares: Vec<(String, SpareRecord)>,
    journal: Option<(String, JournalDevice)>,
    small_spares: Vec<TooSmall>,
    /// Data to overwrite: each device, and a description.
    occupied: Vec<(String, String)>,
}

impl<'a> New<'a> {
    /// Examines all devices and plans the array.
    fn plan(expression: &'a Expression, options: &'a CreateOptions) -> Result<Self, CreateError> {
        let leaves = expression.leaves();
        let mut devices = look_at_all(&leaves, options)?;
        let mut spares = devices.split_off(leaves.len());
        let journal = spares.split_off(options.spares.len()).pop();
        let sizes: Vec<u64> = devices.iter().map(|device| device.probe.bytes).collect();
        let mut planner = Planner::new(options, &sizes);
        let mut plan = planner.array(expression, &options.name, Uuid::NIL, false)?;
        let leaf_records = planner.leaf_records;
        let mut small_spares = Vec::new();
        for spare in &spares {
            small_spares.extend(spare.may_stand_for(&leaves, &leaf_records)?);
        }
        let journal_record = journal.as_ref().map(|device| plan.plan_journal(device));
        let journal_record = journal_record.transpose()?;
        let all = devices.iter().chain(&spares).chain(&journal);
        let seen = all.clone().map(|device| (device.name.clone(), device.seen));
        let seen = seen.collect();
        let occupied = refuse_occupied(all, options.force)?;
        let mut all = devices.iter().zip(&leaf_records);
        let known_zero = all.all(|(device, record)| {
            let block_bytes = u64::from(record.block_size.bytes());
            let from = record.data_start().0 * block_bytes;
            let to = from + record.data_blocks() * block_bytes;
            device.probe.is_hole(from, to)
        });
        let spares = spares.into_iter().map(|spare| {
            let record = SpareRecord {
                device_uuid: random::uuid()?,
                device_bytes: spare.probe.bytes,
                arrays: vec![plan.record.uuid],
            };
            Ok((spare.name, record))
        });
        let spares = spares.collect::<Result<Vec<_>, CreateError>>()?;
        Ok(Self {
            plan,
            leaves,
            sightings: devices.into_iter().map(|device| device.sightings).collect(),
            known_zero,
            seen,
            spares,
            journal: journal_record,
            small_spares,
            occupied,
        })
    }

    /// Writes the array.
    fn make(
        self,
        options: &CreateOptions,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Created, CreateError> {
        let is_redundant = self.plan.is_redundant();
        let agrees = !is_redundant || self.known_zero;
        let writing = Writing::plan(&self.plan, agrees, options.open.requests_max)?;
        let (mut stack, nodes) = self.open(options)?;
        for (device, sightings) in self.leaves.iter().zip(&self.sightings) {
            clearing::wipe(device, sightings).map_err(|source| CreateError::Io {
                device: (*device).to_owned(),
                action: "clear what it holds",
                source,
            })?;
        }
        aliases::refuse(&self.leaves, &mut stack, &nodes)?;
        if let Some((name, device)) = &self.journal {
            labels::make(name, self.seen(name), &device.encode())?;
        }
        let opened = writing.write(&mut stack, &mut nodes.into_iter())?;
        let sync = match (is_redundant, self.known_zero) {
            (false, _) => Sync::NotNeeded,
            (true, _) if options.consistency.is_none_or(Policy::has_regions) => Sync::Unwritten,
            (true, true) => Sync::KnownZero,
            (true, false) => Sync::Done,
        };
        let sync = writing::finish(stack, opened, sync, &options.name, progress)?;
        for (name, record) in &self.spares {
            let made = labels::make(name, self.seen(name), &record.encode());
            made.map_err(|source| CreateError::Spare {
                device: name.clone(),
                source,
            })?;
        }
        Ok(self.created(sync))
    }

    /// Opens all devices before the first write, so that a busy one is detected in time.
    fn open(&self, options: &CreateOptions) -> Result<(Stack, Vec<NodeId>), CreateError> {
        let mut stack = Stack::new(&OpenOptions {
            block_size: Some(options.block_size),
            read_only: false,
            ..options.open.clone()
        })?;
        let nodes = self.leaves.iter().map(|name| stack.add_device(name));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        for name in &self.leaves {
            self.seen(name).is_unchanged(name)?;
        }
        let spares = self.spares.iter().map(|(name, _)| name);
        for name in spares.chain(self.journal.iter().map(|(name, _)| name)) {
            labels::may_write(name)?;
        }
        Ok((stack, nodes))
    }

    /// Returns how a device was examined.
    fn seen(&self, device: &str) -> Examined {
        let mut all = self.seen.iter();
        let seen = all.find(|(name, _)| name == device);
        seen.map_or(Examined::default(), |(_, seen)| *seen)
    }

    fn created(self, sync: Sync) -> Created {
        let Plan {
            record, geometry, ..
        } = &self.plan;
        let block_bytes = u64::from(record.block_size.bytes());
        Created {
            name: record.name.to_string(),
            uuid: record.uuid,
            level: geometry.level(),
            layout: geometry.layout_name(),
            chunk_bytes: u64::from(geometry.chunk_blocks()) * block_bytes,
            block_bytes: record.block_size.bytes(),
            members: record.members,
            bytes: geometry.blocks() * block_bytes,
            checksum: record.checksum,
            stage_bytes: memory_bytes(record),
            sync,
            unused: self.plan.unused(),
            wiped: self.occupied,
            small_spares: self.small_spares,
        }
    }
}

/// Examines the devices of a new array: members, then spares, then the journal device.
fn look_at_all(leaves: &[&str], options: &CreateOptions) -> Result<Vec<Device>, CreateError> {
    let others = options.spares.iter().chain(&options.journal);
    let all: Vec<&str> = (leaves.iter().copied())
        .chain(others.map(String::as_str))
        .collect();
    if let Some((first, second)) = identity::same_device(&all) {
        return Err(CreateError::SameDevice {
            first: all[first].to_owned(),
            second: all[second].to_owned(),
        });
    }
    let devices = all.iter().map(|name| {
        let device = Device::look(name, &options.open)?;
        device.probe.check_blocks(options.block_size)?;
        Ok(device)
    });
    devices.collect()
}

/// Checks that the user has permission to write to each existing device. The error names the first
/// one without it.
pub fn check_rights(devices: &[&str]) -> Result<(), CreateError> {
    let devices = devices.iter().map(|device| device_of(device));
    for device in devices.filter(|device| Path::new(&**device).exists()) {
        if access(&*device, Access::READ_OK | Access::WRITE_OK) == Err(Errno::ACCESS) {
            return Err(OpenError::Io {
                device: device.into_owned(),
                action: "open",
                source: Errno::ACCESS.into(),
            }
            .into());
        }
    }
    Ok(())
}

/// Checks the name of a new array.
///
/// # Errors
///
/// If no array can have it.
pub fn check_name(name: &str) -> Result<(), CreateError> {
    let fine = (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('-')
        && !name.contains(['/', ',', ':', '"'])
        && name.trim() == name
        && !name.contains(char::is_control);
    fine.then_some(()).ok_or_else(|| CreateError::Name {
        name: name.to_owned(),
    })
}
