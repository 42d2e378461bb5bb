//! Plans the growth of an array: checks it, and refuses it with the reason, before anything is
//! written. `jobs/grow.rs` carries it out.

use crate::{Policy, regions::Part};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use spindles_block::{BlockIndex, MemberIndex, MemberSet, SizeBytes};
use spindles_format::{
    ArrayRecord, CHECKSUM_PAGE_BYTES, ChecksumKind, DeviceRecord, Features, GrowthRecord,
    MEMBER_BLOCKS_MAX, MemberRecord, MemberState, OlderMap, SharedAreas, Text, TooSmall, Uuid,
    areas_to_hold, device_bytes_for_headroom, region_groups_for,
};
use spindles_layout::{Geometry, GeometryError, GrowthError, Layout, Level, Redundancy, Spec};

/// What an array is to become. `None` keeps the current value.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The level.
    pub level: Option<&'static Level>,
    /// The layout. `None` with another level: the layout of the same name, or else the level's
    /// default.
    pub layout: Option<Layout>,
    /// The chunk size.
    pub chunk_blocks: Option<u32>,
    /// The devices that become members, each with its size in bytes. The identity stands for the
    /// position until the device has taken it.
    pub added: Vec<(Uuid, u64)>,
}

/// The reason why an array can't grow as wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The array is growing already.
    Growing,
    /// The array was not closed cleanly.
    Unclean,
    /// Members are missing, or being filled.
    Degraded,
    /// The array is a member of another array, or has arrays as members.
    Inner,
    /// The array has no bitmaps.
    NoRegions,
    /// The new geometry is invalid.
    Geometry(GeometryError),
    /// The old map can't grow into the new map.
    Growth(GrowthError),
    /// The members that stay have too little room for the chunks.
    Smaller {
        /// Its size.
        bytes: SizeBytes,
        /// Its size after the growth.
        bytes_after: SizeBytes,
    },
    /// A device that was added has too little room.
    TooSmall {
        /// Its position.
        member: MemberIndex,
        /// The room that the device has and needs.
        small: TooSmall,
    },
    /// The bitmaps of the members have no room for the regions of both maps.
    NoRoomForRegions,
    /// It is larger than the wanted size.
    Shrinks {
        /// Its size.
        bytes: u64,
    },
    /// It has the wanted size already.
    AsLarge {
        /// Its size.
        bytes: u64,
        /// The size for which its members have room.
        bytes_max: u64,
        /// The members with the least room.
        least: MemberSet,
    },
    /// Its members have no room for the wanted size.
    NoRoom {
        /// The size for which they have room.
        bytes_max: u64,
        /// The members with the least room.
        least: MemberSet,
    },
    /// With more room on its members, its contents would lie elsewhere.
    Moves,
    /// The headroom of a member is too small for the smallest move.
    NoRoomToStage {
        /// Bytes of headroom that one move needs.
        needed_bytes: u64,
        /// Bytes of headroom on each member.
        headroom_bytes: u64,
        /// The largest chunk size for which there is room, found by halving the wanted one.
        chunk: Option<SizeBytes>,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Growing => f.write_str(
                "it grows already: let that come to its end first (grow without --add, --chunk and \
                 --level goes on with it)",
            ),
            Self::Unclean => f.write_str("it was not closed in order: resync it first"),
            Self::Degraded => {
                f.write_str("members are missing or being rebuilt: rebuild the array first")
            }
            Self::Inner => f.write_str(
                "it is a member of another array, or has arrays for members: that is not built",
            ),
            Self::NoRegions => f.write_str(
                "it has no bitmaps (an array without redundancy, or of policy none): growing it is \
                 not built",
            ),
            Self::Geometry(error) => error.fmt(f),
            Self::Growth(error) => error.fmt(f),
            Self::Smaller { bytes, bytes_after } => write!(
                f,
                "it would hold {bytes_after} instead of {bytes}, as its members have no room for \
                 more whole chunks: take smaller ones"
            ),
            Self::TooSmall { member, small } => write!(
                f,
                "the device that is to become member {} is too small: {small}",
                member.0
            ),
            Self::NoRoomForRegions => {
                f.write_str("the bitmaps of its members have no room for a second map")
            }
            Self::Shrinks { bytes } => {
                let bytes = SizeBytes(*bytes);
                write!(f, "it holds {bytes} already, and can't become smaller")
            }
            Self::Moves => f.write_str(
                "its layout has copies in the further parts of each member, which would have to be \
                 moved: that is not built",
            ),
            Self::AsLarge { .. } | Self::NoRoom { .. } | Self::NoRoomToStage { .. } => {
                self.fmt_room(f)
            }
        }
    }
}

