//! A device, a file, memory or nothing, as it is: any disk of the kernel's, including those of
//! hardware controllers and other software's arrays.

use super::Opener;
use super::raw::Raw;
use super::system::Needs;
use crate::experiment::systems::kinds::DEVICE;
use spindles_device::Backend;

pub(super) static OPENER: Opener = Opener {
    kind: &DEVICE,
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
    let fresh = |device: &str| !Backend::facts_of(device).outlives_opening;
    devices
        .iter()
        .filter(|device| !fresh(device))
        .map(|device| (*device).to_owned())
        .collect()
}
