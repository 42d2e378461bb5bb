//! The lines of a configuration: drives, volumes, plexes and subdisks, with default names.

use crate::devices::device_name;
use crate::fault::Fault;
use crate::sizes::{SECTOR_BYTES, Suffixes, check_chunk, size};
use crate::text::{Statement, Word};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Vinum's suffixes: `b` and `s` are sectors, and no suffix is bytes.
const SUFFIXES: Suffixes = &[
    ("b", SECTOR_BYTES),
    ("s", SECTOR_BYTES),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
];

/// The plexes of a volume at most.
const PLEXES_MAX: usize = 8;
/// The objects of one kind at most.
const OBJECTS_MAX: usize = 4096;

/// A state other than `up`, and its offset.
pub(super) type StateWord = Option<(String, usize)>;

/// A drive.
#[derive(Debug)]
pub(super) struct Drive {
    pub(super) name: String,
    pub(super) device: String,
    pub(super) is_spare: bool,
    pub(super) state: StateWord,
    pub(super) at: usize,
}

/// A volume.
#[derive(Debug)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) plexes: Vec<usize>,
    pub(super) at: usize,
}

/// The organization of a plex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Organization {
    Concat,
    Striped,
    Raid4,
    Raid5,
}

/// A plex.
#[derive(Debug)]
pub(super) struct Plex {
    pub(super) name: String,
    pub(super) organization: Organization,
    /// 0 for a concatenation.
    pub(super) stripe_sectors: u64,
    /// The subdisks in the order of their offsets in the plex.
    pub(super) subdisks: Vec<usize>,
    pub(super) has_volume: bool,
    pub(super) state: StateWord,
    pub(super) at: usize,
}

/// A subdisk.
#[derive(Debug)]
pub(super) struct Subdisk {
    pub(super) name: String,
    pub(super) drive: String,
    /// `None` for the largest free extent.
    pub(super) length_sectors: Option<u64>,
    /// `None` for the first free extent that is long enough.
    pub(super) drive_offset: Option<u64>,
    pub(super) plex_offset: Option<u64>,
    pub(super) state: StateWord,
    pub(super) at: usize,
    /// The offset of the drive's name, or else of the subdisk.
    pub(super) drive_at: usize,
}

/// A configuration.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(super) drives: Vec<Drive>,
    pub(super) volumes: Vec<Volume>,
    pub(super) plexes: Vec<Plex>,
    pub(super) subdisks: Vec<Subdisk>,
    /// Words without effect: their offsets and texts.
    pub(super) notes: Vec<(usize, String)>,
    /// The volumes of plexes that a `volume` line names before their own line.
    promised: BTreeMap<String, usize>,
    names: Names,
    volume: Option<usize>,
    plex: Option<usize>,
    drive: Option<String>,
}

/// The names of each kind of object, with their indices.
#[derive(Debug, Default)]
struct Names {
    drives: BTreeMap<String, usize>,
    devices: BTreeMap<String, usize>,
    volumes: BTreeMap<String, usize>,
    plexes: BTreeMap<String, usize>,
    subdisks: BTreeMap<String, usize>,
}

/// Takes a name for the object of this index.
fn take(
    names: &mut BTreeMap<String, usize>,
    kind: &str,
    name: &str,
    index: usize,
    at: usize,
) -> Result<(), Fault> {
    if index == OBJECTS_MAX {
        return Err(Fault::new(
            at,
            format!("there are more than {OBJECTS_MAX} {kind}s"),
        ));
    }
    match names.insert(name.to_owned(), index) {
        None => Ok(()),
        Some(_) => Err(Fault::new(at, format!("{kind} {name} is there twice"))),
    }
}

/// The words of a line after its keyword.
struct Words<'line, 'text> {
    line: &'line Statement<'text>,
    next: usize,
}

impl<'line, 'text> Words<'line, 'text> {
    fn next(&mut self) -> Option<&'line Word<'text>> {
        let word = self.line.words.get(self.next);
        self.next += 1;
        word
    }

