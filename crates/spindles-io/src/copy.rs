//! Moves bytes from one place to another, byte for byte: several large requests are in flight at
//! both ends, and each end may be a device, an array, or a file of any length.

use crate::create::occupant_of_held;
use crate::export::{Access, Answer, Export, ExportLimits, SlotId};
use crate::facts::DeviceFacts;
use crate::identity::same_device;
use crate::peer::is_address;
use crate::signatures::look;
use crate::{
    CloseError, Incident, OpenError, OpenOptions, Target, no_space, open_device, positioned,
};
use rustix::process::{Resource, getrlimit};
use spindles_block::{BlockIndex, BlockSize, Operation, RequestError, SizeBytes};
use std::fs::{File, OpenOptions as FileOptions};
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::slice;
use thiserror::Error;

/// A request is no shorter, unless it is the last.
const REQUEST_BYTES_MIN: u32 = 1 << 20;
/// A request is no longer.
const REQUEST_BYTES_MAX: u32 = 4 << 20;
/// In flight at once, at each end.
const REQUESTS: u16 = 8;

/// Where bytes come from or go to.
pub struct CopyEnd {
    name: String,
    /// The whole blocks; a file shorter than a block has none.
    export: Option<Export>,
    /// What a file has beyond its last whole block.
    tail: Option<Tail>,
    /// Bytes that could not be read, in order, where what can't be read is left out.
    left_out: Option<Vec<Range<u64>>>,
    /// What had gone wrong each time when parts of it were about to be read again.
    before_again: Vec<Vec<Incident>>,
}

/// The last bytes of a file, less than a block.
#[derive(Debug)]
struct Tail {
    file: File,
    bytes: u64,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Bytes go over.
    Copying,
    /// Both ends are read and compared.
    Comparing,
    /// Stretches that could not be read as a whole are read block by block, to be copied or compared. Only their progress is
    /// called so.
    Again,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Done so far in this phase.
    pub bytes: u64,
    /// To be done in this phase.
    pub bytes_total: u64,
}

/// Why a copy failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CopyError {
    /// More is to be copied than there is.
    #[error("{name} holds {}, less than the {} to be copied: ask for less", SizeBytes(*bytes), SizeBytes(*wanted))]
    TooShort {
        /// Where it comes from.
        name: String,
        /// What there is.
        bytes: u64,
        /// What was asked for.
        wanted: u64,
    },
    /// There is less room than there are bytes.
    #[error("{name} has room for {}, and {} are to be copied: {}", SizeBytes(*bytes), SizeBytes(*wanted), if *is_file { "remove the file first, or name a new one" } else { "take something larger" })]
    NoRoom {
        /// Where it goes.
        name: String,
        /// The room there is.
        bytes: u64,
        /// What is to be copied.
        wanted: u64,
        /// It is a plain file.
        is_file: bool,
    },
    /// The target holds something.
    #[error("{name} holds {what}; use --force to overwrite it, or take another")]
    Occupied {
        /// The target.
        name: String,
        /// What it holds, with its article.
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
        /// Of which end.
        name: String,
        /// Where.
        offset_bytes: u64,
        /// Why.
        reason: String,
    },
    /// A write failed.
    #[error("{name}: can't write at byte {offset_bytes}: {reason}")]
    Write {
        /// Of which end.
        name: String,
        /// Where the request begins.
        offset_bytes: u64,
        /// Why.
        reason: String,
    },
    /// The bytes are not durable.
    #[error("{name}: what was copied may not be durable: {reason}")]
    Flush {
        /// Of which end.
        name: String,
        /// Why.
        reason: String,
    },
    /// What was read back is not what was copied.
    #[error("{to} differs from {from} at byte {offset_bytes}")]
    Differs {
        /// The one end.
        from: String,
        /// The other.
        to: String,
        /// The first byte that differs.
        offset_bytes: u64,
    },
    /// The caller asked for the end.
    #[error("interrupted after {}", SizeBytes(*bytes).rounded())]
    Interrupted {
        /// That many are there.
        bytes: u64,
    },
}

impl std::fmt::Debug for CopyEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CopyEnd {}", self.name)
    }
}

