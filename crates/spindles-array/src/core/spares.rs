//! Spares that arrays were given, which take the places of missing members.

use super::carry::{ArrayIndex, Carry};
use super::manage::{arrays_of_devices, may_join, put_in};
use super::tree::arrays_above;
use crate::TooSmall;
use crate::errors::AttachError;
use crate::labels::{self, Spare};
use crate::positions::positions;
use crate::room::FOR_ALL;
use crate::spare_report::{SpareReport, Taken};
use spindles_block::{MemberIndex, MemberSet, SizeBytes};
use spindles_device::OpenError;
use spindles_device::identity::identity;
use spindles_device::probe::Probe;
use spindles_format::{DeviceRecord, SpareRecord, areas_to_join};

/// The spares of all arrays.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    /// Spares not taken yet, in the order of use.
    left: Vec<Spare>,
    /// Spares taken since the last call of `taken`.
    taken: Vec<Taken>,
}

impl Spares {
    /// Gives the arrays more spares for members that are missing now or later.
    pub(crate) fn provide(&mut self, carry: &mut Carry, spares: Vec<Spare>) {
        let is_new = |left: &Spare| spares.iter().all(|spare| spare.name != left.name);
        self.left.retain(is_new);
        self.left.extend(spares);
        // Dedicated spares before shared spares, small spares before large ones.
        self.left
            .sort_by_key(|spare| (spare.record.is_shared(), spare.bytes));
        self.take_places(carry);
    }

    /// Returns the spares that no array has taken, the next one first.
    pub(crate) fn left(&self) -> Vec<SpareReport> {
        self.left.iter().map(SpareReport::of).collect()
    }

    /// Returns the devices of the spares that are left.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.left.iter().map(|spare| spare.name.clone())
    }

    /// Removes a spare that was not taken. Returns true if the spare existed.
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

    /// Returns the spares taken since the last call.
    pub(crate) fn taken(&mut self) -> Vec<Taken> {
        std::mem::take(&mut self.taken)
    }

    /// Returns how a spare was taken since the last call of `taken`; `None` if it was not.
    pub(crate) fn taken_as(&self, device: &str) -> Option<&Taken> {
        self.taken.iter().rev().find(|taken| taken.device == device)
    }

    /// Returns the device of the spare that will take this place; `None` if none fits.
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

    /// Returns the next spare to take, its place, and its layout.
    fn next(&self, carry: &Carry) -> Option<(usize, ArrayIndex, MemberIndex, DeviceRecord)> {
        vacancies(carry).find_map(|(array, member)| {
            let (at, areas) = self.fit(carry, array, member)?;
            Some((at, array, member, areas))
        })
    }

    /// Returns the first spare that fits a place, and its layout.
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

/// Returns the places that wait for a device, in arrays of devices.
fn vacancies(carry: &Carry) -> impl Iterator<Item = (ArrayIndex, MemberIndex)> {
    arrays_of_devices(carry).flat_map(|(index, array)| {
        let vacant = array.engine().vacancies();
        vacant.iter().map(move |member| (index, member))
    })
}

/// Makes a spare durably this array's own, and then puts it in a place.
fn take(
    carry: &mut Carry,
    name: &str,
    array: ArrayIndex,
    member: MemberIndex,
    areas: &DeviceRecord,
) -> Result<(), AttachError> {
    // If another array has taken the spare, that array has it open: the open below would only be
    // busy.
    if let Some(probe) = Probe::glance(name) {
        label(carry, &probe, array)?;
    }
    let coming = may_join(carry, name, array, member, areas)?.decided(carry, name)?;
    let device = carry.add_device_meanwhile(name)?;
    if let Err(error) = claim(carry, name, array, areas) {
        // Another process claimed the device; close it.
        carry.members_mut().let_go(device);
        return Err(error);
    }
    put_in(carry, name, coming, device).map(drop)
}

/// Claims a spare that is held. Reads the label again, because another process may have taken the
/// spare before the hold.
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

/// Returns the label of a spare that this array may still take.
fn label(carry: &Carry, probe: &Probe, array: ArrayIndex) -> Result<SpareRecord, AttachError> {
    let found = probe.found();
    let spare = found.spare().filter(|spare| serves(carry, spare, array));
    spare.cloned().ok_or_else(|| AttachError::TakenAlready {
        device: probe.name.clone(),
    })
}

/// Returns true if an array may take a spare: the spare names it, or an array around it.
fn serves(carry: &Carry, spare: &SpareRecord, array: ArrayIndex) -> bool {
    let is_named = |array: ArrayIndex| {
        let record = carry.array(array).engine().record();
        record.is_some_and(|record| spare.serves(record.uuid))
    };
    is_named(array) || arrays_above(carry, array).any(is_named)
}

/// Returns the places that a new spare is too small for. Fails if the spare is too small for every
/// place.
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

/// Returns why none of the arrays will ever take a spare; `None` if one may.
pub(crate) fn is_useless(carry: &Carry, spare: &Spare) -> Option<String> {
    if spare.bytes < spare.record.device_bytes {
        let Spare { bytes, record, .. } = spare;
        return Some(format!(
            "truncated: it has {} and had {had} when it became a spare; make it {had} again, or \
             leave it out",
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