    fn value(&mut self, expected: &str) -> Result<&'line Word<'text>, Fault> {
        let word = self.line.word(self.next, expected);
        self.next += 1;
        word
    }

    fn name(&mut self, expected: &str) -> Result<(String, usize), Fault> {
        let word = self.value(expected)?;
        Ok((device_name(word)?, word.at))
    }

    fn state(&mut self) -> Result<StateWord, Fault> {
        let word = self.value("a state")?;
        Ok((&**word != "up").then(|| ((**word).to_owned(), word.at)))
    }

    /// Returns a size in sectors.
    fn sectors(&mut self, expected: &str) -> Result<u64, Fault> {
        let word = self.value(expected)?;
        let bytes = size(word, 1, SUFFIXES, expected)?;
        if !bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(word.fault(format!("{expected} of {bytes} bytes is no multiple of 512")));
        }
        Ok(bytes / SECTOR_BYTES)
    }
}

impl Config {
    /// Reads a line.
    pub(crate) fn line(&mut self, line: &Statement<'_>) -> Result<(), Fault> {
        let keyword = &line.words[0];
        let mut words = Words { line, next: 1 };
        match &**keyword {
            "drive" => self.read_drive(&mut words),
            "volume" | "vol" => self.read_volume(&mut words),
            "plex" => self.read_plex(&mut words, keyword.at),
            "sd" | "subdisk" => self.read_subdisk(&mut words, keyword.at),
            other => {
                let message = format!("drive, volume, plex or sd is expected here, not '{other}'");
                Err(keyword.fault(message))
            }
        }
    }

    fn note(&mut self, word: &Word<'_>) {
        let text = format!("{} has no effect here", &**word);
        self.notes.push((word.at, text));
    }

    fn read_drive(&mut self, words: &mut Words<'_, '_>) -> Result<(), Fault> {
        let (name, at) = words.name("the drive's name")?;
        let index = self.drives.len();
        take(&mut self.names.drives, "drive", &name, index, at)?;
        let mut device = None;
        let mut is_spare = false;
        let mut state = None;
        while let Some(word) = words.next() {
            match &**word {
                "device" => {
                    let (path, at) = words.name("the drive's device")?;
                    if let Some(other) = self.names.devices.insert(path.clone(), index) {
                        let other = self.drives.get(other).map_or(&name, |drive| &drive.name);
                        let message = format!("{path} is the device of drive {other} already");
                        return Err(Fault::new(at, message));
                    }
                    device = Some(path);
                }
                "hotspare" => is_spare = true,
                "state" => state = words.state()?,
                other => return Err(unknown("drive", word, other, "device, hotspare, state")),
            }
        }
        let missing = || Fault::new(words.line.end, format!("drive {name} has no device"));
        let device = device.ok_or_else(missing)?;
        self.drive = Some(name.clone());
        self.drives.push(Drive {
            name,
            device,
            is_spare,
            state,
            at,
        });
        Ok(())
    }

    fn read_volume(&mut self, words: &mut Words<'_, '_>) -> Result<(), Fault> {
        let (name, at) = words.name("the volume's name")?;
        let index = self.volumes.len();
        take(&mut self.names.volumes, "volume", &name, index, at)?;
        self.volumes.push(Volume {
            name,
            plexes: Vec::new(),
            at,
        });
        self.volume = Some(index);
        self.plex = None;
        while let Some(word) = words.next() {
            match &**word {
                "plex" => {
                    let (plex, at) = words.name("a plex")?;
                    if self.names.plexes.contains_key(&plex) {
                        let message = format!("plex {plex} has a line before its volume");
                        return Err(Fault::new(at, message));
                    }
                    take(&mut self.promised, "plex", &plex, index, at)?;
                }
                "readpol" => {
                    self.note(word);
                    let policy = words.value("round or prefer")?;
                    match &**policy {
                        "round" => {}
                        "prefer" => drop(words.value("a plex")?),
                        other => return Err(unknown("readpol", policy, other, "round, prefer")),
                    }
                }
                "state" => {
                    if let Some((state, at)) = words.state()? {
                        let text = format!("state {state} of a volume has no effect here");
                        self.notes.push((at, text));
                    }
                }
                "setupstate" | "writethrough" | "writeback" | "raw" => self.note(word),
                other => {
                    let known = "plex, readpol, setupstate, state, writethrough, writeback, raw";
                    return Err(unknown("volume", word, other, known));
                }
            }
        }
        Ok(())
    }

