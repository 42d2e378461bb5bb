//! Reads the records and signatures on devices before they are opened for use. Reads go through the
//! page cache, at any alignment; nothing is written.

use crate::at_rest::{Access, AtRest};
use crate::backends;
use crate::bad_pages::{BadPage, read_pages};
use crate::files;
use crate::locks::Held;
use crate::modelled;
use crate::peer::is_address;
use crate::signatures::{self, Sighting};
use crate::slices::{device_of, paced};
use crate::{DeviceFacts, Direct, OpenError, OpenOptions};
use rustix::fs::{FileType, OFlags, SeekFrom, fstat, seek, stat};
use rustix::io::Errno;
use spindles_block::BlockSize;
use spindles_format::{DecodeError, Found, SLOT_BYTES, SUPERBLOCK_BYTES, crc32c};
use spindles_layout::Slice;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

/// Bytes at the start and at the end of a device where labels and signatures lie.
const EDGE_BYTES: u64 = 128 << 10;

/// Length and checksums of the edges of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edges {
    pub(crate) bytes: u64,
    pub(crate) checksums: [u32; 2],
}

/// A device, open for reading.
#[derive(Debug)]
pub struct Probe {
    /// The device as the user named it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// True if its data outlives the opening.
    pub outlives_opening: bool,
    /// `None` for a device in memory, which is new each time.
    device: Option<Box<dyn AtRest>>,
    /// `None` for a device that another process, or the caller, has open.
    facts: Option<DeviceFacts>,
    /// The file below a loop device.
    _held: Vec<Held>,
}

impl Probe {
    /// Opens a device with the default options.
    ///
    /// # Errors
    ///
    /// If it can't be opened.
    pub fn open(name: &str) -> Result<Self, OpenError> {
        Self::open_with(name, &OpenOptions::default())
    }

    /// Opens a device for reading, whatever the options say.
    ///
    /// # Errors
    ///
    /// If it can't be opened.
    pub fn open_with(name: &str, options: &OpenOptions) -> Result<Self, OpenError> {
        let options = OpenOptions {
            read_only: true,
            direct: Direct::Never,
            ..options.clone()
        };
        let opened = backends::open(name, &options)?;
        let facts = opened.facts.clone();
        let (device, held) = opened.at_rest();
        Ok(Self {
            name: facts.name.clone(),
            bytes: facts.bytes,
            outlives_opening: facts.backend.outlives_opening,
            device,
            facts: Some(facts),
            _held: held,
        })
    }

    /// Opens a device that another process may be writing to. Superblocks can be read at any
    /// moment, since a torn one fails its checksum.
    pub fn peek(name: &str) -> Result<Self, OpenError> {
        let at_once = OpenOptions {
            busy_timeout: Duration::ZERO,
            ..OpenOptions::default()
        };
        match Self::open_with(name, &at_once) {
            Err(busy @ OpenError::Busy { .. }) => Self::held(name).map_err(|_| busy),
            result => result,
        }
    }

    /// Opens a device that the caller has open for writing.
    pub fn held(name: &str) -> io::Result<Self> {
        let device = backends::at_rest(name, Access::Read)?;
        Ok(Self {
            name: name.to_owned(),
            bytes: device.bytes()?,
            outlives_opening: true,
            device: Some(device),
            facts: None,
            _held: Vec::new(),
        })
    }

    /// Opens a regular file, a block device or an export that may hold a superblock, even if it is
    /// in use. `None` for other kinds, and for unreadable ones. Never waits on a pipe without a
    /// writer.
    pub fn glance(name: &str) -> Option<Self> {
        if let Some((_, device)) = paced(name) {
            let below = Self::glance(device)?;
            let name = name.to_owned();
            return Some(Self { name, ..below });
        }
        if Slice::is_text(name) {
            let slice = Slice::parse(name).ok()?;
            let whole = Self::glance(&slice.device)?;
            let device = backends::cut(whole.device?, &slice).ok()?;
            return Some(Self {
                name: name.to_owned(),
                bytes: device.bytes().ok()?,
                device: Some(device),
                ..whole
            });
        }
        if is_address(name) || modelled::find(name).is_some() {
            return Self::glance_at_export(name).ok();
        }
        let may_carry = |mode| {
            let kind = FileType::from_raw_mode(mode);
            matches!(kind, FileType::RegularFile | FileType::BlockDevice).then_some(())
        };
        may_carry(stat(name).ok()?.st_mode)?;
        // Check the kind again below, because another file may have taken the name meanwhile.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(files::open(name, flags).ok()?);
        may_carry(fstat(&file).ok()?.st_mode)?;
        let bytes = AtRest::bytes(&file).ok()?;
        Some(Self {
            name: name.to_owned(),
            bytes,
            outlives_opening: true,
            device: Some(Box::new(file)),
            facts: None,
            _held: Vec::new(),
        })
    }

