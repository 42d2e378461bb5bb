//! The arrays of a configuration: one for each volume, and for each plex without one.

use super::config::{Config, Organization, Plex};
use super::drives::{Extent, place};
use crate::dialect::{Draft, Source};
use crate::expressions::{MISSING, Part, Tree, is_lost};
use crate::fault::Fault;
use crate::shape::Shape;
use crate::sizes::{SECTOR_BYTES, SECTORS_MAX};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Returns the arrays.
pub(crate) fn arrays(config: Config, source: &Source<'_>) -> Result<Draft, Fault> {
    if let Some((plex, volume)) = config.promised() {
        let message = format!("plex {plex} of volume {} has no line", volume.name);
        return Err(Fault::new(volume.at, message));
    }
    let extents = place(&config, source)?;
    let mut draft = Draft::default();
    let spares = config.drives.iter().filter(|drive| drive.is_spare);
    let spares: Vec<String> = spares.map(|drive| drive.name.clone()).collect();
    let arrays = Arrays {
        config: &config,
        extents: &extents,
    };
    let plexes = config.plexes.iter().filter(|plex| !plex.has_volume);
    for plex in plexes {
        let array = arrays.plex(plex)?;
        if let Some((at, why)) = array.notes.last().filter(|_| array.is_lost) {
            let message = format!("plex {} can't be read: {why}", plex.name);
            return Err(Fault::new(*at, message));
        }
        add(&mut draft, &plex.name, plex.at, &array, &[])?;
    }
    let is_only_volume = config.volumes.len() == 1;
    for volume in &config.volumes {
        let array = arrays.volume(volume.name.as_str(), volume.at, &volume.plexes)?;
        let spares = if is_only_volume {
            spares.as_slice()
        } else {
            &[]
        };
        add(&mut draft, &volume.name, volume.at, &array, spares)?;
    }
    if let Some(spare) = config.drives.iter().find(|drive| drive.is_spare)
        && !is_only_volume
    {
        let text = "hotspare has no effect here: the text has several volumes";
        draft.note(spare.at, text);
    }
    if draft.arrays.is_empty() {
        return Err(Fault::new(source.text.len(), "a volume is missing"));
    }
    draft.notes.extend(config.notes);
    let devices = config.drives.into_iter();
    draft.devices = devices.map(|drive| (drive.name, drive.device)).collect();
    Ok(draft)
}

/// An array: its tree, chunk and size.
struct Array {
    tree: Tree,
    /// 0 if no chunks are dealt.
    chunk_sectors: u64,
    /// `None` if not known.
    sectors: Option<u64>,
    /// True if its data can't be read.
    is_lost: bool,
    /// Its parts that are not up, and the offsets of their states.
    notes: Vec<(usize, String)>,
}

/// Adds an array with notes of its peculiarities.
fn add(
    draft: &mut Draft,
    name: &str,
    at: usize,
    array: &Array,
    spares: &[String],
) -> Result<(), Fault> {
    let chunk_sectors = Some(array.chunk_sectors).filter(|sectors| *sectors > 0);
    let chunk_bytes = chunk_sectors.map(|sectors| sectors * SECTOR_BYTES);
    let shape = Shape {
        name: Some(name.into()),
        spares: spares.into(),
        ..Shape::new(&array.tree, chunk_bytes, at)?
    };
    for (at, text) in &array.notes {
        draft.note(*at, format!("{text}: it is read as missing"));
    }
    let mut drives = BTreeSet::new();
    if let Some(twice) = shape
        .expression
        .leaves()
        .into_iter()
        .find(|leaf| *leaf != MISSING && !drives.insert(*leaf))
    {
        let text = format!(
            "{name} has several parts of drive {twice}, and so has a new array: losing the drive \
             loses them all"
        );
        draft.note_here(at, text);
    }
    if array.sectors.is_none() {
        let text = format!(
            "{name} fills a drive whose size is not known: it is taken to end with the drive"
        );
        draft.note(at, text);
    }
    draft.add(shape, &array.tree, at)
}

struct Arrays<'a> {
    config: &'a Config,
    extents: &'a [Extent],
}

