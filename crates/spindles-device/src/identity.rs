//! Finds names that stand for the same bytes: links and nodes of one device, a loop device and the
//! file below it, a partition and its disk, a mapping and the devices below it.

use crate::peer::{Address, is_address};
use crate::slices::{paced, with_device};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, major, makedev, minor, statx};
use spindles_layout::Slice;
use std::fs;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// The identity of a file or block device in the kernel, or of an export by its address. It does
/// not show that one server has two addresses, or that two servers share a disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// A block device.
    Block {
        /// Its number in the kernel.
        number: u64,
    },
    /// A file.
    File {
        /// The number of its file system.
        file_system: u64,
        /// Its number there.
        inode: u64,
    },
    /// An export of an NBD server.
    Export {
        /// The address of the server.
        server: String,
        /// The name of the export.
        name: String,
    },
    /// A range of bytes of a device or file.
    Part {
        /// The whole.
        of: Box<Identity>,
        /// Where the part begins.
        start_bytes: u64,
        /// Its length; `None` for the rest.
        length_bytes: Option<u64>,
    },
}

impl Identity {
    /// Returns the identity of the whole device.
    #[must_use]
    pub fn whole(self) -> Self {
        match self {
            Self::Part { of, .. } => of.whole(),
            whole => whole,
        }
    }
}

/// Returns the identity of a name; `None` if it is neither in the file system nor an export.
///
/// Asks only the kernel, never the server of a file system, because the calling thread may be that
/// server.
pub fn identity(name: &str) -> Option<Identity> {
    if let Some((_, device)) = paced(name) {
        return identity(device);
    }
    if Slice::is_text(name) {
        let slice = Slice::parse(name).ok()?;
        return Some(Identity::Part {
            of: Box::new(identity(&slice.device)?),
            start_bytes: slice.start_bytes,
            length_bytes: slice.length_bytes,
        });
    }
    if is_address(name) {
        let address = Address::parse(name).ok()?;
        return Some(Identity::Export {
            server: address.server.identity(),
            name: address.export,
        });
    }
    identity_at(CWD, name, AtFlags::empty())
}

/// Returns the identity of an open file or block device.
pub(crate) fn identity_of(file: &impl AsFd) -> Option<Identity> {
    identity_at(file.as_fd(), "", AtFlags::EMPTY_PATH)
}

fn identity_at(folder: BorrowedFd<'_>, name: &str, flags: AtFlags) -> Option<Identity> {
    let asked = StatxFlags::TYPE | StatxFlags::INO;
    let status = statx(folder, name, AtFlags::STATX_DONT_SYNC | flags, asked).ok()?;
    Some(match FileType::from_raw_mode(status.stx_mode.into()) {
        FileType::BlockDevice => Identity::Block {
            number: makedev(status.stx_rdev_major, status.stx_rdev_minor),
        },
        _ => Identity::File {
            file_system: makedev(status.stx_dev_major, status.stx_dev_minor),
            inode: status.stx_ino,
        },
    })
}

/// Returns two names, by their index, that share bytes.
pub fn same_device(names: &[&str]) -> Option<(usize, usize)> {
    let places: Vec<Vec<ByteRange>> = names.iter().map(|name| places(name)).collect();
    (0..names.len()).find_map(|second| {
        let mut firsts = places[..second].iter();
        let first = firsts.position(|first| overlap(first, &places[second]))?;
        Some((first, second))
    })
}

/// Returns a message that two of these names stand for the same bytes; `None` if no two do.
#[must_use]
pub fn named_twice(names: &[&str]) -> Option<String> {
    let (first, second) = same_device(names)?;
    Some(same(names[first], names[second]))
}

/// Lists the device or file of this name and all that it lies on, such as the file of a loop device
/// or the disk of a partition. Each text is the same whatever path leads to the file or device.
/// Empty if no file or device has this name.
#[must_use]
pub fn lies_on(name: &str) -> Vec<String> {
    let places = places(name).into_iter();
    let words = places.filter_map(|place| match place.identity {
        Identity::Block { number } => Some(format!("block {number}")),
        Identity::File { file_system, inode } => Some(format!("file {file_system} {inode}")),
        Identity::Export { .. } | Identity::Part { .. } => None,
    });
    words.collect()
}

