//! Plans a new array, and those inside it, from the leaves up. Writes nothing.

use super::devices::Device;
use super::options::CreateOptions;
use crate::errors::CreateError;
use crate::write_back::{self, WriteBack};
use spindles_array::TooSmall;
use spindles_block::{BlockIndex, MemberIndex, SizeBytes};
use spindles_device::clock::since_1970_s;
use spindles_device::random;
use spindles_engine::{Policy, WriteHole};
use spindles_format::{
    ArrayRecord, ChecksumKind, DeviceRecord, Features, JOURNAL_DEVICE_BYTES_MIN, JournalDevice,
    JournalRecord, MEMBER_BLOCKS_MAX, MemberRecord, MemberState, SharedAreas, Text, Uuid,
    areas_for, device_bytes_for, give_bad_blocks, give_checksums, give_regions,
};
use spindles_layout::{
    Covered, Expression, Geometry, GeometryError, Layout, Level, Spec, chunk_blocks,
};

/// A planned array.
pub(super) struct Plan {
    pub(super) record: ArrayRecord,
    pub(super) geometry: Geometry,
    pub(super) policy: &'static Policy,
    pub(super) records: Vec<DeviceRecord>,
    pub(super) members: Vec<Member>,
    /// The names of the members in messages.
    pub(super) names: Vec<String>,
}

pub(super) enum Member {
    Device,
    Array(Box<Plan>),
}

impl Plan {
    /// Makes a device the journal device.
    pub(super) fn plan_journal(
        &mut self,
        device: &Device,
    ) -> Result<(String, JournalDevice), CreateError> {
        let Device { name, probe, .. } = device;
        let logs = self.policy.write_hole == WriteHole::Closed;
        let parity = self.geometry.parity_chunks() > 0;
        let device = plan_journal(name, probe.bytes, self.record.uuid, logs, parity)?;
        self.record.journal.device = device.device_uuid;
        self.record.note_journal_device();
        Ok((name.clone(), device))
    }

