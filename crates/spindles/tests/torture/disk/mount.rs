//! The file system: each file is a disk of a machine.

use crate::torture::disk::machine::{Ask, Late, Machine, Reply};
use crate::torture::disk::medium::Write;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

/// Names don't change while they exist.
const TTL: Duration = Duration::from_hours(1);
/// The most kernel requests in flight that no client thread waits for.
const BACKGROUND: u16 = 512;
const THREADS: usize = 3;

/// A disk as a file.
#[derive(Clone, Debug)]
struct Disk {
    inode: u64,
    machine: Arc<Machine>,
    /// The number of the disk in the machine.
    number: usize,
    bytes: usize,
    /// True if it supports punching holes and zeroing ranges.
    can_zero: bool,
}

#[derive(Debug, Default)]
struct Files {
    names: HashMap<String, Disk>,
    inodes: HashMap<u64, Disk>,
    last: u64,
}

/// A mounted file system of disks.
#[derive(Debug)]
pub(crate) struct Mount {
    files: Arc<Mutex<Files>>,
    pub(crate) late: Arc<Late>,
    // Unmounted before the folder is removed.
    session: Option<BackgroundSession>,
    folder: TempDir,
    sector_bytes: usize,
}

/// The reason why there is no file system of disks.
#[derive(Debug)]
pub(crate) struct NoMount(pub String);