impl PlanError {
    /// Writes a lack of room on the members, and its remedy.
    fn fmt_room(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsLarge {
                bytes,
                bytes_max,
                least,
            } => {
                write!(f, "it holds {} already", SizeBytes(*bytes))?;
                if bytes == bytes_max {
                    f.write_str(", and its members have no room for more: ")?;
                    replace_first(f, *least)?;
                }
                Ok(())
            }
            Self::NoRoom { bytes_max, least } => {
                let bytes = SizeBytes(*bytes_max);
                write!(f, "its members have room for {bytes} at most: ")?;
                replace_first(f, *least)
            }
            Self::NoRoomToStage {
                needed_bytes,
                headroom_bytes,
                chunk,
            } => {
                let [needed, headroom] = [needed_bytes, headroom_bytes].map(|it| SizeBytes(*it));
                write!(
                    f,
                    "{needed} of each member must be moved at once, and its members have set aside \
                     {headroom} for that: take "
                )?;
                if let Some(chunk) = chunk {
                    write!(f, "a smaller chunk with --chunk {}, or ", chunk.typed())?;
                }
                match device_bytes_for_headroom(*needed_bytes) {
                    Some(bytes) => write!(f, "devices of {} or more", SizeBytes(bytes)),
                    None => f.write_str("larger devices"),
                }
            }
            other => panic!("no lack of room: {other:?}"),
        }
    }
}

/// Writes the remedy: which members to replace by larger devices.
fn replace_first(f: &mut fmt::Formatter<'_>, least: MemberSet) -> fmt::Result {
    f.write_str("replace")?;
    for (at, member) in least.iter().enumerate() {
        let and = if at > 0 { " and" } else { "" };
        write!(f, "{and} member {}", member.0)?;
    }
    let devices = if least.count() == 1 {
        "a larger device"
    } else {
        "larger devices"
    };
    write!(f, " by {devices} first")
}

impl core::error::Error for PlanError {}

/// Returns the map of a record. Staged blocks are of the new map.
pub fn geometry_of(record: &ArrayRecord) -> Result<Geometry, PlanError> {
    let new = map(
        record,
        record.level.as_str(),
        record.layout.as_str(),
        record.chunk_blocks,
        record.members,
    )?;
    let Some(older) = &record.growth.older else {
        return Ok(new);
    };
    let old = map(
        record,
        older.level.as_str(),
        older.layout.as_str(),
        older.chunk_blocks,
        older.members,
    )?;
    let mark = older.mark.plus(older.staged_blocks.into());
    let bytes = |blocks| SizeBytes(blocks * u64::from(record.block_size.bytes()));
    new.growing_from(old, mark).map_err(|error| match error {
        GrowthError::Smaller {
            blocks,
            blocks_after,
        } => PlanError::Smaller {
            bytes: bytes(blocks),
            bytes_after: bytes(blocks_after),
        },
        error => PlanError::Growth(error),
    })
}

fn map(
    record: &ArrayRecord,
    level: &str,
    layout: &str,
    chunk_blocks: u32,
    members: u8,
) -> Result<Geometry, PlanError> {
    let level = Level::named(level).map_err(PlanError::Geometry)?;
    let layout = level.layout(layout).map_err(PlanError::Geometry)?;
    let members = &record.member[..usize::from(members)];
    Geometry::new(&Spec {
        level,
        layout: Some(layout),
        chunk_blocks,
        member_blocks: members.iter().map(|member| member.data_blocks).collect(),
    })
    .map_err(PlanError::Geometry)
}

/// Returns the groups and regions of the map of a record and, while it grows, of its older map.
pub(crate) fn parts(record: Option<&ArrayRecord>, geometry: &Geometry) -> (Part, Option<Part>) {
    let (region_groups, growth) = record.map_or_else(Default::default, |record| {
        (record.region_groups, record.growth)
    });
    let end = geometry.groups();
    let Some(old) = geometry.older() else {
        return (Part::new(0..end, region_groups, growth.region.into()), None);
    };
    let first = end - old.groups();
    let older = growth.older.expect("it grows");
    (
        Part::new(0..first, region_groups, growth.region.into()),
        Some(Part::new(
            first..end,
            older.region_groups,
            older.region.into(),
        )),
    )
}

/// Blocks of each member in a unit of growth.
pub(crate) fn unit_rows(geometry: &Geometry) -> Option<u64> {
    Some(geometry.growth_unit()? / u64::from(geometry.data_chunks()))
}

