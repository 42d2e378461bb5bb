//! The source or the target of a copy.

use crate::error::CopyError;
use rustix::process::{Resource, getrlimit};
use spindles_admin::create::occupant_of_held;
use spindles_array::export::{Export, ExportLimits};
use spindles_array::{Incident, Target, no_space, open_blocks};
use spindles_block::{BlockIndex, BlockSize, RequestError, SizeBytes};
use spindles_device::at_rest::{Access, AtRest};
use spindles_device::errors::failed;
use spindles_device::facts::DeviceFacts;
use spindles_device::peer::is_address;
use spindles_device::signatures::look;
use spindles_device::{CloseError, OpenError, OpenOptions, backends};
use spindles_layout::Slice;
use std::fs::{File, OpenOptions as FileOptions};
use std::io;
use std::ops::Range;
use std::path::Path;

/// The shortest request, except for the last one and for reads of single blocks.
const REQUEST_BYTES_MIN: u32 = 1 << 20;
/// The longest request.
const REQUEST_BYTES_MAX: u32 = 4 << 20;
/// Requests in flight at once, at each end.
pub(crate) const REQUESTS: u16 = 8;

/// The source or the target of a copy.
#[derive(Debug)]
pub struct CopyEnd {
    pub(crate) name: String,
    /// The whole blocks; `None` for a file shorter than a block.
    pub(crate) export: Option<Export>,
    /// The bytes beyond the last whole block.
    tail: Option<Tail>,
    /// Unreadable bytes that were skipped, in order. `None` if unreadable bytes are an error.
    pub(crate) left_out: Option<Vec<Range<u64>>>,
    /// The incidents so far, noted each time before parts of this end were read again.
    before_again: Vec<Vec<Incident>>,
}

/// The last bytes of a file, a block device or an export: less than a block.
#[derive(Debug)]
struct Tail {
    device: Box<dyn AtRest>,
    bytes: u64,
}

impl Tail {
    fn open(name: &str, options: &OpenOptions, bytes: u64) -> Result<Self, OpenError> {
        let access = if options.read_only {
            Access::Read
        } else {
            Access::Write
        };
        let device = backends::at_rest(name, access);
        let device = device.map_err(|source| failed(name, "open", source))?;
        Ok(Self { device, bytes })
    }
}

impl CopyEnd {
    /// Wraps an open target, such as an array.
    #[must_use]
    pub fn new(target: Box<dyn Target>) -> Self {
        let bytes = u32::try_from(target.facts().bytes()).unwrap_or(u32::MAX);
        let limits = ExportLimits {
            slots: REQUESTS,
            access_bytes_max: bytes.min(REQUEST_BYTES_MAX),
        };
        let name = target.facts().name.clone();
        Self::of(name, Some(Export::new(target, limits)))
    }

    fn of(name: String, export: Option<Export>) -> Self {
        Self {
            name,
            export,
            tail: None,
            left_out: None,
            before_again: Vec::new(),
        }
    }

    /// From now on, skips unreadable blocks and copies or compares all others.
    pub fn leave_out_unreadable(&mut self) {
        self.left_out = Some(Vec::new());
    }

    /// Returns the bytes that the last copy or comparison skipped, in order.
    pub fn left_out(&self) -> &[Range<u64>] {
        self.left_out.as_deref().unwrap_or_default()
    }

    /// Records skipped bytes; calls must come in ascending order.
    pub(crate) fn leave_out(&mut self, bytes: Range<u64>) {
        let left_out = self.left_out.get_or_insert_default();
        match left_out.last_mut().filter(|last| last.end == bytes.start) {
            Some(last) => last.end = bytes.end,
            None => left_out.push(bytes),
        }
    }

