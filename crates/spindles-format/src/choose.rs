//! Selects the current record among those that a set of devices carries, and the devices that may
//! take part.
//!
//! Every record names the members it was written for and the openings that led to it. A record is
//! durable on all members that it calls active or rebuilding before anything relies on it. Hence:
//!
//! - If one record follows the other, the later one is current. A member one generation behind a
//!   record that calls it active missed only the last superblock write, and nothing has happened
//!   since: it *lags*, and is good. A member two or more generations behind went back in time: it
//!   is *stale*.
//! - If two records diverged, one may count on a device that took the other side, or on a device
//!   one generation behind. That update was never finished, so its record gives way at any
//!   generation.
//! - If two records diverged and both updates were finished, they are two histories: *split brain*.
//!
//! `docs/reference/format.md` has the rules with examples.

use alloc::string::String;
use alloc::vec::Vec;

use spindles_block::{MemberIndex, MemberSet};

use crate::versions::Decoded;
use crate::{
    ArrayRecord, AssembleError, Assembly, DecodeError, DeviceRecord, Half, JournalDevice,
    MemberState, Reason, Refusal, SpareRecord, Uuid, decode,
};

/// Decodes the superblock in a slot, which holds either the even or the odd generations.
fn decode_slot(slot: Result<&[u8], DecodeError>, parity: u64) -> Decoded {
    let (array, device) = slot.and_then(decode)?;
    if array.generation % 2 != parity {
        return Err(DecodeError::Invalid {
            what: "it lies in the slot of another generation",
        });
    }
    Ok((array, device))
}

/// Returns the error that says more about a device; the one of the even slot if they say the same.
fn more_telling(even: DecodeError, odd: DecodeError) -> DecodeError {
    let telling = |error: &DecodeError| match error {
        DecodeError::Features { .. } => 6,
        DecodeError::Version { .. } => 5,
        DecodeError::Checksum { .. } => 4,
        DecodeError::Invalid { .. } => 3,
        DecodeError::Unreadable => 2,
        DecodeError::Short { .. } => 1,
        DecodeError::NotOurs => 0,
    };
    if telling(&even) >= telling(&odd) {
        even
    } else {
        odd
    }
}

/// Returns the record of a device that is not a member, such as a spare. If it is damaged and the
/// slot holds no superblock, the error replaces the slot's: an unreadable device is not a blank
/// one.
fn set_apart<T>(said: Result<T, DecodeError>, slot: &mut Decoded) -> Option<T> {
    said.map_err(|error| {
        if matches!(slot, Err(DecodeError::NotOurs)) {
            *slot = Err(error);
        }
    })
    .ok()
}

/// The superblock slots of one device, decoded.
#[derive(Clone, Debug)]
pub struct Found {
    /// The device's name, for people.
    pub name: String,
    /// The device's length in bytes.
    pub bytes: u64,
    record: Decoded,
    /// Damage of one slot, while the other slot is good.
    damage: Option<DecodeError>,
    spare: Option<SpareRecord>,
    journal: Option<JournalDevice>,
}

