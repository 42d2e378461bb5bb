//! A device, a file, memory or nothing, as it is: any disk of the kernel's, including those of
//! hardware controllers and other software's arrays.

use super::{Kind, Needs, Raw};
use spindles_device::Backend;

pub(super) static KIND: Kind = Kind {
    name: "device",
    syntax: "DEVICE, FILE, nbd://HOST/EXPORT, mem:SIZE or null:SIZE",
    summary: "a block device, a file, memory or nothing, as it is: kernel RAID and controllers too",
    exists: true,
    claims: |_| true,
    check: |_| Ok(()),
    needs: |text| {
        Ok(Needs {
            members: 0,
            named: named(&[text]),
        })
    },
    prepare: |text, site| {
        Ok(Box::new(Raw {
            name: text.to_owned(),
            is_served: site.is_served,
            options: site.open_as_is(),
        }))
    },
};

/// Returns the devices whose contents outlive a process.
pub(super) fn named(devices: &[&str]) -> Vec<String> {
    let fresh = |device: &str| !Backend::of(device).facts.outlives_process;
    devices
        .iter()
        .filter(|device| !fresh(device))
        .map(|device| (*device).to_owned())
        .collect()
}
