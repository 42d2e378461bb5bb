//! Carries operations out in a folder of a mounted file system, for one actor.

use crate::measure::schedule::Draw;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;
use spindles_workload::file::{Access, Action, Answer, At, FileId, FileIssue, Slot};
use std::fs::File;

/// The permissions of new files, before the umask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
/// The permissions that `SetMode` gives.
const SET_MODE: Mode = Mode::from_raw_mode(0o644);

/// One actor's open files and buffer.
pub(super) struct Hands<'a> {
    folder: &'a File,
    open: Vec<Option<OwnedFd>>,
    buffer: Vec<u8>,
}

/// Returns the file or folder that an action names.
pub(super) fn named(action: Action) -> Option<FileId> {
    match action {
        Action::Mkdir(file)
        | Action::Create(file, ..)
        | Action::Open(file, ..)
        | Action::SetTimes(file)
        | Action::SetMode(file)
        | Action::Stat(file)
        | Action::Unlink(file) => Some(file),
        _ => None,
    }
}

impl<'a> Hands<'a> {
    /// Creates the state of an actor, with a buffer of incompressible bytes.
    pub(super) fn new(folder: &'a File, buffer_bytes: u32, seed: u64, actor: u32) -> Self {
        let mut buffer = vec![0; usize::try_from(buffer_bytes).expect("32 bits fit")];
        Draw::new(seed, 4, actor.into()).fill(&mut buffer);
        Self {
            folder,
            open: Vec::new(),
            buffer,
        }
    }

    /// Carries out an operation; `path` is the path of the file it names, if any.
    pub(super) fn act(&mut self, issue: &FileIssue, path: &str) -> Result<Answer, Errno> {
        let folder = self.folder.as_fd();
        let mut bytes = 0;
        match issue.action {
            Action::Mkdir(_) => rustix::fs::mkdirat(folder, path, Mode::from_raw_mode(0o777))?,
            Action::Create(_, slot, access) => {
                let flags = flags(access) | OFlags::CREATE | OFlags::TRUNC;
                self.keep(slot, rustix::fs::openat(folder, path, flags, FILE_MODE)?);
            }
            Action::Open(_, slot, access) => {
                let file = rustix::fs::openat(folder, path, flags(access), FILE_MODE)?;
                self.keep(slot, file);
            }
            // An error of close adds nothing to that of fsync.
            Action::Close(slot) => drop(self.open[index(slot.0)].take()),
            Action::Read(slot, at, count) => {
                bytes = self.read(slot, at, count)?;
                self.look_at(issue.touch);
            }
            Action::GetBytes(slot, count) => {
                bytes = self.read(slot, At::Position, count)?;
                let got = usize::try_from(bytes).expect("at most the buffer");
                get_bytes(&self.buffer[..got]);
            }
            Action::ReadWhole(slot, count) => {
                rustix::fs::seek(self.file(slot), SeekFrom::Start(0))?;
                bytes = self.read_to_end(slot, count)?;
            }
            Action::Write(slot, at, count) => {
                if let Some(integer) = issue.touch {
                    crate::measure::execute::touch(&mut self.buffer, integer);
                }
                bytes = self.write(slot, at, count)?;
            }
            Action::PutBytes(slot, count) => {
                put_bytes(&mut self.buffer[..index(count)]);
                bytes = self.write(slot, At::Position, count)?;
            }
            Action::Append(slot, count) => {
                rustix::fs::seek(self.file(slot), SeekFrom::End(0))?;
                bytes = self.write(slot, At::Position, count)?;
            }
            Action::Seek(slot, to) => {
                rustix::fs::seek(self.file(slot), SeekFrom::Start(to))?;
            }
            Action::SeekBack(slot, by) => {
                rustix::fs::seek(self.file(slot), SeekFrom::Current(-i64::from(by)))?;
            }
            Action::Fsync(slot) => rustix::fs::fsync(self.file(slot))?,
            Action::SyncAll => rustix::fs::syncfs(folder)?,
            Action::SetTimes(_) => set_times(folder, path)?,
            Action::SetMode(_) => rustix::fs::chmodat(folder, path, SET_MODE, AtFlags::empty())?,
            Action::Stat(_) => {
                std::hint::black_box(rustix::fs::statat(folder, path, AtFlags::empty())?);
            }
            Action::Unlink(_) => rustix::fs::unlinkat(folder, path, AtFlags::empty())?,
            Action::Think(rounds) => think(&mut self.buffer, rounds),
            Action::Nothing => {}
        }
        Ok(Answer { bytes })
    }

