//! Which physical device a file or block device lies on, and what `/sys` says of
//! it.

use std::fs;
use std::path::{Path, PathBuf};

/// What is known of the physical device; nothing where the system does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Physical {
    pub(crate) name: Option<String>,
    pub(crate) rotational: Option<bool>,
    pub(crate) logical_bytes: Option<u32>,
    pub(crate) medium_bytes: Option<u32>,
}

/// What every disk writes as a whole.
const SECTOR_BYTES: u32 = 512;

impl Physical {
    /// How much is written as a whole: no more than a sector where nobody says it, as of network file
    /// systems and those of FUSE.
    pub(crate) fn whole_bytes(&self) -> u32 {
        self.medium_bytes.unwrap_or(SECTOR_BYTES)
    }
}

/// How many bytes one command makes zeros of at most; 0 where there is no such command.
const WRITE_ZEROES: &str = "queue/write_zeroes_max_bytes";
/// The same of those that give space back.
const DISCARD: &str = "queue/discard_max_bytes";

/// A loop device on a file on a loop device on a file... as deep as anybody goes.
const DEPTH_MAX: u32 = 8;

/// The physical device under the device of that number.
pub(crate) fn physical(major: u32, minor: u32) -> Physical {
    beneath(Path::new("/sys"), major, minor, 0)
}

/// The physical device under a file or folder, where the kernel says which; the word `memory` of one in
/// memory.
pub fn physical_device_of(path: &Path) -> Option<String> {
    let (major, minor) = device_numbers(path).ok()?;
    let known = physical(major, minor).name;
    known.or_else(|| {
        // btrfs has numbers for its subvolumes that stand in no table.
        let mask = rustix::fs::StatxFlags::MNT_ID;
        let facts = rustix::fs::statx(rustix::fs::CWD, path, rustix::fs::AtFlags::empty(), mask);
        let id = facts.ok()?.stx_mnt_id.to_string();
        let table = text(Path::new("/proc/self/mountinfo"))?;
        of_mount(mounted(&table, 0, &id)?, 0).name
    })
}

/// Whether the kernel refuses writes to the block device of that number.
pub(crate) fn is_write_protected(major: u32, minor: u32) -> bool {
    let file = format!("/sys/dev/block/{major}:{minor}/ro");
    text(Path::new(&file)).as_deref() == Some("1")
}

/// Whether the block device of that number makes zeros of its own, so that the kernel need not write
/// them.
pub(crate) fn zeroes_without_moving_bytes(major: u32, minor: u32) -> bool {
    has_command(Path::new("/sys"), (major, minor), WRITE_ZEROES)
}

/// Whether the block device of that number gives space back.
pub(crate) fn takes_discards(major: u32, minor: u32) -> bool {
    has_command(Path::new("/sys"), (major, minor), DISCARD)
}

/// Whether a device has that command: it says the most bytes of one.
fn has_command(sys: &Path, (major, minor): (u32, u32), command: &str) -> bool {
    let most = disk(sys, major, minor).and_then(|disk| text(&disk.join(command)));
    most.and_then(|bytes| bytes.parse().ok())
        .is_some_and(|bytes: u64| bytes > 0)
}

/// The folder of a block device; of a partition that of its disk.
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

/// A file system without a device of its own number: one that says in the mount table what it is
/// on, or one in memory.
fn anonymous(major: u32, minor: u32, depth: u32) -> Physical {
    let table = text(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let number = format!("{major}:{minor}");
    match mounted(&table, 2, &number) {
        Some(mount) => of_mount(mount, depth),
        None => Physical::default(),
    }
}

/// What a file system is on that says `source` in the mount table.
fn of_mount((kind, source): (String, String), depth: u32) -> Physical {
    if matches!(kind.as_str(), "tmpfs" | "ramfs" | "devtmpfs") {
        return Physical {
            name: Some("memory".to_owned()),
            rotational: Some(false),
            logical_bytes: None,
            // A page: only the process ends, and that it does between two of them.
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

/// File system and source of the mount that says `value` in that column, from the text of `mountinfo`.
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

/// The numbers of the device that a path is, or is on.
fn device_numbers(path: &Path) -> rustix::io::Result<(u32, u32)> {
    let status = rustix::fs::stat(path)?;
    let number = match rustix::fs::FileType::from_raw_mode(status.st_mode) {
        rustix::fs::FileType::BlockDevice => status.st_rdev,
        _ => status.st_dev,
    };
    Ok((rustix::fs::major(number), rustix::fs::minor(number)))
}

/// The one device that a device is made of, where it is made of one.
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
    fn a_partition_on_a_disk_is_the_disk() {
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

    /// What a medium writes as a whole is not guessed to be more than a sector.
    #[test]
    fn an_unknown_medium_tears_blocks() {
        let on = |path: &str| {
            let (major, minor) = device_numbers(Path::new(path)).unwrap();
            physical(major, minor)
        };
        // As of a network file system nobody says what it lies on.
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