impl CopyEnd {
    /// An open target, such as an array.
    #[must_use]
    pub fn new(target: Box<dyn Target>) -> Self {
        let bytes = u32::try_from(target.facts().bytes()).unwrap_or(u32::MAX);
        let limits = ExportLimits {
            slots: REQUESTS,
            access_bytes_max: bytes.min(REQUEST_BYTES_MAX),
        };
        Self {
            name: target.facts().name.clone(),
            export: Some(Export::new(target, limits)),
            tail: None,
            left_out: None,
            before_again: Vec::new(),
        }
    }

    /// From here on, where blocks of it can't be read, all others are copied, or compared.
    pub fn leave_out_unreadable(&mut self) {
        self.left_out = Some(Vec::new());
    }

    /// Bytes of it that were left out by the last copy or comparison, in order.
    pub fn left_out(&self) -> &[Range<u64>] {
        self.left_out.as_deref().unwrap_or_default()
    }

    /// Leaves bytes out, in order.
    fn leave_out(&mut self, bytes: Range<u64>) {
        let left_out = self.left_out.get_or_insert_default();
        match left_out.last_mut().filter(|last| last.end == bytes.start) {
            Some(last) => last.end = bytes.end,
            None => left_out.push(bytes),
        }
    }

    /// What of these stretches can't be read for want of members, whatever is tried, and what may be.
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

    /// Returns true if the byte `from` can't be read for want of members, whatever is tried; and the first byte from which
    /// on that may differ, at most `end`.
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