    fn read_plex(&mut self, words: &mut Words<'_, '_>, at: usize) -> Result<(), Fault> {
        let index = self.plexes.len();
        let mut name = None;
        let mut organization = None;
        let mut state = None;
        let mut volume = self.volume;
        while let Some(word) = words.next() {
            match &**word {
                "name" => name = Some(words.name("the plex's name")?),
                "org" => organization = Some(read_organization(words)?),
                "volume" | "vol" => {
                    let (name, at) = words.name("a volume")?;
                    let known = self.names.volumes.get(&name).copied();
                    let missing = || Fault::new(at, format!("there is no volume {name}"));
                    volume = Some(known.ok_or_else(missing)?);
                }
                "detached" => volume = None,
                "state" => state = words.state()?,
                other => {
                    let known = "name, org, volume, detached, state";
                    return Err(unknown("plex", word, other, known));
                }
            }
        }
        let missing = "the organization is missing here: org concat, striped, raid4 or raid5";
        let (organization, stripe_sectors) =
            organization.ok_or_else(|| Fault::new(words.line.end, missing))?;
        if let Some((name, _)) = &name
            && let Some(promised) = self.promised.remove(name)
        {
            volume = Some(promised);
        }
        let volume = volume.map(|index| &mut self.volumes[index]);
        let (name, at) = match (name, &volume) {
            (Some(named), _) => named,
            (None, Some(volume)) => (format!("{}.p{}", volume.name, volume.plexes.len()), at),
            (None, None) => {
                let message = "this plex has no volume: a volume line is expected before it";
                return Err(Fault::new(at, message));
            }
        };
        take(&mut self.names.plexes, "plex", &name, index, at)?;
        let has_volume = volume.is_some();
        if let Some(volume) = volume {
            if volume.plexes.len() == PLEXES_MAX {
                let message = format!("volume {} has {PLEXES_MAX} plexes already", volume.name);
                return Err(Fault::new(at, message));
            }
            volume.plexes.push(index);
        }
        self.plex = Some(index);
        self.plexes.push(Plex {
            name,
            organization,
            stripe_sectors,
            subdisks: Vec::new(),
            has_volume,
            state,
            at,
        });
        Ok(())
    }

    fn read_subdisk(&mut self, words: &mut Words<'_, '_>, at: usize) -> Result<(), Fault> {
        let mut name = None;
        let mut drive = None;
        let mut plex = self.plex;
        let mut subdisk = Subdisk {
            name: String::new(),
            drive: String::new(),
            length_sectors: None,
            drive_offset: None,
            plex_offset: None,
            state: None,
            at,
            drive_at: at,
        };
        while let Some(word) = words.next() {
            match &**word {
                "name" => name = Some(words.name("the subdisk's name")?),
                "drive" => drive = Some(words.name("a drive")?),
                "plex" => {
                    let (name, at) = words.name("a plex")?;
                    let known = self.names.plexes.get(&name).copied();
                    let missing = || Fault::new(at, format!("there is no plex {name}"));
                    plex = Some(known.ok_or_else(missing)?);
                }
                "length" | "len" | "size" => {
                    let next = words.line.words.get(words.next);
                    subdisk.length_sectors = if next.is_some_and(|word| &**word == "max") {
                        words.next();
                        None
                    } else {
                        Some(words.sectors("a length")?).filter(|sectors| *sectors > 0)
                    };
                }
                "driveoffset" => subdisk.drive_offset = Some(words.sectors("a drive offset")?),
                "plexoffset" => subdisk.plex_offset = Some(words.sectors("a plex offset")?),
                "detached" => plex = None,
                "state" => subdisk.state = words.state()?,
                "partition" => {
                    words.value("a value")?;
                    self.note(word);
                }
                "retryerrors" => self.note(word),
                other => {
                    let known = "name, drive, length, driveoffset, plex, plexoffset, detached, \
                                 state, partition, retryerrors";
                    return Err(unknown("sd", word, other, known));
                }
            }
        }
        (subdisk.drive, subdisk.drive_at) = match (drive, &self.drive) {
            (Some(named), _) => named,
            (None, Some(last)) => (last.clone(), at),
            (None, None) => return Err(Fault::new(words.line.end, "drive is missing here")),
        };
        self.drive = Some(subdisk.drive.clone());
        self.attach(subdisk, name, plex)
    }

