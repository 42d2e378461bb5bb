//! The workloads on files. A workload is one file here and two lines in this one.

mod bonnie;
mod bonnie_plus;
mod cp;
mod iozone;
mod mixed;
mod multistream; // Not a row: what the two have in common.
mod multistreamread;
mod multistreamwrite;
mod oltp;
mod phases; // Not a row: what phases of several kinds have in common.
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
    /// What users call it.
    pub name: &'static str,
    /// One line that says what it is.
    pub summary: &'static str,
    /// What can be chosen.
    pub parameters: &'static [Parameter],
    /// Whether it unpacks an archive, which may be one of the user's.
    pub takes_archive: bool,
    /// The parameter that says how many ask, if one does.
    pub(crate) actors: Option<&'static str>,
    /// How many files it makes at most on a bare target, in a [`Layout`](super::Layout), where that means something.
    pub(crate) files: fn(&FilePlan) -> Result<u64, NotBare>,
    /// What is wrong with values that each are possible; `None` when nothing is.
    pub(crate) check: fn(&FilePlan) -> Option<String>,
    pub(crate) phases: fn(&FilePlan) -> Vec<FilePhase>,
    pub(crate) bytes: fn(&FilePlan) -> u64,
    pub(crate) start: fn(&FilePlan, usize) -> Box<dyn FileWorkload>,
}

impl FileKind {
    /// Resolves every default, shrinks by `scale` (1: as it is) and checks the choices.
    ///
    /// # Errors
    /// When a choice is not possible, or too little is left of it.
    pub fn plan(
        &'static self,
        chosen: &BTreeMap<String, Value>,
        scale: f64,
        seed: u64,
    ) -> Result<FilePlan, ParameterError> {
        FilePlan::new(self, chosen, scale, seed)
    }
}

/// Why a workload on files can't run on a bare target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBare {
    /// It times what only a file system does, or its files are many and small.
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

/// The workload of that name.
pub fn by_name(name: &str) -> Option<&'static FileKind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}
