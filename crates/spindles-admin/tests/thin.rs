//! Unwritten blocks take no space on thin members, and a fully allocated member keeps its space.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Loop, skip};
use rustix::fs::{FallocateFlags, fallocate};
use spindles_admin::assemble::{AssembleOptions, assemble};
use spindles_admin::create::{CreateOptions, create};
use spindles_array::export::{Export, ExportLimits};
use spindles_format::ChecksumKind;
use spindles_layout::Expression;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const MEMBER_BYTES: u64 = 1 << 30;
/// The number of blocks written, each in a region of its own.
const WRITES: u64 = 32;
/// The limit for superblocks, bitmaps, checksums, the log and the data written: much less than a
/// region for each.
const SPACE_BYTES_MAX: u64 = 12 << 20;

fn space_bytes(file: &Path) -> u64 {
    file.metadata().unwrap().blocks() * 512
}

fn members(folder: &Path, count: usize) -> Vec<PathBuf> {
    let files = (0..count).map(|number| folder.join(format!("member{number}")));
    let files = files.inspect(|path| {
        let file = File::create_new(path).unwrap();
        file.set_len(MEMBER_BYTES).unwrap();
    });
    files.collect()
}

/// Creates an array, writes some blocks far apart, and reads the blocks next to them.
fn write_here_and_there(level: &str, names: &[&str], checksum: ChecksumKind) {
    let expression = Expression::parse(&format!("{level}({})", names.join(","))).unwrap();
    let options = CreateOptions {
        checksum: Some(checksum),
        ..CreateOptions::new("thin")
    };
    create(&expression, &options, &mut |_, _| true).unwrap();
    let target = assemble(names, &AssembleOptions::default()).unwrap().target;
    let limits = ExportLimits {
        slots: 4,
        access_bytes_max: 64 << 10,
    };
    let mut export = Export::new(target, limits);
    let apart = export.bytes() / WRITES / 4096 * 4096;
    for at in 0..WRITES {
        export.write(at * apart, &[0x5A; 4096]).unwrap();
    }
    let mut back = [0; 8192];
    for at in 0..WRITES {
        export.read(at * apart, &mut back).unwrap();
        assert!(back[..4096].iter().all(|&byte| byte == 0x5A), "{level}");
        assert!(back[4096..].iter().all(|&byte| byte == 0), "{level}");
    }
    export.close().unwrap();
}

#[test]
fn a_sparse_file_takes_space_only_for_written_data() {
    for (level, count) in [("raid0", 2), ("raid1", 2), ("raid5", 3), ("raid6", 4)] {
        for checksum in [ChecksumKind::Crc32c, ChecksumKind::None] {
            let folder = tempfile::tempdir().unwrap();
            let files = members(folder.path(), count);
            let names: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
            write_here_and_there(level, &names, checksum);
            for file in &files {
                let bytes = space_bytes(file);
                assert!(bytes < SPACE_BYTES_MAX, "{level}, {checksum:?}: {bytes}");
            }
        }
    }
}

#[test]
fn a_preallocated_file_keeps_its_space() {
    let folder = tempfile::tempdir().unwrap();
    let files = members(folder.path(), 3);
    let whole = File::options().write(true).open(&files[1]).unwrap();
    if let Err(error) = fallocate(&whole, FallocateFlags::empty(), 0, MEMBER_BYTES) {
        return skip("a_preallocated_file_keeps_its_space", &error.to_string());
    }
    let names: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    write_here_and_there("raid5", &names, ChecksumKind::Crc32c);
    assert!(space_bytes(&files[1]) >= MEMBER_BYTES);
    assert!(space_bytes(&files[0]) < SPACE_BYTES_MAX);
}

#[test]
fn a_device_with_discard_takes_space_only_for_written_data() {
    let name = "a_device_with_discard_takes_space_only_for_written_data";
    let folder = tempfile::tempdir().unwrap();
    let files = members(folder.path(), 3);
    let devices: Result<Vec<Loop>, String> =
        files.iter().map(|file| Loop::new(file, 4096)).collect();
    let devices = match devices {
        Ok(devices) => devices,
        Err(reason) => return skip(name, &reason),
    };
    let names: Vec<&str> = devices.iter().map(|device| device.0.as_str()).collect();
    write_here_and_there("raid5", &names, ChecksumKind::Crc32c);
    for file in &files {
        let bytes = space_bytes(file);
        assert!(bytes < SPACE_BYTES_MAX, "{bytes}");
    }
}
