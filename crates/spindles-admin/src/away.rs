//! Inner arrays that take no part in a served array, because too many of their devices were missing
//! or failed. When the devices are back, such an array catches up like any member. Its server must
//! open it for that.

use crate::host::{Served, report_of};
use spindles_device::identity::share_bytes;
use spindles_device::probe::glance;
use spindles_format::{Found, Uuid};

/// An inner array that takes no part.
pub(crate) struct Away {
    pub(crate) name: String,
    uuid: Uuid,
    /// Present devices of the array.
    pub(crate) devices: Vec<String>,
    /// True if it returns when they are opened.
    pub(crate) returns: bool,
}

impl Away {
    /// Returns true if the device belongs to it.
    pub(crate) fn has(&self, device: &str) -> bool {
        self.devices.iter().any(|own| share_bytes(own, device))
    }
}

/// Finds these arrays by the devices that the server knows, and a new one.
pub(crate) fn arrays_away(served: &dyn Served, new: Option<&str>) -> Vec<Away> {
    let mut devices = served.devices();
    let is_new = |new: &&str| !devices.iter().any(|device| share_bytes(device, new));
    let new = new.filter(is_new).map(str::to_owned);
    devices.extend(new);
    let mut arrays: Vec<Away> = Vec::new();
    // A device of another array prevents the assembly.
    let Ok(report) = report_of(&devices) else {
        return arrays;
    };
    let here = report.uuids();
    let returning = report
        .arrays()
        .into_iter()
        .flat_map(|array| &array.returning);
    let returning: Vec<&str> = returning.map(|(_, name)| name.as_str()).collect();
    for device in devices {
        let found = glance(&device);
        let Some(array) = found.as_ref().and_then(Found::array) else {
            continue;
        };
        if here.contains(&array.uuid) || !here.contains(&array.parent) {
            continue;
        }
        if let Some(known) = arrays.iter_mut().find(|away| away.uuid == array.uuid) {
            known.devices.push(device);
            continue;
        }
        let name = array.name.to_string();
        arrays.push(Away {
            uuid: array.uuid,
            devices: vec![device],
            returns: returning.contains(&format!("array '{name}'").as_str()),
            name,
        });
    }
    arrays
}