    /// A file of any length, a block device, an export, `mem:SIZE` or `null:SIZE`.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub fn open(name: &str, options: &OpenOptions) -> Result<Self, OpenError> {
        let block_size = options.block_size.unwrap_or(BlockSize::B4096);
        let metadata = std::fs::metadata(name).ok();
        let file_bytes = metadata.filter(std::fs::Metadata::is_file);
        let file_bytes = file_bytes.map(|metadata| metadata.len());
        let block_bytes = u64::from(block_size.bytes());
        let tail = match file_bytes {
            Some(bytes) if !bytes.is_multiple_of(block_bytes) => Some(Tail {
                file: open_tail(name, options)?,
                bytes: bytes % block_bytes,
            }),
            _ => None,
        };
        if file_bytes.is_some_and(|bytes| bytes < block_bytes) {
            return Ok(Self {
                name: name.to_owned(),
                export: None,
                tail,
                left_out: None,
                before_again: Vec::new(),
            });
        }
        let target = open_device(name, options)?;
        Ok(Self {
            tail,
            ..Self::new(target)
        })
    }

    /// Makes sure that there is a file of that length where there is none yet or an empty one;
    /// leaves anything else as it is. True when the file is new.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the place.
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
        if is_address(name) {
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
                    // Nobody else has seen it.
                    drop(std::fs::remove_file(name));
                    refused("make room in")(source)
                })?;
                Ok(true)
            }
            Err(error) => Err(refused("look at")(error)),
        }
    }

    /// What the user called it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The target, unless it is a file of less than a block.
    pub fn target(&self) -> Option<&dyn Target> {
        self.export.as_ref().map(Export::target)
    }

    /// The target, unless it is a file of less than a block.
    pub fn target_mut(&mut self) -> Option<&mut dyn Target> {
        self.export.as_mut().map(Export::target_mut)
    }

    /// What went wrong on its devices; rot that was met several times, as by a copy and then by a
    /// comparison, once.
    pub fn incidents(&self) -> Vec<Incident> {
        let mut incidents = self.target().map_or(Vec::new(), <dyn Target>::incidents);
        for incident in &mut incidents {
            incident.count_rot_once(&self.before_again);
        }
        incidents
    }

    /// What goes wrong from here on may have gone wrong before.
    fn reads_again(&mut self) {
        let incidents = self.target().map_or(Vec::new(), <dyn Target>::incidents);
        self.before_again.push(incidents);
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bulk_bytes() + self.tail.as_ref().map_or(0, |tail| tail.bytes)
    }

    /// How long requests to this end had better be: whole stripes, where they are not too long.
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

    /// What of it is whole blocks.
    fn bulk_bytes(&self) -> u64 {
        self.export.as_ref().map_or(0, Export::bytes)
    }

    /// Reads now. For use while nothing else is in flight.
    ///
    /// # Errors
    ///
    /// Says where it failed.
    pub fn read_at(&mut self, offset_bytes: u64, into: &mut [u8]) -> Result<(), CopyError> {
        let bulk = into.len().min(clamped(self.bulk_bytes(), offset_bytes));
        let (blocks, rest) = into.split_at_mut(bulk);
        if let Some(export) = &mut self.export
            && !blocks.is_empty()
        {
            let read = export.read(offset_bytes, blocks);
            read.map_err(|error| self.read_failed(offset_bytes, error))?;
        }
        if let Some(tail) = &self.tail
            && !rest.is_empty()
        {
            let offset_bytes = offset_bytes + count(bulk);
            let read = positioned::read_exact_at(&tail.file, rest, offset_bytes);
            read.map_err(|error| CopyError::Read {
                name: self.name.clone(),
                offset_bytes,
                reason: error.to_string(),
            })?;
        }
        Ok(())
    }

    /// Makes sure that it holds nothing that nobody wants overwritten.
    ///
    /// # Errors
    ///
    /// When it does, or that can't be known.
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

    /// What of a known kind is at its beginning or end, or why that is not known.
    fn first_sighting(&mut self) -> Result<Option<String>, String> {
        let sightings = look(self.bytes(), &mut |offset_bytes, into| {
            let read = self.read_or_name_block(offset_bytes, into);
            read.map_err(|error| io::Error::other(error.to_string()))
        });
        let sightings = sightings.map_err(|error| error.to_string())?;
        Ok(sightings.first().map(|sighting| sighting.what.to_owned()))
    }

    /// Writes now. For use while nothing else is in flight.
    fn write_at(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), CopyError> {
        let bulk = from.len().min(clamped(self.bulk_bytes(), offset_bytes));
        let (blocks, rest) = from.split_at(bulk);
        if let Some(export) = &mut self.export
            && !blocks.is_empty()
        {
            let written = export.write(offset_bytes, blocks);
            written.map_err(|error| self.write_failed(offset_bytes, error))?;
        }
        if let Some(tail) = &self.tail
            && !rest.is_empty()
        {
            let offset_bytes = offset_bytes + count(bulk);
            let written = positioned::write_all_at(&tail.file, rest, offset_bytes);
            written.map_err(|error| CopyError::Write {
                name: self.name.clone(),
                offset_bytes,
                reason: error.to_string(),
            })?;
        }
        Ok(())
    }

    /// Makes durable what was written.
    fn flush(&mut self) -> Result<(), CopyError> {
        let blocks = match &mut self.export {
            Some(export) => export.flush().map_err(|error| self.why(error)),
            None => Ok(()),
        };
        let tail = match &self.tail {
            Some(tail) => tail.file.sync_all().map_err(|error| error.to_string()),
            None => Ok(()),
        };
        blocks.and(tail).map_err(|reason| CopyError::Flush {
            name: self.name.clone(),
            reason,
        })
    }

    /// Closes the target; an array is then marked clean.
    ///
    /// # Errors
    ///
    /// When not everything became durable.
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
                    "a crash left these blocks in doubt, and {lacks} may hold them: bring that back \
                     first; then 'spindles resync' puts them in order, and meanwhile the array is \
                     only read"
                ),
                None => error.to_string(),
            },
            (RequestError::BeyondTolerance | RequestError::NoSpace, Some(target)) => {
                no_space(&target.incidents()).unwrap_or_else(|| error.to_string())
            }
            (error, _) => error.to_string(),
        }
    }

    /// The blocks that a stretch consists of.
    fn blocks_of(&self, offset_bytes: u64, bytes: u32) -> impl Iterator<Item = Range<u64>> + use<> {
        let block_size = self
            .target()
            .map_or(BlockSize::B4096, |it| it.facts().block_size);
        let end = offset_bytes + u64::from(bytes);
        let starts = (offset_bytes..end).step_by(clamped(block_size.bytes().into(), 0));
        starts.map(move |start| start..end.min(start + u64::from(block_size.bytes())))
    }

    /// Why a stretch could not be read, and which of its blocks is the first that can't.
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

    /// Reads now; an error names the first block that can't be read.
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
        let reason = if self.is_lost(offset_bytes) {
            "these blocks are lost; write them anew from a backup (`spindles examine` lists them)"
                .to_owned()
        } else {
            self.why(error)
        };
        CopyError::Read {
            name: self.name.clone(),
            offset_bytes,
            reason,
        }
    }

    /// Whether this byte is listed as lost.
    fn is_lost(&self, offset_bytes: u64) -> bool {
        let lost = self.target().map_or(Vec::new(), <dyn Target>::lost);
        lost.iter()
            .any(|lost| lost.array == self.name && lost.bytes.contains(&offset_bytes))
    }

    fn write_failed(&self, offset_bytes: u64, error: RequestError) -> CopyError {
        CopyError::Write {
            name: self.name.clone(),
            offset_bytes,
            reason: self.why(error),
        }
    }

    /// The files and devices underneath.
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

