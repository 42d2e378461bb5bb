//! Spares that arrays were given, and that take the places of missing members.

use super::carry::{ArrayIndex, Carry};
use super::manage::{arrays_of_devices, may_join, put_in};
use super::tree::arrays_above;
use crate::errors::AttachError;
use crate::identity::identity;
use crate::labels::{self, Spare};
use crate::probe::Probe;
use crate::report::{SpareReport, Taken, positions};
use crate::room::FOR_ALL;
use crate::{OpenError, TooSmall};
use spindles_block::{MemberIndex, MemberSet, SizeBytes};
use spindles_format::{DeviceRecord, SpareRecord, areas_to_join};

/// The spares of all arrays.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    /// Not taken yet, in the order in which they are to be.
    left: Vec<Spare>,
    /// Taken since `taken` was called last.
    taken: Vec<Taken>,
}

impl Spares {
    /// Gives the arrays more spares, which take the places of what is missing now and later.
    pub(crate) fn provide(&mut self, carry: &mut Carry, spares: Vec<Spare>) {
        let is_new = |left: &Spare| spares.iter().all(|spare| spare.name != left.name);
        self.left.retain(is_new);
        self.left.extend(spares);
        // Spares of one array before shared ones, small ones before large ones.
        self.left
            .sort_by_key(|spare| (spare.record.is_shared(), spare.bytes));
        self.take_places(carry);
    }

    /// Spares that no array has taken, the next one first.
    pub(crate) fn left(&self) -> Vec<SpareReport> {
        self.left.iter().map(SpareReport::of).collect()
    }

    /// The devices of those that are left.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.left.iter().map(|spare| spare.name.clone())
    }

    /// Forgets one that was not taken. Whether there was one.
    pub(crate) fn withdraw(&mut self, device: &str) -> bool {
        let before = self.left.len();
        let wanted = identity(device);
        self.left.retain(|spare| {
            let same = wanted.is_some() && identity(&spare.name) == wanted;
            spare.name != device && !same
        });
        self.left.len() < before
    }

    /// Lets spares take the places of missing members.
    pub(super) fn take_places(&mut self, carry: &mut Carry) {
        while let Some((at, array, member, areas)) = self.next(carry) {
            let Spare { name, .. } = self.left.remove(at);
            let result = take(carry, &name, array, member, &areas);
            let error = result.err().map(|error| error.to_string());
            let array = carry.array(array).name().to_owned();
            self.taken.push(Taken {
                array,
                member,
                device: name,
                error,
            });
        }
    }

    /// Spares that were taken since this was asked last.
    pub(crate) fn taken(&mut self) -> Vec<Taken> {
        std::mem::take(&mut self.taken)
    }

    /// What became of one, if it was taken since `taken` was called last.
    pub(crate) fn taken_as(&self, device: &str) -> Option<&Taken> {
        self.taken.iter().rev().find(|taken| taken.device == device)
    }

    /// The device of the spare that is to take this place, where one fits.
    pub(crate) fn next_for(
        &self,
        carry: &Carry,
        array: ArrayIndex,
        member: MemberIndex,
    ) -> Option<String> {
        let mut vacant = vacancies(carry);
        vacant.find(|vacant| *vacant == (array, member))?;
        let (at, _) = self.fit(carry, array, member)?;
        Some(self.left[at].name.clone())
    }

    /// A spare, the place that it is to take, and what would lie where on it.
    fn next(&self, carry: &Carry) -> Option<(usize, ArrayIndex, MemberIndex, DeviceRecord)> {
        vacancies(carry).find_map(|(array, member)| {
            let (at, areas) = self.fit(carry, array, member)?;
            Some((at, array, member, areas))
        })
    }

    /// The first spare that fits into a place, and what would lie where on it.
    fn fit(
        &self,
        carry: &Carry,
        array: ArrayIndex,
        member: MemberIndex,
    ) -> Option<(usize, DeviceRecord)> {
        let record = carry.array(array).engine().record()?;
        self.left.iter().enumerate().find_map(|(at, spare)| {
            let areas = areas_to_join(record, spare.bytes, member).ok()?;
            serves(carry, &spare.record, array).then_some((at, areas))
        })
    }
}

/// Places that wait for a device, of arrays of devices.
fn vacancies(carry: &Carry) -> impl Iterator<Item = (ArrayIndex, MemberIndex)> {
    arrays_of_devices(carry).flat_map(|(index, array)| {
        let vacant = array.engine().vacancies();
        vacant.iter().map(move |member| (index, member))
    })
}

