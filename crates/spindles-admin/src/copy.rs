//! Copies bytes from one end to another. Several large requests are in flight at both ends. Each
//! end may be a device, an array, or a file of any length.

use crate::create::occupant_of_held;
use rustix::process::{Resource, getrlimit};
use spindles_array::export::{Access, Answer, Export, ExportLimits, SlotId};
use spindles_array::{Incident, Target, no_space, open_blocks};
use spindles_block::{BlockIndex, BlockSize, Operation, RequestError, SizeBytes};
use spindles_device::at_rest::{self, AtRest};
use spindles_device::errors::failed;
use spindles_device::facts::DeviceFacts;
use spindles_device::identity::same_device;
use spindles_device::peer::is_address;
use spindles_device::signatures::look;
use spindles_device::{CloseError, OpenError, OpenOptions, backends, device_of};
use spindles_layout::Slice;
use std::fs::{File, OpenOptions as FileOptions};
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::slice;
use thiserror::Error;

/// The shortest request, except for the last one and for reads of single blocks.
const REQUEST_BYTES_MIN: u32 = 1 << 20;
/// The longest request.
const REQUEST_BYTES_MAX: u32 = 4 << 20;
/// Requests in flight at once, at each end.
const REQUESTS: u16 = 8;

/// The source or the target of a copy.
#[derive(Debug)]
pub struct CopyEnd {
    name: String,
    /// The whole blocks; `None` for a file shorter than a block.
    export: Option<Export>,
    /// The bytes beyond the last whole block.
    tail: Option<Tail>,
    /// Unreadable bytes that were skipped, in order. `None` if unreadable bytes are an error.
    left_out: Option<Vec<Range<u64>>>,
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
            at_rest::Access::Read
        } else {
            at_rest::Access::Write
        };
        let device = backends::at_rest(name, access);
        let device = device.map_err(|source| failed(name, "open", source))?;
        Ok(Self { device, bytes })
    }
}

/// The phase of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Source bytes are being copied to the target.
    Copying,
    /// Both ends are being read and compared.
    Comparing,
    /// Stretches that failed to read as a whole are copied or compared block by block. Only
    /// `Progress` reports this phase.
    Again,
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// Bytes done so far in this phase.
    pub bytes: u64,
    /// Total bytes of this phase.
    pub bytes_total: u64,
}

fn room_remedy(is_file: bool) -> &'static str {
    if is_file {
        "remove the file first, or name a new one"
    } else {
        "take something larger"
    }
}

