//! One array after another is opened, inside out.

use super::change::Change;
use super::described::{Described, knows};
use super::{AssembleError, AssembleOptions};
use crate::clock::since_1970_s;
use crate::report::ArrayReport;
use crate::{NodeId, OpenError, Stack, random};
use spindles_block::{BlockIndex, BufferId, MemberIndex, MemberSet};
use spindles_engine::{
    Command, Config, JOB_RATE, Limits, OpenError as EngineError, Persistence, Policy, READ_POLICIES,
};
use spindles_format::{
    ArrayRecord, AssembleError as ChooseError, DecodeError, DeviceRecord, Found, JournalDevice,
    SLOT_BYTES, SUPERBLOCK_BYTES, Uuid,
};
use spindles_layout::Geometry;
use std::mem::take;

/// What is to be done about an array that has taken no place yet.
const GOES_ON: &str = "; the spindles rebuild that was to fill it goes on when it is given again";

/// Something that may be a member: a device, or an array inside another.
pub(super) struct Part {
    pub(super) node: NodeId,
    pub(super) found: Found,
    /// Of an array.
    pub(super) report: Option<ArrayReport>,
    /// The devices that it is made of.
    pub(super) leaves: Vec<String>,
}

/// An array inside another that has no part in it as it is.
pub(crate) struct Lost {
    pub(crate) record: ArrayRecord,
    /// By place: the device, where that is there; of an array inside it the name.
    pub(crate) members: Vec<Option<String>>,
    /// The devices it is made of that are there.
    pub(crate) leaves: Vec<String>,
    /// Why.
    pub(super) why: String,
    /// What it is, where it was not opened.
    pub(super) report: Option<ArrayReport>,
}

impl Lost {
    fn new(described: &Described, parts: &[Part], why: String) -> Self {
        let members = described.assembly.devices.iter();
        let name = |index: &Option<usize>| index.map(|index| parts[index].found.name.clone());
        Self {
            record: described.assembly.array.clone(),
            members: members.map(name).collect(),
            leaves: leaves(parts),
            why,
            report: None,
        }
    }

    /// One of which no device can be used. `None` where none says what it is.
    fn refused(parts: &[Part], why: String) -> Option<Self> {
        let records = parts.iter().filter_map(|part| part.found.record().ok());
        let (record, _) = records.max_by_key(|(array, _)| array.generation)?;
        Some(Self {
            record: record.clone(),
            members: vec![None; record.members().len()],
            leaves: leaves(parts),
            why,
            report: None,
        })
    }

    /// Why it has no part in the array around it, which is made of these.
    pub(super) fn why(&self, parts: &[Part]) -> String {
        let name = self.record.name.as_str();
        let mut reports = parts.iter().filter_map(|part| part.report.as_ref());
        if reports.any(|report| report.name == name) {
            return format!(
                "{}: outdated: array '{name}' was made anew without it; leave it out, or give it to \
                 something else with --force",
                self.leaves.join(", ")
            );
        }
        self.why.clone()
    }
}

fn leaves(parts: &[Part]) -> Vec<String> {
    let each = parts.iter().flat_map(|part| part.leaves.iter().cloned());
    each.collect()
}

impl Part {
    pub(super) fn parent(&self) -> Option<Uuid> {
        let (array, _) = self.found.record().ok()?;
        Some(array.parent).filter(|parent| *parent != Uuid::NIL)
    }