/// Makes sure that a file or device holds nothing that nobody wants overwritten, before a source on these
/// devices is opened: that may put it in order. What is not there, is another kind of thing, or a device of
/// the source, is left to the other checks.
///
/// # Errors
///
/// When it does, or that can't be known.
pub fn check_target(name: &str, from_devices: &[&str]) -> Result<(), CopyError> {
    let is_kept = |kind: std::fs::FileType| kind.is_file() || kind.is_block_device();
    let is_there = std::fs::metadata(name).is_ok_and(|it| is_kept(it.file_type()));
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

/// Checks that so many bytes can be copied, without touching anything.
///
/// # Errors
///
/// When they do not fit, are not there, or both ends are on one device.
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

/// Checks what can be checked before the target is opened: that the bytes are there, and that
/// none of its devices is a device of the source.
///
/// # Errors
///
/// When that is not so.
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

/// Copies the first `bytes` bytes and makes them durable. `progress` may ask for the end.
///
/// # Errors
///
/// Says which end failed, and where. What was in flight then is done.
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

/// Reads the first `bytes` bytes of both ends and compares them.
///
/// # Errors
///
/// The first byte that differs, or which end can't be read, and where.
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

/// Whole blocks through the pipeline, then what is left.
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
        let block_bytes = from.target().map(|it| it.facts().block_size.bytes());
        let pass = Pass {
            phase,
            shown: Phase::Again,
            request_bytes: block_bytes.unwrap_or(request_bytes),
            bytes_total: again.iter().map(|bytes| bytes.end - bytes.start).sum(),
        };
        left_out.extend(pass.run(from, to, &again, progress)?);
        left_out.sort_unstable_by_key(|bytes| bytes.start);
        left_out.into_iter().for_each(|bytes| from.leave_out(bytes));
    }
    one_block(phase, from, to, bulk..bytes)
}

/// One pass over stretches of the ends.
struct Pass {
    phase: Phase,
    /// What its progress is called.
    shown: Phase,
    request_bytes: u32,
    bytes_total: u64,
}

impl Pass {
    /// Returns the requests that could not be read, where those are left out.
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
            phase: self.phase,
            shown: self.shown,
            from: source,
            to: target,
            request_bytes: self.request_bytes,
            pieces: Vec::with_capacity(usize::from(REQUESTS)),
            stretches,
            next: 0,
            done: 0,
            leaves_out,
            unread: Vec::new(),
            stopped: None,
        };
        let stopped = pipeline.run(self.bytes_total, progress);
        let unread = pipeline.unread;
        stopped.map_err(|stop| match stop {
            Stop::Read(at, bytes, error) => from.first_unreadable(at, bytes, error),
            Stop::ReadBack(at, error) => to.read_failed(at, error),
            Stop::Write(at, error) => to.write_failed(at, error),
            Stop::Differs(at) => differ(from, to, at),
            Stop::Interrupted(bytes) => CopyError::Interrupted { bytes },
        })?;
        Ok(unread)
    }
}