    fn keep(&mut self, slot: Slot, file: OwnedFd) {
        let at = index(slot.0);
        if self.open.len() <= at {
            self.open.resize_with(at + 1, || None);
        }
        self.open[at] = Some(file);
    }

    fn file(&self, slot: Slot) -> BorrowedFd<'_> {
        let open = self.open[index(slot.0)].as_ref();
        open.expect("a workload uses what it opened").as_fd()
    }

    fn read(&mut self, slot: Slot, at: At, count: u32) -> Result<u64, Errno> {
        let file = self.open[index(slot.0)].as_ref();
        let file = file.expect("a workload uses what it opened");
        let buffer = &mut self.buffer[..index(count)];
        let read = match at {
            At::Position => rustix::io::read(file, buffer)?,
            At::Offset(offset) => rustix::io::pread(file, buffer, offset)?,
        };
        Ok(u64::try_from(read).expect("at most the buffer"))
    }

    /// Reads up to the end of a file in pieces of `count` bytes. Returns the number of bytes.
    fn read_to_end(&mut self, slot: Slot, count: u32) -> Result<u64, Errno> {
        let mut bytes = 0;
        loop {
            match self.read(slot, At::Position, count)? {
                0 => return Ok(bytes),
                more => bytes += more,
            }
        }
    }

    /// Writes all bytes: continues after a short write.
    fn write(&mut self, slot: Slot, at: At, count: u32) -> Result<u64, Errno> {
        let file = self.file(slot);
        let mut done = 0;
        while done < index(count) {
            let rest = &self.buffer[done..index(count)];
            let before = u64::try_from(done).expect("at most the buffer");
            done += match at {
                At::Position => rustix::io::write(file, rest)?,
                At::Offset(offset) => rustix::io::pwrite(file, rest, offset + before)?,
            };
        }
        Ok(count.into())
    }

    fn look_at(&self, touch: Option<u32>) {
        if let Some(integer) = touch {
            std::hint::black_box(self.buffer[index(integer) * 4]);
        }
    }
}

/// Sets the times of a file to the present, as `touch` does.
fn set_times(folder: BorrowedFd<'_>, path: &str) -> Result<(), Errno> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    rustix::fs::utimensat(folder, path, &times, AtFlags::empty())
}

/// Puts byte after byte into a buffer, as `putc` does.
pub(super) fn put_bytes(buffer: &mut [u8]) {
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = std::hint::black_box(u8::try_from(at & 0x7f).expect("7 bits"));
    }
}

/// Takes byte after byte out of a buffer, as `getc` does.
pub(super) fn get_bytes(buffer: &[u8]) {
    for byte in buffer {
        std::hint::black_box(*byte);
    }
}

/// Keeps a processor busy: stores one byte, `rounds` times.
pub(super) fn think(buffer: &mut [u8], rounds: u32) {
    for round in 0..rounds {
        buffer[0] = std::hint::black_box(round.to_le_bytes()[0]);
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("32 bits fit")
}

fn flags(access: Access) -> OFlags {
    let flags = match access {
        Access::Read => OFlags::RDONLY,
        Access::ReadWrite => OFlags::RDWR,
        Access::ReadWriteSync => OFlags::RDWR | OFlags::SYNC,
    };
    flags | OFlags::CLOEXEC
}
