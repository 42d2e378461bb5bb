//! Creates an array in a vacant place of an existing array. The plan and all checks come before the
//! first write.
//!
//! Some devices may remain from an earlier array in that place. From the first write on they are
//! members of the new array. Its generation is 1 until it is opened, and it has zeros in the place
//! of the outer array's superblock. So old data is never mistaken for its contents, and a stopped
//! creation starts over.

use super::devices::{Device, refuse_occupied};
use super::options::CreateOptions;
use super::plan::{Plan, Planner};
use super::writing::{Writing, blank_array};
use crate::errors::{ChangeError, CreateError};
use spindles_array::{NodeId, Stack};
use spindles_block::MemberIndex;
use spindles_device::seen::Examined;
use spindles_device::signatures::Sighting;
use spindles_device::{OpenOptions, clearing};
use spindles_engine::{Policy, geometry_of};
use spindles_format::{
    AreaKind, ArrayRecord, BITMAPS, ChecksumKind, DeviceRecord, SLOT_BYTES, SUPERBLOCK_BYTES,
    areas_to_join,
};
use spindles_layout::Expression;

/// Sizes in error messages are multiples of this.
const SIZE_STEP_BYTES: u64 = 1 << 20;

/// The array to create, and its place.
pub(crate) struct Wanted<'a> {
    pub(crate) expression: &'a Expression,
    /// The array around it.
    pub(crate) around: &'a ArrayRecord,
    /// The place in the outer array.
    pub(crate) member: MemberIndex,
    /// The model for the options: the earlier array in this place, or an array in another place.
    pub(crate) like: &'a ArrayRecord,
    /// Devices that remain from the earlier array.
    pub(crate) left: &'a [String],
}

/// A new inner array that is to be filled.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its name.
    pub name: String,
    /// Its level.
    pub level: &'static str,
    /// The array's devices, by position.
    pub devices: Vec<String>,
}

/// A planned inner array.
pub(crate) struct Inner {
    plan: Plan,
    /// The areas within it, as in any other member.
    pub(crate) areas: DeviceRecord,
    pub(crate) leaves: Vec<String>,
    /// Data found on the new devices, by position; `None` for remaining ones.
    sightings: Vec<Option<Vec<Sighting>>>,
    /// The examined state of its devices.
    seen: Vec<Examined>,
    /// Data on new devices that is overwritten.
    pub(crate) occupied: Vec<(String, String)>,
    requests_max: u32,
}

