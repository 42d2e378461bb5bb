//! The operations of a workload on files, its phases, and the workload in progress.

use alloc::string::String;
use alloc::vec::Vec;

/// A file or folder of a workload, by number. [`FileWorkload::path`] returns its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// An open file, by number. Numbers are local to an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// A position in an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Where the last operation ended.
    Position,
    /// This many bytes from the start; the file position stays.
    Offset(u64),
}

/// The mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Read and written.
    ReadWrite,
    /// Read and written; each write is durable when it is answered (`O_SYNC`).
    ReadWriteSync,
}

/// One operation on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates a folder.
    Mkdir(FileId),
    /// Creates an empty file, or truncates an existing one, and opens it.
    Create(FileId, Slot, Access),
    /// Opens an existing file.
    Open(FileId, Slot, Access),
    /// Closes a file.
    Close(Slot),
    /// Reads this many bytes. The answer may be shorter at the end of the file.
    Read(Slot, At, u32),
    /// Writes this many bytes.
    Write(Slot, At, u32),
    /// Seeks to the end and writes this many bytes there; 0 only seeks.
    Append(Slot, u32),
    /// Seeks to the start and reads this many bytes at a time until the end.
    ReadWhole(Slot, u32),
    /// Puts this many bytes into a buffer one by one, as `putc` does, and writes it at the
    /// position.
    PutBytes(Slot, u32),
    /// Reads this many bytes at the position and takes them out of the buffer one by one, as `getc`
    /// does.
    GetBytes(Slot, u32),
    /// Seeks to an offset.
    Seek(Slot, u64),
    /// Seeks back by this many bytes.
    SeekBack(Slot, u32),
    /// Makes the file durable.
    Fsync(Slot),
    /// Makes the whole file system durable.
    SyncAll,
    /// Sets the times of a file to now.
    SetTimes(FileId),
    /// Sets the permissions of a file to those of ordinary files.
    SetMode(FileId),
    /// Reads the metadata of a file.
    Stat(FileId),
    /// Removes a file.
    Unlink(FileId),
    /// Keeps a processor busy: a loop that stores one byte this many times.
    Think(u32),
    /// Performs no I/O; the operation is only counted.
    Nothing,
}

/// The class under which an operation is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// A read.
    Read,
    /// A write in place.
    Write,
    /// A write at the end.
    Append,
    /// A file read from start to end.
    ReadWhole,
    /// A file created.
    Create,
    /// A file opened.
    Open,
    /// A file closed.
    Close,
    /// A file removed.
    Delete,
    /// A file made durable.
    Fsync,
    /// All files made durable.
    Sync,
    /// Metadata read.
    Stat,
    /// Times set.
    Utime,
    /// Permissions set.
    Chmod,
    /// A folder created.
    Mkdir,
    /// A write that its actor does not wait for.
    AioWrite,
    /// A wait for such writes.
    AioWait,
    /// A change of position, which costs no I/O. Not an operation.
    Seek,
    /// Time spent computing. Not an operation.
    Think,
}

impl Class {
    /// Every class, by number.
    pub const ALL: [Self; 18] = [
        Self::Read,
        Self::Write,
        Self::Append,
        Self::ReadWhole,
        Self::Create,
        Self::Open,
        Self::Close,
        Self::Delete,
        Self::Fsync,
        Self::Sync,
        Self::Stat,
        Self::Utime,
        Self::Chmod,
        Self::Mkdir,
        Self::AioWrite,
        Self::AioWait,
        Self::Seek,
        Self::Think,
    ];

    /// Returns its name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Append => "append",
            Self::ReadWhole => "readwhole",
            Self::Create => "create",
            Self::Open => "open",
            Self::Close => "close",
            Self::Delete => "delete",
            Self::Fsync => "fsync",
            Self::Sync => "sync",
            Self::Stat => "stat",
            Self::Utime => "utime",
            Self::Chmod => "chmod",
            Self::Mkdir => "mkdir",
            Self::AioWrite => "aiowrite",
            Self::AioWait => "aiowait",
            Self::Seek => "seek",
            Self::Think => "think",
        }
    }

    /// Returns its index in [`Class::ALL`].
    pub fn index(self) -> usize {
        let same = |other: &Self| *other == self;
        Self::ALL.iter().position(same).expect("all are listed")
    }

    /// Returns true if it counts as an operation.
    pub const fn is_operation(self) -> bool {
        !matches!(self, Self::Seek | Self::Think)
    }
}

