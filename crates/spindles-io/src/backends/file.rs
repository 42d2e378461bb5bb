//! A regular file.

use super::opening::{self, Opening};
use super::{Backend, Medium, Opened};
use crate::physical::physical;
use crate::{DeviceFacts, OpenError, OpenOptions};
use rustix::fs::{FileType, fstat, major, minor, stat};
use std::fs::File;

pub(super) static BACKEND: Backend = Backend {
    name: "file",
    syntax: "PATH",
    summary: "a regular file",
    matches: |_| true,
    open,
    fresh: Some(|folder, name, bytes| {
        let path = folder.join(name);
        File::create_new(&path)?.set_len(bytes)?;
        path.into_os_string()
            .into_string()
            .map_err(|_| std::io::ErrorKind::InvalidFilename.into())
    }),
};

fn open(name: &str, options: &OpenOptions) -> Result<Opened, OpenError> {
    // Before it is opened: that of a pipe waits for another program.
    let status = stat(name).map_err(opening::refused(name, "open"))?;
    refuse_others(name, status.st_mode)?;
    let Opening {
        file,
        direct,
        direct_reason,
    } = opening::open(name, options, rustix::fs::OFlags::empty())?;
    let status = fstat(&file).map_err(opening::refused(name, "look at"))?;
    refuse_others(name, status.st_mode)?;
    opening::lock(name, &file, false, options)?;
    let held = opening::hold_above(name, options)?;
    let physical = physical(major(status.st_dev), minor(status.st_dev));
    Ok(Opened {
        held,
        facts: DeviceFacts {
            name: name.to_owned(),
            backend: BACKEND.name,
            bytes: u64::try_from(status.st_size).unwrap_or(0),
            sector_bytes: physical.logical_bytes.unwrap_or(512),
            physical_sector_bytes: physical.whole_bytes(),
            direct,
            direct_reason,
            rotational: physical.rotational,
            physical_device: physical.name,
        },
        medium: Medium::File(file),
    })
}

fn refuse_others(name: &str, mode: u32) -> Result<(), OpenError> {
    match not_a_file(FileType::from_raw_mode(mode)) {
        None => Ok(()),
        Some(kind) => Err(OpenError::NotADevice {
            device: name.to_owned(),
            kind,
        }),
    }
}

/// What it is instead of a file.
fn not_a_file(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile => None,
        FileType::Directory => Some("a folder"),
        FileType::CharacterDevice => Some("a character device"),
        FileType::Fifo => Some("a pipe"),
        FileType::Socket => Some("a socket"),
        _ => Some("neither a file nor a block device"),
    }
}
