//! The workloads on files. A workload is one file here and two lines in this one.

mod bonnie;
mod bonnie_plus;
mod cp;
mod iozone;
mod mixed;
mod multistream; // Not a row: shared by two kinds.
mod multistreamread;
mod multistreamwrite;
mod oltp;
mod phases; // Not a row: shared by phases of several kinds.
mod touch;
mod untar;
mod varmail;

#[cfg(test)]
mod tests;

use super::{FilePhase, FilePlan, FileWorkload, Parameter, ParameterError, Value};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// A workload of the table.
#[derive(Debug)]
pub struct FileKind {
    /// The name that users type.
    pub name: &'static str,
    /// One line that describes it.
    pub summary: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// True if it unpacks an archive, which may be the user's.
    pub takes_archive: bool,
    /// The parameter that sets the number of actors, if any.
    pub(crate) actors: Option<&'static str>,
    /// Returns the most files that it creates on a bare target, in a [`Layout`](super::Layout), if
    /// it can run on one.
    pub(crate) files: fn(&FilePlan) -> Result<u64, NotBare>,
    /// Returns the conflict between values that are each possible; `None` if there is none.
    pub(crate) check: fn(&FilePlan) -> Option<String>,
    pub(crate) phases: fn(&FilePlan) -> Vec<FilePhase>,
    pub(crate) bytes: fn(&FilePlan) -> u64,
    pub(crate) start: fn(&FilePlan, usize) -> Box<dyn FileWorkload>,
}

impl FileKind {
    /// Resolves every default, shrinks by `scale` (1: unchanged) and checks the choices.
    ///
    /// # Errors
    /// If a choice is not possible, or shrinks too far.
    pub fn plan(
        &'static self,
        chosen: &BTreeMap<String, Value>,
        scale: f64,
        seed: u64,
    ) -> Result<FilePlan, ParameterError> {
        FilePlan::new(self, chosen, scale, seed)
    }
}

/// The reason why a workload on files can't run on a bare target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBare {
    /// It measures file system operations, or its files are many and small.
    NeedsFileSystem,
    /// Its files grow as long as it runs.
    Grows,
}

const NEEDS_FILE_SYSTEM: fn(&FilePlan) -> Result<u64, NotBare> = |_| Err(NotBare::NeedsFileSystem);

/// All workloads on files.
pub static KINDS: &[&FileKind] = &[
    &bonnie::KIND,
    &bonnie_plus::KIND,
    &iozone::KIND,
    &cp::KIND,
    &touch::KIND,
    &untar::KIND,
    &mixed::KIND,
    &multistreamread::KIND,
    &multistreamwrite::KIND,
    &varmail::KIND,
    &oltp::KIND,
];

/// Returns the workload of that name.
pub fn by_name(name: &str) -> Option<&'static FileKind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}