/// One operation of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIssue {
    /// The action.
    pub action: Action,
    /// The class under which the operation is counted.
    pub class: Class,
    /// Set if the operation is in the timed window, which extends from the first such operation to
    /// the end of the last. Operations outside the window are not counted.
    pub timed: bool,
    /// The 32-bit integer of the buffer that the actor touches, if any: incremented before a write,
    /// looked at after a read.
    pub touch: Option<u32>,
}

impl FileIssue {
    /// Creates a timed operation, counted under the class of its action.
    pub(crate) const fn new(action: Action) -> Self {
        let class = match action {
            Action::Mkdir(_) => Class::Mkdir,
            Action::Create(..) => Class::Create,
            Action::Open(..) => Class::Open,
            Action::Close(_) => Class::Close,
            Action::Read(..) | Action::GetBytes(..) => Class::Read,
            Action::Write(..) | Action::PutBytes(..) => Class::Write,
            Action::Append(..) => Class::Append,
            Action::ReadWhole(..) => Class::ReadWhole,
            Action::Seek(..) | Action::SeekBack(..) => Class::Seek,
            Action::Fsync(_) => Class::Fsync,
            Action::SyncAll => Class::Sync,
            Action::SetTimes(_) => Class::Utime,
            Action::SetMode(_) => Class::Chmod,
            Action::Stat(_) => Class::Stat,
            Action::Unlink(_) => Class::Delete,
            Action::Think(_) | Action::Nothing => Class::Think,
        };
        Self {
            action,
            class,
            timed: true,
            touch: None,
        }
    }

    /// Excludes the operation from the timed window.
    pub(crate) const fn untimed(mut self) -> Self {
        self.timed = false;
        self
    }

    /// Changes the class.
    pub(crate) const fn counted_as(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Makes the operation touch an integer of the buffer.
    pub(crate) const fn touching(mut self, integer: u32) -> Self {
        self.touch = Some(integer);
        self
    }
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Bytes read or written.
    pub bytes: u64,
}

/// The next thing that an actor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileNext {
    /// This operation; pass its answer to the next `step`.
    Do(FileIssue),
    /// Nothing until [`FileWorkload::woken`] names the actor.
    Wait,
    /// It is done.
    Done,
}

/// A phase of a workload on files in progress. The same plan and the same order of steps give the
/// same operations.
pub trait FileWorkload: Send {
    /// Takes the answer to the actor's last operation, if any, and returns what comes next. Call it
    /// for each actor of the phase once at the start, after each answer, and when the actor is
    /// woken.
    fn step(&mut self, actor: u32, answer: Option<Answer>) -> FileNext;

    /// Returns a waiting actor that may continue. Call it after each step until it returns `None`.
    fn woken(&mut self) -> Option<u32> {
        None
    }

    /// Returns the path of a file or folder, without a leading slash.
    fn path(&self, file: FileId) -> String;
}

/// The unit of a phase's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCounted {
    /// Bytes read, per second.
    ReadBytes,
    /// Bytes written, per second.
    WrittenBytes,
    /// Bytes read and written, per second.
    Bytes,
    /// Operations of a class, per second.
    Of(Class),
    /// All operations, per second.
    Operations,
}

impl FileCounted {
    /// Returns true if bytes are counted.
    pub const fn is_bytes(self) -> bool {
        matches!(self, Self::ReadBytes | Self::WrittenBytes | Self::Bytes)
    }
}

/// A phase of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePhase {
    /// Its name; empty for the only phase of a workload.
    pub name: String,
    /// Description of the phase, one line.
    pub summary: String,
    /// The unit of its result. `None`: it only prepares files, and has no result.
    pub counted: Option<FileCounted>,
    /// Number of actors.
    pub actors: u32,
    /// Bytes of the largest operation: each actor needs a buffer of this size.
    pub buffer_bytes: u32,
    /// Set if it runs until the time of the plan is over.
    pub endless: bool,
    /// Set if it measures what the phase before left in memory: nothing may be made durable or
    /// dropped from caches in between.
    pub follows: bool,
    /// Values of its own for parameters, by name.
    pub parameters: Vec<(&'static str, u64)>,
}
