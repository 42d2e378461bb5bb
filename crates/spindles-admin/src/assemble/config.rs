//! The engine configuration of an array, with superblocks or without.

use spindles_block::{BlockIndex, BlockSize, BufferId, MemberIndex, MemberSet};
use spindles_device::clock::since_1970_s;
use spindles_engine::{
    Config, FaultLimits, JOB_RATE, Limits, Mutation, POLICIES, Persistence, Policy, READ_POLICIES,
};
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
        ..bare_config(geometry, array.block_size, missing, requests_max)
    }
}

/// Returns the configuration of an array without superblocks, log or checksums, open for writing.
pub(crate) fn bare_config(
    geometry: Geometry,
    block_size: BlockSize,
    missing: MemberSet,
    requests_max: u32,
) -> Config {
    Config {
        data_start: vec![BlockIndex(0); geometry.members().into()],
        geometry,
        block_size,
        missing,
        zeroes_without_moving_bytes: MemberSet::EMPTY,
        thin: MemberSet::EMPTY,
        persistence: None,
        clean: true,
        read_only: false,
        look_only: false,
        beyond_tolerance: false,
        only_recovers: false,
        tears: false,
        force: false,
        consistency: POLICIES[0],
        read_policy: READ_POLICIES[0],
        write_mostly: MemberSet::EMPTY,
        job_rate: JOB_RATE,
        faults: FaultLimits::DEFAULT,
        limits: Limits::for_depth(requests_max, block_size),
        scratch: BufferId::NONE,
        metadata: BufferId::NONE,
        mutation: Mutation::None,
    }
}