impl Found {
    /// Decodes the two slots of a device of this length. A slot has fewer bytes if the device ends
    /// within it, and is `Err` if it can't be read.
    #[must_use]
    pub fn new(name: String, bytes: u64, slots: [Result<&[u8], DecodeError>; 2]) -> Self {
        let spare = slots[0].and_then(SpareRecord::decode);
        let journals = slots.map(|slot| slot.and_then(JournalDevice::decode));
        // A blank slot was never written, or lies next to the record of a device that is no member.
        let is_blank = |slot: Result<&[u8], DecodeError>| {
            slot.is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0))
        };
        let is_marked = [spare.is_ok() || journals[0].is_ok(), journals[1].is_ok()];
        let holds_else = [0, 1].map(|at| !is_blank(slots[at]) && !is_marked[at]);
        let damage = |at: usize, error| {
            Some(error).filter(|error| *error != DecodeError::NotOurs || holds_else[at])
        };
        let mut slots = [decode_slot(slots[0], 0), decode_slot(slots[1], 1)];
        let is_newer = |slot: &Decoded| {
            let error = slot.as_ref().err();
            matches!(
                error,
                Some(DecodeError::Version { .. } | DecodeError::Features { .. })
            )
        };
        // A device whose first superblock as a member was torn is still a spare.
        let is_no_member = !slots.iter().any(|slot| slot.is_ok() || is_newer(slot));
        let spare = set_apart(spare, &mut slots[0]).filter(|_| is_no_member);
        let journals = journals.into_iter().zip(&mut slots);
        let journals = journals.filter_map(|(journal, slot)| set_apart(journal, slot));
        let journal = journals
            .max_by_key(|journal| journal.stamps)
            .filter(|_| is_no_member);
        let (record, damage) = match slots {
            [Ok(even), Ok(odd)] if even.0.generation > odd.0.generation => (Ok(even), None),
            [Ok(_), Ok(odd)] => (Ok(odd), None),
            [Ok(one), Err(error)] => (Ok(one), damage(1, error)),
            [Err(error), Ok(one)] => (Ok(one), damage(0, error)),
            [Err(even), Err(odd)] => (Err(more_telling(even, odd)), None),
        };
        Self {
            name,
            bytes,
            record,
            damage,
            spare,
            journal,
        }
    }

    /// The record of a journal device, which is not a member.
    #[must_use]
    pub const fn journal_device(&self) -> Option<&JournalDevice> {
        self.journal.as_ref()
    }

    /// The record of a spare, which is not a member but may replace one.
    #[must_use]
    pub const fn spare(&self) -> Option<&SpareRecord> {
        self.spare.as_ref()
    }

    /// The newest good record.
    pub fn record(&self) -> Result<&(ArrayRecord, DeviceRecord), DecodeError> {
        self.record.as_ref().map_err(|error| *error)
    }

    /// Damage of one slot while the other slot is good: a torn superblock write, or corruption.
    #[must_use]
    pub const fn damage(&self) -> Option<DecodeError> {
        self.damage
    }

    /// The array that the device is or was a member of, as its record describes it.
    #[must_use]
    pub fn array(&self) -> Option<&ArrayRecord> {
        self.record.as_ref().ok().map(|(array, _)| array)
    }

    /// Returns true if a record or a label of Spindles is on the device.
    #[must_use]
    pub fn is_labelled(&self) -> bool {
        self.record.is_ok() || self.spare.is_some() || self.journal.is_some()
    }

    /// Returns true if the device is a member of that array, under that identity.
    #[must_use]
    pub fn is_member(&self, array: Uuid, own: Uuid) -> bool {
        self.identity()
            .is_some_and(|(uuid, _, device)| (uuid, device) == (array, own))
    }

    /// The array of a member, its position there, and its own identity.
    #[must_use]
    pub fn identity(&self) -> Option<(Uuid, MemberIndex, Uuid)> {
        let (array, device) = self.record.as_ref().ok()?;
        Some((array.uuid, device.member, own_uuid(array, device)))
    }
}

fn own_uuid(array: &ArrayRecord, device: &DeviceRecord) -> Uuid {
    array.member[usize::from(device.member.0)].device_uuid
}

/// A record and the devices that hold it.
struct Class<'found> {
    record: &'found ArrayRecord,
    holders: Vec<usize>,
}

