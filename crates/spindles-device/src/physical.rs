//! Finds the physical device under a file or block device, and its properties in `/sys`.

use std::fs;
use std::path::{Path, PathBuf};

/// Properties of a physical device; each is `None` if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Physical {
    pub(crate) name: Option<String>,
    pub(crate) rotational: Option<bool>,
    pub(crate) logical_bytes: Option<u32>,
    pub(crate) medium_bytes: Option<u32>,
}

/// The unit that every disk writes atomically.
const SECTOR_BYTES: u32 = 512;

impl Physical {
    /// Returns the unit that is written atomically: one sector if unknown, as for network file
    /// systems and FUSE.
    pub(crate) fn whole_bytes(&self) -> u32 {
        self.medium_bytes.unwrap_or(SECTOR_BYTES)
    }
}

/// Most bytes zeroed by one command; 0 if the device has no such command.
const WRITE_ZEROES: &str = "queue/write_zeroes_max_bytes";
/// Most bytes discarded by one command; 0 if the device has no such command.
const DISCARD: &str = "queue/discard_max_bytes";

/// Limit for loop devices on files on loop devices.
const DEPTH_MAX: u32 = 8;

/// Finds the physical device under the block device with that number.
pub(crate) fn physical(major: u32, minor: u32) -> Physical {
    beneath(Path::new("/sys"), major, minor, 0)
}

/// Returns the physical device under a file or folder, if known; `memory` for a file system in
/// memory.
pub fn physical_device_of(path: &Path) -> Option<String> {
    let (major, minor) = device_numbers(path).ok()?;
    let known = physical(major, minor).name;
    known.or_else(|| {
        // btrfs gives subvolumes device numbers that are in no table.
        let mask = rustix::fs::StatxFlags::MNT_ID;
        let facts = rustix::fs::statx(rustix::fs::CWD, path, rustix::fs::AtFlags::empty(), mask);
        let id = facts.ok()?.stx_mnt_id.to_string();
        let table = text(Path::new("/proc/self/mountinfo"))?;
        of_mount(mounted(&table, 0, &id)?, 0).name
    })
}

/// Returns true if the kernel refuses writes to the block device with that number.
pub(crate) fn is_write_protected(major: u32, minor: u32) -> bool {
    let file = format!("/sys/dev/block/{major}:{minor}/ro");
    text(Path::new(&file)).as_deref() == Some("1")
}

/// Returns true if the block device with that number can zero ranges itself, so that the kernel
/// need not write the zeros.
pub(crate) fn zeroes_without_moving_bytes(major: u32, minor: u32) -> bool {
    has_command(Path::new("/sys"), (major, minor), WRITE_ZEROES)
}

/// Returns true if the block device with that number takes discards.
pub(crate) fn takes_discards(major: u32, minor: u32) -> bool {
    has_command(Path::new("/sys"), (major, minor), DISCARD)
}

/// Returns true if a device has that command, by its reported maximum.
fn has_command(sys: &Path, (major, minor): (u32, u32), command: &str) -> bool {
    let most = disk(sys, major, minor).and_then(|disk| text(&disk.join(command)));
    most.and_then(|bytes| bytes.parse().ok())
        .is_some_and(|bytes: u64| bytes > 0)
}

/// Returns the folder of a block device; for a partition, that of its disk.
fn disk(sys: &Path, major: u32, minor: u32) -> Option<PathBuf> {
    let mut folder = fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}"))).ok()?;
    if folder.join("partition").exists() {
        folder.pop();
    }
    Some(folder)
}

fn beneath(sys: &Path, major: u32, minor: u32, depth: u32) -> Physical {
    if major == 0 {
        return anonymous(major, minor, depth);
    }
    let Some(folder) = disk(sys, major, minor) else {
        return Physical::default();
    };
    if depth < DEPTH_MAX {
        if let Some(file) = text(&folder.join("loop/backing_file"))
            && let Ok(numbers) = device_numbers(Path::new(&file))
        {
            return beneath(sys, numbers.0, numbers.1, depth + 1);
        }
        if let Some(slave) = only_slave(&folder)
            && let Some((major, minor)) = text(&slave.join("dev")).as_deref().and_then(numbers)
        {
            return beneath(sys, major, minor, depth + 1);
        }
    }
    let queue = |name: &str| text(&folder.join("queue").join(name));
    Physical {
        name: folder
            .file_name()
            .map(|name| name.to_string_lossy().into_owned()),
        rotational: queue("rotational").map(|value| value == "1"),
        logical_bytes: queue("logical_block_size").and_then(|value| value.parse().ok()),
        medium_bytes: queue("physical_block_size").and_then(|value| value.parse().ok()),
    }
}

