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

use crate::file::plan::{FileKind, FilePlan, NotBare};

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