    pub(super) fn array(&self) -> Option<Uuid> {
        self.found.record().ok().map(|(array, _)| array.uuid)
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
pub(super) struct Opening<'a> {
    pub(super) stack: Stack,
    /// Devices that hold a journal, and that no array has yet.
    pub(super) journals: Vec<(String, JournalDevice, NodeId)>,
    pub(super) read_only: bool,
    /// Whether it can be opened, before it is opened for writing.
    pub(super) look_only: bool,
    pub(super) options: &'a AssembleOptions,
    /// What the array given shall become.
    pub(super) change: Option<Change>,
    /// Inner arrays that could not be opened, or hold nothing: for the array around them.
    pub(super) lost: Vec<Lost>,
}

impl<'a> Opening<'a> {
    /// With the devices open, and nothing made of them yet.
    pub(super) fn begin(
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
            // It was a member a moment ago: whatever it answers now, it can't be counted on.
            if let (Err(error), Ok(_)) = (found.record(), looked.record()) {
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
                leaves: vec![(*device).to_owned()],
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
        #[cfg(test)]
        crate::killed::opening(&mut stack);
        let opening = Self {
            stack,
            journals,
            read_only: open.read_only,
            look_only,
            options,
            change: change.cloned(),
            lost: Vec::new(),
        };
        Ok((opening, parts))
    }

    /// Opens inside out whatever is a member of another array. What is left is not.
    pub(super) fn open_inner(&mut self, mut parts: Vec<Part>) -> Result<Vec<Part>, AssembleError> {
        while let Some(inner) = innermost(&parts) {
            let (members, others) = parts
                .into_iter()
                .partition(|part: &Part| part.array() == Some(inner));
            parts = others;
            parts.extend(self.open(&members)?);
        }
        Ok(parts)
    }

    /// Opens the array of these parts. `None` for an inner array that lacks too much: the array
    /// around it may do without.
    pub(super) fn open(&mut self, parts: &[Part]) -> Result<Option<Part>, AssembleError> {
        let inner = parts.iter().any(|part| part.parent().is_some());
        let mut described = match self.describe(parts) {
            // Each of its devices is refused, with a reason.
            Err(AssembleError::Choose(error @ ChooseError::NothingLeft { .. })) if inner => {
                self.lost.extend(Lost::refused(parts, error.to_string()));
                return Ok(None);
            }
            described => described?,
        };
        let array = &described.assembly.array;
        let name = described.report.name.clone();
        let block_bytes = u64::from(array.block_size.bytes());
        if described.report.failed {
            let missing = described.assembly.missing;
            return self.lacks_too_much(described, parts, missing);
        }
        if array.is_unfinished() {
            let why = format!("array '{name}' was being made, and is not finished{GOES_ON}");
            self.lost.push(Lost::new(&described, parts, why));
            return Ok(None);
        }

        let read_only = self.read_only || described.assembly.read_only;
        let writes = (self.look_only || !self.read_only) && !described.assembly.read_only;
        let may_write = self.options.degraded || array.degraded_writes;
        if writes && !described.report.may_be_newer.is_empty() && !may_write {
            return Err(described.newer_away());
        }
        if !read_only {
            self.catch_up(&described, parts)?;
        }
        let config = self.config(&mut described, read_only)?;
        let assembly = &described.assembly;
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
        let journal = described.journal.as_ref().map(|(_, _, node)| *node);
        let added = (self.stack).add_array_with_journal(&name, config, &nodes, journal);
        let node = match added {
            Ok(node) => node,
            Err(EngineError::BeyondTolerance { missing }) => {
                return self.lacks_too_much(described, parts, missing);
            }
            Err(EngineError::UncleanDegraded { missing }) => {
                return Err(described.unclean(missing));
            }
        };
        for (member, device, _) in returning {
            let device = Box::new(device);
            // Where that is not possible the array goes on without it, as the refusal says.
            let taken = self.stack.command(node, Command::Return { member, device });
            debug_assert!(taken.is_ok(), "{taken:?}");
        }
        let bytes = self.stack.blocks(node) * block_bytes;
        let found = read_found_of_array(&mut self.stack, node, &name, bytes, inner);
        if inner && found.record() == Err(DecodeError::NotOurs) {
            let why = format!("array '{name}' is empty: nothing was written to it yet{GOES_ON}");
            self.lost.push(Lost::new(&described, parts, why));
            return Ok(None);
        }
        let mut report = described.report;
        report.bytes = bytes;
        if let Some(growing) = &mut report.growing {
            growing.moved_bytes = growing.moved_bytes.min(bytes);
        }
        Ok(Some(Part {
            node,
            found,
            report: Some(report),
            leaves: leaves(parts),
        }))
    }

    /// Goes on without an inner array that lacks these members: the array around it may do so.
    fn lacks_too_much(
        &mut self,
        mut described: Described,
        parts: &[Part],
        missing: MemberSet,
    ) -> Result<Option<Part>, AssembleError> {
        let error = described.incomplete(missing);
        if described.assembly.array.parent == Uuid::NIL {
            return Err(error);
        }
        let mut lost = Lost::new(&described, parts, error.to_string());
        described.report.refused = Vec::new();
        lost.report = Some(described.report);
        self.lost.push(lost);
        Ok(None)
    }

    /// What the engine of the array is opened with, with its changes in it.
    fn config(&self, described: &mut Described, read_only: bool) -> Result<Config, AssembleError> {
        let open = &self.options.open;
        let assembly = &described.assembly;
        let array = &assembly.array;
        let drawn = match open.drawn {
            Some(drawn) => drawn,
            None => random::nonce()?,
        };
        let mut config = Config {
            read_only,
            // What an array around it keeps there has checksums of its own, and a replay that only
            // writing allows is not needed to know what the arrays are.
            look_only: self.look_only || read_only && array.parent != Uuid::NIL,
            force: self.options.force,
            only_recovers: self.options.only_recovers,
            job_rate: open.job_rate,
            ..config(
                array,
                assembly.records.clone(),
                described.geometry.clone(),
                described.policy,
                assembly.nonce(drawn),
                open.requests_max,
            )
        };
        if let Some(persistence) = &mut config.persistence {
            persistence.opened_s = persistence.opened_s.filter(|_| open.drawn.is_none());
            persistence.journal_device = described.journal.as_ref().map(|(_, device, _)| *device);
            take(&mut described.changes).apply(persistence, read_only)?;
        }
        Ok(config)
    }

    /// Writes the newest superblock to members that missed it.
    fn catch_up(&mut self, described: &Described, parts: &[Part]) -> Result<(), AssembleError> {
        let assembly = &described.assembly;
        for member in assembly.lagging.iter() {
            let at = usize::from(member.0);
            let (Some(index), Some(device)) = (assembly.devices[at], &assembly.records[at]) else {
                unreachable!("a member that lags is there");
            };
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            spindles_format::encode(&described.found, device, &mut bytes);
            let slot = device.slot_block(described.found.generation);
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
            extends: None,
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