    /// Splits stretches into those that can't be read because members are missing, and the rest.
    pub(crate) fn without_reach(
        &self,
        stretches: &[Range<u64>],
    ) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        let (mut out_of_reach, mut rest) = (Vec::new(), Vec::new());
        for stretch in stretches {
            let mut at = stretch.start;
            while at < stretch.end {
                let (is_out_of_reach, until) = self.reach(at, stretch.end);
                if is_out_of_reach {
                    out_of_reach.push(at..until);
                } else {
                    rest.push(at..until);
                }
                at = until;
            }
        }
        (out_of_reach, rest)
    }

    /// Returns true if the byte `from` can't be read because members are missing. Also returns the
    /// first byte where that may change, at most `end`.
    fn reach(&self, from: u64, end: u64) -> (bool, u64) {
        let Some(target) = self.target() else {
            return (false, end);
        };
        let block_bytes = u64::from(target.facts().block_size.bytes());
        let end_block = BlockIndex(end.div_ceil(block_bytes));
        let (is_out_of_reach, until) =
            target.is_out_of_reach(BlockIndex(from / block_bytes), end_block);
        (is_out_of_reach, end.min(until.0 * block_bytes))
    }

    /// Opens a file of any length, a block device, an export, `mem:SIZE` or `null:SIZE`.
    pub fn open(name: &str, options: &OpenOptions) -> Result<Self, OpenError> {
        let (target, bytes) = match open_blocks(name, options) {
            Ok(target) => {
                let bytes = target.facts().devices.iter().map(|device| device.bytes);
                let bytes = bytes.sum();
                (Some(target), bytes)
            }
            Err(OpenError::TooSmall { bytes, .. }) if bytes > 0 || Path::new(name).is_file() => {
                (None, bytes)
            }
            Err(error) => return Err(error),
        };
        let blocks = target.as_ref().map_or(0, |target| target.facts().bytes());
        let left = bytes - blocks;
        let tail = (left > 0).then(|| Tail::open(name, options, left));
        let end = target.map_or_else(|| Self::of(name.to_owned(), None), Self::new);
        Ok(Self {
            tail: tail.transpose()?,
            ..end
        })
    }

    /// Creates a file of that length, or extends an empty file; does not change other targets.
    /// Returns true if the file is new.
    pub fn prepare_file(name: &str, bytes: u64) -> Result<bool, OpenError> {
        let refused = |action| {
            move |source| OpenError::Io {
                device: name.to_owned(),
                action,
                source,
            }
        };
        if name.is_empty() {
            return Err(OpenError::NoName);
        }
        if is_address(name) || Slice::is_text(name) {
            return Ok(false);
        }
        match std::fs::metadata(name) {
            Ok(metadata) if metadata.is_file() && metadata.len() == 0 => {
                check_limit(name, bytes)?;
                let file = FileOptions::new().write(true).open(name);
                let file = file.map_err(refused("open"))?;
                file.set_len(bytes).map_err(refused("make room in"))?;
                Ok(false)
            }
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                check_limit(name, bytes)?;
                let file = File::create_new(name).map_err(refused("create"))?;
                file.set_len(bytes).map_err(|source| {
                    // No other process has seen the file yet.
                    drop(std::fs::remove_file(name));
                    refused("make room in")(source)
                })?;
                Ok(true)
            }
            Err(error) => Err(refused("look at")(error)),
        }
    }

    /// Returns the name as the user gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the target; `None` for a file shorter than a block.
    pub fn target(&self) -> Option<&dyn Target> {
        self.export.as_ref().map(Export::target)
    }

    /// Returns the target; `None` for a file shorter than a block.
    pub fn target_mut(&mut self) -> Option<&mut dyn Target> {
        self.export.as_mut().map(Export::target_mut)
    }

    /// Returns the incidents of its devices. Rot that was read several times, as by a copy and then
    /// by a comparison, counts once.
    pub fn incidents(&self) -> Vec<Incident> {
        let mut incidents = self.target().map_or(Vec::new(), <dyn Target>::incidents);
        for incident in &mut incidents {
            incident.count_rot_once(&self.before_again);
        }
        incidents
    }

    /// Notes that later incidents may repeat earlier ones.
    pub(crate) fn reads_again(&mut self) {
        let incidents = self.target().map_or(Vec::new(), <dyn Target>::incidents);
        self.before_again.push(incidents);
    }

    /// Returns its size.
    pub fn bytes(&self) -> u64 {
        self.bulk_bytes() + self.tail.as_ref().map_or(0, |tail| tail.bytes)
    }

    /// Returns the preferred request length: whole stripes, unless a stripe is too long.
    pub(crate) fn request_bytes(&self) -> u32 {
        let Some(facts) = self.target().map(Target::facts) else {
            return REQUEST_BYTES_MIN;
        };
        let stripe_bytes = facts.array.as_ref().map_or(1, |array| {
            let blocks = u64::from(array.chunk_blocks) * u64::from(array.data_chunks);
            blocks * u64::from(facts.block_size.bytes())
        });
        match u32::try_from(stripe_bytes) {
            Ok(stripe) if stripe <= REQUEST_BYTES_MAX => REQUEST_BYTES_MIN.next_multiple_of(stripe),
            _ => REQUEST_BYTES_MAX,
        }
    }

    /// Returns the bytes in whole blocks.
    pub(crate) fn bulk_bytes(&self) -> u64 {
        self.export.as_ref().map_or(0, Export::bytes)
    }

    /// Reads synchronously. Call it only while no request is in flight.
    pub fn read_at(&mut self, offset_bytes: u64, into: &mut [u8]) -> Result<(), CopyError> {
        let bulk = into.len().min(clamped(self.bulk_bytes(), offset_bytes));
        let (blocks, rest) = into.split_at_mut(bulk);
        if let Some(export) = self.export.as_mut().filter(|_| bulk > 0) {
            let read = export.read(offset_bytes, blocks);
            read.map_err(|error| self.read_failed(offset_bytes, error))?;
        }
        let Some(tail) = self.tail.as_ref().filter(|_| !rest.is_empty()) else {
            return Ok(());
        };
        let offset_bytes = offset_bytes + count(bulk);
        let read = tail.device.read(rest, offset_bytes);
        read.map_err(|error| self.cant_read(offset_bytes, error.to_string(), false))
    }

    /// Checks that the target holds no data that must not be overwritten.
    pub fn check_unoccupied(&mut self) -> Result<(), CopyError> {
        let devices = self.target().map(|target| &target.facts().devices);
        let is_fresh = |device: &DeviceFacts| !device.backend.outlives_opening;
        let is_array = |target: &dyn Target| target.facts().array.is_some();
        let looked = if self.target().is_some_and(is_array) {
            self.first_sighting()
        } else if devices.is_some_and(|devices| devices.iter().any(is_fresh)) {
            return Ok(());
        } else {
            return check_held(&self.name);
        };
        unoccupied(&self.name, looked)
    }

    /// Returns the first known signature at its beginning or end, or the reason for a failed read.
    fn first_sighting(&mut self) -> Result<Option<String>, String> {
        let sightings = look(self.bytes(), &mut |offset_bytes, into| {
            let read = self.read_or_name_block(offset_bytes, into);
            read.map_err(|error| io::Error::other(error.to_string()))
        });
        let sightings = sightings.map_err(|error| error.to_string())?;
        Ok(sightings.first().map(|sighting| sighting.what.to_owned()))
    }

    /// Writes synchronously. Call it only while no request is in flight.
    pub(crate) fn write_at(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), CopyError> {
        let bulk = from.len().min(clamped(self.bulk_bytes(), offset_bytes));
        let (blocks, rest) = from.split_at(bulk);
        if let Some(export) = self.export.as_mut().filter(|_| bulk > 0) {
            let written = export.write(offset_bytes, blocks);
            written.map_err(|error| self.write_failed(offset_bytes, self.why(error)))?;
        }
        let Some(tail) = self.tail.as_ref().filter(|_| !rest.is_empty()) else {
            return Ok(());
        };
        let offset_bytes = offset_bytes + count(bulk);
        let written = tail.device.write(rest, offset_bytes);
        written.map_err(|error| self.write_failed(offset_bytes, error.to_string()))
    }

    /// Makes written data durable.
    pub(crate) fn flush(&mut self) -> Result<(), CopyError> {
        let blocks = match &mut self.export {
            Some(export) => export.flush().map_err(|error| self.why(error)),
            None => Ok(()),
        };
        let tail = match &self.tail {
            Some(tail) => tail.device.sync().map_err(|error| error.to_string()),
            None => Ok(()),
        };
        blocks.and(tail).map_err(|reason| CopyError::Flush {
            name: self.name.clone(),
            reason,
        })
    }

    /// Closes the target; an array is marked clean.
    pub fn close(self) -> Result<(), CloseError> {
        self.export.map_or(Ok(()), Export::close)
    }

    pub(crate) fn why(&self, error: RequestError) -> String {
        match (error, self.target()) {
            (RequestError::BeyondTolerance, Some(target)) if target.facts().array.is_none() => {
                "the device reports an error".to_owned()
            }
            (RequestError::InDoubt, Some(target)) => match target.lacks() {
                Some(lacks) => format!(
                    "a crash left these blocks in doubt, and {lacks} may hold them: bring that \
                     back first; then a resync puts them in order, and meanwhile the array is only \
                     read"
                ),
                None => error.to_string(),
            },
            (RequestError::BeyondTolerance | RequestError::NoSpace, Some(target)) => {
                no_space(&target.incidents()).unwrap_or_else(|| error.to_string())
            }
            (error, _) => error.to_string(),
        }
    }

    /// Returns the blocks of a stretch.
    fn blocks_of(&self, offset_bytes: u64, bytes: u32) -> impl Iterator<Item = Range<u64>> + use<> {
        let block_size = self
            .target()
            .map_or(BlockSize::B4096, |target| target.facts().block_size);
        let end = offset_bytes + u64::from(bytes);
        let starts = (offset_bytes..end).step_by(clamped(block_size.bytes().into(), 0));
        starts.map(move |start| start..end.min(start + u64::from(block_size.bytes())))
    }

    /// Returns the error of the first unreadable block in a stretch.
    pub(crate) fn first_unreadable(
        &mut self,
        offset_bytes: u64,
        bytes: u32,
        error: RequestError,
    ) -> CopyError {
        self.reads_again();
        let mut block = [0; BlockSize::B4096.bytes() as usize];
        let failed = self.blocks_of(offset_bytes, bytes).find_map(|at| {
            let block = &mut block[..clamped(at.end, at.start)];
            self.read_at(at.start, block).err()
        });
        failed.unwrap_or_else(|| self.read_failed(offset_bytes, error))
    }

    /// Reads synchronously; an error names the first unreadable block.
    fn read_or_name_block(&mut self, offset_bytes: u64, into: &mut [u8]) -> Result<(), CopyError> {
        let Err(error) = self.read_at(offset_bytes, into) else {
            return Ok(());
        };
        let bytes = u32::try_from(into.len()).expect("little at once");
        for block in self.blocks_of(offset_bytes, bytes) {
            let start = clamped(block.start, offset_bytes);
            let end = clamped(block.end, offset_bytes);
            self.read_at(block.start, &mut into[start..end])?;
        }
        Err(error)
    }

    pub(crate) fn read_failed(&self, offset_bytes: u64, error: RequestError) -> CopyError {
        let is_lost = self.is_lost(offset_bytes);
        let reason = if is_lost {
            "these blocks are lost; restore them from a backup".to_owned()
        } else {
            self.why(error)
        };
        self.cant_read(offset_bytes, reason, is_lost)
    }

    fn cant_read(&self, offset_bytes: u64, reason: String, is_lost: bool) -> CopyError {
        CopyError::Read {
            name: self.name.clone(),
            offset_bytes,
            reason,
            is_lost,
        }
    }

    /// Returns true if this byte is listed as lost.
    fn is_lost(&self, offset_bytes: u64) -> bool {
        let lost = self.target().map_or(Vec::new(), <dyn Target>::lost);
        lost.iter()
            .any(|lost| lost.array == self.name && lost.bytes.contains(&offset_bytes))
    }

    pub(crate) fn write_failed(&self, offset_bytes: u64, reason: String) -> CopyError {
        CopyError::Write {
            name: self.name.clone(),
            offset_bytes,
            reason,
        }
    }

    /// Returns the names of the files and devices underneath.
    pub(crate) fn device_names(&self) -> Vec<&str> {
        match self.target() {
            Some(target) => {
                let devices = target.facts().devices.iter();
                devices.map(|device| device.name.as_str()).collect()
            }
            None => vec![&self.name],
        }
    }
}

