//! Devices without a place in their array whose records are so old that no current record
//! remembers them. Assembly could not distinguish that from two separate histories.

use crate::{ArrayRecord, Found, Uuid};
use alloc::vec::Vec;

/// Takes out the left-over devices, as far as they are known. Devices that their array's records
/// remember stay, as do members that it merely outlived: assembly classifies them.
pub fn take_left_over(found: &mut Vec<Found>) -> Vec<Found> {
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
        let (_, device) = device.record().ok()?;
        Some(
            record
                .members()
                .get(usize::from(device.member.0))?
                .device_uuid,
        )
    };
    let mut holders = all.iter().filter(|holder| holder.array() == Some(newest));
    place(own) == place(newest) && holders.any(|holder| has_place(holder, own))
}

/// Returns true if the array continued without `device`: a newer record counts on another device of
/// the `own` record, but not on `device`. Each record is durable on all devices that it counts on
/// before the next record is written. So the shared device had both records, one after the other.
fn is_outlived(device: &Found, own: &ArrayRecord, all: &[Found]) -> bool {
    let mut newer = all.iter().filter_map(Found::array).filter(|other| {
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
    device.record().is_ok_and(|(own, device)| {
        let place = usize::from(device.member.0);
        let there = record.members().get(place);
        there.is_some_and(|there| {
            there.device_uuid == own.member[place].device_uuid && there.state.takes_part()
        })
    })
}

/// Returns true if all devices that a record counts on are present.
fn is_whole(record: &ArrayRecord, all: &[Found]) -> bool {
    let members = record.members().iter();
    let mut counted_on = members.filter(|member| member.state.takes_part());
    counted_on.all(|member| {
        let mut all = all.iter();
        all.any(|found| found.is_member(record.uuid, member.device_uuid))
    })
}

/// Returns the newest record of an array.
#[must_use]
pub fn newest(found: &[Found], uuid: Uuid) -> Option<&ArrayRecord> {
    let records = found.iter().filter_map(Found::array);
    records
        .filter(|array| array.uuid == uuid)
        .max_by_key(|array| array.generation)
}
