//! A regular file.

use super::opening::{self, Opening};
use super::{Backend, Medium, Opened};
use crate::physical::physical;
use crate::{BackendFacts, DeviceFacts, OpenError, OpenOptions};
use rustix::fs::{FileType, FsWord, fstat, fstatfs, major, minor, stat};
use std::fs::File;

pub(super) static BACKEND: Backend = Backend {
    facts: BackendFacts {
        name: "file",
        outlives_opening: true,
        whole_sectors_only: false,
        is_path: true,
    },
    syntax: "PATH",
    summary: "a regular file",
    matches: |_| true,
    open,
    at_rest: Some(opening::at_rest),
    fresh: Some(|folder, name, bytes| {
        let path = folder.join(name);
        File::create_new(&path)?.set_len(bytes)?;
        path.into_os_string()
            .into_string()
            .map_err(|_| std::io::ErrorKind::InvalidFilename.into())
    }),
};

/// File systems that zero a range in all versions still in use, by their number in `statfs`: ext3
/// and ext4, XFS, Btrfs, F2FS, bcachefs and ZFS. Omits file systems on top of another file system,
/// such as overlays, FUSE and network file systems.
const ZEROING: &[FsWord] = &[
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0xF2F5_2010,
    0xCA45_1A4E,
    0x2FC1_2FC1,
];

/// tmpfs, by its number in `statfs`. It punches holes, but can't zero a range that keeps its space.
const TMPFS: FsWord = 0x0102_1994;

/// The unit of `st_blocks`, whatever the file system's block size.
const STAT_BLOCK_BYTES: i64 = 512;

fn open(name: &str, options: &OpenOptions) -> Result<Opened, OpenError> {
    // Check before opening: opening a pipe waits for another program.
    let status = stat(name).map_err(opening::refused(name, "open"))?;
    refuse_others(name, status.st_mode)?;
    let Opening {
        file,
        direct,
        direct_reason,
        own,
    } = opening::open(name, options, rustix::fs::OFlags::empty())?;
    let status = fstat(&file).map_err(opening::refused(name, "look at"))?;
    refuse_others(name, status.st_mode)?;
    opening::lock(name, &file, false, options)?;
    let mut held = opening::hold_above(name, None, options)?;
    held.extend(own);
    let physical = physical(major(status.st_dev), minor(status.st_dev));
    let thin = status.st_blocks * STAT_BLOCK_BYTES < status.st_size;
    Ok(Opened {
        part: None,
        held,
        facts: DeviceFacts {
            name: name.to_owned(),
            backend: &BACKEND.facts,
            bytes: u64::try_from(status.st_size).unwrap_or(0),
            sector_bytes: physical.logical_bytes.unwrap_or(512),
            physical_sector_bytes: physical.whole_bytes(),
            direct,
            direct_reason,
            rotational: physical.rotational,
            physical_device: physical.name,
            zeroes_without_moving_bytes: fstatfs(&file)
                .is_ok_and(|system| makes_zeros(system.f_type) || thin && system.f_type == TMPFS),
            thin,
        },
        medium: Medium::File(file),
    })
}

/// Returns true if a file system can zero part of a file without writing zeros. Goes by the kind of
/// file system: a trial would change the file's modification time.
fn makes_zeros(file_system: FsWord) -> bool {
    ZEROING.contains(&file_system)
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

/// Returns the kind of a file that is not regular.
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{PROC_SUPER_MAGIC, statfs};

    #[test]
    fn unknown_file_systems_are_not_trusted_to_write_zeros() {
        assert!(!makes_zeros(PROC_SUPER_MAGIC));
        assert!(!makes_zeros(statfs("/sys").unwrap().f_type));
        assert!(!makes_zeros(0x794C_7630), "an overlay may lie on anything");
    }
}
