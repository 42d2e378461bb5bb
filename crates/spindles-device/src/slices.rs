//! Names that stand for a device below: slices, and devices at the pace of a model.

use spindles_layout::Slice;
use std::borrow::Cow;

/// The begin of the names of paced devices.
const PACED: &str = "paced:";

/// Splits the name of a paced device into the model and the device.
pub(crate) fn paced(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(PACED)?.split_once(':')
}

/// Returns the name of a device at the pace of a model.
pub(crate) fn paced_name(model: &str, device: &str) -> String {
    format!("{PACED}{model}:{device}")
}

/// Returns the device of a slice or below a pace, and any other name itself.
#[must_use]
pub fn device_of(name: &str) -> Cow<'_, str> {
    if let Some((_, device)) = paced(name) {
        return device_of(device);
    }
    match Slice::is_text(name).then(|| Slice::parse(name)) {
        Some(Ok(slice)) => slice.device.into(),
        _ => name.into(),
    }
}

/// Returns the name with its device replaced: for a slice the same slice of the new device.
#[must_use]
pub fn with_device(name: &str, replace: impl FnOnce(&str) -> String) -> String {
    match paced(name) {
        Some((model, device)) => paced_name(model, &with_device_of_slice(device, replace)),
        None => with_device_of_slice(name, replace),
    }
}

fn with_device_of_slice(name: &str, replace: impl FnOnce(&str) -> String) -> String {
    match Slice::is_text(name).then(|| Slice::parse(name)) {
        Some(Ok(slice)) => {
            let device = replace(&slice.device);
            Slice { device, ..slice }.to_string()
        }
        _ => replace(name),
    }
}
