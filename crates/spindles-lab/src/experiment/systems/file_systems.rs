//! The file systems that the lab can make, and their options.

/// A kind of file system that the lab can make.
#[derive(Debug)]
pub struct FileSystem {
    /// The name for `mount -t`.
    pub name: &'static str,
    /// Arguments of mkfs: overwrite existing contents, quietly.
    pub(crate) mkfs: &'static [&'static str],
    /// Mount options that prevent background work during workloads.
    pub(crate) mount: &'static str,
    /// Bytes for its journal and tables; also covers its minimum size.
    pub(crate) overhead_bytes: u64,
    /// The command that checks it without changing it.
    pub(crate) check: &'static [&'static str],
}

/// 4 KiB blocks on every system. By default mke2fs chooses 1 KiB on a small device with sectors of
/// 512 bytes, but 4 KiB on an array with its larger sectors. This alone would make the disk several
/// times slower.
const EXT: &[&str] = &["-q", "-F", "-b", "4096"];

/// All kinds of file systems.
pub static FILE_SYSTEMS: &[FileSystem] = &[
    FileSystem {
        name: "ext4",
        mkfs: EXT,
        // By default ext4 writes its inode tables after the mount, which would be part of short
        // measurements.
        mount: "noinit_itable",
        overhead_bytes: 64 << 20,
        check: &["e2fsck", "-fn"],
    },
    FileSystem {
        name: "ext3",
        mkfs: EXT,
        mount: "",
        overhead_bytes: 64 << 20,
        check: &["e2fsck", "-fn"],
    },
    FileSystem {
        name: "ext2",
        mkfs: EXT,
        mount: "",
        overhead_bytes: 64 << 20,
        check: &["e2fsck", "-fn"],
    },
    FileSystem {
        name: "xfs",
        // The same sector size on every system: mkfs.xfs by default uses that of the device, 512
        // bytes of a disk, 4096 of an array.
        mkfs: &["-q", "-f", "-s", "size=4096"],
        mount: "",
        overhead_bytes: 320 << 20,
        check: &["xfs_repair", "-n"],
    },
    FileSystem {
        name: "btrfs",
        mkfs: &["-q", "-f"],
        mount: "",
        overhead_bytes: 192 << 20,
        check: &["btrfs", "check", "--readonly"],
    },
];

impl FileSystem {
    /// Returns the file system of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        FILE_SYSTEMS.iter().find(|one| one.name == name)
    }
}

/// How a system is mounted.
#[derive(Clone, Debug)]
pub struct Mounting {
    /// The file system.
    pub kind: &'static FileSystem,
    /// Further arguments of its mkfs.
    pub mkfs: Vec<String>,
    /// Further options of mount, separated by commas; may be empty.
    pub options: String,
}

impl Mounting {
    /// Returns the mount options, separated by commas; may be empty. Of contradicting options, the
    /// last wins.
    pub(crate) fn mount_options(&self) -> String {
        let all = [self.kind.mount, &self.options];
        let given: Vec<&str> = all.into_iter().filter(|text| !text.is_empty()).collect();
        given.join(",")
    }
}