impl Mount {
    /// Mounts disks that write this many bytes atomically. The properties of a file's medium are
    /// those of the device that its file system names as its source.
    pub(crate) fn new(sector_bytes: usize) -> Result<Self, NoMount> {
        let explain = |error: io::Error| NoMount(format!("FUSE is not to be had: {error}"));
        // A file system on an unknown source is assumed to write only a sector atomically.
        let source = match sector_bytes {
            512 => "spindles-disk".to_owned(),
            _ => device_of(sector_bytes).ok_or_else(|| {
                NoMount(format!(
                    "no block device here has physical sectors of {sector_bytes} bytes"
                ))
            })?,
        };
        let folder = TempDir::new().map_err(explain)?;
        let files = Arc::new(Mutex::new(Files {
            last: INodeNo::ROOT.0,
            ..Files::default()
        }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName(source)];
        config.n_threads = Some(THREADS);
        let system = System(Arc::clone(&files));
        let session = Session::new(system, folder.path(), &config).map_err(explain)?;
        Ok(Self {
            files,
            late: Late::start().map_err(explain)?,
            session: Some(session.spawn().map_err(explain)?),
            folder,
            sector_bytes,
        })
    }

    /// The number of bytes that its disks write atomically.
    pub(crate) fn sector_bytes(&self) -> usize {
        self.sector_bytes
    }

    /// Adds a machine's disks as files of these names.
    pub(crate) fn add(&self, machine: &Arc<Machine>, disks: &[(String, usize, bool)]) {
        let mut files = lock(&self.files);
        for (number, (name, bytes, can_zero)) in disks.iter().enumerate() {
            files.last += 1;
            let disk = Disk {
                inode: files.last,
                machine: Arc::clone(machine),
                number,
                bytes: *bytes,
                can_zero: *can_zero,
            };
            files.inodes.insert(disk.inode, disk.clone());
            files.names.insert(name.clone(), disk);
        }
    }

    /// Removes the files.
    pub(crate) fn remove(&self, disks: &[(String, usize, bool)]) {
        let mut files = lock(&self.files);
        for (name, ..) in disks {
            if let Some(disk) = files.names.remove(name) {
                files.inodes.remove(&disk.inode);
            }
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            // The error can't be reported; the mount stays until someone unmounts it.
            drop(error);
        }
    }
}

fn lock(files: &Mutex<Files>) -> MutexGuard<'_, Files> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a device with physical sectors of this size that is not built on other devices.
fn device_of(sector_bytes: usize) -> Option<String> {
    let devices = std::fs::read_dir("/sys/block").ok()?;
    let sector_bytes = sector_bytes.to_string();
    let is_suitable = |folder: &Path| {
        let size = std::fs::read_to_string(folder.join("queue/physical_block_size"));
        let on_others =
            std::fs::read_dir(folder.join("slaves")).is_ok_and(|mut all| all.next().is_some());
        size.is_ok_and(|size| size.trim() == sector_bytes)
            && !on_others
            && !folder.join("loop").exists()
    };
    let mut names: Vec<String> = devices
        .filter_map(|device| Some(device.ok()?.path()))
        .filter(|folder| is_suitable(folder))
        .filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
        .filter(|name| Path::new("/dev").join(name).exists())
        .collect();
    // A loop device may get a file at any time, and the last ones do so last.
    names.sort_by_key(|name| (!name.starts_with("loop"), name.len(), name.clone()));
    Some(format!("/dev/{}", names.pop()?))
}

struct System(Arc<Mutex<Files>>);

impl System {
    fn disk(&self, inode: INodeNo) -> Result<Disk, Errno> {
        let files = lock(&self.0);
        files.inodes.get(&inode.0).cloned().ok_or(Errno::ENODEV)
    }
}

fn attributes(inode: u64, bytes: usize, kind: FileType) -> FileAttr {
    let size = u64::try_from(bytes).expect("64 bits");
    FileAttr {
        ino: INodeNo(inode),
        size,
        blocks: size / 512,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: 0o700,
        nlink: 1,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("64 bits")
}

impl Filesystem for System {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without the first, `io_uring` has only one write of a file in flight.
        for capability in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_MAX_PAGES] {
            config
                .add_capabilities(capability)
                .map_err(|_| io::Error::other(format!("the kernel lacks {capability:?}")))?;
        }
        let refused = || io::Error::other("the kernel refuses the request limits");
        config
            .set_max_background(BACKGROUND)
            .map_err(|_| refused())?;
        config.set_max_write(1 << 20).map_err(|_| refused())?;
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let files = lock(&self.0);
        match name.to_str().and_then(|name| files.names.get(name)) {
            Some(disk) => {
                let attributes = attributes(disk.inode, disk.bytes, FileType::RegularFile);
                reply.entry(&TTL, &attributes, Generation(0));
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        if inode == INodeNo::ROOT {
            return reply.attr(&TTL, &attributes(inode.0, 0, FileType::Directory));
        }
        match self.disk(inode) {
            Ok(disk) => reply.attr(
                &TTL,
                &attributes(inode.0, disk.bytes, FileType::RegularFile),
            ),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        // With direct I/O, every request arrives here, and several at once; otherwise the page
        // cache decides.
        let how = if flags.0 & libc::O_DIRECT != 0 {
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            FopenFlags::empty()
        };
        match self.disk(inode) {
            Ok(_) => reply.opened(FileHandle(0), how),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let ask = Ask::Read {
            offset: place(offset),
            bytes: usize::try_from(size).expect("64 bits"),
        };
        match self.disk(inode) {
            Ok(disk) => disk.machine.ask(disk.number, ask, Reply::Data(reply)),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = Write {
            offset: place(offset),
            bytes: data.to_vec(),
        };
        // The kernel leaves RWF_DSYNC of direct I/O to the file system.
        let durable = flags.0 & libc::O_DSYNC != 0;
        let ask = Ask::Write { write, durable };
        match self.disk(inode) {
            Ok(disk) => disk.machine.ask(disk.number, ask, Reply::Written(reply)),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok(); // At each close; makes nothing durable.
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.disk(inode) {
            Ok(disk) => {
                let mark = disk.machine.mark(disk.number);
                let ask = Ask::Flush { mark };
                disk.machine.ask(disk.number, ask, Reply::Empty(reply));
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let zeroes = mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0;
        match self.disk(inode) {
            Ok(disk) if disk.can_zero && zeroes => {
                let write = Write {
                    offset: place(offset),
                    bytes: vec![0; place(length)],
                };
                let durable = false;
                let ask = Ask::Write { write, durable };
                disk.machine.ask(disk.number, ask, Reply::Empty(reply));
            }
            Ok(_) => reply.error(Errno::EOPNOTSUPP),
            Err(errno) => reply.error(errno),
        }
    }
}