    /// Does the same for an export, and returns the error.
    pub fn glance_at_export(name: &str) -> Result<Self, OpenError> {
        let options = OpenOptions {
            unlocked: true,
            ..OpenOptions::default()
        };
        Self::open_with(name, &options)
    }

    /// Reads the start and the end of the device; `None` for a device in memory.
    pub(crate) fn edges(&self) -> io::Result<Option<Edges>> {
        let Some(device) = &self.device else {
            return Ok(None);
        };
        let bytes = device.bytes()?;
        let mut edge = vec![0; usize::try_from(bytes.min(EDGE_BYTES)).expect("it is short")];
        let last = bytes - bytes.min(EDGE_BYTES);
        let mut checksum = |at| {
            device.read(&mut edge, at)?;
            Ok::<_, io::Error>(crc32c(&edge))
        };
        let checksums = [checksum(0)?, checksum(last)?];
        Ok(Some(Edges { bytes, checksums }))
    }

    /// Checks that the device can serve blocks of this size, as opening it will. A device that is
    /// already open was checked then.
    pub fn check_blocks(&self, block_size: BlockSize) -> Result<(), OpenError> {
        let facts = self.facts.as_ref();
        facts.map_or(Ok(()), |facts| backends::check_blocks(facts, block_size))
    }

    /// Returns the device of a slice; `None` for anything else.
    pub fn whole(&self) -> Option<Self> {
        let slice = Slice::is_text(&self.name).then(|| Slice::parse(&self.name).ok())??;
        Self::glance(&slice.device)
    }

    /// Reads the superblock slots.
    pub fn found(&self) -> Found {
        let slots = SLOT_BYTES.map(|offset| self.slot(offset));
        let slots = slots.each_ref().map(|slot| match slot {
            Ok(bytes) => Ok(bytes.as_slice()),
            Err(error) => Err(*error),
        });
        Found::new(self.name.clone(), self.bytes, slots)
    }

    /// Reads the superblock slot at `offset` bytes.
    ///
    /// # Errors
    ///
    /// If the device can't be read.
    pub fn slot(&self, offset: u64) -> Result<Vec<u8>, DecodeError> {
        let slot_bytes = u64::try_from(SUPERBLOCK_BYTES).expect("4096");
        let there = self.bytes.saturating_sub(offset).min(slot_bytes);
        let mut bytes = vec![0; usize::try_from(there).expect("at most 4096")];
        if let Some(device) = &self.device {
            let read = device.read(&mut bytes, offset);
            read.map_err(|_| DecodeError::Unreadable)?;
        }
        Ok(bytes)
    }

    /// Reads the device's copy of the list of bad blocks, as far as possible.
    pub fn bad_pages(&self) -> Vec<BadPage> {
        let found = self.found();
        let (Ok((array, record)), Some(device)) = (found.record(), &self.device) else {
            return Vec::new();
        };
        read_pages(array, record, &mut |at, into| device.read(into, at).is_ok())
    }

    /// Returns the other signatures on the device.
    pub fn sightings(&self) -> Result<Vec<Sighting>, OpenError> {
        let Some(device) = &self.device else {
            return Ok(Vec::new());
        };
        let read = &mut |offset, into: &mut [u8]| device.read(into, offset);
        signatures::look(self.bytes, read).map_err(|source| OpenError::Io {
            device: self.name.clone(),
            action: "read",
            source,
        })
    }