/// Reads a few bytes, and copies or compares them; or leaves them out.
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
    match phase {
        Phase::Copying | Phase::Again => to.write_at(bytes.start, &ours)?,
        Phase::Comparing => {
            let mut theirs = vec![0; ours.len()];
            to.read_at(bytes.start, &mut theirs)?;
            if let Some(index) = first_difference(&ours, &theirs) {
                return Err(differ(from, to, bytes.start + count(index)));
            }
        }
    }
    Ok(())
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

/// A stretch on its way.
#[derive(Clone, Copy, Debug)]
struct Piece {
    offset_bytes: u64,
    bytes: u32,
    /// Taken until its bytes have been used.
    from: Option<Leg>,
    to: Option<Leg>,
    /// It could not be read, and is left for later.
    unread: bool,
}

/// One end of a piece.
#[derive(Clone, Copy, Debug)]
struct Leg {
    slot: SlotId,
    answered: bool,
}

/// Many pieces at once, each going its own way.
struct Pipeline<'ends> {
    phase: Phase,
    shown: Phase,
    from: &'ends mut Export,
    to: &'ends mut Export,
    request_bytes: u32,
    pieces: Vec<Piece>,
    /// What is still to be begun: from `next` on, which lies in the first or before it.
    stretches: &'ends [Range<u64>],
    next: u64,
    done: u64,
    /// Whether what can't be read of the source is left out, and the pieces that can't as a whole.
    leaves_out: bool,
    unread: Vec<Range<u64>>,
    /// The first thing that went wrong; nothing new is begun then.
    stopped: Option<Stop>,
}

impl Pipeline<'_> {
    fn run(
        &mut self,
        bytes_total: u64,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
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
                phase: self.shown,
                bytes: self.done,
                bytes_total,
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
            let bytes = (stretch.end - self.next).min(self.request_bytes.into());
            let bytes = u32::try_from(bytes).expect("at most a request");
            let read = Access {
                operation: Operation::Read,
                offset_bytes: self.next,
                bytes,
            };
            let from = begin(self.from, read);
            let to = match self.phase {
                Phase::Copying | Phase::Again => None,
                Phase::Comparing => Some(begin(self.to, read)),
            };
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

    /// Takes all answers there are; waits for one where there is none, at the end that has more
    /// to do.
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

    fn source_answered(&mut self, answer: Answer) {
        let mut pieces = self.pieces.iter_mut();
        let with = |leg: &mut Option<Leg>| leg.is_some_and(|leg| leg.slot == answer.slot);
        let index = pieces.position(|piece| with(&mut piece.from));
        let index = index.expect("only pieces are in flight");
        let piece = &mut self.pieces[index];
        let slot = answer.slot;
        piece.from = Some(Leg {
            slot,
            answered: true,
        });
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
        if self.phase == Phase::Copying && self.stopped.is_none() && !piece.unread {
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
        let mut pieces = self.pieces.iter_mut();
        let with = |leg: &mut Option<Leg>| leg.is_some_and(|leg| leg.slot == answer.slot);
        let index = pieces.position(|piece| with(&mut piece.to));
        let index = index.expect("only pieces are in flight");
        let piece = &mut self.pieces[index];
        piece.to = Some(Leg {
            slot: answer.slot,
            answered: true,
        });
        if let Err(error) = answer.result {
            self.stopped.get_or_insert(match self.phase {
                Phase::Copying | Phase::Again => Stop::Write(piece.offset_bytes, error),
                Phase::Comparing => Stop::ReadBack(piece.offset_bytes, error),
            });
        }
        self.end_piece(index);
    }

    /// Frees a piece that has nothing in flight.
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
        if let Some(leg) = piece.from {
            self.from.give_back(leg.slot);
        }
        if let Some(leg) = piece.to {
            self.to.give_back(leg.slot);
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

/// How many of the bytes from `offset` on lie before `end`.
fn clamped(end: u64, offset: u64) -> usize {
    usize::try_from(end.saturating_sub(offset)).expect("64 bits")
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("64 bits")
}

/// Whether this process may make a file so long: beyond that the kernel ends it.
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

fn open_tail(name: &str, options: &OpenOptions) -> Result<File, OpenError> {
    let file = FileOptions::new()
        .read(true)
        .write(!options.read_only)
        .open(name);
    file.map_err(|source| OpenError::Io {
        device: name.to_owned(),
        action: "open",
        source,
    })
}
