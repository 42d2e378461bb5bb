//! Finds data of a known kind that a write to a device would overwrite.

use crate::scan;
use spindles_device::probe::Probe;
use spindles_format::Found;

/// Describes what all commands refuse to overwrite without `--force`.
pub(crate) fn known_kind(probe: &Probe) -> Option<String> {
    probe.holds(&probe.sightings().ok()?)
}

/// Finds data on the device, on all of the device that it is a slice of, or on a slice among the
/// places of a scan. Returns the superblocks of the device that holds it, and the description.
/// `holds` describes the data that counts, with an article.
pub(crate) fn occupant(
    probe: &Probe,
    holds: impl Fn(&Probe) -> Option<String>,
) -> Option<(Found, String)> {
    let on = |probe: &Probe| Some((probe.found(), holds(probe)?));
    let on_whole = || on(&probe.whole()?);
    let on_slices = || scan::slices_over(&probe.name).iter().find_map(on);
    on(probe).or_else(on_whole).or_else(on_slices)
}

/// Describes such data for a write to `device`.
pub(crate) fn described((found, holds): (Found, String), device: &str) -> String {
    if found.name == device {
        holds
    } else {
        format!("bytes of {}, which holds {holds}", found.name)
    }
}