    /// Describes, with its article, data of a known kind that must not be overwritten.
    pub fn holds(&self, sightings: &[Sighting]) -> Option<String> {
        let found = self.found();
        if found.spare().is_some() {
            return Some("a spare of Spindles arrays".to_owned());
        }
        if found.journal_device().is_some() {
            return Some("the journal of a Spindles array".to_owned());
        }
        Some(match found.record() {
            Ok((array, _)) => format!("a member of the Spindles array '{}'", array.name),
            Err(DecodeError::NotOurs | DecodeError::Short { .. }) => {
                sightings.first()?.what.to_owned()
            }
            Err(DecodeError::Version { .. } | DecodeError::Features { .. }) => {
                "a member of a Spindles array of a newer version".to_owned()
            }
            Err(_) => "a damaged Spindles superblock".to_owned(),
        })
    }

    /// Returns the offset of the first nonzero byte in a regular file, or in a slice of one. Skips
    /// holes that the file system knows.
    pub fn first_data(&self) -> io::Result<Option<u64>> {
        const STEP_BYTES: u64 = 1 << 20;
        let device = self.device.as_ref();
        let Some((file, start)) = device.and_then(|device| device.in_file()) else {
            return Ok(None);
        };
        let zeros = vec![0; usize::try_from(STEP_BYTES).expect("a MiB")];
        let mut bytes = zeros.clone();
        let (mut at, last) = (start, start + self.bytes);
        while at < last {
            // File systems without holes refuse the query: all bytes count as data.
            at = match seek(file, SeekFrom::Data(at)) {
                Err(Errno::NXIO) => return Ok(None),
                found => found.unwrap_or(at),
            };
            let end = seek(file, SeekFrom::Hole(at)).unwrap_or(last).min(last);
            let length = usize::try_from(end.saturating_sub(at).min(STEP_BYTES)).expect("a MiB");
            let read = file.read_at(&mut bytes[..length], at)?;
            if bytes[..read] != zeros[..read] {
                let before = bytes.iter().take_while(|byte| **byte == 0).count();
                return Ok(Some(
                    at - start + u64::try_from(before).expect("within a MiB"),
                ));
            }
            if read == 0 {
                break; // The data begins behind the slice, or the file has shrunk meanwhile.
            }
            at += u64::try_from(read).expect("within a MiB");
        }
        Ok(None)
    }

    /// Returns true if a range is known to be zeros without a read: a file without data there.
    pub fn is_hole(&self, from_bytes: u64, to_bytes: u64) -> bool {
        let Some(device) = &self.device else {
            return true;
        };
        if let Some(is_hole) = device.is_hole(from_bytes, to_bytes) {
            return is_hole;
        }
        let Some((file, start)) = device.in_file() else {
            return false;
        };
        match seek(file, SeekFrom::Data(start + from_bytes)) {
            Ok(data) => data >= start + to_bytes,
            Err(errno) => errno == Errno::NXIO,
        }
    }
}

/// Reads the superblock slots of a file, a block device or an export, as [`Probe::glance`] does.
#[must_use]
pub fn glance(name: &str) -> Option<Found> {
    Some(Probe::glance(name)?.found())
}

/// Returns true if it is a file or a block device with a Spindles superblock or label, even if it
/// is in use.
#[must_use]
pub fn holds_superblock(name: &str) -> bool {
    glance(name).is_some_and(|found| found.is_labelled())
}

/// Returns true if it is a file or a block device that this user may not read.
pub fn is_denied(name: &str) -> bool {
    let name = &*device_of(name);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let is_device = stat(name).is_ok_and(|status| {
        let kind = FileType::from_raw_mode(status.st_mode);
        matches!(kind, FileType::RegularFile | FileType::BlockDevice)
    });
    is_device && matches!(files::open(name, flags), Err(Errno::ACCESS | Errno::PERM))
}

/// Returns all block devices without holders.
#[must_use]
pub fn block_devices() -> Vec<String> {
    let Ok(table) = fs::read_to_string("/proc/partitions") else {
        return Vec::new();
    };
    let names = table
        .lines()
        .skip(2)
        .filter_map(|line| line.split_whitespace().nth(3));
    let is_free = |name: &&str| {
        let holders = fs::read_dir(format!("/sys/class/block/{name}/holders"));
        holders.is_ok_and(|mut holders| holders.next().is_none())
    };
    let free = names.filter(is_free);
    free.map(|name| format!("/dev/{}", name.replace('!', "/")))
        .collect()
}
