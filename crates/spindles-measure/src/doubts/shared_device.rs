//! Reports that all members lie on one physical device.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "shared-device",
    rank: Rank::Unlike,
    title: "All members share one physical device",
    remedy: "This measures the cost of the software, not the gain of more disks: more members help \
        only if the shared device, such as a virtual disk, serves more requests at once. To \
        measure the gain, give every member a device of its own.",
    find: |analysis| {
        if !analysis.experiment.shared_device {
            return Vec::new();
        }
        let names: Vec<&str> = analysis
            .environment
            .devices
            .iter()
            .map(|device| device.name.as_str())
            .collect();
        vec![match names[..] {
            [] => "one device holds all members".to_owned(),
            _ => format!("all members lie on {}", names.join(", ")),
        }]
    },
};
