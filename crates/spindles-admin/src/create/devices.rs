//! Examines the devices of a new array before anything is written, for data that must not be
//! overwritten without `--force`.

use crate::errors::CreateError;
use crate::occupants::{described, known_kind, occupant};
use spindles_array::TooSmall;
use spindles_array::room::FOR_ALL;
use spindles_device::errors::failed;
use spindles_device::probe::Probe;
use spindles_device::seen::Examined;
use spindles_device::signatures::Sighting;
use spindles_device::{OpenError, OpenOptions};
use spindles_format::{DeviceRecord, areas_for};
use spindles_layout::Slice;
use std::io;
use std::path::Path;

/// A device before the creation.
pub(super) struct Device {
    pub(super) name: String,
    pub(super) probe: Probe,
    pub(super) sightings: Vec<Sighting>,
    pub(super) seen: Examined,
}

impl Device {
    pub(super) fn look(name: &str, open: &OpenOptions) -> Result<Self, CreateError> {
        if name.starts_with("array:") && !Path::new(name).exists() {
            return Err(CreateError::IsAnArray {
                device: name.to_owned(),
            });
        }
        if name.contains(char::is_control) {
            let device = name.to_owned();
            return Err(OpenError::Unprintable { device }.into());
        }
        let seen = Examined::now(name);
        let probe = match Probe::open_with(name, open) {
            Err(OpenError::Io { device, source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                return Err(CreateError::NotThere { device });
            }
            probe => probe?,
        };
        if !probe.outlives_opening {
            return Err(CreateError::DoesNotLast {
                device: name.to_owned(),
            });
        }
        if let Some(whole) = probe.whole()
            && probe.bytes < whole.bytes
            && begins_at_start(name)
        {
            return Err(CreateError::SliceAtStart {
                slice: name.to_owned(),
                device: whole.name,
            });
        }
        Ok(Self {
            name: name.to_owned(),
            sightings: probe.sightings()?,
            probe,
            seen,
        })
    }

    /// Checks that the device has room to replace each of these members. Returns the shortfall if
    /// the device is too small for some members, and an error if it is too small for all.
    pub(super) fn may_stand_for(
        &self,
        names: &[&str],
        members: &[DeviceRecord],
    ) -> Result<Option<TooSmall>, CreateError> {
        let fits = |member: &DeviceRecord| {
            areas_for(self.probe.bytes, member.block_size, member.member)
                .is_ok_and(|areas| areas.data_blocks() >= member.data_blocks())
        };
        let unfit = names.iter().zip(members);
        let unfit: Vec<_> = unfit.filter(|(_, member)| !fits(member)).collect();
        let needed = unfit.iter().map(|(_, member)| member.device_bytes);
        let small = |bytes| TooSmall::new(&self.name, self.probe.bytes, bytes);
        if unfit.len() == members.len() {
            let least = needed.min().expect("an array has devices");
            return Err(small(least).into());
        }
        let names: Vec<&str> = unfit.iter().map(|(name, _)| **name).collect();
        let part = format!(" for the place of {}", names.join(", "));
        Ok(needed
            .max()
            .map(|most| small(most).with_part(part, FOR_ALL)))
    }

    /// Describes data on it that must not be overwritten; `None` if there is none. All commands use
    /// this check. Finding unknown data in a file takes a full read, so `force` skips that.
    fn holds(&self, force: bool) -> Result<Option<String>, OpenError> {
        let known = occupant(&self.probe, known_kind).map(|it| described(it, &self.name));
        if known.is_some() || force {
            return Ok(known);
        }
        let data = self.probe.first_data();
        let data = data.map_err(|source| failed(&self.name, "read", source))?;
        Ok(data.map(|at| format!("data of no known kind, from byte {at} on")))
    }
}

/// Returns true for a slice from the first byte on.
fn begins_at_start(name: &str) -> bool {
    Slice::parse(name).is_ok_and(|slice| slice.start_bytes == 0)
}

/// Examines a device that is to be overwritten. Returns its data, which is an error unless `force`
/// is set.
pub(crate) fn may_overwrite(
    device: &str,
    force: bool,
    open: &OpenOptions,
) -> Result<Vec<(String, String)>, CreateError> {
    refuse_occupied(std::iter::once(&Device::look(device, open)?), force)
}

/// Describes data that must not be overwritten on a file or device held for writing.
pub fn occupant_of_held(name: &str) -> Result<Option<String>, OpenError> {
    let probe = Probe::held(name).map_err(|source| failed(name, "open", source))?;
    let device = Device {
        name: name.to_owned(),
        sightings: probe.sightings()?,
        probe,
        seen: Examined::default(),
    };
    device.holds(false)
}

/// Returns the devices that hold data, and the data; an error unless `force` is set.
///
/// A regular file must be empty, since it may hold anything. A block device must hold no known
/// signature, as for any `mkfs`: reading a whole disk takes hours, and a wiped one still holds old
/// data.
pub(super) fn refuse_occupied<'a>(
    devices: impl Iterator<Item = &'a Device>,
    force: bool,
) -> Result<Vec<(String, String)>, CreateError> {
    let mut occupied = Vec::new();
    for device in devices {
        if let Some(what) = device.holds(force)? {
            occupied.push((device.name.clone(), what));
        }
    }
    if !occupied.is_empty() && !force {
        return Err(CreateError::Occupied { devices: occupied });
    }
    Ok(occupied)
}

/// Examines a device that is to hold a new array.
pub(crate) fn look(device: &str, open: &OpenOptions) -> Result<Probe, CreateError> {
    Ok(Device::look(device, open)?.probe)
}
