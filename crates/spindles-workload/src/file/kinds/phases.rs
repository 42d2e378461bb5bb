//! Helpers for phases of several kinds, such as filling a file.

use crate::file::script::{Script, step};
use crate::file::{Access, Action, At, FileCounted, FileId, FileIssue, FilePhase, Slot};
use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

/// The only open file of an actor.
pub(super) const ONE: Slot = Slot(0);

/// Creates a phase that runs until its work is done.
pub(super) fn phase(
    name: &str,
    summary: impl Into<String>,
    counted: FileCounted,
    actors: u32,
    buffer_bytes: u32,
) -> FilePhase {
    FilePhase {
        name: name.to_owned(),
        summary: summary.into(),
        counted: Some(counted),
        actors,
        buffer_bytes,
        endless: false,
        follows: false,
        parameters: Vec::new(),
    }
}

/// Creates a phase without a result, which prepares files.
pub(super) fn making_ready(actors: u32, buffer_bytes: u32) -> FilePhase {
    FilePhase {
        counted: None,
        ..phase(
            "",
            "makes the files",
            FileCounted::Operations,
            actors,
            buffer_bytes,
        )
    }
}

/// Creates a phase that runs until its time is over.
pub(super) fn endless(
    summary: impl Into<String>,
    counted: FileCounted,
    actors: u32,
    buffer_bytes: u32,
) -> FilePhase {
    FilePhase {
        endless: true,
        ..phase("", summary, counted, actors, buffer_bytes)
    }
}

/// Returns the integer that Bonnie touches in a chunk: the index rotates.
pub(super) fn rotating(round: u64, chunk_bytes: u32) -> u32 {
    let integers = u64::from(chunk_bytes / 4);
    u32::try_from(round % integers).expect("less than the chunk")
}

/// Creates a file of `bytes` bytes, written `chunk_bytes` at a time and the rest at the end, and
/// closes it. For phases that prepare files.
pub(super) fn fill(script: Script, file: FileId, bytes: u64, chunk_bytes: u32) -> Script {
    let chunk = u64::from(chunk_bytes);
    let rest = u32::try_from(bytes % chunk).expect("less than a chunk");
    let write = move |bytes| FileIssue::new(Action::Write(ONE, At::Position, bytes));
    let create = FileIssue::new(Action::Create(file, ONE, Access::ReadWrite));
    let script = script
        .then(create)
        .repeat(bytes / chunk, [step(move |_| write(chunk_bytes))]);
    let script = if rest > 0 {
        script.then(write(rest))
    } else {
        script
    };
    script.then(FileIssue::new(Action::Close(ONE)))
}
