//! Devices without a place in their array whose records are so old that no current record
//! remembers them. Assembly could not distinguish that from two separate histories.

use spindles_format::{ArrayRecord, Found, Uuid};

/// Takes out the left-over devices, as far as they are known. Devices that their array's records
/// remember stay, as do members that it merely outlived: assembly classifies them.
pub(crate) fn set_apart(found: &mut Vec<Found>) -> Vec<Found> {
    let mut left_over = take(found, is_outlived);
    left_over.extend(take(found, is_a_remainder));
    left_over
}

fn take(found: &mut Vec<Found>, is_old: fn(&Found, &ArrayRecord, &[Found]) -> bool) -> Vec<Found> {
    let all = found.clone();
    let is_left_over = |device: &mut Found| {
        device.record().is_ok_and(|(own, _)| {
            let newest = newest(&all, own.uuid).unwrap_or(own);
            newest.common_generation(own).is_none()
                && !is_stale(device, own, newest, &all)
                && is_old(device, own, &all)
        })
    };
    found.extract_if(.., is_left_over).collect()
}

/// Returns true if assembly refuses `device` as a stale member: its position is still its own, and
/// the `own` record counts on a device with the newest record.
fn is_stale(device: &Found, own: &ArrayRecord, newest: &ArrayRecord, all: &[Found]) -> bool {
    let place = |record: &ArrayRecord| {
        let (_, it) = device.record().ok()?;
        let place = record.members().get(usize::from(it.member.0))?;
        Some(place.device_uuid)
    };
    let mut holders = all.iter().filter(|holder| {
        let record = holder.record();
        record.is_ok_and(|(record, _)| record == newest)
    });
    place(own) == place(newest) && holders.any(|holder| has_place(holder, own))
}

/// Returns true if the array continued without `device`: a newer record counts on another device of
/// the `own` record, but not on `device`. Each record is durable on all devices that it counts on
/// before the next record is written. So the shared device had both records, one after the other.
fn is_outlived(device: &Found, own: &ArrayRecord, all: &[Found]) -> bool {
    let records = all.iter().filter_map(|found| Some(&found.record().ok()?.0));
    let mut newer = records.filter(|other| {
        other.uuid == own.uuid && other.generation > own.generation && !has_place(device, other)
    });
    newer.any(|other| {
        let mut places = own.members().iter().zip(other.members());
        places.any(|(one, other)| {
            one.device_uuid == other.device_uuid
                && one.state.takes_part()
                && other.state.takes_part()
        })
    })
}

/// Returns true if all devices of the newest record are present, with another device in this place,
/// and devices of the `own` record are missing. Then the array did not continue in two places.
fn is_a_remainder(device: &Found, own: &ArrayRecord, all: &[Found]) -> bool {
    let Some(newest) = newest(all, own.uuid) else {
        return false;
    };
    newest.generation > own.generation
        && newest.last_written_s >= own.last_written_s
        && !has_place(device, newest)
        && is_whole(newest, all)
        && !is_whole(own, all)
}

/// Returns true if a record counts on that device.
fn has_place(device: &Found, record: &ArrayRecord) -> bool {
    device.record().is_ok_and(|(own, it)| {
        let place = usize::from(it.member.0);
        let there = record.members().get(place);
        there.is_some_and(|there| {
            there.device_uuid == own.member[place].device_uuid && there.state.takes_part()
        })
    })
}

/// Returns true if all devices that a record counts on are present.
fn is_whole(record: &ArrayRecord, all: &[Found]) -> bool {
    let mut counted_on = record
        .members()
        .iter()
        .filter(|member| member.state.takes_part());
    counted_on.all(|it| {
        all.iter()
            .any(|found| is_member(found, record.uuid, it.device_uuid))
    })
}

/// Returns the newest record of an array.
pub(crate) fn newest(found: &[Found], uuid: Uuid) -> Option<&ArrayRecord> {
    let records = found
        .iter()
        .filter_map(|found| Some(&found.record().ok()?.0));
    records
        .filter(|array| array.uuid == uuid)
        .max_by_key(|array| array.generation)
}

/// Returns true if a device is a member of that array, under that identity.
pub(crate) fn is_member(found: &Found, uuid: Uuid, own: Uuid) -> bool {
    found.record().is_ok_and(|(array, device)| {
        array.uuid == uuid && array.member[usize::from(device.member.0)].device_uuid == own
    })
}