/// Returns the maximum number of blocks staged on each member at once. If blocks have checksums,
/// those of staged blocks lie behind them.
pub(crate) fn staging_rows(record: &ArrayRecord) -> u64 {
    let block_bytes = u64::from(record.block_size.bytes());
    let blocks = u64::from(record.shared.headroom_bytes) / block_bytes;
    if record.checksum == ChecksumKind::None {
        return blocks;
    }
    let page_bytes = u64::try_from(CHECKSUM_PAGE_BYTES).expect("4096");
    let page_blocks = page_bytes / block_bytes;
    let pages = blocks.div_ceil(record.entries().page_blocks() + page_blocks);
    blocks.saturating_sub(pages * page_blocks)
}

/// Returns an error if the map of an array may not change.
pub(crate) fn may_change(record: &ArrayRecord) -> Result<(), PlanError> {
    if record.growth.older.is_some() {
        return Err(PlanError::Growing);
    }
    if record.parent != Uuid::NIL {
        return Err(PlanError::Inner);
    }
    if !record.missing().is_empty() || !record.rebuilding().is_empty() {
        return Err(PlanError::Degraded);
    }
    Ok(())
}

/// Gives the `groups` groups of a new map regions whose bits lie outside `taken`, so that both sets
/// of bits stay whole at any time.
pub(crate) fn lay_regions(
    record: &mut ArrayRecord,
    devices: &[DeviceRecord],
    taken: &Range<u64>,
    geometry: &Geometry,
    groups: u64,
) -> Result<(), PlanError> {
    // All members are present, so the array may use the whole room that its members share.
    let room = SharedAreas::of(devices);
    record.shared.bitmap_bytes = room.bitmap_bytes;
    record.shared.headroom_bytes = room.headroom_bytes;
    let (before, after) = (taken.start, room.regions().saturating_sub(taken.end));
    let group_bytes = geometry.stripe_blocks() * u64::from(record.block_size.bytes());
    let region_groups = region_groups_for(groups, group_bytes, before.max(after));
    record.region_groups = region_groups.ok_or(PlanError::NoRoomForRegions)?;
    let regions = groups.div_ceil(u64::from(record.region_groups));
    let region = if regions <= before { 0 } else { taken.end };
    record.growth.region = u32::try_from(region).map_err(|_| PlanError::NoRoomForRegions)?;
    Ok(())
}

/// Returns the superblock record of an array that begins to grow. `record` and `devices` describe a
/// closed, clean and complete array. An array opened with the result begins to grow: see
/// `ArrayRecord::growth_is_planned`.
///
/// # Errors
///
/// The reason why it can't grow that way.
pub fn plan_growth(
    record: &ArrayRecord,
    devices: &[DeviceRecord],
    target: &Target,
) -> Result<ArrayRecord, PlanError> {
    let mut planned = plan(record, devices, target);
    if let Err(PlanError::NoRoomToStage { chunk, .. }) = &mut planned {
        let asked = target.chunk_blocks.unwrap_or(record.chunk_blocks);
        let segments = core::iter::successors(Some(asked / 2), |blocks| Some(blocks / 2));
        let fits = |blocks: &u32| {
            let target = Target {
                chunk_blocks: Some(*blocks),
                ..target.clone()
            };
            plan(record, devices, &target).is_ok()
        };
        let fitting = segments.take_while(|blocks| *blocks > 0).find(fits);
        let bytes = |blocks| u64::from(blocks) * u64::from(record.block_size.bytes());
        *chunk = fitting.map(|blocks| SizeBytes(bytes(blocks)));
    }
    planned
}