impl Inner {
    /// Examines the devices and plans the array. Writes nothing.
    pub(crate) fn plan(
        wanted: &Wanted<'_>,
        open: &OpenOptions,
        overwrite: bool,
    ) -> Result<Self, ChangeError> {
        let Wanted {
            expression,
            around,
            member,
            left,
            ..
        } = wanted;
        let options = wanted.options(open);
        let leaves = expression.leaves();
        let devices = leaves.iter().map(|name| Device::look(name, open));
        let devices = devices.collect::<Result<Vec<_>, _>>()?;
        let is_new = |device: &&Device| !left.contains(&device.name);
        let plan = |sizes: &[u64]| {
            let around_keeps = around.checksum != ChecksumKind::None;
            let plan = Planner::new(&options, sizes).array(
                expression,
                &options.name,
                around.uuid,
                around_keeps,
            )?;
            let bytes = plan.geometry.blocks() * u64::from(around.block_size.bytes());
            Ok((areas_to_join(around, bytes, *member), plan))
        };
        let sizes_with = |new_bytes: Option<u64>| -> Vec<u64> {
            let bytes = |device: &Device| match new_bytes {
                Some(bytes) if is_new(&device) => bytes,
                _ => device.probe.bytes,
            };
            devices.iter().map(bytes).collect()
        };
        let (areas, plan) = match plan(&sizes_with(None)) {
            Ok((Ok(areas), plan)) => (areas, plan),
            unfit => {
                let fits = |bytes| matches!(plan(&sizes_with(Some(bytes))), Ok((Ok(_), _)));
                let least_bytes = least_size(fits);
                if let (Err(error), None) = (unfit, least_bytes) {
                    return Err(error);
                }
                let new = devices.iter().filter(is_new);
                return Err(ChangeError::InnerTooSmall {
                    array: around.name.to_string(),
                    member: *member,
                    new: new.map(|device| device.name.clone()).collect(),
                    left: left.to_vec(),
                    least_bytes,
                });
            }
        };
        let occupied = refuse_occupied(devices.iter().filter(is_new), overwrite)?;
        let seen = devices.iter().map(|device| device.seen).collect();
        let sightings = devices.iter().map(|device| is_new(&device));
        let sightings: Vec<bool> = sightings.collect();
        let sightings = devices.into_iter().zip(sightings);
        let sightings = sightings.map(|(device, is_new)| is_new.then_some(device.sightings));
        Ok(Self {
            areas,
            leaves: leaves.iter().map(|&name| name.to_owned()).collect(),
            sightings: sightings.collect(),
            seen,
            occupied,
            requests_max: open.requests_max,
            plan,
        })
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> &str {
        self.plan.record.name.as_str()
    }

    /// Returns the description of the created array.
    pub(crate) fn made(&self) -> Made {
        Made {
            name: self.name().to_owned(),
            level: self.plan.geometry.level().name,
            devices: self.leaves.clone(),
        }
    }

    /// Creates it, and blanks the places where an outer array keeps metadata.
    pub(crate) fn make(
        &self,
        stack: &mut Stack,
        around: &ArrayRecord,
    ) -> Result<NodeId, CreateError> {
        let writing = Writing::plan(&self.plan, false, self.requests_max)?;
        let nodes = self.leaves.iter().map(|name| stack.add_device(name));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        for (device, seen) in self.leaves.iter().zip(&self.seen) {
            seen.is_unchanged(device)?;
        }
        for (device, sightings) in self.leaves.iter().zip(&self.sightings) {
            let Some(sightings) = sightings else { continue };
            clearing::wipe(device, sightings).map_err(|source| CreateError::Io {
                device: device.clone(),
                action: "clear what it holds",
                source,
            })?;
        }
        writing.label(stack, &mut nodes.iter().copied())?;
        let node = writing.write(stack, &mut nodes.into_iter())?;
        let node = node.expect("what is a member of another is opened");
        let name = format!("array '{}'", self.name());
        let superblock = u64::try_from(SUPERBLOCK_BYTES).expect("4096");
        let of = |kind| {
            let area = self.areas.area(kind).expect("a member has all areas");
            (area.offset_bytes, area.length_bytes)
        };
        let checksums = (around.checksum != ChecksumKind::None).then(|| of(AreaKind::CHECKSUMS));
        let start = (0, SLOT_BYTES[1] + superblock);
        for (from, bytes) in [start].into_iter().chain(BITMAPS.map(of)).chain(checksums) {
            blank_array(stack, node, &name, from, bytes)?;
        }
        Ok(node)
    }
}

impl Wanted<'_> {
    /// Returns the options with which the model array was created.
    fn options(&self, open: &OpenOptions) -> CreateOptions {
        let Self { around, like, .. } = self;
        let mut options = CreateOptions::new(&format!("{}.{}", around.name, self.member));
        options.block_size = around.block_size;
        options.checksum = Some(like.checksum);
        options.degraded_writes = around.degraded_writes;
        options.open = open.clone();
        let is_level = |expression: &Expression| match expression {
            Expression::Array { level, .. } => level.name == like.level.as_str(),
            Expression::Leaf(_) | Expression::Slice { .. } => false,
        };
        options.chunk_bytes = is_level(self.expression)
            .then(|| u64::from(like.chunk_blocks) * u64::from(like.block_size.bytes()));
        // Keep the model's policy, unless it is the default of its level.
        let parity = geometry_of(like).is_ok_and(|geometry| geometry.parity_chunks() > 0);
        let usual = Policy::default_for(parity || like.checksum != ChecksumKind::None);
        let policy = Policy::by_name(like.consistency.as_str());
        options.consistency = policy.filter(|policy| policy.name != usual.name);
        options
    }
}

/// Returns the smallest sufficient size; `None` if no size is sufficient.
fn least_size(fits: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut less, mut steps) = (0, 1_u64);
    while !fits(steps.checked_mul(SIZE_STEP_BYTES)?) {
        less = steps;
        steps *= 2;
        // Larger than any device.
        (steps < 1 << 36).then_some(())?;
    }
    while less + 1 < steps {
        let middle = less.midpoint(steps);
        if fits(middle * SIZE_STEP_BYTES) {
            steps = middle;
        } else {
            less = middle;
        }
    }
    Some(steps * SIZE_STEP_BYTES)
}