/// Why a copy failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CopyError {
    /// More bytes are to be copied than the source holds.
    #[error(
        "{name} holds {}, less than the {} to be copied: ask for less",
        SizeBytes(*bytes),
        SizeBytes(*wanted)
    )]
    TooShort {
        /// The source.
        name: String,
        /// Its size.
        bytes: u64,
        /// Bytes asked for.
        wanted: u64,
    },
    /// The target is too small.
    #[error(
        "{name} has room for {}, and {} are to be copied: {}",
        SizeBytes(*bytes),
        SizeBytes(*wanted),
        room_remedy(*is_file)
    )]
    NoRoom {
        /// The target.
        name: String,
        /// Its size.
        bytes: u64,
        /// Bytes to be copied.
        wanted: u64,
        /// True if it is a plain file.
        is_file: bool,
    },
    /// The target already holds data.
    #[error("{name} holds {what}; use --force to overwrite it, or take another")]
    Occupied {
        /// The target.
        name: String,
        /// The data on the target, with an article.
        what: String,
    },
    /// Both ends are on the same device.
    #[error("{device} is on both sides: a copy onto itself would ruin it, take another target")]
    SameDevice {
        /// The device.
        device: String,
    },
    /// A read failed.
    #[error("{name}: can't read at byte {offset_bytes}: {reason}")]
    Read {
        /// The end that failed.
        name: String,
        /// The offset of the failure.
        offset_bytes: u64,
        /// The reason.
        reason: String,
        /// True if the array lists this block as lost.
        is_lost: bool,
    },
    /// A write failed.
    #[error("{name}: can't write at byte {offset_bytes}: {reason}")]
    Write {
        /// The end that failed.
        name: String,
        /// Where the request begins.
        offset_bytes: u64,
        /// The reason.
        reason: String,
    },
    /// The copied bytes may not be durable.
    #[error("{name}: the copied bytes may not be durable: {reason}")]
    Flush {
        /// The end that failed.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The bytes read back differ from the copied ones.
    #[error("{to} differs from {from} at byte {offset_bytes}")]
    Differs {
        /// One end.
        from: String,
        /// The other end.
        to: String,
        /// The first byte that differs.
        offset_bytes: u64,
    },
    /// The caller interrupted the copy.
    #[error("interrupted after {}", SizeBytes(*bytes).rounded())]
    Interrupted {
        /// Bytes copied so far.
        bytes: u64,
    },
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
    fn leave_out(&mut self, bytes: Range<u64>) {
        let left_out = self.left_out.get_or_insert_default();
        match left_out.last_mut().filter(|last| last.end == bytes.start) {
            Some(last) => last.end = bytes.end,
            None => left_out.push(bytes),
        }
    }

    /// Splits stretches into those that can't be read because members are missing, and the rest.
    fn without_reach(&self, stretches: &[Range<u64>]) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
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
    fn reads_again(&mut self) {
        let incidents = self.target().map_or(Vec::new(), <dyn Target>::incidents);
        self.before_again.push(incidents);
    }

    /// Returns its size.
    pub fn bytes(&self) -> u64 {
        self.bulk_bytes() + self.tail.as_ref().map_or(0, |tail| tail.bytes)
    }

    /// Returns the preferred request length: whole stripes, unless a stripe is too long.
    fn request_bytes(&self) -> u32 {
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
    fn bulk_bytes(&self) -> u64 {
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
        let is_fresh = |device: &DeviceFacts| !device.backend.outlives_process;
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
    fn write_at(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), CopyError> {
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
    fn flush(&mut self) -> Result<(), CopyError> {
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

    fn why(&self, error: RequestError) -> String {
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
    fn first_unreadable(
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

    fn read_failed(&self, offset_bytes: u64, error: RequestError) -> CopyError {
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

    fn write_failed(&self, offset_bytes: u64, reason: String) -> CopyError {
        CopyError::Write {
            name: self.name.clone(),
            offset_bytes,
            reason,
        }
    }

    /// Returns the names of the files and devices underneath.
    fn device_names(&self) -> Vec<&str> {
        match self.target() {
            Some(target) => {
                let devices = target.facts().devices.iter();
                devices.map(|device| device.name.as_str()).collect()
            }
            None => vec![&self.name],
        }
    }
}

/// Checks that a file or device holds no data that must not be overwritten. Call it before opening
/// a source on `from_devices`, because opening may repair the source.
///
/// Leaves these targets to the other checks: missing ones, other kinds of files, and devices of the
/// source.
pub fn check_target(name: &str, from_devices: &[&str]) -> Result<(), CopyError> {
    let is_kept = |kind: std::fs::FileType| kind.is_file() || kind.is_block_device();
    let file = std::fs::metadata(&*device_of(name));
    let is_there = file.is_ok_and(|file| is_kept(file.file_type()));
    if !is_there || same_device(&[from_devices, &[name]].concat()).is_some() {
        return Ok(());
    }
    check_held(name)
}

fn check_held(name: &str) -> Result<(), CopyError> {
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

/// Checks that this many bytes can be copied, without touching anything. Both ends must be large
/// enough and on different devices.
pub fn check(from: &CopyEnd, to: &CopyEnd, bytes: u64) -> Result<(), CopyError> {
    check_source(from, bytes, &to.device_names())?;
    if bytes > to.bytes() {
        return Err(CopyError::NoRoom {
            name: to.name.clone(),
            bytes: to.bytes(),
            wanted: bytes,
            is_file: Path::new(&to.name).is_file(),
        });
    }
    Ok(())
}

/// Checks the source before the target is opened: it must hold `bytes` and share no device with the
/// target.
pub fn check_source(from: &CopyEnd, bytes: u64, to_devices: &[&str]) -> Result<(), CopyError> {
    let ours = from.device_names();
    for device in to_devices {
        if same_device(&[ours.as_slice(), &[device]].concat()).is_some() {
            return Err(CopyError::SameDevice {
                device: (*device).to_owned(),
            });
        }
    }
    if bytes > from.bytes() {
        return Err(CopyError::TooShort {
            name: from.name.clone(),
            bytes: from.bytes(),
            wanted: bytes,
        });
    }
    Ok(())
}

/// Copies the first `bytes` bytes and makes them durable. `progress` may interrupt the copy.
/// Requests in flight at a failure are completed.
pub fn copy(
    from: &mut CopyEnd,
    to: &mut CopyEnd,
    bytes: u64,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), CopyError> {
    check(from, to, bytes)?;
    run(Phase::Copying, from, to, bytes, progress)?;
    to.flush()
}

/// Compares the first `bytes` bytes of both ends. The error names the first byte that differs.
pub fn compare(
    from: &mut CopyEnd,
    to: &mut CopyEnd,
    bytes: u64,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), CopyError> {
    check(from, to, bytes)?;
    from.reads_again();
    run(Phase::Comparing, from, to, bytes, progress)
}

/// Copies or compares whole blocks through the pipeline, then the remaining bytes.
fn run(
    phase: Phase,
    from: &mut CopyEnd,
    to: &mut CopyEnd,
    bytes: u64,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), CopyError> {
    let bulk = bytes.min(from.bulk_bytes()).min(to.bulk_bytes());
    let request_bytes = to.request_bytes();
    if let Some(left_out) = &mut from.left_out {
        left_out.clear();
    }
    let whole = 0..bulk;
    let pass = Pass {
        phase,
        shown: phase,
        request_bytes,
        bytes_total: bytes,
    };
    let mut unread = pass.run(from, to, slice::from_ref(&whole), progress)?;
    if !unread.is_empty() {
        from.reads_again();
        unread.sort_unstable_by_key(|bytes| bytes.start);
        let (mut left_out, again) = from.without_reach(&unread);
        let block_bytes = from
            .target()
            .map(|target| target.facts().block_size.bytes());
        let pass = Pass {
            phase,
            shown: Phase::Again,
            request_bytes: block_bytes.unwrap_or(request_bytes),
            bytes_total: again.iter().map(|bytes| bytes.end - bytes.start).sum(),
        };
        left_out.extend(pass.run(from, to, &again, progress)?);
        left_out.sort_unstable_by_key(|bytes| bytes.start);
        for bytes in left_out {
            from.leave_out(bytes);
        }
    }
    one_block(phase, from, to, bulk..bytes)
}

/// One pass over stretches of both ends.
struct Pass {
    phase: Phase,
    /// The phase that `Progress` reports.
    shown: Phase,
    request_bytes: u32,
    bytes_total: u64,
}

impl Pass {
    /// Runs the pass. Returns the requests that could not be read, if the source skips them.
    fn run(
        &self,
        from: &mut CopyEnd,
        to: &mut CopyEnd,
        stretches: &[Range<u64>],
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Vec<Range<u64>>, CopyError> {
        let leaves_out = from.left_out.is_some();
        let (Some(source), Some(target)) = (&mut from.export, &mut to.export) else {
            return Ok(Vec::new());
        };
        let mut pipeline = Pipeline {
            pass: self,
            from: source,
            to: target,
            pieces: Vec::with_capacity(usize::from(REQUESTS)),
            stretches,
            next: 0,
            done: 0,
            leaves_out,
            unread: Vec::new(),
            stopped: None,
        };
        let stopped = pipeline.run(progress);
        let unread = pipeline.unread;
        stopped.map_err(|stop| match stop {
            Stop::Read(at, bytes, error) => from.first_unreadable(at, bytes, error),
            Stop::ReadBack(at, error) => to.read_failed(at, error),
            Stop::Write(at, error) => to.write_failed(at, to.why(error)),
            Stop::Differs(at) => differ(from, to, at),
            Stop::Interrupted(bytes) => CopyError::Interrupted { bytes },
        })?;
        Ok(unread)
    }
}

/// Reads a few bytes and copies, compares or skips them.
fn one_block(
    phase: Phase,
    from: &mut CopyEnd,
    to: &mut CopyEnd,
    bytes: Range<u64>,
) -> Result<(), CopyError> {
    let length = bytes.end - bytes.start;
    let mut ours = vec![0; usize::try_from(length).expect("a block or two")];
    match (from.read_at(bytes.start, &mut ours), &from.left_out) {
        (Ok(()), _) => {}
        (Err(error), None) => return Err(error),
        (Err(_), Some(_)) => {
            from.leave_out(bytes);
            return Ok(());
        }
    }
    if phase != Phase::Comparing {
        return to.write_at(bytes.start, &ours);
    }
    let mut theirs = vec![0; ours.len()];
    to.read_at(bytes.start, &mut theirs)?;
    let differs = first_difference(&ours, &theirs);
    differs.map_or(Ok(()), |index| {
        Err(differ(from, to, bytes.start + count(index)))
    })
}

/// Why a pipeline stopped, and where.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Read(u64, u32, RequestError),
    ReadBack(u64, RequestError),
    Write(u64, RequestError),
    Differs(u64),
    Interrupted(u64),
}

/// A stretch in progress.
#[derive(Clone, Copy, Debug)]
struct Piece {
    offset_bytes: u64,
    bytes: u32,
    /// Held until its bytes have been used.
    from: Option<Leg>,
    to: Option<Leg>,
    /// True if it could not be read as a whole and is left for later.
    unread: bool,
}

/// The source end or the target end of a piece.
#[derive(Clone, Copy, Debug)]
struct Leg {
    slot: SlotId,
    answered: bool,
}

/// Many pieces in flight, each progressing independently.
struct Pipeline<'ends> {
    pass: &'ends Pass,
    from: &'ends mut Export,
    to: &'ends mut Export,
    pieces: Vec<Piece>,
    /// The stretches still to start, from `next` on. `next` lies in the first of them or before it.
    stretches: &'ends [Range<u64>],
    next: u64,
    done: u64,
    /// True if unreadable pieces of the source are collected in `unread` instead of failing.
    leaves_out: bool,
    unread: Vec<Range<u64>>,
    /// The first failure; no piece is started after it.
    stopped: Option<Stop>,
}

impl Pipeline<'_> {
    fn run(&mut self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<(), Stop> {
        loop {
            self.begin_pieces();
            if self.pieces.is_empty() {
                return self.stopped.map_or(Ok(()), Err);
            }
            let done = self.done;
            self.turn();
            if self.done == done {
                continue;
            }
            let progress = progress(Progress {
                phase: self.pass.shown,
                bytes: self.done,
                bytes_total: self.pass.bytes_total,
            });
            if progress.is_break() {
                self.stopped.get_or_insert(Stop::Interrupted(self.done));
            }
        }
    }

    fn begin_pieces(&mut self) {
        while self.stopped.is_none()
            && self.pieces.len() < usize::from(REQUESTS)
            && let Some((stretch, rest)) = self.stretches.split_first()
        {
            self.next = self.next.max(stretch.start);
            if self.next >= stretch.end {
                self.stretches = rest;
                continue;
            }
            let bytes = (stretch.end - self.next).min(self.pass.request_bytes.into());
            let bytes = u32::try_from(bytes).expect("at most a request");
            let read = Access {
                operation: Operation::Read,
                offset_bytes: self.next,
                bytes,
            };
            let from = begin(self.from, read);
            let compares = self.pass.phase == Phase::Comparing;
            let to = compares.then(|| begin(self.to, read));
            self.pieces.push(Piece {
                offset_bytes: self.next,
                bytes,
                from: Some(from),
                to,
                unread: false,
            });
            self.next += u64::from(bytes);
        }
    }

    /// Takes all pending answers. If there are none, waits for one at the end with more requests in
    /// flight.
    fn turn(&mut self) {
        let mut answered = false;
        while let Some(answer) = self.from.poll(false) {
            self.source_answered(answer);
            answered = true;
        }
        while let Some(answer) = self.to.poll(false) {
            self.target_answered(answer);
            answered = true;
        }
        if answered {
            return;
        }
        let in_flight = |leg: fn(&Piece) -> Option<Leg>| {
            let legs = self.pieces.iter().filter_map(leg);
            legs.filter(|leg| !leg.answered).count()
        };
        if in_flight(|piece| piece.to) >= in_flight(|piece| piece.from) {
            if let Some(answer) = self.to.poll(true) {
                self.target_answered(answer);
            }
        } else if let Some(answer) = self.from.poll(true) {
            self.source_answered(answer);
        }
    }

    /// Notes that a request was answered; returns the index of its piece.
    fn note_answer(&mut self, slot: SlotId, leg: fn(&mut Piece) -> &mut Option<Leg>) -> usize {
        let is_its = |piece: &mut Piece| leg(piece).is_some_and(|leg| leg.slot == slot);
        let index = self.pieces.iter_mut().position(is_its);
        let index = index.expect("only pieces are in flight");
        let answered = true;
        *leg(&mut self.pieces[index]) = Some(Leg { slot, answered });
        index
    }

    fn source_answered(&mut self, answer: Answer) {
        let slot = answer.slot;
        let index = self.note_answer(slot, |piece| &mut piece.from);
        let piece = &mut self.pieces[index];
        match answer.result {
            Ok(()) => {}
            Err(_) if self.leaves_out => {
                piece.unread = true;
                let end = piece.offset_bytes + u64::from(piece.bytes);
                self.unread.push(piece.offset_bytes..end);
            }
            Err(error) => {
                self.stopped
                    .get_or_insert(Stop::Read(piece.offset_bytes, piece.bytes, error));
            }
        }
        if self.pass.phase == Phase::Copying && self.stopped.is_none() && !piece.unread {
            let write = Access {
                operation: Operation::Write { fua: false },
                offset_bytes: piece.offset_bytes,
                bytes: piece.bytes,
            };
            let to = self.to.take(write).expect("as many as there are pieces");
            let bytes = self.from.payload(slot);
            self.to.payload(to).copy_from_slice(bytes);
            self.to.submit(to);
            piece.to = Some(Leg {
                slot: to,
                answered: false,
            });
            self.from.give_back(slot);
            piece.from = None;
        }
        self.end_piece(index);
    }

    fn target_answered(&mut self, answer: Answer) {
        let index = self.note_answer(answer.slot, |piece| &mut piece.to);
        if let Err(error) = answer.result {
            let compares = self.pass.phase == Phase::Comparing;
            let stop = if compares {
                Stop::ReadBack
            } else {
                Stop::Write
            };
            let at = self.pieces[index].offset_bytes;
            self.stopped.get_or_insert(stop(at, error));
        }
        self.end_piece(index);
    }

    /// Frees a piece once it has nothing in flight.
    fn end_piece(&mut self, index: usize) {
        let piece = self.pieces[index];
        let in_flight = |leg: Option<Leg>| leg.is_some_and(|leg| !leg.answered);
        if in_flight(piece.from) || in_flight(piece.to) {
            return;
        }
        if let (Some(from), Some(to), None, false) =
            (piece.from, piece.to, self.stopped, piece.unread)
        {
            let (ours, theirs) = (self.from.payload(from.slot), self.to.payload(to.slot));
            if let Some(index) = first_difference(ours, theirs) {
                self.stopped = Some(Stop::Differs(piece.offset_bytes + count(index)));
            }
        }
        for (end, leg) in [(&mut self.from, piece.from), (&mut self.to, piece.to)] {
            if let Some(leg) = leg {
                end.give_back(leg.slot);
            }
        }
        self.pieces.swap_remove(index);
        self.done += u64::from(piece.bytes);
    }
}

fn begin(export: &mut Export, access: Access) -> Leg {
    let slot = export.take(access).expect("as many as there are pieces");
    export.submit(slot);
    Leg {
        slot,
        answered: false,
    }
}

fn first_difference(ours: &[u8], theirs: &[u8]) -> Option<usize> {
    if ours == theirs {
        return None;
    }
    ours.iter().zip(theirs).position(|(a, b)| a != b)
}

fn differ(from: &CopyEnd, to: &CopyEnd, offset_bytes: u64) -> CopyError {
    CopyError::Differs {
        from: from.name.clone(),
        to: to.name.clone(),
        offset_bytes,
    }
}

/// Returns how many of the bytes from `offset` on lie before `end`.
fn clamped(end: u64, offset: u64) -> usize {
    usize::try_from(end.saturating_sub(offset)).expect("64 bits")
}

fn count(bytes: usize) -> u64 {
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