    /// Returns the members, including those of inner arrays, with more than a hundredth of their
    /// data area unused, and the unused bytes.
    pub(super) fn unused(&self) -> Vec<(String, u64)> {
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

    /// Returns the unused bytes of all data areas, including those of inner arrays.
    pub(super) fn unused_bytes(&self) -> u64 {
        let unused = self.members_and_records().map(|(index, member, record)| {
            let left = record.data_blocks() - self.geometry.member_blocks_used(index);
            let inner = match member {
                Member::Array(inner) => inner.unused_bytes(),
                Member::Device => 0,
            };
            inner + left * u64::from(record.block_size.bytes())
        });
        unused.sum()
    }

    /// Returns the fewest lost devices that lose data.
    pub(super) fn losses_min(&self) -> u64 {
        let members = self.members.iter().map(|member| match member {
            Member::Device => 1,
            Member::Array(inner) => inner.losses_min(),
        });
        let mut losses: Vec<u64> = members.collect();
        losses.sort_unstable();
        let members = usize::from(self.geometry.redundancy()) + 1;
        losses.iter().take(members).sum()
    }

    /// Returns the most bytes written to replace one lost device; `None` without redundancy.
    pub(super) fn rebuild_bytes(&self) -> Option<u64> {
        let bytes = self.members_and_records().map(|(index, member, record)| {
            let inner = match member {
                Member::Array(inner) => inner.rebuild_bytes(),
                Member::Device => None,
            };
            let used = self.geometry.member_blocks_used(index);
            let own = used * u64::from(record.block_size.bytes());
            inner.or_else(|| (self.geometry.redundancy() > 0).then_some(own))
        });
        bytes.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    fn members_and_records(&self) -> impl Iterator<Item = (MemberIndex, &Member, &DeviceRecord)> {
        let members = self.members.iter().zip(&self.records);
        let indices = (0..).map(MemberIndex);
        indices
            .zip(members)
            .map(|(index, (member, record))| (index, member, record))
    }

    pub(super) fn is_redundant(&self) -> bool {
        self.geometry.redundancy() > 0
            || self.members.iter().any(|member| match member {
                Member::Device => false,
                Member::Array(inner) => inner.is_redundant(),
            })
    }
}

/// Plans arrays, from the leaves up.
pub(super) struct Planner<'a> {
    options: &'a CreateOptions,
    /// The sizes of the devices, from left to right.
    sizes: std::slice::Iter<'a, u64>,
    created_s: u64,
    /// The records of the devices, from left to right.
    pub(super) leaf_records: Vec<DeviceRecord>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(options: &'a CreateOptions, sizes: &'a [u64]) -> Self {
        Self {
            options,
            sizes: sizes.iter(),
            created_s: since_1970_s(),
            leaf_records: Vec::new(),
        }
    }

    pub(super) fn array(
        &mut self,
        expression: &Expression,
        name: &str,
        parent: Uuid,
        around_keeps: bool,
    ) -> Result<Plan, CreateError> {
        let (level, layout, members) = match expression {
            Expression::Leaf(device) => {
                return Err(CreateError::NotAnArray {
                    device: device.clone(),
                });
            }
            Expression::Slice { .. } => {
                return Err(CreateError::SliceOfArray {
                    slice: expression.to_string(),
                });
            }
            Expression::Array {
                level,
                layout,
                members,
            } => (*level, *layout, members),
        };
        let uuid = random::uuid()?;
        let block_size = self.options.block_size;
        let keeps = keeps_checksums(level, members, around_keeps);
        let mut plan_members = Vec::new();
        let mut records = Vec::new();
        let mut names = Vec::new();
        for (index, member) in (0_u8..).zip(members) {
            let (member, name, bytes) =
                self.member(member, name, index, uuid, keeps || around_keeps)?;
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
        let (checksum, policy) = self.promises(&geometry, keeps)?;
        let mut record = self.record(&geometry, &records, policy, name, uuid, parent)?;
        give_areas(
            &mut record,
            &mut records,
            &geometry,
            policy,
            checksum,
            &names,
        )?;
        let wanted = &self.options.write_back;
        if wanted.mode != WriteBack::Off && parent == Uuid::NIL {
            let mut of_arrays = plan_members.iter();
            let of_arrays = of_arrays.any(|member| matches!(member, Member::Array(_)));
            write_back::check(level, policy, of_arrays)?;
            write_back::give(&mut record, &records, wanted)?;
        }
        Ok(Plan {
            record,
            geometry,
            policy,
            records,
            members: plan_members,
            names,
        })
    }

    /// Plans a member of the array with that name and identity. Returns the member, its name in
    /// messages, and its size.
    fn member(
        &mut self,
        member: &Expression,
        array: &str,
        index: u8,
        parent: Uuid,
        around_keeps: bool,
    ) -> Result<(Member, String, u64), CreateError> {
        let block_size = self.options.block_size;
        let (member, name, bytes) = match member {
            Expression::Leaf(device) => {
                let bytes = self.sizes.next().expect("a device for every leaf");
                (Member::Device, device.clone(), *bytes)
            }
            Expression::Array { .. } | Expression::Slice { .. } => {
                let name = format!("{array}.{index}");
                let inner = self.array(member, &name, parent, around_keeps)?;
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
        Ok((member, name, bytes))
    }

    /// Returns the checksum and the consistency policy of an array. `keeps` is set if the array
    /// keeps checksums when asked for.
    fn promises(
        &self,
        geometry: &Geometry,
        keeps: bool,
    ) -> Result<(ChecksumKind, &'static Policy), CreateError> {
        let checksum = match self.options.checksum() {
            kind if keeps => kind,
            _ => ChecksumKind::None,
        };
        let checksums = checksum != ChecksumKind::None;
        let policy = self.options.consistency;
        let policy = policy
            .unwrap_or_else(|| Policy::default_for(geometry.parity_chunks() > 0 || checksums));
        if checksums && policy.write_hole != WriteHole::Closed {
            return Err(CreateError::Inexact {
                policy: policy.name,
            });
        }
        Ok((checksum, policy))
    }

    fn geometry(
        &self,
        level: &'static Level,
        layout: Option<Layout>,
        records: &[DeviceRecord],
        names: &[String],
    ) -> Result<Geometry, CreateError> {
        let blocks = records.iter().map(DeviceRecord::data_blocks).collect();
        let geometry = self.geometry_of(level, layout, blocks);
        geometry.map_err(|error| match error {
            GeometryError::MemberTooSmall { member, .. } => {
                let at = usize::from(member.0);
                let bytes = records[at].device_bytes;
                self.no_room(level, layout, records.len(), &names[at], bytes)
            }
            error => CreateError::Geometry(error),
        })
    }

    fn chunk_bytes(&self, level: &Level) -> u64 {
        let chunk = self.options.chunk_bytes;
        chunk.unwrap_or(u64::from(level.chunk_bytes))
    }

    fn geometry_of(
        &self,
        level: &'static Level,
        layout: Option<Layout>,
        member_blocks: Vec<u64>,
    ) -> Result<Geometry, GeometryError> {
        Geometry::new(&Spec {
            level,
            layout,
            chunk_blocks: chunk_blocks(self.chunk_bytes(level), self.options.block_size)?,
            member_blocks,
        })
    }

    /// Returns the error for a member that is too small, with the size needed.
    fn no_room(
        &self,
        level: &'static Level,
        layout: Option<Layout>,
        members: usize,
        device: &str,
        bytes: u64,
    ) -> CreateError {
        let block_size = self.options.block_size;
        let blocks = match self.geometry_of(level, layout, vec![0; members]) {
            Err(GeometryError::MemberTooSmall { blocks_min, .. }) => blocks_min,
            Err(error) => return CreateError::Geometry(error),
            Ok(_) => 1,
        };
        let data_bytes = blocks * u64::from(block_size.bytes());
        let needed_bytes = device_bytes_for(data_bytes, block_size);
        let part = format!(
            " for a member of {} with chunks of {}",
            level.name,
            SizeBytes(self.chunk_bytes(level))
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
                device_uuid: random::uuid()?,
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
            row_sums: false,
            bad_blocks_listed: false,
            staged: false,
            write_back_auto: false,
            shared: SharedAreas::of(records),
            features: Features::default(),
            member,
        })
    }
}

/// Returns true if an array of these members keeps checksums. `around_keeps` is set if an outer
/// array already does.
fn keeps_checksums(level: &Level, members: &[Expression], around_keeps: bool) -> bool {
    level.keeps_checksums(members.iter().map(covered), around_keeps)
}

fn covered(of: &Expression) -> Covered {
    match of.uncut() {
        Expression::Leaf(_) | Expression::Slice { .. } => Covered::Device,
        Expression::Array { level, members, .. } => level.covered(members.iter().map(covered)),
    }
}

/// Gives an array its metadata areas on each member.
fn give_areas(
    record: &mut ArrayRecord,
    records: &mut [DeviceRecord],
    geometry: &Geometry,
    policy: &Policy,
    checksum: ChecksumKind,
    names: &[String],
) -> Result<(), CreateError> {
    if (geometry.redundancy() > 0 || checksum != ChecksumKind::None) && policy.has_regions() {
        let group_bytes = u64::from(geometry.chunk_blocks())
            * u64::from(geometry.data_chunks())
            * u64::from(record.block_size.bytes());
        if !give_regions(record, records, geometry.groups(), group_bytes) {
            let least = records.iter().min_by_key(|record| record.device_bytes);
            let least = usize::from(least.expect("an array has members").member.0);
            return Err(CreateError::TooManyRegions {
                device: names[least].clone(),
                chunk: SizeBytes(
                    u64::from(geometry.chunk_blocks()) * u64::from(record.block_size.bytes()),
                ),
            });
        }
    }
    if geometry.redundancy() > 0 {
        give_bad_blocks(record, records);
    }
    let row_sums = geometry.level().grows();
    give_checksums(record, records, checksum, row_sums);
    Ok(())
}

/// Returns the record of a new journal device. `logs` is set if the array's policy has a journal,
/// `parity` if there is something to log.
pub(crate) fn plan_journal(
    device: &str,
    bytes: u64,
    array: Uuid,
    logs: bool,
    parity: bool,
) -> Result<JournalDevice, CreateError> {
    let why = match (logs, parity) {
        (_, false) => Some("an array without parity logs nothing, so leave it out"),
        (false, true) => Some("only an array that is created with --consistency journal logs"),
        (true, true) => None,
    };
    let device = device.to_owned();
    if let Some(why) = why {
        return Err(CreateError::NoJournal { device, why });
    }
    if bytes < JOURNAL_DEVICE_BYTES_MIN {
        let small = TooSmall::new(&device, bytes, JOURNAL_DEVICE_BYTES_MIN);
        return Err(small.with_part(" for a journal".to_owned(), "").into());
    }
    Ok(JournalDevice {
        device_uuid: random::uuid()?,
        array,
        device_bytes: bytes,
        stamps: 0,
        nonce: 0,
        ended: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the levels of all arrays in an expression that keep checksums, outer ones first.
    fn keepers(of: &Expression, around_keeps: bool) -> Vec<&'static str> {
        let Expression::Array { level, members, .. } = of else {
            return Vec::new();
        };
        let keeps = keeps_checksums(level, members, around_keeps);
        let members = members.iter();
        let inner = members.flat_map(|member| keepers(member, keeps || around_keeps));
        let own = keeps.then_some(level.name);
        own.into_iter().chain(inner).collect()
    }

    #[test]
    fn checksums_are_placed_at_arrays_with_redundancy() {
        for (expression, expected) in [
            ("raid5(a,b,c)", "raid5"),
            ("raid0(a,b)", "raid0"),
            ("raid1(raid0(a,b),raid0(c,d))", "raid1"),
            ("raid1(raid0(a,b),c)", "raid1"),
            ("raid0(raid1(a,b),raid1(c,d))", "raid1 raid1"),
            ("raid1(raid5(a,b,c),raid6(d,e,f,g))", "raid5 raid6"),
            ("raid1(raid5(a,b,c),raid0(d,e))", "raid1 raid5"),
            ("raid5(raid0(a,b),concat(c,d),e)", "raid5"),
            ("raid6(raid1(a,b),raid0(c,d),e,f)", "raid6 raid1"),
            ("raid5(raid0(raid1(a,b),c),d,e)", "raid5 raid1"),
            (
                "raid1(raid0(raid1(a,b),raid1(c,d)),raid1(e,f))",
                "raid1 raid1 raid1",
            ),
            ("raid10(concat(a,b),concat(c,d))", "raid10"),
            ("concat(raid0(a,b),c)", "concat"),
            ("concat(raid0(a,b),raid0(c,d))", "raid0 raid0"),
        ] {
            let parsed = Expression::parse(expression).expect("a good expression");
            assert_eq!(keepers(&parsed, false).join(" "), expected, "{expression}");
        }
        let parsed = Expression::parse("raid0(a,b)").expect("a good expression");
        assert!(keepers(&parsed, true).is_empty());
    }
}