/// Like `plan_growth`, but suggests no chunk size if there is no room.
fn plan(
    record: &ArrayRecord,
    devices: &[DeviceRecord],
    target: &Target,
) -> Result<ArrayRecord, PlanError> {
    may_change(record)?;
    let mut grown = record.clone();
    let old_level = Level::named(record.level.as_str()).map_err(PlanError::Geometry)?;
    let level = target.level.unwrap_or(old_level);
    let layout = target.layout.unwrap_or_else(|| {
        let same = level.layout(record.layout.as_str());
        same.unwrap_or_else(|_| level.layout_default())
    });
    let members = usize::from(record.members) + target.added.len();
    let too_many = PlanError::Geometry(GeometryError::TooManyMembers(members));
    grown.members = u8::try_from(members).map_err(|_| too_many.clone())?;
    let mut all = devices.to_vec();
    let added = grown.member.get_mut(usize::from(record.members)..members);
    for (member, (uuid, _)) in added.ok_or(too_many)?.iter_mut().zip(&target.added) {
        *member = MemberRecord {
            device_uuid: *uuid,
            data_blocks: MEMBER_BLOCKS_MAX,
            state: MemberState::Missing {
                held_out: false,
                out_since: record.generation + 1,
            },
        };
    }
    grown.level = Text::new(level.name).expect("a level's name is short");
    let layout_name = alloc::format!("{layout}");
    grown.layout = Text::new(&layout_name).expect("a layout's name is short");
    grown.chunk_blocks = target.chunk_blocks.unwrap_or(record.chunk_blocks);
    // Checked before anything else, for levels that don't grow too.
    let old = geometry_of(record)?;
    grown.growth = GrowthRecord {
        region: 0,
        older: Some(older_map(record)?),
    };
    // The space that a new device needs follows from the map over devices that are large enough.
    let geometry = geometry_of(&grown)?;
    let rows = old.blocks().div_ceil(geometry.stripe_blocks());
    let needed_blocks = rows * u64::from(geometry.chunk_blocks());
    for (at, (_, bytes)) in (record.members..).zip(&target.added) {
        let member = MemberIndex(at);
        let device = areas_to_hold(record, *bytes, member, needed_blocks)
            .map_err(|small| PlanError::TooSmall { member, small })?;
        grown.member[usize::from(at)].data_blocks = device.data_blocks();
        all.push(device);
    }
    let geometry = geometry_of(&grown)?;
    if record.region_groups == 0 {
        return Err(PlanError::NoRegions);
    }
    let (_, of_old) = parts(Some(&grown), &geometry);
    let taken = of_old.expect("it grows").regions();
    let groups = geometry.groups() - old.groups();
    lay_regions(&mut grown, &all, &taken, &geometry, groups)?;
    // The engine sets the feature with the first superblocks that it writes.
    grown.features.refuse &= !Features::GROWTH;
    check_staging(&grown, &geometry)?;
    Ok(grown)
}

/// Returns the map of an array that begins to grow.
fn older_map(record: &ArrayRecord) -> Result<OlderMap, PlanError> {
    Ok(OlderMap {
        level: Text::new(record.level.as_str()).ok_or(PlanError::NoRegions)?,
        layout: Text::new(record.layout.as_str()).ok_or(PlanError::NoRegions)?,
        chunk_blocks: record.chunk_blocks,
        members: record.members,
        region_groups: record.region_groups.max(1),
        region: record.growth.region,
        mark: BlockIndex(0),
        staged_blocks: 0,
    })
}

/// Checks that the members have room for the rows that are moved at once.
fn check_staging(grown: &ArrayRecord, geometry: &Geometry) -> Result<(), PlanError> {
    let rows = unit_rows(geometry).expect("it grows");
    let headroom = staging_rows(grown);
    let unit = geometry.growth_unit().expect("it grows");
    if rows > headroom || unit > u64::from(u32::MAX) / 4 {
        let block_bytes = u64::from(grown.block_size.bytes());
        return Err(PlanError::NoRoomToStage {
            needed_bytes: rows * block_bytes,
            headroom_bytes: headroom * block_bytes,
            chunk: None,
        });
    }
    Ok(())
}

/// Returns the superblock record that gives up a growth: the one from before. `None` if a part of
/// the array is of the new map, which may lie where the old map has other data.
pub fn plan_abort(record: &ArrayRecord) -> Option<ArrayRecord> {
    let older = record.growth.older?;
    if older.mark > BlockIndex(0) || older.staged_blocks > 0 {
        return None;
    }
    let mut back = record.clone();
    back.level = Text::new(older.level.as_str()).expect("it was its level");
    back.layout = Text::new(older.layout.as_str()).expect("it was its layout");
    back.chunk_blocks = older.chunk_blocks;
    back.region_groups = older.region_groups;
    back.growth = GrowthRecord {
        region: older.region,
        older: None,
    };
    back.members = older.members;
    back.member[usize::from(older.members)..].fill(MemberRecord::NONE);
    back.note_growth();
    back.note_rebuilding();
    Some(back)
}

/// Returns the consistency policy of an array that has grown: the default of its new level. `None`
/// if the array did not have the default of its old level.
pub(crate) fn policy_after(record: &ArrayRecord, older: &OlderMap) -> Option<&'static Policy> {
    let default_of = |level: &str| {
        let level = Level::by_name(level)?;
        let parity = matches!(level.redundancy, Redundancy::Parity(_));
        Some(Policy::default_for(
            parity || record.checksum != ChecksumKind::None,
        ))
    };
    let had = default_of(older.level.as_str())?;
    (record.consistency.as_str() == had.name).then_some(default_of(record.level.as_str())?)
}
