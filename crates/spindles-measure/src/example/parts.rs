//! What both invented experiments share.

use std::collections::BTreeMap;

use crate::{Device, Environment};

/// The machine of both.
pub(super) fn environment() -> Environment {
    Environment {
        tool_version: "0.1.0".to_owned(),
        commit: "0123456789ab".to_owned(),
        profile: "release".to_owned(),
        os: "Debian GNU/Linux 13 (trixie)".to_owned(),
        kernel: "6.12.0-amd64".to_owned(),
        cpu_model: "Example CPU at 2.60 GHz".to_owned(),
        cpus: 2,
        governor: "performance".to_owned(),
        virtualization: "kvm".to_owned(),
        memory_bytes: 8 << 30,
        memory_available_bytes: 6 << 30,
        file_system: "ext4".to_owned(),
        mount_options: "rw,relatime".to_owned(),
        clock_resolution_ns: 1,
        devices: vec![Device {
            name: "vda".to_owned(),
            model: "Example disk".to_owned(),
            serial: String::new(),
            bytes: 100 << 30,
            rotational: false,
            scheduler: "none".to_owned(),
            sector_bytes: 512,
        }],
        more: BTreeMap::new(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, below 2^53"
)]
pub(super) fn whole(value: f64) -> u64 {
    value.round() as u64
}
