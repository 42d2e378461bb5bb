//! The space of drives: which extents are free, and where subdisks lie.

use super::config::{Config, Subdisk};
use crate::dialect::Source;
use crate::fault::Fault;
use crate::sizes::SECTORS_MAX;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// The sectors before the data of a drive: vinum's label and two copies of its configuration.
pub(super) const LABEL_SECTORS: u64 = 265;

/// The place of a subdisk on its drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) drive: usize,
    pub(super) start: u64,
    /// `None` for all up to the end of a drive whose size is not known.
    pub(super) length: Option<u64>,
}

/// The free extents of a drive, in rising order: start and end.
#[derive(Clone, Debug)]
struct Free(Vec<(u64, u64)>);

/// The end of a drive whose size is not known.
const END_UNKNOWN: u64 = SECTORS_MAX;

/// Places all subdisks, in the order of their lines.
pub(super) fn place(config: &Config, source: &Source<'_>) -> Result<Vec<Extent>, Fault> {
    let free = config.drives.iter().map(|drive| {
        let known = source.sectors_of(&drive.device);
        match known.or_else(|| source.sectors_of(&drive.name)) {
            None => Ok(Free(vec![(LABEL_SECTORS, END_UNKNOWN)])),
            Some(end) if end > LABEL_SECTORS => Ok(Free(vec![(LABEL_SECTORS, end)])),
            Some(end) => {
                let message = format!(
                    "drive {} has {end} sectors: too few for {LABEL_SECTORS} before the data",
                    drive.name
                );
                Err(Fault::new(drive.at, message))
            }
        }
    });
    let mut free: Vec<Free> = free.collect::<Result<_, _>>()?;
    let subdisks = config.subdisks.iter();
    subdisks
        .map(|subdisk| {
            let drive = config.drive(&subdisk.drive).ok_or_else(|| {
                let message = format!("there is no drive {}", subdisk.drive);
                Fault::new(subdisk.drive_at, message)
            })?;
            if config.drives[drive].is_spare {
                let message = format!("drive {} is a hot spare: no sd fits on it", subdisk.drive);
                return Err(Fault::new(subdisk.drive_at, message));
            }
            let (start, end) = free[drive].take(subdisk)?;
            Ok(Extent {
                drive,
                start,
                length: (end != END_UNKNOWN).then(|| end - start),
            })
        })
        .collect()
}

impl Free {
    /// Takes the extent of a subdisk; returns its start and end.
    fn take(&mut self, subdisk: &Subdisk) -> Result<(u64, u64), Fault> {
        let no_space = |what: &str| {
            let (name, drive) = (&subdisk.name, &subdisk.drive);
            Fault::new(
                subdisk.at,
                format!("there is no space for sd {name} on drive {drive}{what}"),
            )
        };
        let free = &mut self.0;
        let (index, start, end) = match (subdisk.drive_offset, subdisk.length_sectors) {
            (None, None) => {
                // The last of the largest.
                let sizes = free.iter().enumerate();
                let largest = sizes.max_by_key(|(_, (start, end))| end - start);
                let (index, (start, end)) = largest.ok_or_else(|| no_space(""))?;
                (index, *start, *end)
            }
            (None, Some(length)) => {
                let mut extents = free.iter().enumerate();
                let first = extents.find(|(_, (start, end))| end - start >= length);
                let (index, (start, _)) =
                    first.ok_or_else(|| no_space(&format!(": it takes {length} sectors")))?;
                (index, *start, start + length)
            }
            (Some(start), length) => {
                let mut extents = free.iter().enumerate();
                let around = extents.find(|(_, extent)| extent.0 <= start && start < extent.1);
                let (index, (_, free_end)) =
                    around.ok_or_else(|| no_space(&format!(" at sector {start}")))?;
                let end = length.map_or(Some(*free_end), |length| start.checked_add(length));
                let end = end.filter(|end| end <= free_end).ok_or_else(|| {
                    let length = length.unwrap_or_default();
                    no_space(&format!(" at sector {start}: it takes {length} sectors"))
                })?;
                (index, start, end)
            }
        };
        let (free_start, free_end) = free[index];
        let rest = [(free_start, start), (end, free_end)];
        free.splice(
            index..=index,
            rest.into_iter().filter(|(start, end)| start < end),
        );
        Ok((start, end))
    }
}
