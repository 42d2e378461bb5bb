//! Any system with a file system of its own on it: exported as a block device, made, mounted, and at the
//! end unmounted and checked.

use super::folder::Folder;
use super::{Place, Site, System};
use crate::evidence::Watched;
use crate::export::Exported;
use crate::scratch::Scratch;
use crate::undo::{self, Undo, What};
use spindles_io::{OpenOptions, Target, TargetFacts, physical_device_of};
use std::path::{Path, PathBuf};

/// A kind of file system that the lab can make.
#[derive(Debug)]
pub struct FileSystem {
    /// What `mount -t` calls it.
    pub name: &'static str,
    /// Arguments with which it is made over whatever is there, without a word.
    mkfs: &'static [&'static str],
    /// Options of mount with which it does nothing on its own account while workloads run.
    mount: &'static str,
    /// Bytes for its journal and tables, and the least that it accepts.
    pub(crate) overhead_bytes: u64,
    /// The command that checks it without changing it.
    check: &'static [&'static str],
}

/// Blocks of 4 KiB on every system. By itself mke2fs chooses 1 KiB on a small device with sectors of 512 bytes, and 4 KiB on an
/// array, whose sectors are larger: then the disk is several times slower for that reason alone.
const EXT: &[&str] = &["-q", "-F", "-b", "4096"];

/// All of them.
pub static FILE_SYSTEMS: &[FileSystem] = &[
    FileSystem {
        name: "ext4",
        mkfs: EXT,
        // It would write its tables of inodes after the mount, which short figures would contain.
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
        // The same on every system: by itself mkfs.xfs takes the sectors of the device, 512 bytes of a disk, 4096 of an array.
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
    /// The file system of that name.
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
    /// All options of mount, separated by commas; may be empty. Of two that contradict each other the later one counts.
    pub(crate) fn mount_options(&self) -> String {
        let all = [self.kind.mount, &self.options];
        let given: Vec<&str> = all.into_iter().filter(|it| !it.is_empty()).collect();
        given.join(",")
    }
}

/// A system with a file system on it.
pub(crate) struct Mounted {
    inner: Box<dyn System>,
    how: Mounting,
    program: PathBuf,
    size_bytes: u64,
    options: OpenOptions,
    mount: Option<Mount>,
}

/// Fields are dropped in their order.
struct Mount {
    folder: Folder,
    mounted: Undo,
    exported: Exported,
    /// Holds the folder on which it is mounted.
    scratch: Scratch,
    path: PathBuf,
}

impl Mounted {
    pub(crate) fn new(inner: Box<dyn System>, how: &Mounting, site: &Site<'_>) -> Self {
        Self {
            inner,
            how: how.clone(),
            program: site.program.to_owned(),
            size_bytes: site.size_bytes,
            options: site.open.clone(),
            mount: None,
        }
    }

    fn mounted(&mut self) -> Result<&mut Mount, String> {
        if self.mount.is_none() {
            self.mount = Some(self.mount()?);
        }
        Ok(self.mount.as_mut().expect("just mounted"))
    }

    fn mount(&mut self) -> Result<Mount, String> {
        let exported = self.inner.export(&self.program)?;
        let kind = self.how.kind;
        let mut arguments: Vec<String> = kind.mkfs.iter().map(|it| (*it).to_owned()).collect();
        arguments.extend(self.how.mkfs.iter().cloned());
        arguments.push(exported.device.clone());
        undo::run(&format!("mkfs.{}", kind.name), &arguments)?;
        let (path, scratch) = super::own_folder("the mount")?;
        let mut arguments = vec!["-t".to_owned(), kind.name.to_owned()];
        let options = self.how.mount_options();
        if !options.is_empty() {
            arguments.extend(["-o".to_owned(), options]);
        }
        arguments.extend([exported.device.clone(), path.to_string_lossy().into_owned()]);
        undo::run("mount", &arguments)?;
        let mounted = Undo::new(What::Mounted(path.clone()));
        Ok(Mount {
            folder: Folder::new(path.clone(), self.size_bytes, self.options.clone()),
            mounted,
            exported,
            scratch,
            path,
        })
    }
}

impl System for Mounted {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        self.mounted()?.folder.open()
    }

    fn facts(&mut self) -> Result<Option<TargetFacts>, String> {
        match self.mount {
            None => self.inner.facts(),
            Some(_) => Ok(None),
        }
    }

    fn folder(&mut self) -> Result<Place, String> {
        let devices = self.inner.devices();
        let mount = self.mounted()?;
        let exported = &mount.exported;
        let members = devices
            .iter()
            .filter_map(|it| physical_device_of(Path::new(it)));
        let mut watched: Vec<(String, bool)> = members.map(|name| (name, true)).collect();
        let carrier = exported.device.strip_prefix("/dev/").unwrap_or_default();
        if !watched.iter().any(|(name, _)| name == carrier) {
            watched.push((carrier.to_owned(), false));
        }
        Ok(Place {
            folder: mount.path.clone(),
            watched: Watched {
                devices: watched.into_iter().collect(),
                processes: exported.process.into_iter().collect(),
                own: exported.counters.clone(),
            },
            how: exported.how,
        })
    }

    fn leave_folder(&mut self) -> Result<(), String> {
        let Some(mount) = self.mount.take() else {
            return self.inner.leave_folder();
        };
        let Mount {
            folder,
            mounted,
            exported,
            scratch,
            path: _,
        } = mount;
        drop(folder);
        mounted.now()?;
        drop(scratch);
        let Some((program, arguments)) = self.how.kind.check.split_first() else {
            return Ok(());
        };
        let mut arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        arguments.push(exported.device.clone());
        let checked = undo::run(program, &arguments);
        checked.map(drop).map_err(|why| {
            format!(
                "the {} on it is damaged, so its figures mean nothing: {why}",
                self.how.kind.name
            )
        })
    }

    fn end(mut self: Box<Self>) -> Result<(), String> {
        self.leave_folder()?;
        self.inner.end()
    }

    fn devices(&self) -> Vec<String> {
        self.inner.devices()
    }
}