/// Returns the error for a first different byte.
pub(crate) fn differ(from: &CopyEnd, to: &CopyEnd, offset_bytes: u64) -> CopyError {
    CopyError::Differs {
        from: from.name.clone(),
        to: to.name.clone(),
        offset_bytes,
    }
}

pub(crate) fn check_held(name: &str) -> Result<(), CopyError> {
    let looked = occupant_of_held(name).map_err(|error| error.to_string());
    unoccupied(name, looked)
}

fn unoccupied(name: &str, looked: Result<Option<String>, String>) -> Result<(), CopyError> {
    let unknown = |why| Some(format!("what can't be looked at ({why})"));
    looked.unwrap_or_else(unknown).map_or(Ok(()), |what| {
        Err(CopyError::Occupied {
            name: name.to_owned(),
            what,
        })
    })
}

/// Returns how many of the bytes from `offset` on lie before `end`.
fn clamped(end: u64, offset: u64) -> usize {
    usize::try_from(end.saturating_sub(offset)).expect("64 bits")
}

pub(crate) fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("64 bits")
}

/// Checks the process's file size limit: the kernel kills a process that writes beyond it.
fn check_limit(name: &str, bytes: u64) -> Result<(), OpenError> {
    match getrlimit(Resource::Fsize).current {
        Some(limit_bytes) if bytes > limit_bytes => Err(OpenError::FileLimit {
            device: name.to_owned(),
            bytes: SizeBytes(bytes),
            limit_bytes: SizeBytes(limit_bytes),
        }),
        Some(_) | None => Ok(()),
    }
}