/// Returns true if two names share bytes.
pub fn share_bytes(one: &str, other: &str) -> bool {
    same_device(&[one, other]).is_some()
}

/// Returns the absolute name of a device, which means the same in every working directory. Resolves
/// links in its folder, but keeps a link to the device itself: links in `/dev/disk/by-id` survive
/// when disks swap names. Returns any name that is not a path unchanged, such as an address or a
/// bare name that does not exist here.
#[must_use]
pub fn absolute(device: &str) -> String {
    with_device(device, absolute_path)
}

fn absolute_path(device: &str) -> String {
    let path = Path::new(device);
    let is_path = || path.exists() || (device.contains('/') && !is_address(device));
    let whole = || {
        let name = path.file_name().filter(|_| is_path())?;
        let folder = path.parent()?.to_owned();
        let folder = Path::new(".").join(folder).canonicalize().ok()?;
        folder.join(name).into_os_string().into_string().ok()
    };
    whole().unwrap_or_else(|| device.to_owned())
}

/// Returns a message that two names stand for the same bytes.
pub fn same(first: &str, second: &str) -> String {
    if first == second {
        format!("{first} is given twice")
    } else if identity(first) == identity(second) {
        format!("{first} and {second} are the same device")
    } else {
        format!("{first} and {second} are the same device, or parts of one that overlap")
    }
}

/// Bytes of a file or device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ByteRange {
    identity: Identity,
    /// `None` for an unknown part of the device.
    bytes: Option<Range<u64>>,
}

const ALL: Range<u64> = 0..u64::MAX;
/// Most levels below a name: a partition of a loop device on a mapping on a partition...
const DEPTH_MAX: u32 = 16;

/// Returns the bytes that a name stands for, in the device itself and in everything below it.
fn places(name: &str) -> Vec<ByteRange> {
    let mut places = Vec::new();
    if let Some(identity) = identity(name) {
        let bytes = match identity {
            Identity::Part {
                start_bytes,
                length_bytes,
                ..
            } => range(start_bytes, length_bytes),
            _ => ALL,
        };
        add(
            Path::new("/sys"),
            identity.whole(),
            Some(bytes),
            &mut places,
            0,
        );
    }
    places
}

/// Returns the bytes of a slice.
pub(crate) fn range(start_bytes: u64, length_bytes: Option<u64>) -> Range<u64> {
    let end = length_bytes.and_then(|length| start_bytes.checked_add(length));
    start_bytes..end.unwrap_or(u64::MAX)
}

/// Returns the bytes of a file that a block device on it stands for.
pub(crate) fn bytes_in(file: &Identity, device: u64) -> Option<Range<u64>> {
    let mut places = Vec::new();
    let device = Identity::Block { number: device };
    add(Path::new("/sys"), device, Some(ALL), &mut places, 0);
    let mut places = places.into_iter();
    places.find(|place| place.identity == *file)?.bytes
}

fn overlap(first: &[ByteRange], second: &[ByteRange]) -> bool {
    let share = |first: &ByteRange, second: &ByteRange| {
        first.identity == second.identity
            && match (&first.bytes, &second.bytes) {
                (Some(first), Some(second)) => first.start < second.end && second.start < first.end,
                (Some(known), None) | (None, Some(known)) => *known == ALL,
                // Two mappings on one device may use different parts of it.
                (None, None) => false,
            }
    };
    let mut firsts = first.iter();
    firsts.any(|first| second.iter().any(|second| share(first, second)))
}