    /// Names a subdisk and gives it to its plex.
    fn attach(
        &mut self,
        subdisk: Subdisk,
        name: Option<(String, usize)>,
        plex: Option<usize>,
    ) -> Result<(), Fault> {
        let index = self.subdisks.len();
        let at = subdisk.at;
        let place = plex.map(|plex| self.place(plex, &subdisk));
        let (name, at) = match (name, plex) {
            (Some(named), _) => named,
            (None, Some(plex)) => {
                let plex = &self.plexes[plex];
                (format!("{}.s{}", plex.name, plex.subdisks.len()), at)
            }
            (None, None) => {
                let message = "this sd has no plex: a plex line is expected before it";
                return Err(Fault::new(at, message));
            }
        };
        take(&mut self.names.subdisks, "sd", &name, index, at)?;
        match (plex, place) {
            (Some(plex), Some(place)) => self.plexes[plex].subdisks.insert(place, index),
            _ => self
                .notes
                .push((at, format!("sd {name} belongs to no plex: left out"))),
        }
        self.subdisks.push(Subdisk { name, ..subdisk });
        Ok(())
    }

    /// Returns the place of a subdisk in its plex: sorted by offset if given, otherwise last.
    fn place(&self, plex: usize, subdisk: &Subdisk) -> usize {
        let plex = &self.plexes[plex];
        let Some(offset) = subdisk.plex_offset else {
            return plex.subdisks.len();
        };
        let after = plex.subdisks.iter().position(|other| {
            self.subdisks[*other]
                .plex_offset
                .is_some_and(|other| other > offset)
        });
        after.unwrap_or(plex.subdisks.len())
    }

    /// Returns the drive of this name.
    pub(super) fn drive(&self, name: &str) -> Option<usize> {
        self.names.drives.get(name).copied()
    }

    /// Returns a plex that a volume names and no line describes.
    pub(super) fn promised(&self) -> Option<(&str, &Volume)> {
        let (name, volume) = self.promised.first_key_value()?;
        Some((name, &self.volumes[*volume]))
    }
}

fn read_organization(words: &mut Words<'_, '_>) -> Result<(Organization, u64), Fault> {
    let word = words.value("concat, striped, raid4 or raid5")?;
    let organization = match &**word {
        "concat" => return Ok((Organization::Concat, 0)),
        "striped" => Organization::Striped,
        "raid4" => Organization::Raid4,
        "raid5" => Organization::Raid5,
        other => {
            let known = "concat, striped, raid4, raid5";
            return Err(unknown("org", word, other, known));
        }
    };
    let stripe = words.line.words.get(words.next);
    let sectors = words.sectors("a stripe")?;
    if let Some(stripe) = stripe {
        check_chunk(stripe, sectors.saturating_mul(SECTOR_BYTES), "a stripe")?;
    }
    Ok((organization, sectors))
}

fn unknown(keyword: &str, word: &Word<'_>, text: &str, known: &str) -> Fault {
    word.fault(format!(
        "'{text}' is no word of {keyword}: there are {known}"
    ))
}
