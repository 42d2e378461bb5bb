//! The state of a run, stored next to its records: progress, and finally the outcome.
//!
//! A run is going while its process holds the lock of the records. The kernel releases the lock
//! with the process, even on SIGKILL or a power cut. A run with neither lock nor ending was thus
//! cut short.

use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;

/// Name of the records in a folder of results.
pub const RECORDS_FILE: &str = "records.jsonl";
/// Name of the file in a folder of results with the progress and the ending of the run.
pub const STATE_FILE: &str = "state.json";
/// Where the next state is written before it replaces the last.
const NEW_STATE_FILE: &str = "state.json.new";

/// Largest file that is read as a state, in bytes.
const STATE_BYTES_MAX: u64 = 64 << 10;

/// The progress of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Completed runs of `total`. A run executes a workload once on a system.
    pub done: u64,
    /// Total number of runs, at most.
    pub total: u64,
    /// The current step: `block 2: raid5, seq-read`.
    pub what: String,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every repetition block is complete.
    Finished,
    /// The time limit of the experiment ended it.
    OutOfTime,
    /// The user interrupted it.
    Interrupted,
    /// It could not continue; holds the reason.
    Failed(String),
}

/// The state of a run: going, or how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// The run is going.
    Running(Progress),
    /// The run ended in good order.
    Ended(Ending, Progress),
    /// The process was killed, or the machine went down.
    CutShort(Progress),
    /// Unknown: the records are from a version that wrote no state.
    NotKept,
}

/// The document in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Document {
    #[serde(flatten)]
    progress: Progress,
    ending: Option<Ending>,
}

/// Returns the state of the run whose results are in `folder`.
pub fn run_state(folder: &Path) -> RunState {
    // Check the lock first: a run writes its ending before it releases the lock.
    let is_locked = is_locked(&folder.join(RECORDS_FILE));
    let Some(Document { progress, ending }) = read(&folder.join(STATE_FILE)) else {
        return if is_locked {
            RunState::Running(Progress::default())
        } else {
            RunState::NotKept
        };
    };
    match ending {
        // A process that the run starts may keep the lock for a moment.
        Some(ending) => RunState::Ended(ending, progress),
        None if is_locked => RunState::Running(progress),
        None => RunState::CutShort(progress),
    }
}

/// Returns true if a process writes these records. Always false on a file system without locks.
fn is_locked(records: &Path) -> bool {
    let file = File::open(records);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Reads the state; `None` if there is none, or a power cut damaged it.
fn read(path: &Path) -> Option<Document> {
    let facts = fs::metadata(path).ok()?;
    if !facts.is_file() || facts.len() > STATE_BYTES_MAX {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Replaces the state atomically: readers see either the old or the new one.
pub(crate) fn write(folder: &Path, progress: &Progress, ending: Option<Ending>) -> io::Result<()> {
    let document = Document {
        progress: progress.clone(),
        ending,
    };
    let new = folder.join(NEW_STATE_FILE);
    // Don't write through a link placed there.
    drop(fs::remove_file(&new));
    fs::File::create_new(&new)?.write_all(&serde_json::to_vec(&document)?)?;
    fs::rename(&new, folder.join(STATE_FILE))
}

/// Removes the state.
pub(crate) fn remove(folder: &Path) {
    for name in [STATE_FILE, NEW_STATE_FILE] {
        drop(fs::remove_file(folder.join(name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::records::RecordsFile;

    #[test]
    fn a_run_is_in_progress_while_its_records_are_locked() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(run_state(folder.path()), RunState::NotKept);
        let mut file = RecordsFile::create(folder.path()).unwrap();
        assert_eq!(
            run_state(folder.path()),
            RunState::Running(Progress::default())
        );
        file.progress(2, 6, "block 1: raid5, seq-read");
        let progress = Progress {
            done: 2,
            total: 6,
            what: "block 1: raid5, seq-read".to_owned(),
        };
        assert_eq!(
            run_state(folder.path()),
            RunState::Running(progress.clone())
        );
        // Dropping releases the lock, as the kernel does at SIGKILL.
        drop(file);
        // A process that another test starts keeps the lock for a moment.
        let records = File::open(folder.path().join(RECORDS_FILE)).unwrap();
        records.lock_shared().unwrap();
        assert_eq!(
            run_state(folder.path()),
            RunState::CutShort(progress.clone())
        );
        fs::write(folder.path().join(STATE_FILE), "{\"done\":").unwrap();
        assert_eq!(run_state(folder.path()), RunState::NotKept);
    }

    #[test]
    fn every_outcome_is_recorded() {
        for ending in [
            Ending::Finished,
            Ending::OutOfTime,
            Ending::Interrupted,
            Ending::Failed("records.jsonl: No space left on device".to_owned()),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let mut file = RecordsFile::create(folder.path()).unwrap();
            file.progress(5, 6, "the last");
            file.end(6, ending.clone());
            // Like a process that the run started, and that still has its files.
            let records = File::open(folder.path().join(RECORDS_FILE)).unwrap();
            records.lock().unwrap();
            let progress = Progress {
                done: 6,
                total: 6,
                what: String::new(),
            };
            assert_eq!(run_state(folder.path()), RunState::Ended(ending, progress));
            RecordsFile::remove(folder.path());
            assert!(!folder.path().exists());
        }
    }
}