impl Arrays<'_> {
    fn volume(&self, name: &str, at: usize, plexes: &[usize]) -> Result<Array, Fault> {
        let plexes = plexes.iter().map(|plex| &self.config.plexes[*plex]);
        let mut arrays: Vec<(&Plex, Array)> = plexes
            .map(|plex| Ok((plex, self.plex(plex)?)))
            .collect::<Result<_, Fault>>()?;
        let Some((first_plex, first)) = arrays.first() else {
            return Err(Fault::new(at, format!("volume {name} has no plex")));
        };
        if let Some((at, why)) = first.notes.last()
            && arrays.iter().all(|(_, array)| array.is_lost)
        {
            let message = format!("volume {name} has no plex that can be read: {why}");
            return Err(Fault::new(*at, message));
        }
        if arrays.len() == 1 {
            return Ok(arrays.remove(0).1);
        }
        let sectors = first.sectors;
        let mut chunk: Option<(&Plex, u64)> = None;
        for (plex, array) in &arrays {
            if let (Some(one), Some(other)) = (sectors, array.sectors)
                && one != other
            {
                let message = format!(
                    "plexes {} and {} differ in size, {one} and {other} sectors: mirrors of \
                     unequal plexes can't be expressed here",
                    first_plex.name, plex.name
                );
                return Err(Fault::new(plex.at, message));
            }
            match chunk {
                _ if array.chunk_sectors == 0 => {}
                Some((other, sectors)) if sectors != array.chunk_sectors => {
                    let message = format!(
                        "plexes {} and {} differ in stripe size, {sectors} and {} sectors: one \
                         array here has one chunk size",
                        other.name, plex.name, array.chunk_sectors
                    );
                    return Err(Fault::new(plex.at, message));
                }
                _ => chunk = Some((plex, array.chunk_sectors)),
            }
        }
        let chunk_sectors = match (chunk, sectors) {
            (Some((_, sectors)), _) => sectors,
            (None, Some(sectors)) => chunk_of(sectors),
            (None, None) => 0,
        };
        let unknown = arrays.iter().any(|(_, array)| array.sectors.is_none());
        let mut notes = Vec::new();
        let members = arrays.into_iter().map(|(_, array)| {
            notes.extend(array.notes);
            if array.is_lost {
                return Tree::Part(Part::whole(MISSING.to_owned()));
            }
            only(array.tree)
        });
        let members = members.collect();
        Ok(Array {
            tree: Tree::array("raid1", "", members),
            is_lost: false,
            notes,
            chunk_sectors,
            sectors: sectors.filter(|_| !unknown),
        })
    }

    fn plex(&self, plex: &Plex) -> Result<Array, Fault> {
        let count = plex.subdisks.len();
        let (level, layout, subdisks_min, parity) = match plex.organization {
            Organization::Concat => ("concat", "", 1, 0),
            Organization::Striped => ("raid0", "", 2, 0),
            Organization::Raid4 => ("raid4", "", 3, 1),
            Organization::Raid5 => ("raid5", "left-asymmetric", 3, 1),
        };
        if count < subdisks_min {
            let message = format!(
                "plex {} needs at least {subdisks_min} subdisks, not {count}",
                plex.name
            );
            return Err(Fault::new(plex.at, message));
        }
        self.check_offsets(plex)?;
        let mut parts = Vec::new();
        let mut lengths = Vec::new();
        let mut notes = Vec::new();
        for subdisk in &plex.subdisks {
            let extent = &self.extents[*subdisk];
            let length = extent
                .length
                .map(|length| length - length.checked_rem(plex.stripe_sectors).unwrap_or_default());
            if length == Some(0) {
                let message = format!(
                    "sd {} is shorter than a stripe of {} sectors",
                    self.config.subdisks[*subdisk].name, plex.stripe_sectors
                );
                return Err(Fault::new(self.config.subdisks[*subdisk].at, message));
            }
            lengths.push(length);
            let state = self.note_of_state(*subdisk);
            parts.push(Part {
                device: match state {
                    None => self.config.drives[extent.drive].name.clone(),
                    Some(_) => MISSING.to_owned(),
                },
                start_sectors: extent.start,
                length_sectors: length,
            });
            notes.extend(state);
        }
        if plex.organization != Organization::Concat {
            self.check_equal(plex)?;
        }
        let lengths: Option<Vec<u64>> = lengths.into_iter().take(count - parity).collect();
        let too_large = || format!("plex {} is larger than 2^64 bytes", plex.name);
        let sectors =
            lengths.map(|lengths| total(&lengths).ok_or_else(|| Fault::new(plex.at, too_large())));
        let sectors = sectors.transpose()?;
        let tree = Tree::of(level, layout, parts);
        let mut is_lost = is_lost(&tree.shape(plex.at)?);
        if let Some((state, at)) = &plex.state
            // Its missing subdisk explains this state.
            && (state != "degraded" || notes.is_empty())
        {
            is_lost = true;
            let text = format!("plex {} is {state}", plex.name);
            notes.push((*at, text));
        }
        Ok(Array {
            tree,
            chunk_sectors: plex.stripe_sectors,
            sectors,
            is_lost,
            notes,
        })
    }

    /// Returns a note if a subdisk or its drive is not up.
    fn note_of_state(&self, subdisk: usize) -> Option<(usize, String)> {
        let drive = &self.config.drives[self.extents[subdisk].drive];
        let subdisk = &self.config.subdisks[subdisk];
        let ((state, at), what) = match (&subdisk.state, &drive.state) {
            (Some(state), _) => (state, format!("sd {}", subdisk.name)),
            (None, Some(state)) => (
                state,
                format!("drive {} of sd {}", drive.name, subdisk.name),
            ),
            (None, None) => return None,
        };
        Some((*at, format!("{what} is {state}")))
    }

    /// Returns an error if given offsets in the plex leave holes or overlap.
    fn check_offsets(&self, plex: &Plex) -> Result<(), Fault> {
        let mut expected = Some(0_u64);
        for subdisk in &plex.subdisks {
            let (subdisk, extent) = (&self.config.subdisks[*subdisk], &self.extents[*subdisk]);
            if let (Some(given), Some(expected)) = (subdisk.plex_offset, expected)
                && given != expected
            {
                let message = format!(
                    "sd {} is at {given} sectors of plex {}, and {expected} is expected: holes \
                     and overlaps can't be expressed here",
                    subdisk.name, plex.name
                );
                return Err(Fault::new(subdisk.at, message));
            }
            let step = match plex.organization {
                Organization::Concat => extent.length,
                _ => Some(plex.stripe_sectors),
            };
            expected = expected
                .zip(step)
                .and_then(|(at, step)| at.checked_add(step));
        }
        Ok(())
    }

    fn check_equal(&self, plex: &Plex) -> Result<(), Fault> {
        let known = plex.subdisks.iter().filter_map(|subdisk| {
            let length = self.extents[*subdisk].length?;
            Some((&self.config.subdisks[*subdisk], length))
        });
        let mut first = None;
        for (subdisk, length) in known {
            match first {
                Some((name, other)) if other != length => {
                    let message = format!(
                        "plex {} needs subdisks of one size, and {name} has {other} sectors, {} \
                         {length}",
                        plex.name, subdisk.name
                    );
                    return Err(Fault::new(subdisk.at, message));
                }
                _ => first = Some((&subdisk.name, length)),
            }
        }
        Ok(())
    }
}

/// Returns the only member of a concatenation of one.
fn only(tree: Tree) -> Tree {
    match tree {
        Tree::Array {
            level: "concat",
            mut members,
            ..
        } if members.len() == 1 => members.remove(0),
        tree => tree,
    }
}

/// Returns the largest chunk up to 64 KiB that divides a mirror, so that nothing of it is cut off.
fn chunk_of(sectors: u64) -> u64 {
    1 << sectors.trailing_zeros().min(7)
}

fn total(lengths: &[u64]) -> Option<u64> {
    let mut lengths = lengths.iter();
    let total = lengths.try_fold(0_u64, |total, length| total.checked_add(*length));
    total.filter(|total| *total <= SECTORS_MAX)
}
