//! The file of records: one line each, written immediately, so that an interrupted run keeps its
//! records.

use crate::machine::clock;
use crate::run::progress::{self, Ending, Progress, RECORDS_FILE};
use spindles_measure::{Record, to_line};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Why records could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The folder has records already.
    #[error("{} holds the records of another run: choose another folder with --out", .0.display())]
    Taken(PathBuf),
    /// The operating system reported an error.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The folder holds no records.
    #[error("{} holds no {RECORDS_FILE}: name the folder of a run", .0.display())]
    None(PathBuf),
    /// A line is no record.
    #[error("{}, {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error found in the records.
        source: spindles_measure::ReadError,
    },
}

/// A growing file of records. It holds the lock of the records, which shows that the run is going:
/// see [`crate::run_state`].
#[derive(Debug)]
pub struct RecordsFile {
    file: File,
    path: PathBuf,
    folder: PathBuf,
    progress: Progress,
}

impl Drop for RecordsFile {
    fn drop(&mut self) {
        // A child process that is being started has a copy of the file until it runs. Closing the
        // file alone would leave it the lock.
        drop(self.file.unlock());
    }
}

impl RecordsFile {
    /// Checks that `create` can succeed in `folder`, without creating anything.
    ///
    /// # Errors
    /// When the folder has records already.
    pub fn check_free(folder: &Path) -> Result<(), RecordsError> {
        if folder.join(RECORDS_FILE).exists() {
            return Err(RecordsError::Taken(folder.to_owned()));
        }
        Ok(())
    }

    /// Creates the file in `folder`, and the folder if missing.
    ///
    /// # Errors
    /// When the folder can't be written or has records already.
    pub fn create(folder: &Path) -> Result<Self, RecordsError> {
        let path = folder.join(RECORDS_FILE);
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => RecordsError::Taken(folder.to_owned()),
            _ => RecordsError::Io {
                path: path.clone(),
                source,
            },
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let opened = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = opened.map_err(failed)?;
        // Readers that test the lock release it at once. On a file system without locks, the run
        // continues unlocked.
        drop(file.lock());
        Ok(Self {
            file,
            path,
            folder: folder.to_owned(),
            progress: Progress::default(),
        })
    }