/// Assembles an array from the devices found, in any order and with members missing. Each device
/// that can't take part is refused with a reason.
pub fn choose(found: &[Found]) -> Result<Assembly, AssembleError> {
    if found.is_empty() {
        return Err(AssembleError::NoDevices);
    }
    refuse_mistakes(found)?;

    let (classes, refused) = classify(found);
    let Some(truth) = find_truth(found, &classes)? else {
        return Err(AssembleError::NothingLeft { refused });
    };

    let array = classes[truth].record;
    let mut assembly = Assembly {
        array: array.clone(),
        devices: alloc::vec![None; usize::from(array.members)],
        records: alloc::vec![None; usize::from(array.members)],
        missing: MemberSet::all(array.members),
        lagging: MemberSet::EMPTY,
        refused,
        read_only: array.features.must_read_only(),
    };
    for class in &classes {
        for &index in &class.holders {
            let (_, device) = found[index].record().expect("classes are of good records");
            let member = device.member;
            match judge(found, &classes[truth], class, index) {
                Ok(lagging) => {
                    assembly.devices[usize::from(member.0)] = Some(index);
                    assembly.records[usize::from(member.0)] = Some(*device);
                    assembly.missing = assembly.missing.without(member);
                    if lagging {
                        assembly.lagging = assembly.lagging.with(member);
                    }
                }
                Err(reason) => assembly.refused.push(Refusal {
                    found: index,
                    name: found[index].name.clone(),
                    member: Some(member),
                    reason,
                }),
            }
        }
    }
    assembly.refused.sort_by_key(|refusal| refusal.found);
    if assembly.devices.iter().all(Option::is_none) {
        return Err(AssembleError::NothingLeft {
            refused: assembly.refused,
        });
    }
    Ok(assembly)
}

/// Groups the devices by record, the newest record first. Refuses devices without a good record.
fn classify(found: &[Found]) -> (Vec<Class<'_>>, Vec<Refusal>) {
    let mut refused = Vec::new();
    let mut classes: Vec<Class<'_>> = Vec::new();
    for (index, device) in found.iter().enumerate() {
        match device.record() {
            Err(error) => refused.push(Refusal {
                found: index,
                name: device.name.clone(),
                member: None,
                reason: Reason::Corrupt(error),
            }),
            Ok((record, _)) => match classes.iter_mut().find(|class| class.record == record) {
                Some(class) => class.holders.push(index),
                None => classes.push(Class {
                    record,
                    holders: alloc::vec![index],
                }),
            },
        }
    }
    let age = |class: &Class<'_>| (class.record.generation, class.record.session);
    classes.sort_by_key(|class| core::cmp::Reverse(age(class)));
    (classes, refused)
}

/// Returns an error for a mistake of the caller, as opposed to damage of a device.
fn refuse_mistakes(found: &[Found]) -> Result<(), AssembleError> {
    for device in found {
        let name = || device.name.clone();
        match device.record() {
            Err(DecodeError::NotOurs) => return Err(AssembleError::NotAMember { name: name() }),
            Err(error @ (DecodeError::Version { .. } | DecodeError::Features { .. })) => {
                return Err(AssembleError::Unsupported {
                    name: name(),
                    error,
                });
            }
            Ok(_) | Err(_) => {}
        }
    }
    let good = || {
        found
            .iter()
            .filter_map(|device| Some((device, device.record().ok()?)))
    };
    let count_of = |uuid| good().filter(|(_, (array, _))| array.uuid == uuid).count();
    // The array with the most devices; of equals, that of the first device.
    let expected = good()
        .rev()
        .map(|(_, (array, _))| array)
        .max_by_key(|array| count_of(array.uuid));
    for (device, (array, _)) in good() {
        if let Some(expected) = expected.filter(|expected| expected.uuid != array.uuid) {
            return Err(AssembleError::Foreign {
                name: device.name.clone(),
                array: array.name.as_str().into(),
                uuid: array.uuid,
                expected: expected.name.as_str().into(),
                expected_uuid: expected.uuid,
            });
        }
    }
    for (index, second) in found.iter().enumerate() {
        let (Some(identity), Ok((array, _))) = (second.identity(), second.record()) else {
            continue;
        };
        let same = |first: &&Found| first.identity() == Some(identity);
        if let Some(first) = found[..index].iter().find(same) {
            return Err(AssembleError::Duplicate {
                first: first.name.clone(),
                second: second.name.clone(),
                member: identity.1,
                array: array.name.as_str().into(),
            });
        }
    }
    Ok(())
}

