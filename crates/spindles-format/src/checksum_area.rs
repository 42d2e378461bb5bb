//! The area of a member that holds the checksums of its blocks.

use crate::{
    AreaKind, ArrayRecord, CHECKSUM_PAGE_BYTES, ChecksumKind, DeviceRecord, Entries, Features,
};

/// Gives a new array checksums, with row sums if it has parity or may grow to a level that has. The
/// caller must then zero the checksum areas of all members.
pub fn give_checksums(
    array: &mut ArrayRecord,
    devices: &mut [DeviceRecord],
    kind: ChecksumKind,
    row_sums: bool,
) {
    if kind == ChecksumKind::None {
        return;
    }
    for device in devices {
        device.set_version(AreaKind::CHECKSUMS, 1);
    }
    array.checksum = kind;
    array.row_sums = row_sums;
    array.features.refuse |= Features::CHECKSUMS;
}

/// Returns true if the device's checksum area has room for the entries of all blocks of its data
/// area, row sums included. Every device reserves it, with or without checksums.
#[must_use]
pub fn room_for_checksums(device: &DeviceRecord) -> bool {
    let area = device.area(AreaKind::CHECKSUMS);
    area.is_some_and(|area| area.length_bytes >= checksum_area_bytes(device.data_blocks()))
}

/// The length in bytes of a checksum area for this many blocks.
pub(crate) fn checksum_area_bytes(blocks: u64) -> u64 {
    let pages = Entries::WithRowSums.pages(blocks);
    pages.saturating_mul(CHECKSUM_PAGE_BYTES as u64)
}