/// Adds these bytes of a device, and the bytes below them in the devices that it lies on.
fn add(
    sys: &Path,
    identity: Identity,
    bytes: Option<Range<u64>>,
    places: &mut Vec<ByteRange>,
    depth: u32,
) {
    let below = bytes.clone();
    let number = match &identity {
        Identity::Block { number } => Some(*number),
        Identity::File { .. } | Identity::Export { .. } | Identity::Part { .. } => None,
    };
    places.push(ByteRange { identity, bytes });
    let Some(number) = number else {
        return;
    };
    if depth == DEPTH_MAX {
        return;
    }
    let folder = sys.join(format!("dev/block/{}:{}", major(number), minor(number)));
    let mut add = |identity, bytes| add(sys, identity, bytes, places, depth + 1);
    if folder.join("partition").exists()
        && let Some(disk) = device_of(&folder.join(".."))
        && let (Some(start), Some(length)) = (
            number_in(&folder.join("start")),
            number_in(&folder.join("size")),
        )
    {
        // `/sys` counts in units of 512 bytes, whatever the device's sector size.
        add(disk, part(below.as_ref(), start * 512, length * 512));
    }
    if let Some(file) = text(&folder.join("loop/backing_file"))
        && let Some(file) = crate::identity::identity(&file)
    {
        let start = number_in(&folder.join("loop/offset")).unwrap_or(0);
        let length = match number_in(&folder.join("loop/sizelimit")) {
            None | Some(0) => u64::MAX,
            Some(length) => length,
        };
        add(file, part(below.as_ref(), start, length));
    }
    let slaves = fs::read_dir(folder.join("slaves")).into_iter().flatten();
    for slave in slaves.flatten() {
        if let Some(device) = device_of(&slave.path()) {
            add(device, None);
        }
    }
}

/// Returns the file below a loop device or its partition, and true if the device covers all of it.
pub(crate) fn file_below(device: u64) -> Option<(String, bool)> {
    let mut device = device;
    let mut whole = true;
    for _ in 0..DEPTH_MAX {
        let numbers = format!("{}:{}", major(device), minor(device));
        let mut folder = Path::new("/sys/dev/block").join(numbers);
        if folder.join("partition").exists() {
            folder.push("..");
            whole = false;
        }
        let file = text(&folder.join("loop/backing_file"))?;
        let is_set = |name| number_in(&folder.join(name)).is_some_and(|number| number > 0);
        whole &= !is_set("loop/offset") && !is_set("loop/sizelimit");
        match identity(&file)? {
            Identity::File { .. } => return Some((file, whole)),
            Identity::Block { number } => device = number,
            Identity::Export { .. } | Identity::Part { .. } => return None,
        }
    }
    None
}

/// Returns the regular file below a loop device, or below a partition of one. `None` for any other
/// name.
#[must_use]
pub fn file_of_loop(device: &str) -> Option<String> {
    let Identity::Block { number } = identity(device)?.whole() else {
        return None;
    };
    Some(file_below(number)?.0)
}

/// Returns how many files and devices a name stands for: its own file or device, and all below it.
/// Two names of the same bytes may have different depths.
pub fn depth(name: &str) -> usize {
    places(name).len()
}

/// Returns the loop devices on a file or block device, or on part of it, and the loop devices on
/// those.
pub(crate) fn loop_devices_on(name: &str) -> Vec<String> {
    let mut below: Vec<Identity> = identity(name).into_iter().collect();
    let mut devices = Vec::new();
    let all = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let all = all.map(|entry| entry.path()).filter_map(|folder| {
        let file = text(&folder.join("loop/backing_file"))?;
        let name = folder.file_name()?.to_str()?;
        Some((
            format!("/dev/{name}"),
            device_of(&folder)?,
            identity(&file)?,
        ))
    });
    let mut all: Vec<_> = all.collect();
    while let Some(one) = below.pop() {
        for (device, own, _) in all.extract_if(.., |(.., file)| *file == one) {
            devices.push(device);
            below.push(own);
        }
    }
    devices
}

/// Translates bytes of a device into bytes of its container, which holds it from `start` on for
/// `length` bytes.
fn part(bytes: Option<&Range<u64>>, start: u64, length: u64) -> Option<Range<u64>> {
    let bytes = bytes?;
    let end = start.saturating_add(length);
    Some(start.saturating_add(bytes.start)..end.min(start.saturating_add(bytes.end)))
}

/// Returns the device that a folder of `/sys` describes.
fn device_of(folder: &Path) -> Option<Identity> {
    let text = text(&folder.join("dev"))?;
    let (major, minor) = text.split_once(':')?;
    Some(Identity::Block {
        number: makedev(major.parse().ok()?, minor.parse().ok()?),
    })
}

