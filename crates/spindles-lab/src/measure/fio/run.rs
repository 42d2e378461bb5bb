//! Runs fio on a block device or a file.

use super::output::read;
use crate::experiment::fio::{FIO, FioWork};
use crate::machine::evidence::Watched;
use crate::measure::failure::Failure;
use crate::measure::tool;
use crate::systems::undo;
use rustix::fs::{Advice, fadvise};
use spindles_measure::Run;
use std::fs::File;
use std::io::ErrorKind;

/// Makes the file ready for a run.
///
/// # Errors
/// When the file can't be opened or written out.
pub(crate) fn make_ready(work: &FioWork, file: &str) -> Result<(), String> {
    if !work.empties_cache_once() {
        return Ok(());
    }
    let made_ready = File::open(file).and_then(|file| {
        file.sync_all()?;
        Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
    });
    match made_ready {
        // fio creates the file itself.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        made_ready => made_ready.map_err(|error| format!("{file}: {error}")),
    }
}

/// Creates the file, which does not count as work.
pub(crate) fn lay_out(work: &FioWork, file: &str) -> Result<(), Failure> {
    let mut arguments = work.arguments(file)?;
    arguments.push("--create_only=1".to_owned());
    undo::run(FIO, &arguments)?;
    let made = File::open(file).and_then(|file| file.sync_all());
    made.map_err(|error| Failure::Failed(format!("{file}: {error}")))
}

/// Runs fio on that device or file.
pub(crate) fn run(
    work: &FioWork,
    file: &str,
    watched: &Watched,
    idle_permille: u64,
    run: &mut Run,
) -> Result<(), Failure> {
    let arguments = work.arguments(file)?;
    make_ready(work, file)?;
    let (said, _) = tool::timed(watched, idle_permille, run, || {
        undo::run(FIO, &arguments).map_err(Failure::Failed)
    })?;
    let version = tool::version(FIO, "--version");
    run.workload
        .parameters
        .insert("version".to_owned(), version);
    read(&said, run).map_err(Failure::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::fio::Source;

    #[test]
    fn a_cache_is_emptied_before_fio_runs() {
        let options = [("rw", "read"), ("buffered", "1")];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let work = FioWork::new(options.into(), Source::Parameters, None, 1.0).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(make_ready(&work, file.path().to_str().unwrap()), Ok(()));
    }
}
