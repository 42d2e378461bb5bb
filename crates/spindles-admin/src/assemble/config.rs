//! The engine configuration of an array with superblocks.

use spindles_block::{BlockIndex, MemberIndex};
use spindles_device::clock::since_1970_s;
use spindles_engine::{Config, Persistence, Policy};
use spindles_format::{ArrayRecord, DeviceRecord};
use spindles_layout::Geometry;

/// Returns the engine configuration of an array with superblocks.
pub(crate) fn config(
    array: &ArrayRecord,
    records: Vec<Option<DeviceRecord>>,
    geometry: Geometry,
    policy: &'static Policy,
    nonce: u64,
    requests_max: u32,
) -> Config {
    let data_start = |record: &Option<DeviceRecord>| {
        let start = record.as_ref().map(DeviceRecord::data_start);
        start.unwrap_or(BlockIndex(0))
    };
    let missing = (0_u8..)
        .zip(&records)
        .filter(|(_, record)| record.is_none())
        .map(|(member, _)| MemberIndex(member))
        .collect();
    Config {
        data_start: records.iter().map(data_start).collect(),
        persistence: Some(Persistence {
            array: Box::new(array.clone()),
            devices: records,
            changed: false,
            extends: None,
            journal_device: None,
            nonce,
            opened_s: Some(since_1970_s()),
        }),
        clean: array.clean,
        consistency: policy,
        missing,
        ..Config::bare(geometry, array.block_size, requests_max)
    }
}