fn number_in(file: &Path) -> Option<u64> {
    text(file)?.parse().ok()
}

fn text(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    Some(text.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    /// A fake `/sys` of block devices.
    struct Sys(tempfile::TempDir);

    impl Sys {
        /// Adds a device; a partition goes into the folder of its disk.
        fn device(&self, folder: &str, number: &str, facts: &[(&str, &str)]) -> PathBuf {
            let devices = self.0.path().join("dev/block");
            fs::create_dir_all(&devices).unwrap();
            let folder = self.0.path().join("devices").join(folder);
            fs::create_dir_all(folder.join("slaves")).unwrap();
            for (name, value) in [("dev", number)].iter().chain(facts) {
                let file = folder.join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, format!("{value}\n")).unwrap();
            }
            symlink(&folder, devices.join(number)).unwrap();
            folder
        }

        fn places(&self, identity: Identity) -> Vec<ByteRange> {
            let mut places = Vec::new();
            add(self.0.path(), identity, Some(ALL), &mut places, 0);
            places
        }

        fn overlap(&self, first: (u32, u32), second: (u32, u32)) -> bool {
            let places = |(major, minor)| {
                self.places(Identity::Block {
                    number: makedev(major, minor),
                })
            };
            let both = overlap(&places(first), &places(second));
            assert_eq!(both, overlap(&places(second), &places(first)));
            both
        }
    }

    #[test]
    fn devices_that_share_bytes_overlap() {
        let sys = Sys(tempfile::tempdir().unwrap());
        let image = sys.0.path().join("image");
        fs::write(&image, "").unwrap();
        let image = image.to_str().unwrap();
        let disk = sys.device("sda", "8:0", &[]);
        let partition = |start, size| [("partition", "1"), ("start", start), ("size", size)];
        sys.device("sda/sda1", "8:1", &partition("2048", "2048"));
        sys.device("sda/sda2", "8:2", &partition("4096", "2048"));
        let (sda, sda1, sda2) = ((8, 0), (8, 1), (8, 2));
        assert!(sys.overlap(sda, sda1) && sys.overlap(sda, sda2));
        assert!(!sys.overlap(sda1, sda2));

        let on_image = |offset, limit| {
            [
                ("loop/backing_file", image),
                ("loop/offset", offset),
                ("loop/sizelimit", limit),
            ]
        };
        sys.device("loop0", "7:0", &on_image("0", "0"));
        sys.device("loop1", "7:1", &on_image("0", "1048576"));
        sys.device("loop2", "7:2", &on_image("1048576", "1048576"));
        let (all, first, second) = ((7, 0), (7, 1), (7, 2));
        assert!(sys.overlap(all, first) && sys.overlap(all, second));
        assert!(!sys.overlap(first, second) && !sys.overlap(all, sda));
        let file = sys.places(identity(image).unwrap());
        let loop_device = Identity::Block {
            number: makedev(7, 2),
        };
        assert!(overlap(&file, &sys.places(loop_device)));

        let mapping = sys.device("dm-0", "253:0", &[]);
        symlink(&disk, mapping.join("slaves/sda")).unwrap();
        let upper = sys.device("dm-1", "253:1", &[]);
        symlink(&mapping, upper.join("slaves/dm-0")).unwrap();
        sys.device("dm-2", "253:2", &[]);
        symlink(&disk, sys.0.path().join("devices/dm-2/slaves/sda")).unwrap();
        let (mapping, upper, other) = ((253, 0), (253, 1), (253, 2));
        assert!(sys.overlap(sda, mapping) && sys.overlap(sda, upper));
        assert!(sys.overlap(mapping, upper));
        assert!(!sys.overlap(mapping, other), "each has a part of the disk");
        assert!(!sys.overlap(upper, sda1), "which part is not known");
    }

    /// A device that lies below itself, which no kernel reports, does not cause endless recursion.
    #[test]
    fn a_cycle_of_devices_terminates() {
        let sys = Sys(tempfile::tempdir().unwrap());
        let one = sys.device("dm-0", "253:0", &[]);
        symlink(&one, one.join("slaves/dm-0")).unwrap();
        assert!(sys.overlap((253, 0), (253, 0)));
    }
}