    /// Creates the file in a new folder. Appends a number to the folder's name if it is taken.
    ///
    /// # Errors
    /// When the folder can't be created or written.
    pub fn create_in_new(folder: &Path) -> Result<Self, RecordsError> {
        const TRIES: u32 = 1000;
        let failed = |source| RecordsError::Io {
            path: folder.to_owned(),
            source,
        };
        let parent = folder.parent().unwrap_or(Path::new(""));
        if !parent.as_os_str().is_empty() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        for number in 1..=TRIES {
            let mut name = folder.as_os_str().to_owned();
            if number > 1 {
                name.push(format!("-{number}"));
            }
            let folder = PathBuf::from(name);
            // Atomic: if several runs begin at once, only one creates the folder.
            match fs::create_dir(&folder) {
                Ok(()) => return Self::create(&folder),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(RecordsError::Taken(folder.to_owned()))
    }

    /// Returns the folder of results.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a record. It is in the file when this returns.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn add(&mut self, record: &Record) -> Result<(), RecordsError> {
        self.file
            .write_all(to_line(record).as_bytes())
            .map_err(|source| RecordsError::Io {
                path: self.path.clone(),
                source,
            })
    }

    /// Writes the progress of the run, for readers. Errors are ignored: on a full file system the
    /// next record fails.
    pub fn progress(&mut self, done: u64, total: u64, what: &str) {
        self.progress = Progress {
            done,
            total,
            what: what.to_owned(),
        };
        drop(progress::write(&self.folder, &self.progress, None));
    }

    /// Writes how the run ended, after `done` runs.
    pub fn end(mut self, done: u64, ending: Ending) {
        self.progress.done = done;
        self.progress.what.clear();
        drop(progress::write(&self.folder, &self.progress, Some(ending)));
    }

    /// Removes the files of a run without results, and the folder if it is then empty.
    pub fn remove(folder: &Path) {
        drop(fs::remove_file(folder.join(RECORDS_FILE)));
        progress::remove(folder);
        drop(fs::remove_dir(folder));
    }
}

/// Default folder for folders of results.
pub const RESULTS_FOLDER: &str = "lab-results";

/// Quotes a path for a shell; `None` if it can't be typed.
pub fn typed(path: &Path) -> Option<String> {
    let name = path.to_str()?;
    let can_be_typed = !name.contains(char::is_control) && !name.starts_with('-');
    can_be_typed.then(|| spindles_admin::scan::shell_word(name).into_owned())
}

/// Returns the default folder for the results of an experiment:
/// `lab-results/quickstart-20261121-204501` (UTC).
pub fn default_folder(name: &str) -> PathBuf {
    let stamp = timestamp(clock::unix_ms() / 1000);
    let name = name.replace(' ', "-");
    Path::new(RESULTS_FOLDER).join(format!("{name}-{stamp}"))
}

/// Formats seconds since 1970 as `20261121-204501`, UTC.
fn timestamp(unix_s: u64) -> String {
    let digits = spindles_device::utc(unix_s).replace(|c: char| !c.is_ascii_digit(), "");
    let (day, time) = digits.split_at("20261121".len());
    format!("{day}-{time}")
}

/// Reads the records of a folder of results, or of a file.
///
/// # Errors
/// When the records are missing or can't be read.
pub fn load(path: &Path) -> Result<Vec<Record>, RecordsError> {
    let file = if path.is_dir() {
        path.join(RECORDS_FILE)
    } else {
        path.to_owned()
    };
    let is_file = |facts: fs::Metadata| {
        let other = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a file");
        facts.is_file().then_some(()).ok_or_else(other)
    };
    // Reading a pipe would block, and some devices have no end.
    let text = fs::metadata(&file).and_then(is_file);
    let text = text.and_then(|()| fs::read_to_string(&file));
    let text = text.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => RecordsError::None(path.to_owned()),
        _ => RecordsError::Io {
            path: file.clone(),
            source,
        },
    })?;
    spindles_measure::from_lines(&text).map_err(|source| RecordsError::Read { path: file, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_measure::Experiment;

    #[test]
    fn timestamps_match_the_calendar() {
        for (unix_s, expected) in [
            (0, "19700101-000000"),
            (951_782_400, "20000229-000000"),
            (1_735_689_599, "20241231-235959"),
            (1_772_323_200, "20260301-000000"),
            (4_107_542_400, "21000301-000000"),
        ] {
            assert_eq!(timestamp(unix_s), expected);
        }
    }

    #[test]
    fn concurrent_runs_get_separate_folders() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("results/x-20261121");
        let of = || RecordsFile::create_in_new(&folder).unwrap();
        let mut folders: Vec<PathBuf> = std::thread::scope(|scope| {
            let begun = [(); 4].map(|()| scope.spawn(of));
            begun
                .map(|one| one.join().unwrap().folder().to_owned())
                .into()
        });
        folders.sort();
        let name = |number: &str| parent.path().join(format!("results/x-20261121{number}"));
        assert_eq!(folders, ["", "-2", "-3", "-4"].map(name));
    }

    #[test]
    fn added_records_are_readable_immediately() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a/b");
        let mut file = RecordsFile::create(&folder).unwrap();
        let record = Record::Experiment(Experiment::default());
        file.add(&record).unwrap();
        file.add(&record).unwrap();
        assert_eq!(load(&folder).unwrap(), [record.clone(), record.clone()]);
        assert_eq!(load(&folder.join(RECORDS_FILE)).unwrap().len(), 2);
        let taken = RecordsFile::create(&folder).unwrap_err().to_string();
        assert!(
            taken.ends_with("choose another folder with --out"),
            "{taken}"
        );
        let none = load(parent.path()).unwrap_err().to_string();
        assert!(none.contains("holds no records.jsonl"), "{none}");
        fs::write(parent.path().join("x"), "no\n").unwrap();
        let wrong = load(&parent.path().join("x")).unwrap_err().to_string();
        assert!(wrong.contains("x, line 1 is not a record"), "{wrong}");
    }
}