/// Resolves a file system without a device number of its own: the mount table names its device, or
/// it is in memory.
fn anonymous(major: u32, minor: u32, depth: u32) -> Physical {
    let table = text(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let number = format!("{major}:{minor}");
    match mounted(&table, 2, &number) {
        Some(mount) => of_mount(mount, depth),
        None => Physical::default(),
    }
}

/// Resolves the device under a file system by its type and its source in the mount table.
fn of_mount((kind, source): (String, String), depth: u32) -> Physical {
    if matches!(kind.as_str(), "tmpfs" | "ramfs" | "devtmpfs") {
        return Physical {
            name: Some("memory".to_owned()),
            rotational: Some(false),
            logical_bytes: None,
            // A page: only the process can be interrupted, and only between two pages.
            medium_bytes: Some(4096),
        };
    }
    if depth < DEPTH_MAX
        && source.starts_with("/dev/")
        && let Ok(status) = rustix::fs::stat(source.as_str())
    {
        let numbers = (
            rustix::fs::major(status.st_rdev),
            rustix::fs::minor(status.st_rdev),
        );
        return beneath(Path::new("/sys"), numbers.0, numbers.1, depth + 1);
    }
    Physical {
        name: Some(source),
        ..Physical::default()
    }
}

/// Returns type and source of the mount with `value` in that column of `mountinfo`.
fn mounted(table: &str, column: usize, value: &str) -> Option<(String, String)> {
    table.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        if before.split(' ').nth(column)? != value {
            return None;
        }
        let mut words = after.split(' ');
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    })
}

/// Returns the numbers of the device that a path is, or is on.
fn device_numbers(path: &Path) -> rustix::io::Result<(u32, u32)> {
    let status = rustix::fs::stat(path)?;
    let number = match rustix::fs::FileType::from_raw_mode(status.st_mode) {
        rustix::fs::FileType::BlockDevice => status.st_rdev,
        _ => status.st_dev,
    };
    Ok((rustix::fs::major(number), rustix::fs::minor(number)))
}

/// Returns the only device under a device, if it has exactly one.
fn only_slave(folder: &Path) -> Option<PathBuf> {
    let mut slaves = fs::read_dir(folder.join("slaves")).ok()?;
    let slave = slaves.next()?.ok()?.path();
    slaves.next().is_none().then_some(slave)
}

fn numbers(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_partition_resolves_to_its_disk() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("devices/sda");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("sda2")).unwrap();
        fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        fs::write(disk.join("queue/rotational"), "1\n").unwrap();
        fs::write(disk.join("queue/logical_block_size"), "512\n").unwrap();
        fs::write(disk.join("queue/physical_block_size"), "4096\n").unwrap();
        fs::write(disk.join("sda2/partition"), "2\n").unwrap();
        symlink(disk.join("sda2"), sys.path().join("dev/block/8:2")).unwrap();
        let found = beneath(sys.path(), 8, 2, 0);
        assert_eq!(found.name.as_deref(), Some("sda"));
        assert_eq!(found.rotational, Some(true));
        assert_eq!(found.logical_bytes, Some(512));
        assert_eq!(found.medium_bytes, Some(4096));
        assert_eq!(beneath(sys.path(), 8, 9, 0), Physical::default());
        let zeroes = |most: &str| {
            fs::write(disk.join(WRITE_ZEROES), most).unwrap();
            has_command(sys.path(), (8, 2), WRITE_ZEROES)
        };
        assert!(
            !has_command(sys.path(), (8, 2), WRITE_ZEROES),
            "of one that does not say so"
        );
        assert!(!zeroes("0\n"));
        assert!(zeroes("33553920\n"));
        assert!(!has_command(sys.path(), (8, 9), WRITE_ZEROES));
    }

    /// The atomic unit of an unknown medium is assumed to be one sector.
    #[test]
    fn an_unknown_medium_is_assumed_to_tear_blocks() {
        let on = |path: &str| {
            let (major, minor) = device_numbers(Path::new(path)).unwrap();
            physical(major, minor)
        };
        // The device under a network file system is unknown, for example.
        assert_eq!(on("/proc").name.as_deref(), Some("proc"));
        assert_eq!(on("/proc").whole_bytes(), 512);
        assert_eq!(Physical::default().whole_bytes(), 512);
        if on("/dev").name.as_deref() == Some("memory") {
            assert_eq!(on("/dev").whole_bytes(), 4096);
        }
    }

    #[test]
    fn mounts_are_found_by_number() {
        let table = "22 27 0:20 / /dev/shm rw - tmpfs shm rw\n\
                     23 27 0:31 /a /home rw shared:1 - btrfs /dev/sdb1 rw,x\n";
        let found = mounted(table, 2, "0:31").unwrap();
        assert_eq!(found, ("btrfs".to_owned(), "/dev/sdb1".to_owned()));
        assert_eq!(mounted(table, 2, "0:2"), None);
    }
}
