//! Copies bytes from one end to another. Several large requests are in flight at both ends. Each
//! end may be a device, an array, or a file of any length.

mod end;
mod error;
mod passes;

pub use end::CopyEnd;
pub use error::CopyError;
pub use passes::{Phase, Progress};

use end::differ;
use passes::{Pass, first_difference};
use spindles_device::device_of;
use spindles_device::identity::same_device;
use std::fs::{self, FileType};
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::slice;

/// Checks that a file or device holds no data that must not be overwritten. Call it before opening
/// a source on `from_devices`, because opening may repair the source.
///
/// Leaves these targets to the other checks: missing ones, other kinds of files, and devices of the
/// source.
pub fn check_target(name: &str, from_devices: &[&str]) -> Result<(), CopyError> {
    let is_kept = |kind: FileType| kind.is_file() || kind.is_block_device();
    let file = fs::metadata(&*device_of(name));
    let is_there = file.is_ok_and(|file| is_kept(file.file_type()));
    if !is_there || same_device(&[from_devices, &[name]].concat()).is_some() {
        return Ok(());
    }
    end::check_held(name)
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
        Err(differ(from, to, bytes.start + end::count(index)))
    })
}
