//! The runs in a folder of results: the folder itself, its folders, and one level deeper.

use spindles_lab::RECORDS_FILE;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Levels of folders that are searched beneath the served folder.
const DEPTH: u32 = 2;
/// Folders that are searched at most, so that serving `/` ends.
const FOLDERS_MAX: usize = 10_000;
/// Largest file of records that is read, in bytes: the page of a larger file would be useless.
const RECORDS_BYTES_MAX: u64 = 1 << 30;

/// Identifies one state of a file of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) bytes: u64,
    modified_ns: (i64, i64),
    inode: u64,
}

impl Stamp {
    fn of(facts: &Metadata) -> Self {
        Self {
            bytes: facts.len(),
            modified_ns: (facts.mtime(), facts.mtime_nsec()),
            inode: facts.ino(),
        }
    }

    /// Formats the stamp as one word.
    pub(crate) fn word(self) -> String {
        let (seconds, nanoseconds) = self.modified_ns;
        format!("{}-{seconds}.{nanoseconds}-{}", self.bytes, self.inode)
    }
}

/// A folder of results.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// Path below the served folder; empty for that folder itself.
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    /// The state of its records, or why they can't be read.
    pub(crate) stamp: Result<Stamp, String>,
}

impl Stored {
    /// Returns the name that readers see.
    pub(crate) fn title(&self) -> String {
        match (&*self.name, self.folder.file_name()) {
            ("", Some(own)) => own.to_string_lossy().into_owned(),
            ("", None) => self.folder.display().to_string(),
            (name, _) => name.to_owned(),
        }
    }
}

/// The runs that were found.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) runs: Vec<Stored>,
    folders: usize,
}

impl Listing {
    /// Lists the runs in `root`, sorted by name.
    pub(crate) fn of(root: &Path) -> Self {
        let mut listing = Self::default();
        listing.visit(root, "", DEPTH);
        listing.runs.sort_by(|a, b| a.name.cmp(&b.name));
        listing
    }

    /// Returns true if folders were skipped because there are too many.
    pub(crate) fn is_cut(&self) -> bool {
        self.folders >= FOLDERS_MAX
    }

    /// Returns the run of this name.
    pub(crate) fn by_name(&self, name: &str) -> Option<&Stored> {
        self.runs.iter().find(|run| run.name == name)
    }

    fn visit(&mut self, folder: &Path, name: &str, depth: u32) {
        self.folders += 1;
        match fs::metadata(folder.join(RECORDS_FILE)) {
            Ok(facts) => self.add(folder, name, stamp(&facts)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let why = format!("{RECORDS_FILE}: {error}");
                return self.add(folder, name, Err(why));
            }
        }
        if depth == 0 {
            return;
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.add(folder, name, Err(error.to_string())),
        };
        for entry in entries.flatten() {
            if self.is_cut() {
                return;
            }
            let path = entry.path();
            if !path.is_dir() {
                continue;
            }
            match entry.file_name().to_str() {
                Some(part) if name.is_empty() => self.visit(&path, part, depth - 1),
                Some(part) => self.visit(&path, &format!("{name}/{part}"), depth - 1),
                None => {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    let why = "its name is not UTF-8: rename the folder".to_owned();
                    self.add(&path, &name, Err(why));
                }
            }
        }
    }

    fn add(&mut self, folder: &Path, name: &str, stamp: Result<Stamp, String>) {
        self.runs.push(Stored {
            name: name.to_owned(),
            folder: folder.to_owned(),
            stamp,
        });
    }
}

fn stamp(facts: &Metadata) -> Result<Stamp, String> {
    if !facts.is_file() {
        // Opening a pipe would wait for a writer.
        Err(format!("{RECORDS_FILE} is not a file"))
    } else if facts.len() > RECORDS_BYTES_MAX {
        Err(format!(
            "{RECORDS_FILE} is larger than 1 GiB: draw its report without this server"
        ))
    } else {
        Ok(Stamp::of(facts))
    }
}