/// Returns the one record that gives way to no other; `None` if there are no records.
fn find_truth(found: &[Found], classes: &[Class<'_>]) -> Result<Option<usize>, AssembleError> {
    let mut lost = alloc::vec![false; classes.len()];
    let mut split = Vec::new();
    for newer in 0..classes.len() {
        for older in newer + 1..classes.len() {
            match loser(found, classes, newer, older) {
                Some(loser) => lost[loser] = true,
                None => split.push((newer, older)),
            }
        }
    }
    let half = |of: core::ops::Range<usize>| -> Half {
        let holders = classes[of.clone()].iter().flat_map(|class| &class.holders);
        let written_s = classes[of].iter().map(|class| class.record.last_written_s);
        Half {
            devices: holders.map(|&index| found[index].name.clone()).collect(),
            last_written_s: written_s.max().unwrap_or(0),
        }
    };
    let parted = |newer: usize, older: usize| {
        let [newer, older] = [newer, older].map(|class| classes[class].record);
        newer.common_generation(older)
    };
    let mut left = (0..classes.len()).filter(|&class| !lost[class]);
    let (first, second) = (left.next(), left.next());
    // A split between two records that both gave way to a third is history. A split that involves
    // the current record is not.
    let fatal = split.iter().find(|(newer, older)| match second {
        Some(_) => !lost[*newer] && !lost[*older],
        None => first == Some(*newer) || first == Some(*older),
    });
    if let Some(&(newer, older)) = fatal {
        return Err(AssembleError::SplitBrain {
            one: half(newer..newer + 1),
            other: half(older..older + 1),
            parted: parted(newer, older),
        });
    }
    assert!(
        second.is_none(),
        "two records of which neither gave way are a split"
    );
    if first.is_none() && !classes.is_empty() {
        // Each gave way to another: no history leads here.
        return Err(AssembleError::SplitBrain {
            one: half(0..1),
            other: half(1..classes.len()),
            parted: parted(0, 1),
        });
    }
    Ok(first)
}

/// Returns true if `record` counts on one of these devices.
fn sees(record: &ArrayRecord, found: &[Found], holders: &[usize]) -> bool {
    holders
        .iter()
        .any(|&holder| position(record, &found[holder]).is_some_and(MemberState::takes_part))
}

/// Returns the state that `record` gives this very device; `None` if it doesn't know the device.
fn position(record: &ArrayRecord, device: &Found) -> Option<MemberState> {
    let (_, member, uuid) = device.identity()?;
    let position = record.members().get(usize::from(member.0))?;
    (position.device_uuid == uuid).then_some(position.state)
}

/// Returns the record that gives way, given the newer one first; `None` if they are two histories.
fn loser(found: &[Found], classes: &[Class<'_>], newer: usize, older: usize) -> Option<usize> {
    let [new, old] = [newer, older].map(|class| classes[class].record);
    if new.follows(old) {
        // If each follows the other, they differ but are of one opening and generation: a split.
        return (!old.follows(new)).then_some(older);
    }
    // They diverged. If a record counts on a device that holds the other one, its update was never
    // finished, and no write relied on it. That holds only for the first record after the last
    // common one: with a later record, the device would hold the one before it.
    let common = new.common_generation(old);
    let never_finished = |one: usize, other: usize| {
        let generation = classes[one].record.generation;
        let first = match common {
            Some(common) => generation <= common + 1,
            None => generation < classes[other].record.generation,
        };
        first && sees(classes[one].record, found, &classes[other].holders)
    };
    match (never_finished(newer, older), never_finished(older, newer)) {
        (true, false) => return Some(newer),
        // If neither update was finished, either record will do.
        (false | true, true) => return Some(older),
        (false, false) => {}
    }
    // A record whose update was never finished gives way, unless the record before it wins.
    for (one, other) in [(newer, older), (older, newer)] {
        if let Some(before) = before_unfinished(found, classes, one) {
            let stands = loser(found, classes, before.min(other), before.max(other)) == Some(other);
            return Some(if stands { other } else { one });
        }
    }
    None
}

/// Returns the generation since which the array has gone on without a device that resyncing the
/// dirty regions brings up to date; `None` for any other device.
pub fn returns_since(truth: &ArrayRecord, found: &Found) -> Option<u64> {
    let (own, _) = found.record().ok()?;
    match position(truth, found)? {
        MemberState::Missing { out_since, .. } if own.uuid == truth.uuid => {
            returns(truth, own, found, out_since).then_some(out_since)
        }
        _ => None,
    }
}

/// Returns true if a device missing since generation `since` needs only the dirty regions. Regions
/// stay dirty while any member is missing, so they cover all writes since then. The device must
/// hold all earlier writes. Two kinds of devices do:
///
/// - a device whose own record calls it active and is one generation before `since`, or two if the
///   very next update put the device out; or
/// - a device in a resync of the regions dirty since that same generation.
fn returns(truth: &ArrayRecord, own: &ArrayRecord, found: &Found, since: u64) -> bool {
    let Some(DeviceRecord {
        member,
        device_bytes,
        ..
    }) = found.record().ok().map(|(_, device)| *device)
    else {
        return false;
    };
    let covered = match own.member[usize::from(member.0)].state {
        MemberState::Active => {
            truth.follows(own) && own.generation < since && own.generation + 2 >= since
        }
        MemberState::Rebuilding { missed_since, .. } => missed_since == since,
        MemberState::Missing { .. } => false,
    };
    covered && truth.region_groups > 0 && found.bytes >= device_bytes
}

/// Returns the record before one whose update was never finished. `None` unless a device proves
/// that: the record counts on it, and it still holds the record before.
fn before_unfinished(found: &[Found], classes: &[Class<'_>], class: usize) -> Option<usize> {
    let record = classes[class].record;
    let behind = |before: &Class<'_>| {
        let counted_on =
            |holder: &usize| position(record, &found[*holder]) == Some(MemberState::Active);
        record.follows(before.record)
            && before.record.generation + 1 == record.generation
            && before.holders.iter().any(counted_on)
    };
    classes.iter().position(behind)
}

/// Returns whether the device lags, or why it can't take part.
fn judge(
    found: &[Found],
    truth: &Class<'_>,
    class: &Class<'_>,
    index: usize,
) -> Result<bool, Reason> {
    let (_, device) = found[index].record().expect("classes are of good records");
    let newest = truth.record.generation;
    let generation = class.record.generation;
    let stale = |out_since| Reason::Stale {
        generation,
        newest,
        out_since,
    };
    let position_of_it = position(truth.record, &found[index]);
    // Before its history: a device that lost blocks can't catch up either.
    if position_of_it.is_some() && found[index].bytes < device.device_bytes {
        return Err(Reason::Truncated {
            bytes: found[index].bytes,
            expected_bytes: device.device_bytes,
        });
    }
    match position_of_it {
        None => return Err(Reason::Replaced),
        Some(MemberState::Missing {
            out_since: since,
            held_out,
        }) => {
            if returns(truth.record, class.record, &found[index], since) {
                return Err(Reason::Returning { since, held_out });
            }
            return Err(stale(Some(since)));
        }
        Some(MemberState::Active | MemberState::Rebuilding { .. }) => {}
    }
    let lagging = class.record != truth.record;
    let behind = if truth.record.follows(class.record) {
        Some(generation)
    } else {
        // Both are of openings that wrote no more than their first record.
        let common = truth.record.common_generation(class.record);
        common.filter(|common| common + 1 == generation)
    };
    let one_behind = behind.is_some_and(|behind| behind + 1 == newest);
    if lagging && !one_behind {
        // A resync of this member was about to begin, and the superblock that records it never
        // reached it.
        if let Some(MemberState::Rebuilding { missed_since, .. }) =
            position(truth.record, &found[index])
            && missed_since > 0
            && returns(truth.record, class.record, &found[index], missed_since)
        {
            return Err(Reason::Returning {
                since: missed_since,
                held_out: false,
            });
        }
        return Err(stale(None));
    }
    let counted_on = truth.record.member[usize::from(device.member.0)].data_blocks;
    if device.data_blocks() < counted_on {
        return Err(Reason::Corrupt(DecodeError::Invalid {
            what: "its data area is shorter than the array counts on",
        }));
    }
    Ok(lagging)
}