/// A spare becomes this array's alone, durably, and then takes a place in it.
fn take(
    carry: &mut Carry,
    name: &str,
    array: ArrayIndex,
    member: MemberIndex,
    areas: &DeviceRecord,
) -> Result<(), AttachError> {
    // Whoever has taken it has it open.
    if let Some(probe) = Probe::glance(name) {
        label(carry, &probe, array)?;
    }
    let coming = may_join(carry, name, array, member, areas)?.decided(carry, name)?;
    let device = carry.add_device_meanwhile(name)?;
    if let Err(error) = claim(carry, name, array, areas) {
        // Whoever made something else of it is to have it.
        carry.members_mut().let_go(device);
        return Err(error);
    }
    put_in(carry, name, coming, device).map(drop)
}

/// Nobody else can take a spare that is held; before, somebody may have.
fn claim(
    carry: &Carry,
    name: &str,
    array: ArrayIndex,
    areas: &DeviceRecord,
) -> Result<(), AttachError> {
    let clear = |source| AttachError::Clear {
        device: name.to_owned(),
        source,
    };
    let spare = label(carry, &Probe::held(name).map_err(clear)?, array)?;
    let record = carry.array(array).engine().record();
    let uuid = record.expect("it has a vacancy").uuid;
    labels::claim(name, &spare, uuid, areas).map_err(clear)
}

/// What a device says that is a spare, and that this array may take still.
fn label(carry: &Carry, probe: &Probe, array: ArrayIndex) -> Result<SpareRecord, AttachError> {
    let found = probe.found();
    let spare = found.spare().filter(|spare| serves(carry, spare, array));
    spare.cloned().ok_or_else(|| AttachError::TakenAlready {
        device: probe.name.clone(),
    })
}

/// Whether an array may take a spare: it, or one around it, is named by that.
fn serves(carry: &Carry, spare: &SpareRecord, array: ArrayIndex) -> bool {
    let is_named = |array: ArrayIndex| {
        let record = carry.array(array).engine().record();
        record.is_some_and(|record| spare.serves(record.uuid))
    };
    is_named(array) || arrays_above(carry, array).any(is_named)
}

/// The places that a new spare is too small for: an error if it is for all.
pub(crate) fn may_be_spare(
    carry: &Carry,
    name: &str,
    bytes: u64,
) -> Result<Vec<TooSmall>, TooSmall> {
    let mut least_bytes = u64::MAX;
    let (mut fits, mut unfit) = (false, Vec::new());
    for (_, array) in arrays_of_devices(carry) {
        let record = array.engine().record().expect("they have superblocks");
        let (mut members, mut needed_bytes) = (MemberSet::EMPTY, 0);
        for member in (0..record.members).map(MemberIndex) {
            match areas_to_join(record, bytes, member) {
                Ok(_) => fits = true,
                Err(small) => {
                    members = members.with(member);
                    needed_bytes = small.needed_bytes.max(needed_bytes);
                    least_bytes = small.needed_bytes.min(least_bytes);
                }
            }
        }
        if !members.is_empty() {
            let small = TooSmall::new(name, bytes, needed_bytes);
            let part = format!(" for {} of array '{}'", positions(members), array.name());
            unfit.push(small.with_part(part, FOR_ALL));
        }
    }
    if !fits {
        return Err(TooSmall::new(name, bytes, least_bytes));
    }
    Ok(unfit)
}

/// Why a spare will never be taken by any of the arrays, if so.
pub(crate) fn is_useless(carry: &Carry, spare: &Spare) -> Option<String> {
    if spare.bytes < spare.record.device_bytes {
        let Spare { bytes, record, .. } = spare;
        return Some(format!(
            "truncated: it has {} and had {had} when it became a spare; make it {had} again, or leave it out",
            SizeBytes(*bytes),
            had = SizeBytes(record.device_bytes)
        ));
    }
    let probe = Probe::peek(&spare.name);
    let blocks = probe.and_then(|probe| probe.check_blocks(carry.members().block_size()));
    if let Err(error @ OpenError::BlockSize { .. }) = blocks {
        return Some(format!("it can't be used: {error}"));
    }
    if !arrays_of_devices(carry).any(|(index, _)| serves(carry, &spare.record, index)) {
        return Some("it is a spare of another array".to_owned());
    }
    let small = may_be_spare(carry, &spare.name, spare.bytes).err()?;
    Some(format!(
        "too small: it has {}, and a member needs {}",
        SizeBytes(small.lack.device_bytes),
        SizeBytes(small.lack.needed_bytes)
    ))
}
