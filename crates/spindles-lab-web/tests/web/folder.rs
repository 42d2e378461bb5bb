//! Folders of results to serve.

use crate::public::example;
use spindles_lab::{Ending, RECORDS_FILE, RecordsFile};
use spindles_measure::Record;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

use spindles_lab_web::{Limits, Server};

/// Returns records of a run that began `minute` minutes after the example.
pub(crate) fn records(blocks: u32, minute: u64) -> Vec<Record> {
    let mut records = example::records(blocks);
    let experiment = records[0].experiment_mut().expect("it comes first");
    experiment.started_unix_ms += minute * 60_000;
    records
}

/// A folder of results.
pub(crate) struct Results {
    folder: TempDir,
}

impl Results {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("results")).expect("a new folder");
        Self { folder }
    }

    /// Returns the served folder. Its siblings are not served.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    /// Creates a run that is going, with these records so far.
    pub(crate) fn going(&self, name: &str, records: &[Record]) -> RecordsFile {
        begun(&self.root().join(name), records)
    }

    /// Creates a run that ended in good order.
    pub(crate) fn ended(&self, name: &str, records: &[Record]) {
        self.going(name, records).end(8, Ending::Finished);
        self.released(name);
    }

    /// Creates a run that ended after five of its runs.
    pub(crate) fn ended_early(&self, name: &str, records: &[Record], ending: Ending) {
        self.going(name, records).end(5, ending);
        self.released(name);
    }

    /// Creates a run that was killed after these records.
    pub(crate) fn killed(&self, name: &str, records: &[Record]) {
        drop(self.going(name, records));
        self.released(name);
    }

    /// Waits until no process has the lock of a run that is over: a process that another test
    /// starts keeps it for a moment.
    fn released(&self, name: &str) {
        let records = File::open(self.root().join(name).join(RECORDS_FILE));
        let records = records.expect("it was written");
        records.lock_shared().expect("a file system with locks");
    }

    /// Serves the folder.
    pub(crate) fn serve(&self) -> SocketAddr {
        // Generous limits: even on a busy machine the list has all figures, and requests arrive in
        // time.
        let limits = Limits {
            head: Duration::from_mins(1),
            list: Duration::from_mins(1),
            ..Limits::default()
        };
        serve(&self.root(), "127.0.0.1:0", limits)
    }
}

/// Creates a run in this folder.
pub(crate) fn begun(folder: &Path, records: &[Record]) -> RecordsFile {
    let mut file = RecordsFile::create(folder).expect("a new file");
    for record in records {
        file.add(record).expect("there is room");
    }
    file.progress(5, 8, "block 1: raid5, seq-read");
    file
}

/// Starts a server that lives as long as the test.
pub(crate) fn serve(root: &Path, address: &str, limits: Limits) -> SocketAddr {
    let address = address.parse().expect("an address");
    let server = Server::bind(root, address, limits, |_| None).expect("it listens");
    let address = server.address();
    thread::spawn(move || server.run());
    address
}
