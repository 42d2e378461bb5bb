//! Where each sector of an expression lies, by the geometries of its arrays.

use spindles_block::BlockIndex;
use spindles_layout::{Expression, Geometry, Group, GroupIndex, Role, Slice, Spec};

/// An expression with sizes.
pub(crate) enum Map {
    Device(String, u64, u64),
    Array(Geometry, Vec<Map>),
}

impl Map {
    /// Creates the map of an expression with chunks of this many sectors.
    pub(crate) fn new(
        expression: &Expression,
        chunk_sectors: u32,
        sectors_of: &dyn Fn(&str) -> u64,
    ) -> Self {
        match expression {
            Expression::Leaf(name) => {
                if !Slice::is_text(name) {
                    return Self::Device(name.clone(), 0, sectors_of(name));
                }
                let slice = Slice::parse(name).expect(name);
                let start = slice.start_bytes / Slice::SECTOR_BYTES;
                let length = slice.length_bytes.map(|bytes| bytes / Slice::SECTOR_BYTES);
                let device_end = sectors_of(&slice.device);
                let end = length.map_or(device_end, |length| start + length);
                assert!(end <= device_end, "{name}");
                Self::Device(slice.device, start, end - start)
            }
            Expression::Slice { .. } => panic!("no dialect cuts arrays"),
            Expression::Array {
                level,
                layout,
                members,
            } => {
                let members = members.iter();
                let members: Vec<Map> = members
                    .map(|member| Self::new(member, chunk_sectors, sectors_of))
                    .collect();
                let geometry = Geometry::new(&Spec {
                    level,
                    layout: *layout,
                    chunk_blocks: chunk_sectors,
                    member_blocks: members.iter().map(Self::sectors).collect(),
                });
                Self::Array(geometry.expect("a legal array"), members)
            }
        }
    }

    pub(crate) fn sectors(&self) -> u64 {
        match self {
            Self::Device(.., sectors) => *sectors,
            Self::Array(geometry, _) => geometry.blocks(),
        }
    }

    /// Returns the devices and sectors that hold a sector.
    pub(crate) fn places(&self, sector: u64) -> Vec<(&str, u64)> {
        match self {
            Self::Device(name, start, _) => vec![(name, start + sector)],
            Self::Array(geometry, members) => {
                let location = geometry.locate(BlockIndex(sector));
                let mut group = Group::empty();
                geometry.group_into(location.group, &mut group);
                let holds = |role| match role {
                    Role::Data(index) => index == location.data_index,
                    Role::Copy(_) => true,
                    Role::Parity(_) => false,
                };
                let slots = group.slots().iter().filter(|slot| holds(slot.role));
                let block = u64::from(location.block_in_chunk);
                slots
                    .flat_map(|slot| {
                        members[usize::from(slot.member.0)].places(slot.offset.0 + block)
                    })
                    .collect()
            }
        }
    }

    /// Returns the device that holds the parity of a stripe.
    pub(crate) fn parity(&self, stripe: u64) -> &str {
        let Self::Array(geometry, members) = self else {
            panic!("a device");
        };
        let mut group = Group::empty();
        geometry.group_into(GroupIndex(stripe), &mut group);
        let slot = group
            .slots()
            .iter()
            .find(|slot| slot.role == Role::Parity(0));
        match &members[usize::from(slot.expect("parity").member.0)] {
            Self::Device(name, ..) => name,
            Self::Array(..) => panic!("a nested array"),
        }
    }
}
