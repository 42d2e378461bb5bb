//! Workloads on files: actors, each of which waits for one answer at a time, as the processes and
//! threads of the classic tools do. They say which operation comes next; they open no file, have no
//! thread and read no clock: who carries them out does.

mod fileset;
pub mod kinds;
mod layout;
mod plan;
mod script;
mod sizes;
mod tree;
mod unsynced;

pub use kinds::{FileKind, KINDS, NotBare, by_name};
pub use layout::{EXTENT_BYTES, Full, Layout, Piece};
pub(crate) use plan::Choices;
pub use plan::{FilePlan, Parameter, ParameterError, Range, SECONDS, Value};
pub use sizes::times;
pub use tree::{Entry, Tree};

use alloc::string::String;
use alloc::vec::Vec;

/// A file or folder of a workload, by number. [`FileWorkload::path`] says what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// An open file of one actor, by number: each actor has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// Where in an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Where the last operation ended.
    Position,
    /// So many bytes from the start; the position stays.
    Offset(u64),
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only read.
    Read,
    /// Read and written.
    ReadWrite,
    /// The same, and each write is durable when it is answered (`O_SYNC`).
    ReadWriteSync,
}

/// One operation on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes a folder.
    Mkdir(FileId),
    /// Makes an empty file, or empties the one there is, and opens it.
    Create(FileId, Slot, Access),
    /// Opens a file that is there.
    Open(FileId, Slot, Access),
    /// Closes it.
    Close(Slot),
    /// Reads so many bytes. The answer may be shorter at the end of the file.
    Read(Slot, At, u32),
    /// Writes so many bytes.
    Write(Slot, At, u32),
    /// Goes to the end and writes so many bytes there; none: only goes there.
    Append(Slot, u32),
    /// Goes to the start and reads so many bytes at a time until there are no more.
    ReadWhole(Slot, u32),
    /// Puts so many bytes into a buffer one by one, as `putc` does, and writes it at the position.
    PutBytes(Slot, u32),
    /// Reads so many bytes at the position and takes them out of the buffer one by one, as `getc` does.
    GetBytes(Slot, u32),
    /// Goes to a place.
    Seek(Slot, u64),
    /// Goes back by so many bytes.
    SeekBack(Slot, u32),
    /// Makes what was written to the file durable.
    Fsync(Slot),
    /// Makes everything on the file system durable.
    SyncAll,
    /// Sets the times of a file to now.
    SetTimes(FileId),
    /// Sets the permissions of a file to those of ordinary files.
    SetMode(FileId),
    /// Asks for the facts of a file.
    Stat(FileId),
    /// Removes a file.
    Unlink(FileId),
    /// Keeps a processor busy: a loop that stores one byte, so many times.
    Think(u32),
    /// Nothing; for what only counts.
    Nothing,
}

/// Under what an operation is counted.
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
    /// A file made.
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
    /// Facts asked for.
    Stat,
    /// Times set.
    Utime,
    /// Permissions set.
    Chmod,
    /// A folder made.
    Mkdir,
    /// A write that its actor does not wait for.
    AioWrite,
    /// The wait for such writes.
    AioWait,
    /// A change of position, which costs no I/O. Not an operation.
    Seek,
    /// Time spent computing. Not an operation.
    Think,
}

impl Class {
    /// All of them, by their numbers.
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

    /// Its name in records.
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

    /// Its place in [`Class::ALL`].
    pub fn index(self) -> usize {
        let same = |other: &Self| *other == self;
        Self::ALL.iter().position(same).expect("all are listed")
    }

    /// Whether it counts as an operation.
    pub const fn is_operation(self) -> bool {
        !matches!(self, Self::Seek | Self::Think)
    }
}

/// One operation of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIssue {
    /// What to do.
    pub action: Action,
    /// Under what it is counted.
    pub class: Class,
    /// Whether it lies in the timed window, which goes from the first such operation to the end of the
    /// last. Others are not counted.
    pub timed: bool,
    /// The 32-bit integer of the buffer that the actor touches, if any: incremented before a write,
    /// looked at after a read.
    pub touch: Option<u32>,
}

impl FileIssue {
    /// The action, timed, counted under what it is.
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

    /// The same outside of the timed window.
    pub(crate) const fn untimed(mut self) -> Self {
        self.timed = false;
        self
    }

    /// The same under another class.
    pub(crate) const fn counted_as(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// The same touching an integer of the buffer.
    pub(crate) const fn touching(mut self, integer: u32) -> Self {
        self.touch = Some(integer);
        self
    }
}

/// What came of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Bytes read or written.
    pub bytes: u64,
}

/// What an actor does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileNext {
    /// This; its answer comes with the next `step`.
    Do(FileIssue),
    /// Nothing until [`FileWorkload::woken`] names the actor.
    Wait,
    /// It is done.
    Done,
}

/// A phase of a workload on files in progress. The same plan and the same order of steps give the same
/// operations.
pub trait FileWorkload: Send {
    /// The actor's last operation, if it had one, was answered so; what comes next. To be called for
    /// each actor of the phase once at the begin, after each answer, and when it was woken.
    fn step(&mut self, actor: u32, answer: Option<Answer>) -> FileNext;

    /// An actor that waits and may go on. To be asked after each step until it names none.
    fn woken(&mut self) -> Option<u32> {
        None
    }

    /// What a file or folder is called, without a leading slash.
    fn path(&self, file: FileId) -> String;
}

/// What the result of a phase counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCounted {
    /// Bytes read, per second.
    ReadBytes,
    /// Bytes written, per second.
    WrittenBytes,
    /// Bytes moved, per second.
    Bytes,
    /// Operations of a class, per second.
    Of(Class),
    /// All operations, per second.
    Operations,
}

impl FileCounted {
    /// Whether bytes are counted.
    pub const fn is_bytes(self) -> bool {
        matches!(self, Self::ReadBytes | Self::WrittenBytes | Self::Bytes)
    }
}

/// A phase of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePhase {
    /// What it is called; empty for the only one of a workload.
    pub name: String,
    /// One line that says what it does.
    pub summary: String,
    /// What its result counts. `None`: it only makes ready, and has no result.
    pub counted: Option<FileCounted>,
    /// How many ask.
    pub actors: u32,
    /// Bytes of the largest operation: each actor needs a buffer for it.
    pub buffer_bytes: u32,
    /// Whether it goes on until the time of the plan is over.
    pub endless: bool,
    /// Whether it is about what the phase before left in memory: nothing is to be made durable or
    /// dropped from caches in between.
    pub follows: bool,
    /// Numbers that it has of its own, by the names of the parameters whose place they take.
    pub parameters: Vec<(&'static str, u64)>,
}
